import ArgumentParser
import Dispatch
import Foundation
import IngestClient
import IngestReader
import Synchronization

/// `ingest-bench latency`: how long an event takes from its scheduled departure to being in the reader's
/// answer, while a load goes on beside it.
struct LatencyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latency",
        abstract: "Time from sending an event to seeing it in the reader, beside a load.",
        discussion: """
            Probes are events of a reward of their own, sent one at a time on a schedule. The reader is \
            opened again and again; an answer of n shows the first n probes. Each one's time runs from \
            its scheduled departure to the end of the first answer that shows it, the reader's own \
            opening included.
            """)

    @OptionGroup var mix: MixOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("Events per second beside the probes; 0 = none.", valueName: "n"))
    var rate = 500_000.0

    @Option(help: ArgumentHelp("Probes to send.", valueName: "n"))
    var probes = 500

    @Option(help: ArgumentHelp("Milliseconds between two probes.", valueName: "n"))
    var probeInterval = 20

    private static let probeReward = "latency-probe"

    func validate() throws {
        guard rate >= 0, rate.isFinite, probes > 0, 1...60_000 ~= probeInterval else {
            throw ValidationError(
                "--rate is 0 or more, --probes 1 or more, --probe-interval 1 to 60,000")
        }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        let directory = try daemon.makeScratch()
        let process = try daemon.start(in: directory)
        let load = try BackgroundLoad(mix, to: process.address)
        let sender = try EventSender.open(to: process.address)
        let startedAt = SenderClock.monotonicNanoseconds() + 500_000_000
        let interval = UInt64(probeInterval) * 1_000_000
        let seconds = Double(probes * probeInterval) / 1000 + 0.5
        if rate > 0 { load.start(eventsPerSecond: rate, seconds: seconds) }
        let probes = self.probes
        let queue = DispatchQueue(label: "ingest-bench.probes")
        queue.async {
            for probe in 0..<probes {
                SenderClock.sleep(
                    untilMonotonicNanoseconds: startedAt + UInt64(probe) * interval)
                try? Self.sendProbe(sender)
            }
        }
        let (seenAt, answers) = try watch(
            directory, until: startedAt + UInt64(seconds * 1e9) + 5_000_000_000)
        queue.sync {}
        let sent = load.wait()
        _ = try sender.close()
        _ = try process.stop()
        report(seenAt, startedAt, interval, sent)
        Report.line(
            "open and one reward", Self.percentiles(answers) + ", \(answers.count) times",
            goal: "p50 ≤ 5 ms, p99 ≤ 20 ms beside 2,000,000 events/s")
    }

    private static func sendProbe(_ sender: EventSender) throws(ClientError) {
        let event = AdEvent(
            .impression, rewardID: probeReward, businessID: "latency",
            timestampMicroseconds: Int64(SenderClock.unixNanoseconds() / 1000))
        _ = try sender.send(event)
        try sender.flush()
    }

    /// When each probe was first in an answer, in order; ends when all were, or at the deadline. Beside it, how many
    /// milliseconds each answer took.
    private func watch(
        _ directory: ScratchDirectory, until deadline: UInt64
    ) throws -> (seenAt: [UInt64], answers: [Double]) {
        var seenAt: [UInt64] = []
        var answers: [Double] = []
        while seenAt.count < probes {
            let askedAt = SenderClock.monotonicNanoseconds()
            let reader = try IngestReader.open(directory: directory.path)
            let count = Int(try reader.reward(Self.probeReward)?.counters.impressions ?? 0)
            let now = SenderClock.monotonicNanoseconds()
            answers.append(Double(now - askedAt) / 1e6)
            while seenAt.count < min(count, probes) { seenAt.append(now) }
            if now > deadline { break }
            SenderClock.sleep(untilMonotonicNanoseconds: now + 1_000_000)
        }
        return (seenAt, answers)
    }

    private func report(
        _ seenAt: [UInt64], _ startedAt: UInt64, _ interval: UInt64, _ load: SendFigures
    ) {
        Report.heading("latency, send to visible")
        Report.line("load beside it", "\(grouped(Int(load.eventsPerSecond))) events/s")
        Report.line(
            "probes",
            "\(probes) sent, \(seenAt.count) seen"
                + (seenAt.count < probes ? ": some were lost, the times below do not hold" : ""))
        let times = seenAt.enumerated()
            .map { Double($1 - min($1, startedAt + UInt64($0) * interval)) / 1e6 }
        Report.line("departure to answer", Self.percentiles(times))
    }

    private static func percentiles(_ milliseconds: [Double]) -> String {
        let times = milliseconds.sorted()
        return [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)]
            .map { "\($0) \(fixed(percentile(times, $1), 1)) ms" }.joined(separator: ", ")
    }
}

