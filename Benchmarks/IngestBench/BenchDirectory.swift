import Foundation
import IngestClient
import IngestStorage

/// A data directory that a real daemon wrote from a load of known size: made for one run and removed with it,
/// or kept under a name and used again.
struct BenchDirectory {
    /// What is in it, so that one that was made of something else is not taken for it.
    struct Content: Equatable {
        var mix: EventMix.Options
        var eventCount: UInt64

        /// As it stands beside the directory, in `PATH.load`.
        var text: String {
            "\(eventCount) events of \(mix.rewardCount) rewards (\(mix.popularity), \(mix.names)) and "
                + "\(mix.businessCount) businesses over \(mix.dayCount) days, seed \(mix.seed)\n"
        }
    }

    let path: String
    /// Removes the directory when the last user lets go of it; `nil` if it is kept.
    private let scratch: ScratchDirectory?

    /// A directory of this run alone.
    static func make(_ load: DirectoryLoad) throws -> BenchDirectory {
        let scratch = try load.daemon.makeScratch()
        try load.fill(scratch)
        return BenchDirectory(path: scratch.path, scratch: scratch)
    }

    /// The directory at `path`: made if it is not there.
    static func kept(at path: String, _ load: DirectoryLoad) throws -> BenchDirectory {
        let label = path + ".load"
        if FileManager.default.fileExists(atPath: label) {
            let found = try String(contentsOfFile: label, encoding: .utf8)
            guard found == load.content.text else {
                throw BenchFailure(
                    "\(path) holds \(found.trimmingCharacters(in: .newlines)), not "
                        + load.content.text.trimmingCharacters(in: .newlines)
                        + ": remove it and \(label), or name another")
            }
        } else {
            try load.fill(ScratchDirectory(at: path))
            try load.content.text.write(toFile: label, atomically: true, encoding: .utf8)
        }
        return BenchDirectory(path: path, scratch: nil)
    }
}

/// How a directory is made: a daemon, a load, and what the daemon spent on it.
struct DirectoryLoad {
    let daemon: DaemonOptions
    let mix: MixOptions
    let eventCount: UInt64
    let eventsPerSecond: Double

    var content: BenchDirectory.Content {
        BenchDirectory.Content(mix: mix.options, eventCount: eventCount)
    }

    /// Sends the load to a daemon on `directory`, stops that, and prints what it took.
    func fill(_ directory: ScratchDirectory) throws {
        let process = try daemon.start(in: directory)
        let before = try ProcessFigures(processID: process.processID)
        var pool = mix.makePool()
        let sent = try LoadSender(to: process.address)
            .send(&pool, eventCount: eventCount, eventsPerSecond: eventsPerSecond)
        _ = DurableWatch(directory).waitUntilStill()
        let after = try ProcessFigures(processID: process.processID)
        let stopSeconds = try process.stop()
        Report.heading("the directory")
        Report.line("load", content.text.trimmingCharacters(in: .newlines))
        let log = try LogFigures(directory)
        let events = Double(max(1, log.rowCount))
        Report.line(
            "sent, durable",
            "\(grouped(sent.eventCount)) at \(grouped(Int(sent.eventsPerSecond)))/s, "
                + "\(grouped(log.rowCount)) events")
        let compact =
            after.nanoseconds(ofThread: "compact") - before.nanoseconds(ofThread: "compact")
        Report.line(
            "compact queue", fixed(Double(compact) / events, 1) + " ns/event of CPU",
            goal: "≤ 10 at 1,000,000 rewards and 2,000,000 events/s")
        Report.line(
            "daemon memory", "\(mebibytes(after.residentByteCountMax)) at most",
            goal: "≤ 1.2 GB with 10,000,000 keys")
        Report.line(
            "written",
            fixed(Double(after.writtenByteCount - before.writtenByteCount) / events, 1)
                + " bytes/event")
        Report.line("stopped in", fixed(stopSeconds, 2) + " s")
    }
}
