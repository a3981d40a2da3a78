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
        guard rate >= 0, probes > 0, probeInterval > 0 else {
            throw ValidationError("--probes and --probe-interval are above 0")
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
