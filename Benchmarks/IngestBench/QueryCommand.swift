import ArgumentParser
import IngestClient
import IngestReader

/// `ingest-bench query`: what a snapshot of known size costs to keep and how fast it answers, in an open
/// reader and by `ingest-reader` as a process.
struct QueryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query",
        abstract:
            "Size of a snapshot, and the time of queries: in an open reader, and as a process.")

    @OptionGroup var mix: MixOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("Events per second while the directory is made.", valueName: "n"))
    var rate = 1_000_000.0

    @Option(help: ArgumentHelp("Events in the directory.", valueName: "n"))
    var events: UInt64 = 10_000_000

    @Option(help: ArgumentHelp("Runs of each query.", valueName: "n"))
    var runs = 10

    @Option(
        help: ArgumentHelp(
            "Query this directory, made earlier by the same --rewards and --names with --keep, instead of a "
                + "new one.", valueName: "dir"))
    var directory: String?

    func validate() throws {
        guard rate > 0, runs > 0 else { throw ValidationError("--rate and --runs are above 0") }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        if let directory {
            try report(directory)
        } else {
            let made = try make()
            try withExtendedLifetime(made) { try report(made.path) }
        }
    }

    private func make() throws -> ScratchDirectory {
        let directory = try daemon.makeScratch()
        let process = try daemon.start(in: directory)
        let before = try ProcessFigures(processID: process.processID)
        var pool = mix.makePool()
        let sent = try LoadSender(to: process.address)
            .send(&pool, eventCount: events, eventsPerSecond: rate)
        _ = DurableWatch(directory).waitUntilStill()
        let after = try ProcessFigures(processID: process.processID)
        let stopSeconds = try process.stop()
        Report.heading("the directory")
        let log = try LogFigures(directory)
        Report.line(
            "sent, durable", "\(grouped(sent.eventCount)), \(grouped(log.rowCount)) events")
        let compact = after.threadNanoseconds.first { $0.key.contains("compact") }
        let compactBefore = before.threadNanoseconds.first { $0.key.contains("compact") }
        let spent = (compact?.value ?? 0) - (compactBefore?.value ?? 0)
        Report.line(
            "compact queue",
            fixed(Double(spent) / Double(max(1, log.rowCount)), 1) + " ns/event of CPU")
        Report.line(
            "daemon memory", "\(mebibytes(after.residentByteCountMax)) at most")
        Report.line(
            "written",
            fixed(
                Double(after.writtenByteCount - before.writtenByteCount)
                    / Double(max(1, log.rowCount)), 1) + " bytes/event")
        Report.line("stopped in", fixed(stopSeconds, 2) + " s")
        return directory
    }

    private func report(_ directory: String) throws {
        try SnapshotFigures(directory).report()
        try ReaderFigures(directory: directory, rewardCount: mix.rewards, names: mix.names).report()
        Report.heading("ingest-reader as a process: ms p50, max, exit")
        let reward = EventMix.rewardName(0, mix.names)
        for (name, query) in [
            ("reward ID", ["reward", reward]), ("rewards --top 100", ["rewards", "--top", "100"]),
            ("rewards", ["rewards"]), ("days", ["days"]),
            ("reward-days --reward ID", ["reward-days", "--reward", reward]),
            ("status", ["status"]), ("verify", ["verify"]),
        ] {
            try time(name, query, directory)
        }
    }

    private func time(_ name: String, _ query: [String], _ directory: String) throws {
        var times: [Double] = []
        var exitCode: Int32 = 0
        for _ in 0..<runs {
            let run = try ProgramRun(
                DaemonOptions.besideThis("ingest-reader"),
                query + ["--data", directory, "--format", "ndjson"])
            times.append(run.seconds * 1000)
            exitCode = max(exitCode, run.exitCode)
        }
        times.sort()
        Report.line(
            name,
            "\(fixed(percentile(times, 0.5), 1)), \(fixed(percentile(times, 1), 1)), \(exitCode)")
    }
}
