import ArgumentParser

/// `ingest-bench micro`: the parts of the path one by one, in this process, on one core.
struct MicroCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "micro",
        abstract: "Time the parts of the path by themselves, in this process.")

    /// A part of the path that has a benchmark of its own.
    enum Part: String, CaseIterable, ExpressibleByArgument {
        case receive, commit, block, counter, names, dedup
    }

    @Argument(help: "The parts to time; all by default.")
    var parts: [Part] = Part.allCases

    func run() {
        Report.machine(directory: "/tmp")
        for part in parts {
            Report.heading(part.rawValue)
            switch part {
            case .receive: receiveBenchmark()
            case .commit: commitBenchmark()
            case .block: blockBenchmark()
            case .counter: counterBenchmark()
            case .names: namesBenchmark()
            case .dedup: dedupBenchmark()
            }
        }
    }
}
