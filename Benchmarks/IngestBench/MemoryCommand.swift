import ArgumentParser
import IngestClient

/// `ingest-bench memory`: a long load, and the daemon's resident memory all along.
struct MemoryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "memory",
        abstract: "Send many events and print the daemon's memory every few seconds.")

    @OptionGroup var mix: MixOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("Offered events per second.", valueName: "n"))
    var rate = 1_500_000.0

    @Option(help: ArgumentHelp("Events to send, in millions.", valueName: "n"))
    var millions: UInt64 = 100

    @Option(help: ArgumentHelp("Seconds between two lines.", valueName: "n"))
    var interval = 5

    func validate() throws {
        guard rate > 0, interval > 0 else {
            throw ValidationError("--rate and --interval are above 0")
        }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        Report.heading("seconds, resident")
        var pool = mix.makePool()
        let startedAt = SenderClock.monotonicNanoseconds()
        let result = try LoadRun(daemon: daemon).run(
            &pool, eventCount: millions * 1_000_000, eventsPerSecond: rate,
            onSample: { sample in
                let seconds = Double(sample.atNanoseconds - startedAt) / 1e9
                print("  \(fixed(seconds, 1)), \(mebibytes(sample.residentByteCount))")
            },
            sampleMilliseconds: interval * 1000)
        report(result)
    }

    private func report(_ result: LoadRun.Result) {
        Report.heading("result")
        Report.line(
            "sent, durable, lost",
            "\(grouped(result.sent.eventCount)), \(grouped(result.log.rowCount)), "
                + "\(result.lostEventCount)")
        Report.line("resident at most", mebibytes(result.residentByteCountMax))
        // The start fills tables; from the first quarter on, memory should stand.
        let later = result.memory.dropFirst(result.memory.count / 4)
        guard let first = later.first, let last = later.last else { return }
        let growth = Int64(last.residentByteCount) - Int64(first.residentByteCount)
        Report.line("growth after 1st quarter", mebibytes(growth))
    }
}
