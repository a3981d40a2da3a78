import ArgumentParser
import Glibc
import IngestFormat

/// `ingest-bench`: loads a real daemon and prints what it measured. It never judges: nothing here passes
/// or fails by time. docs/performance.md says what each command measures and how.
struct IngestBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest-bench",
        abstract: "Load a real ingestd process and print figures.",
        discussion: """
            Build the programs with `swift build -c release` first: the daemon that stands beside this \
            program is the one that is measured. All traffic is over loopback, on one machine.
            """,
        version: "ingest-bench \(Release.version)",
        subcommands: [
            ThroughputCommand.self, LadderCommand.self, LatencyCommand.self, MemoryCommand.self,
            RecoveryCommand.self, StartCommand.self, QueryCommand.self, FiguresCommand.self,
            ControlCommand.self,
            MicroCommand.self,
        ])
}

/// What went wrong outside of what is measured: the daemon did not start, a figure cannot be read.
struct BenchFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
