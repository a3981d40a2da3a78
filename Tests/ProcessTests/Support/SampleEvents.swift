import Foundation
import TestSupport
import Testing

/// The real events, and what is known of them.
enum SampleEvents {
    static let impressionCount = 20_000
    static let clickCount = 80
    static let rewardCount = 80
    static let businessDayCount = 168

    static var lines: [String] { RealEvents.lines }

    /// The events in their order, or shuffled by a seed, as a file of the folder.
    static func file(in folder: TemporaryFolder, shuffledBy seed: UInt64? = nil) throws -> String {
        var chosen = lines
        try #require(chosen.count == impressionCount + clickCount)
        if let seed {
            var random = SeededRandom(seed: seed)
            chosen.shuffle(using: &random)
        }
        return try folder.write("events.ndjson", lines: chosen)
    }

    /// A directory with the events in it and no daemon on it.
    static func directory(_ options: [String] = []) throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        let daemon = try DaemonProcess(in: folder, options)
        #expect(try daemon.send(file(in: folder)).code == 0)
        #expect(daemon.stop().code == 0)
        return folder
    }
}

extension DaemonProcess {
    /// Sends a file of events; the pace keeps a small receive buffer from overflowing.
    func send(
        _ file: String, plain: Bool = false, acks: Bool = true, rate: Int = 40_000
    ) throws -> Ended {
        var arguments = ["--to", address, "--rate", String(rate)]
        if plain { arguments.append("--plain") }
        if !acks { arguments.append("--no-acks") }
        return try run("ingest-send", arguments + [file], in: folder)
    }
}