/// A load that goes on beside what the main thread does.
final class BackgroundLoad: Sendable {
    private let mix: MixOptions
    private let sender: LoadSender
    private let queue = DispatchQueue(label: "ingest-bench.load")
    private let figures = Mutex(SendFigures())

    init(_ mix: MixOptions, to address: String) throws(ClientError) {
        self.mix = mix
        sender = try LoadSender(to: address)
    }

    /// Encodes the packets at once, then sends for so long, or until nobody receives any more.
    func start(eventsPerSecond: Double, seconds: Double) {
        let isEncoded = DispatchSemaphore(value: 0)
        queue.async { [self] in
            var pool = mix.makePool()
            isEncoded.signal()
            let sent = try? sender.send(
                &pool, eventCount: UInt64(eventsPerSecond * seconds),
                eventsPerSecond: eventsPerSecond)
            figures.withLock { $0 = sent ?? SendFigures() }
        }
        isEncoded.wait()
    }

    /// Waits for its end; what it sent, zeros if it was cut off.
    func wait() -> SendFigures {
        queue.sync {}
        return figures.withLock { $0 }
    }
}

/// `ingest-bench recovery`: kills the daemon in the middle of a load and times the next start.
struct RecoveryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recovery",
        abstract: "kill -9 in the middle of a load, then the time until the next start is ready.",
        discussion: """
            kill -9 ends the process, not the machine: what the kernel holds is still written. Power \
            loss is what the simulated disk of the tests is for.
            """)

    @OptionGroup var mix: MixOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("Events per second before the kill.", valueName: "n"))
    var rate = 1_000_000.0

    @Option(help: ArgumentHelp("Seconds of load before the kill, at most.", valueName: "n"))
    var seconds = 5.0

    @Option(help: ArgumentHelp("Kills, one after the other on the same directory.", valueName: "n"))
    var runs = 5

    func validate() throws {
        guard rate > 0, rate.isFinite, 0.2...86_400 ~= seconds, runs > 0 else {
            throw ValidationError("--rate and --runs are above 0, --seconds is 0.2 to 86,400")
        }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        Report.heading("killed after s, rows before, rows after, log MiB, ready in s")
        let directory = try daemon.makeScratch()
        var random = SeededRandom(seed: mix.seed)
        var process = try daemon.start(in: directory)
        for _ in 0..<runs {
            let load = try BackgroundLoad(mix, to: process.address)
            load.start(eventsPerSecond: rate, seconds: seconds + 60)
            let killAfter = 0.1 + random.unit() * (seconds - 0.1)
            let now = SenderClock.monotonicNanoseconds()
            SenderClock.sleep(untilMonotonicNanoseconds: now + UInt64(killAfter * 1e9))
            process.crash()
            _ = load.wait()
            // Of the dead directory: what a reader can show without any daemon.
            let before = try durableRowCount(directory)
            let logByteCount = try directory.byteCounts()["segment"] ?? 0
            process = try daemon.start(in: directory)
            let columns = [
                fixed(killAfter, 2), grouped(before), grouped(try durableRowCount(directory)),
                fixed(Double(logByteCount) / Double(1 << 20), 1),
                fixed(process.readySeconds, 3),
            ]
            print("  " + columns.joined(separator: ", "))
        }
        _ = try process.stop()
        let verify = try ProgramRun(
            DaemonOptions.besideThis("ingest-reader"), ["verify", "--data", directory.path])
        Report.line(
            "verify at the end", "exit \(verify.exitCode) in \(fixed(verify.seconds, 2)) s")
    }
}

/// `ingest-bench start`: how long a start takes on a directory that is there.
struct StartCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "start",
        abstract:
            "The time until a daemon is ready on a directory, as `throughput --keep` leaves one.",
        discussion: """
            Names, windows and the ids that are known come from the log. The first start may read from \
            the disk, the others from the page cache; the last one finds a daemon that was killed.
            """)

    @OptionGroup var daemon: DaemonOptions

    @Argument(help: "The data directory. Daemons run on it: it is not the same afterwards.")
    var directory: String

    @Option(help: ArgumentHelp("Starts, one after the other.", valueName: "n"))
    var runs = 3

    func run() throws {
        Report.machine(directory: directory)
        let kept = try ScratchDirectory(at: directory)
        let segmentByteCount = try kept.byteCounts()["segment"] ?? 0
        Report.heading("start")
        Report.line("sealed log", mebibytes(segmentByteCount))
        for number in 1...max(1, runs) {
            let process = try daemon.start(in: kept)
            let figures = try ProcessFigures(processID: process.processID)
            Report.line(
                "run \(number)",
                "ready in \(fixed(process.readySeconds, 3)) s, CPU "
                    + "\(fixed(Double(figures.userNanoseconds + figures.systemNanoseconds) / 1e9, 2)) s, "
                    + "\(mebibytes(figures.residentByteCountMax))")
            if number == runs - 1 { process.crash() } else { _ = try process.stop() }
        }
    }
}

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
