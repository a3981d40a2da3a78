import Foundation
import IngestFormat
import TestSupport
import Testing

/// Data directories of one small log in the states that a daemon can leave behind.
enum DirectoryState: String, CaseIterable, CustomStringConvertible {
    case clean, killed, restarted

    var description: String { rawValue }

    private static let options =
        ["--segment-bytes-max", "65536", "--compact-interval-seconds", "1"]
    private static let eventCount = 16_000

    /// Lets a daemon take 16,000 events into several segments, publish all but the last, and end.
    func make() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        let daemon = try DaemonProcess(in: folder, Self.options)
        let lines = SampleEvents.lines.prefix(Self.eventCount)
        let file = try folder.write("events.ndjson", lines: lines)
        _ = try daemon.send(file)
        let reader = Reader(folder: folder)
        let isPublished = try eventually {
            guard try reader.status().rows == Self.eventCount,
                let newest = folder.files(ending: ".manifest").last,
                let manifest = try? Manifest.decode(folder.bytes(newest))
            else { return false }
            let published = manifest.sealed.count
            return published >= 2 && published + 1 >= folder.files(ending: ".segment").count
        }
        try #require(isPublished)
        if self == .clean {
            daemon.stop()
        } else {
            daemon.kill()
        }
        if self == .restarted { try DaemonProcess(in: folder, Self.options).stop() }
        return folder
    }
}
