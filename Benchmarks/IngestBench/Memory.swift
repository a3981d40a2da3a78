import ArgumentParser
import Dispatch
import IngestClient
import Synchronization

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

/// Samples a process's resident memory while something else goes on in this one.
final class MemoryWatch: Sendable {
    struct Sample: Sendable {
        let atNanoseconds: UInt64
        let residentByteCount: UInt64
    }

    private let processID: Int32
    private let intervalMilliseconds: Int
    private let queue = DispatchQueue(label: "ingest-bench.memory")
    private let state = Mutex(State())
    private let onSample: (@Sendable (Sample) -> Void)?

    private struct State {
        var samples: [Sample] = []
        var isStopped = false
    }

    /// Begins at once, with a sample of now.
    init(
        processID: Int32, intervalMilliseconds: Int = 200,
        onSample: (@Sendable (Sample) -> Void)? = nil
    ) {
        self.processID = processID
        self.intervalMilliseconds = intervalMilliseconds
        self.onSample = onSample
        take()
    }

    /// All samples so far; no further one is taken.
    func stop() -> [Sample] {
        state.withLock { state in
            state.isStopped = true
            return state.samples
        }
    }

    private func take() {
        guard let figures = try? ProcessFigures(processID: processID) else { return }
        let sample = Sample(
            atNanoseconds: SenderClock.monotonicNanoseconds(),
            residentByteCount: figures.residentByteCount)
        let goesOn = state.withLock { state in
            state.samples.append(sample)
            return !state.isStopped
        }
        guard goesOn else { return }
        onSample?(sample)
        queue.asyncAfter(deadline: .now() + .milliseconds(intervalMilliseconds)) { [weak self] in
            self?.take()
        }
    }
}
