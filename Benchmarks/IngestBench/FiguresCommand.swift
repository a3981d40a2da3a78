import ArgumentParser

/// `ingest-bench figures`: the figures of snapshots and queries, each beside what it is to reach. The directories are
/// kept and used again: making them takes the longest.
struct FiguresCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "figures",
        abstract: "Snapshots and queries at size: what they cost, beside what they may.",
        discussion: """
            Short: a tenth of the size that the goals are stated for. --full: 10,000,000 rewards, and \
            100,000,000 events over 30 days. Directories are made under --scratch if they are not there, \
            and stay: ingest-bench-rewards-N and ingest-bench-days-N, which may be removed at any time.
            """)

    @OptionGroup var daemon: DaemonOptions

    @Flag(help: "At the size that the goals are stated for: some gigabytes of memory and disk.")
    var full = false

    @Option(help: ArgumentHelp("Events per second while the directories are made.", valueName: "n"))
    var rate = 1_000_000.0

    @Option(help: ArgumentHelp("Runs of each query.", valueName: "n"))
    var runs = 5

    @Flag(inversion: .prefixedNo, help: "Recount the whole log.")
    var verify = true

    func validate() throws {
        guard rate > 0, runs > 0 else { throw ValidationError("--rate and --runs are above 0") }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        let share = full ? 1 : 10
        try report(
            "rewards", ["--rewards", "\(10_000_000 / share)", "--popularity", "turns"],
            eventCount: UInt64(20_000_000 / share))
        try report(
            "days", ["--rewards", "\(1_000_000 / share)", "--days", "30"],
            eventCount: UInt64(100_000_000 / share), ["--max-event-age-seconds=0"])
        try reportCompaction()
    }

    private func report(
        _ name: String, _ mix: [String], eventCount: UInt64, _ options: [String] = []
    ) throws {
        let mix = try MixOptions.parse(mix)
        var daemon = daemon
        daemon.daemonOption += options
        Report.heading("== \(grouped(mix.rewards)) rewards, \(grouped(eventCount)) events")
        let load = DirectoryLoad(
            daemon: daemon, mix: mix, eventCount: eventCount, eventsPerSecond: rate)
        let path = "\(daemon.scratch)/ingest-bench-\(name)-\(eventCount)"
        try QueryFigures(
            directory: .kept(at: path, load), mix: mix.options, runCount: runs, verifies: verify
        ).report()
    }

    /// What the compact queue takes of an event at a million rewards, with a generation a second.
    private func reportCompaction() throws {
        let mix = try MixOptions.parse(["--rewards", "1000000"])
        Report.heading("== compaction: 1,000,000 rewards at 2,000,000 events/s")
        let load = DirectoryLoad(
            daemon: daemon, mix: mix, eventCount: full ? 60_000_000 : 20_000_000,
            eventsPerSecond: 2_000_000)
        _ = try BenchDirectory.make(load)
    }
}
