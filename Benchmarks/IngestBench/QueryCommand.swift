import ArgumentParser
import IngestClient
import IngestReader

/// `ingest-bench query`: how long `ingest-reader` takes, as a process, on a directory of known size.
struct QueryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query",
        abstract: "Time of ingest-reader's queries, each as a process from start to exit.")

    @OptionGroup var mix: MixOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("Events per second while the directory is made.", valueName: "n"))
    var rate = 1_000_000.0

    @Option(help: ArgumentHelp("Events in the directory.", valueName: "n"))
    var events: UInt64 = 10_000_000

    @Option(help: ArgumentHelp("Runs of each query.", valueName: "n"))
    var runs = 10

    func validate() throws {
        guard rate > 0, runs > 0 else { throw ValidationError("--rate and --runs are above 0") }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        let directory = try daemon.makeScratch()
        let process = try daemon.start(in: directory)
        var pool = mix.makePool()
        _ = try LoadSender(to: process.address)
            .send(&pool, eventCount: events, eventsPerSecond: rate)
        _ = DurableWatch(directory).waitUntilStill()
        _ = try process.stop()
        try report(directory)
    }

    private func report(_ directory: ScratchDirectory) throws {
        let log = try LogFigures(directory)
        Report.heading(
            "\(grouped(log.rowCount)) events, \(grouped(mix.rewards)) rewards, "
                + "\(mebibytes(log.byteCount)): ms p50, max, exit")
        let reward = EventMix.rewardName(0, mix.names)
        for (name, query) in [
            ("reward ID", ["reward", reward]), ("rewards --top 10", ["rewards", "--top", "10"]),
            ("rewards", ["rewards"]), ("days", ["days"]),
            ("reward-days --reward ID", ["reward-days", "--reward", reward]),
            ("status", ["status"]), ("verify", ["verify"]),
        ] {
            try time(name, query, directory)
        }
    }

    private func time(_ name: String, _ query: [String], _ directory: ScratchDirectory) throws {
        var times: [Double] = []
        var exitCode: Int32 = 0
        for _ in 0..<runs {
            let run = try ProgramRun(
                DaemonOptions.besideThis("ingest-reader"),
                query + ["--data", directory.path, "--format", "ndjson"])
            times.append(run.seconds * 1000)
            exitCode = max(exitCode, run.exitCode)
        }
        times.sort()
        Report.line(
            name,
            "\(fixed(percentile(times, 0.5), 1)), \(fixed(percentile(times, 1), 1)), \(exitCode)")
    }
}
