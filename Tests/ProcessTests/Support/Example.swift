import Foundation
import TestSupport
import Testing

/// A sender of examples/, run as its page says.
enum Example: String, CaseIterable, Sendable {
    case smallPython
    /// The full protocol, with protobuf.
    case python
    case go
    case node
    case java

    /// Those that send the lines of their input.
    static let ofLines: [Example] = [.smallPython, .go, .node, .java]

    var takesKey: Bool { self != .smallPython }

    /// What the ledger knows it by, where it can be told.
    var senderID: String? { self == .smallPython ? nil : "21" }

    private var file: String {
        let path =
            switch self {
            case .smallPython: "python/small_sender.py"
            case .python: "python/ingest_sender.py"
            case .go: "go/sender.go"
            case .node: "node/sender.mjs"
            case .java: "java/Sender.java"
            }
        return Repository.root.appending(path: "examples/\(path)").path
    }

    /// Where the program that runs it is; `nil` if there is none.
    private var program: String? {
        switch self {
        case .smallPython: Programs.found("python3")
        case .python:
            Programs.found(Repository.root.appending(path: ".build/python/bin/python").path)
        // A Java that cannot compile has no javac.
        case .java: Programs.found("javac").flatMap { _ in Programs.found("java") }
        case .go, .node: Programs.found(rawValue)
        }
    }

    /// Ends the test, and says so, where it cannot be run.
    func requireToolchain() throws {
        if program == nil { try Test.cancel("nothing here to run the \(rawValue) example with") }
    }

    /// - Parameters:
    ///   - key: the key 1 that it tags with.
    ///   - input: its lines; of no meaning to the full one, which makes 400 impressions, 150 clicks and 50 redemptions.
    func start(
        to address: String, key: [UInt8]? = nil, input: String, in folder: TemporaryFolder
    ) throws -> Running {
        let path = try folder.write("input.ndjson", input)
        return try start(
            to: address, key: key, input: #require(FileHandle(forReadingAtPath: path)), in: folder)
    }

    func start(
        to address: String, key: [UInt8]? = nil, input: FileHandle, in folder: TemporaryFolder
    ) throws -> Running {
        var arguments = self == .go ? ["run", file] : [file]
        let key = key.map(\.hex)
        switch self {
        case .smallPython:
            arguments += address.split(separator: ":").map(String.init)
        case .python:
            arguments += ["--to", address, "--sender-id", senderID!, "--impressions", "400"]
            arguments += ["--clicks", "150", "--redemptions", "50"]
            if let key { arguments += ["--key-id", "1", "--key", key] }
        case .go, .node, .java:
            arguments += [address, senderID!]
            if let key { arguments += ["1", key] }
        }
        let goFolder = Repository.root.appending(path: ".build/go").path
        return try Running(
            #require(program), arguments, in: folder, input: input,
            environment: [
                "PYTHONDONTWRITEBYTECODE": "1", "GOCACHE": "\(goFolder)/cache", "GOPATH": goFolder,
            ])
    }
}

extension [UInt8] {
    /// Two digits each.
    var hex: String { map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() }
}

extension TemporaryFolder {
    /// A keys file that its owner alone may read.
    /// - Returns: its path.
    func writeKeys(_ text: String, mode: Int = 0o600) throws -> String {
        let path = try write("keys", text)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }
}
