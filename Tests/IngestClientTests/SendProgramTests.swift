import Foundation
import IngestKeys
import Testing

@testable import IngestClient
@testable import IngestFormat

/// `ingest-send --acks` as a process, against a receiver that acks.
struct SendProgramTests {
    private static let program: String = {
        if let chosen = ProcessInfo.processInfo.environment["INGESTD_PROGRAMS"] {
            return "\(chosen)/ingest-send"
        }
        var folder = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        while folder.path != "/" {
            folder.deleteLastPathComponent()
            let path = folder.path + "/ingest-send"
            if FileManager.default.isExecutableFile(atPath: path) { return path }
        }
        return Repository.root.appending(path: ".build/debug/ingest-send").path
    }()

    /// A folder that is gone with its last reference.
    private final class Folder {
        let path: String

        init() throws {
            path = FileManager.default.temporaryDirectory.path + "/send-\(UUID().uuidString)"
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: false)
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        func file(_ lines: [String], named name: String = "events") throws -> String {
            let text = lines.map { $0 + "\n" }.joined()
            try text.write(toFile: "\(path)/\(name)", atomically: false, encoding: .utf8)
            return "\(path)/\(name)"
        }
    }

    private static func start(
        _ arguments: [String], input: Pipe? = nil
    ) throws -> (Process, Pipe, Pipe) {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        if let input {
            process.standardInput = input
        } else {
            process.standardInput = FileHandle.nullDevice
        }
        try process.run()
        return (process, output, errors)
    }

    private static func text(_ pipe: Pipe) -> String {
        String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    }

    private static func run(
        _ arguments: [String]
    ) throws -> (code: Int32, summary: [String: Double], errors: String) {
        let (process, output, errors) = try start(arguments)
        let (out, err) = (text(output), text(errors))
        process.waitUntilExit()
        let summary = try? JSONDecoder().decode([String: Double].self, from: Data(out.utf8))
        return (process.terminationStatus, summary ?? [:], err)
    }

    private static func check(_ receiver: ModelReceiver, lines: Range<Int>) throws {
        #expect(receiver.faults.isEmpty, "\(receiver.faults)")
        let numbers = try receiver.durableEvents().map {
            Int($0.timestampUs / 1_000 - 1_700_000_000_000)
        }
        #expect(numbers.sorted() == Array(lines))
    }

    @Test func `It ends with 0 when every event is acked, and says so in its summary`() throws {
        let folder = try Folder()
        let peer = UDPPeer(lossPercent: 10)
        let lines = (0..<2_000).map { SampleEvents.line($0) } + ["", "{}", "no event"]
        let sent = try Self.run(["--to", peer.address, "--acks", try folder.file(lines)])
        #expect(sent.code == 1)
        #expect(sent.summary["sent"] == 2_000)
        #expect(sent.summary["acked"] == 2_000)
        #expect(sent.summary["refused"] == 2)
        #expect(sent.summary["resent"] ?? 0 > 0)
        #expect(!sent.errors.contains("not confirmed"))
        try Self.check(peer.kill(), lines: 0..<2_000)
        let good = UDPPeer()
        let again = try Self.run(
            ["--to", good.address, "--acks", try folder.file(Array(lines[..<10]))])
        #expect(again.code == 0)
        #expect(Set(again.summary.keys) == ["sent", "acked", "resent", "refused", "seconds"])
    }

    @Test func `Killed again and again, it goes on with its spool, and no line is sent twice`()
        throws
    {
        let folder = try Folder()
        // Without ids: nothing but the sequences keeps an event from being counted twice.
        let lines = (0..<4_000).map { number in
            "{\"eventType\":\"click\",\"rewardId\":\"r\",\"businessId\":\"b\",\"timestamp\":"
                + "\(1_700_000_000_000 + number)}"
        }
        let file = try folder.file(lines)
        let peer = UDPPeer(lossPercent: 10)
        let arguments = [
            "--to", peer.address, "--spool", folder.path + "/spool", "--rate", "5000", file,
        ]
        var killCount = 0
        while true {
            let (process, output, errors) = try Self.start(arguments)
            let wait = DispatchTime.now() + .milliseconds(30 + 40 * killCount)
            let ended = DispatchSemaphore(value: 0)
            process.terminationHandler = { _ in ended.signal() }
            if ended.wait(timeout: wait) == .timedOut {
                kill(process.processIdentifier, SIGKILL)
                ended.wait()
            }
            let (out, err) = (Self.text(output), Self.text(errors))
            if process.terminationReason == .exit {
                #expect(process.terminationStatus == 0, "\(err)")
                #expect(out.contains("\"acked\":"))
                break
            }
            killCount += 1
            try #require(killCount < 200)
        }
        #expect(killCount > 3)
        try Self.check(peer.kill(), lines: 0..<4_000)
    }

    @Test func `A run that has ended is not sent again, what was added to its file is`() throws {
        let folder = try Folder()
        let lines = (0..<100).map { SampleEvents.line($0) }
        let peer = UDPPeer()
        let arguments = ["--to", peer.address, "--spool", folder.path + "/spool"]
        #expect(try Self.run(arguments + [try folder.file(lines)]).summary["acked"] == 100)
        let again = try Self.run(arguments + [try folder.file(lines)])
        #expect(again.code == 0)
        #expect(again.summary["sent"] == 0)
        let more = lines + (100..<150).map { SampleEvents.line($0) }
        #expect(try Self.run(arguments + [try folder.file(more)]).summary["sent"] == 50)
        // Another input is a new one.
        let other = (150..<200).map { SampleEvents.line($0) }
        #expect(try Self.run(arguments + [try folder.file(other)]).summary["sent"] == 50)
        try Self.check(peer.kill(), lines: 0..<200)
    }

