import Foundation
import IngestKeys
import Testing

@testable import IngestClient

/// The Python reference sender, which shares nothing with the project but its pages and its schema.
struct PythonSenderTests {
    /// Made by `scripts/python-env`.
    private static let python = Repository.root.appending(path: ".build/python/bin/python").path

    private static var hasPython: Bool { FileManager.default.isExecutableFile(atPath: python) }

    private static func run(_ arguments: [String]) throws -> (code: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(filePath: python)
        process.arguments = arguments
        process.currentDirectoryURL = Repository.root
        process.environment = ["PYTHONDONTWRITEBYTECODE": "1"]
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = String(
            decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, output)
    }

    @Test(.enabled(if: hasPython, "no .build/python: run scripts/python-env, which needs python3"))
    func `It makes the captured packets, and reads the captured ack`() throws {
        let checked = try Self.run(["Tests/Fixtures/captures.py"])
        #expect(checked.code == 0, "\(checked.output)")
    }

    @Test(
        .enabled(if: hasPython, "no .build/python: run scripts/python-env, which needs python3"),
        arguments: [[], ["--key-id", "3", "--key", "000102030405060708090a0b0c0d0e0f"]])
    func `It sends every event until it is acked, through loss and tags`(key: [String]) throws {
        var receiver = ModelReceiver()
        if !key.isEmpty { receiver.key = TagKey([UInt8](0..<16)) }
        let peer = UDPPeer(receiver: receiver, lossPercent: 20)
        let sent = try Self.run(
            [
                "examples/python/ingest_sender.py", "--to", peer.address, "--impressions", "150",
                "--clicks", "40", "--redemptions", "10",
            ] + key)
        #expect(sent.code == 0, "\(sent.output)")
        let after = peer.kill()
        #expect(after.faults.isEmpty, "\(after.faults)")
        let events = try after.durableEvents()
        #expect(events.filter { $0.type == .impression }.count == 150)
        #expect(events.filter { $0.type == .click }.count == 40)
        #expect(events.filter { $0.type == .redemption }.count == 10)
        #expect(Set(events.map(\.eventID)).count == 200)
    }

    @Test func `It has at most 200 lines`() throws {
        let text = try String(
            contentsOf: Repository.root.appending(path: "examples/python/ingest_sender.py"),
            encoding: .utf8)
        #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count <= 201)
    }
}
