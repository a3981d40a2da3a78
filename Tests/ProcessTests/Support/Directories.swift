import Foundation

/// Data directories of one small log in the states that a daemon can leave behind.
enum DirectoryState: String, CaseIterable, CustomStringConvertible {
    case clean, killed, restarted

    var description: String { rawValue }

    private static let options =
        ["--segment-bytes-max", "65536", "--compact-interval-seconds", "1"]
    private static let eventCount = 8_000

    /// Lets a daemon take 8,000 events into several segments, publish some of them, and end.
    func make() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        let daemon = try DaemonProcess(in: folder, Self.options)
        let lines = SampleEvents.lines.prefix(Self.eventCount)
        let file = try folder.write("events.ndjson", lines.joined(separator: "\n") + "\n")
        _ = try daemon.send(file)
        let reader = Reader(folder: folder)
        _ = try eventually {
            try reader.status().rows == Self.eventCount && !folder.files(ending: ".run").isEmpty
        }
        if self == .clean {
            daemon.stop()
        } else {
            daemon.kill()
        }
        if self == .restarted { try DaemonProcess(in: folder, Self.options).stop() }
        return folder
    }
}

extension TemporaryFolder {
    /// The files in the data directory, what was put aside not included.
    var dataFiles: [String] { files(ending: "").filter { $0 != "aside" } }

    func bytes(_ name: String) -> [UInt8] {
        Array(FileManager.default.contents(atPath: "\(data)/\(name)") ?? Data())
    }

    func replace(_ name: String, _ bytes: [UInt8]) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: "\(data)/\(name)"))
    }
}