    @Test(arguments: [false, true])
    func `A last line without newline is sent once, also when the file goes on`(isCut: Bool) throws
    {
        let folder = try Folder()
        let peer = UDPPeer()
        let lines = (0..<5).map { SampleEvents.line($0) }
        let path = folder.path + "/events"
        func send(_ text: String) throws -> (code: Int32, summary: [String: Double], errors: String)
        {
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            return try Self.run(["--to", peer.address, "--spool", folder.path + "/spool", path])
        }
        // A log that is being written: its last line is there, or a part of it.
        let front = lines[..<2].joined(separator: "\n") + "\n"
        let first = try send(front + (isCut ? String(lines[2].prefix(20)) : lines[2]))
        #expect(first.code == (isCut ? 1 : 0))
        #expect(first.summary["sent"] == (isCut ? 2 : 3))
        let second = try send(front + lines[2] + "\n" + lines[3])
        #expect(second.code == 0, "\(second.errors)")
        #expect(second.summary["sent"] == (isCut ? 2 : 1))
        // What was sent as a line has become another one: nothing is sent.
        let longer = try send(front + lines[2] + "\n" + lines[3] + lines[4] + "\n")
        #expect(longer.code == 66 && longer.errors.contains("line 4"), "\(longer.errors)")
        let last = try send(front + lines[2] + "\n" + lines[3] + "\r\n" + lines[4] + "\n")
        #expect(last.summary["sent"] == 1, "\(last.errors)")
        try Self.check(peer.kill(), lines: 0..<5)
    }

    @Test func `A sender that was refused ends though its pipe stays open`() throws {
        let peer = UDPPeer()
        peer.change { $0.shedStatus = .refused }
        let input = Pipe()
        let (process, output, errors) = try Self.start(["--to", peer.address], input: input)
        input.fileHandleForWriting.write(Data((SampleEvents.line(1) + "\n").utf8))
        let err = Self.text(errors)
        _ = Self.text(output)
        process.waitUntilExit()
        #expect(process.terminationStatus == 69)
        #expect(err.contains("refuses sender"))
        input.fileHandleForWriting.closeFile()
    }

    @Test func `A spool goes on with its own input alone, or is sent without any`() throws {
        let folder = try Folder()
        let lines = (0..<3_000).map { SampleEvents.line($0) }
        let file = try folder.file(lines)
        let other = try folder.file(Array(lines.reversed()), named: "other")
        let silent = UDPPeer(lossPercent: 100)
        let spool = folder.path + "/spool"
        let (process, output, errors) = try Self.start([
            "--to", silent.address, "--spool", spool, file,
        ])
        // What has been sent is on disk, and nothing is acked.
        silent.waitForDatagrams(20)
        kill(process.processIdentifier, SIGKILL)
        _ = (Self.text(output), Self.text(errors))
        process.waitUntilExit()
        let peer = UDPPeer(receiver: silent.kill())
        let wrong = try Self.run(["--to", peer.address, "--spool", spool, other])
        #expect(wrong.code == 66)
        #expect(wrong.errors.contains("--spool-only"))
        let rest = try Self.run(["--to", peer.address, "--spool", spool, "--spool-only"])
        #expect(rest.code == 0, "\(rest.errors)")
        let part = peer.receiver
        #expect(part.faults.isEmpty)
        let count = try part.durableEvents().count
        #expect(count > 0)
        try Self.check(part, lines: 0..<count)
        // The file's place was kept: the rest of it is what is left to send.
        let whole = try Self.run(["--to", peer.address, "--spool", spool, file])
        #expect(whole.code == 0, "\(whole.errors)")
        #expect(whole.summary["sent"] == Double(3_000 - count))
        try Self.check(peer.kill(), lines: 0..<3_000)
    }

    @Test func `A key tags every packet, and a wrong one is found by silence`() throws {
        let folder = try Folder()
        let keys = try folder.file(
            ["3 000102030405060708090a0b0c0d0e0f sender=9", "4 ffff02030405060708090a0b0c0d0e0f"],
            named: "keys")
        let file = try folder.file((0..<100).map { SampleEvents.line($0) })
        var receiver = ModelReceiver()
        receiver.key = TagKey([UInt8](0..<16))
        let peer = UDPPeer(receiver: receiver)
        func send(_ id: Int) throws -> (code: Int32, summary: [String: Double], errors: String) {
            try Self.run([
                "--to", peer.address, "--acks", "--key-file", keys, "--key-id", "\(id)",
                "--give-up-seconds", "1", file,
            ])
        }
        chmod(keys, 0o644)
        #expect(try send(3).code == 78)
        chmod(keys, 0o600)
        #expect(try send(5).code == 78)
        let silent = try send(4)
        #expect(silent.code == 69)
        #expect(silent.errors.contains("no answer from"))
        #expect(try send(3).code == 0)
        try Self.check(peer.kill(), lines: 0..<100)
    }

    @Test(arguments: [
        ["--plain", "--acks"], ["--plain", "--spool", "/x"], ["--no-acks", "--spool", "/x"],
        ["--spool-only"], ["--key-id", "3"], ["--key-file", "/x"],
        ["--key-id", "0", "--key-file", "/x"], ["--give-up-seconds", "0"],
        ["--packet-bytes", "1199"],
    ])
    func `Options that do not go together end with 64 and one line`(arguments: [String]) throws {
        let ended = try Self.run(["--to", "127.0.0.1:9"] + arguments)
        #expect(ended.code == 64)
        #expect(ended.errors.split(separator: "\n").count == 1, "\(ended.errors)")
    }
}
