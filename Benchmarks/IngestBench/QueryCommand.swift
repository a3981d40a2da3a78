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
            "Keep the directory under this name; one that is there is used again, if it was made of the same load.",
            valueName: "dir"))
    var directory: String?

    func validate() throws {
        guard rate > 0, runs > 0 else { throw ValidationError("--rate and --runs are above 0") }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        let load = DirectoryLoad(
            daemon: daemon, mix: mix, eventCount: events, eventsPerSecond: rate)
        let made = try directory.map { try BenchDirectory.kept(at: $0, load) } ?? .make(load)
        try QueryFigures(directory: made, mix: mix.options, runCount: runs).report()
    }
}
