import ArgumentParser
import Foundation
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
        version:
            "ingest-bench \(Release.version), packets \(Release.packetVersion), files \(FileEnvelope.version)",
        subcommands: [
            ThroughputCommand.self, CompareCommand.self, LadderCommand.self, LatencyCommand.self,
            MemoryCommand.self, RecoveryCommand.self, StartCommand.self, QueryCommand.self,
            FiguresCommand.self, ControlCommand.self, PathsCommand.self, CongestionCommand.self,
            TenantsCommand.self, MicroCommand.self,
        ])
}

/// What went wrong outside of what is measured: the daemon did not start, a figure cannot be read.
struct BenchFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

// Every way out of the program ends here: help and version on standard output, an error as one line on
// standard error; 64 for wrong usage, 1 for what could not be measured.
let signalSources = RunRemains.removeOnSignals()
do {
    var command = try IngestBench.parseAsRoot()
    try command.run()
} catch let code as ExitCode {
    exit(code.rawValue)
} catch {
    let code = IngestBench.exitCode(for: error)
    if code == .success { IngestBench.exit(withError: error) }
    let isUsage = code == .validationFailure
    let message = OneLine.escaped(OneLine.joined(IngestBench.message(for: error)))
    let advice = isUsage ? ", command line, see 'ingest-bench --help'" : ""
    FileHandle.standardError.write(Data("ingest-bench: \(message)\(advice)\n".utf8))
    exit(isUsage ? 64 : 1)
}
