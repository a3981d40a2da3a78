import ArgumentParser
import Foundation
import IngestFormat

/// How much is offered, and how fast.
struct OfferOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("Offered events per second; 0 = as fast as it goes.", valueName: "n"))
    var rate = 2_000_000.0

    @Option(help: ArgumentHelp("Events to send.", valueName: "n"))
    var events: UInt64 = 40_000_000

    @Option(
        help: ArgumentHelp(
            "Events to send first, at a tenth of the rate, so that names are known. CPU, durable rate and acks are without them; counts of the log are of all.",
            valueName: "n"))
    var warmUp: UInt64 = 0

    func validate() throws {
        guard rate >= 0, rate.isFinite else { throw ValidationError("--rate is 0 or more") }
    }

    /// One run of it against a daemon of its own.
    func run(
        _ pool: inout PacketPool, _ mix: MixOptions, _ daemon: DaemonOptions
    ) throws -> LoadRun.Result {
        try LoadRun(daemon: daemon, isSingly: mix.singly).run(
            &pool, eventCount: events, eventsPerSecond: rate, warmUpEventCount: warmUp)
    }
}

/// `ingest-bench throughput`: one load at one offered rate, and everything that can be said of it.
struct ThroughputCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "throughput",
        abstract:
            "Offer one rate and print what became of it: durable rate, loss, CPU, bytes, memory.")

    @OptionGroup var mix: MixOptions
    @OptionGroup var offer: OfferOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("How often, each with a daemon of its own.", valueName: "n"))
    var runs = 1

    @Flag(help: "Send plain datagrams of JSON, an event each, with new ids and names alone.")
    var json = false

    func validate() throws {
        guard runs > 0 else { throw ValidationError("--runs is 1 or more") }
        guard !json || mix.isPlain else {
            throw ValidationError(
                "--json has no --acks, --tags, --senders, --repeats, --sessions, --days, and no "
                    + "--popularity zipf")
        }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        var pool = mix.makePool(isJSON: json)
        report(pool)
        for number in 1...max(1, runs) {
            let result = try offer.run(&pool, mix, daemon)
            Report.heading("run \(number)")
            report(result)
        }
    }

    private func report(_ pool: borrowing PacketPool) {
        Report.heading("load")
        Report.line(
            "offered",
            offer.rate > 0 ? "\(grouped(Int(offer.rate))) events/s" : "as fast as it goes")
        Report.line(
            "events", "\(grouped(offer.events)), \(fixed(pool.eventByteCountMean, 1)) bytes each")
        Report.line(
            "packets",
            "\(pool.packetByteCount) bytes, events in each: \(pool.packetEventCount), "
                + "\(grouped(mix.senders)) senders, one flow, \(mix.singly ? "sendmmsg" : "GSO")")
        Report.line(
            "names",
            "\(grouped(mix.rewards)) rewards (\(mix.popularity)), "
                + "\(grouped(mix.businesses)) businesses")
    }

    private func report(_ result: LoadRun.Result) {
        let sender = Double(result.sent.cpuNanoseconds) / Double(max(1, result.sent.eventCount))
        // The daemon's costs are those of an event that became durable: what was dropped cost it nothing.
        let events = Double(max(1, result.durableEventCount))
        let perEvent = { (value: UInt64) in fixed(Double(value) / events, 1) }
        Report.line(
            "sent",
            "\(grouped(result.sent.eventCount)) events in "
                + "\(fixed(Double(result.sent.nanoseconds) / 1e9, 2)) s, "
                + "\(grouped(Int(result.sent.eventsPerSecond)))/s")
        Report.line(
            "schedule",
            "at most \(fixed(Double(result.sent.lagNanosecondsMax) / 1e6, 2)) ms late, sender CPU "
                + "\(fixed(sender, 1)) ns/event")
        if let acks = result.sent.acks { report(acks, result.sent) }
        Report.line(
            "durable",
            "\(grouped(result.durableEventCount)) events, "
                + "\(grouped(Int(result.durableEventsPerSecond)))/s until the last was durable")
        Report.line(
            "lost",
            "\(result.lostEventCount) events; the kernel dropped \(result.kernelDropCount) runs of "
                + "up to \(LoadSender.runPacketCount) packets")
        Report.line("packets by result", list(result.log.packets))
        Report.line("events by verdict", list(result.log.events))
        reportCPU(result, perEvent)
        reportStorage(result)
    }

    private func report(_ acks: AckListener.Figures, _ sent: SendFigures) {
        let parts = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)]
            .map { "\($0.0) \(fixed(percentile(acks.milliseconds, $0.1), 2)) ms" }
        Report.line(
            "acks",
            "\(grouped(acks.ackCount)), \(grouped(acks.shedCount)) of them not ok; from a run's "
                + "departure to its ack " + parts.joined(separator: ", "))
        Report.line(
            "held back",
            "\(fixed(Double(sent.heldNanoseconds) / 1e6, 0)) ms by window and credit; "
                + "\(grouped(sent.givenUpCount)) packets given up")
    }

    private func list<Key: NamedCode>(_ counts: [Key: UInt64]) -> String {
        Key.allCases.compactMap { key in
            counts[key].map { "\(key.name) \(grouped($0))" }
        }.joined(separator: ", ")
    }

    private func reportCPU(_ result: LoadRun.Result, _ perEvent: (UInt64) -> String) {
        Report.line(
            "daemon CPU",
            "\(fixed(result.cpuNanosecondsOfEvent, 1)) ns/event: "
                + "user \(perEvent(result.cpu.userNanoseconds)), "
                + "system \(perEvent(result.cpu.systemNanoseconds))")
        for thread in result.cpu.threads where thread.nanoseconds > result.sent.eventCount / 20 {
            Report.line("  thread \(thread.name)", "\(perEvent(thread.nanoseconds)) ns/event")
        }
    }

    private func reportStorage(_ result: LoadRun.Result) {
        // The last seal and what follows it come with the stop, and are not in the CPU above.
        let events = Double(max(1, result.log.rowCount))
        let perEvent = { (value: UInt64) in fixed(Double(value) / events, 1) }
        Report.line(
            "disk",
            "\(perEvent(result.log.segmentByteCount)) bytes/event in segments, "
                + "\(perEvent(result.log.byteCount)) in all files, "
                + "\(perEvent(result.writtenByteCount)) written")
        func line(_ title: String, _ values: [(name: String, value: UInt64)]) {
            let parts = values.map { "\($0.name) \(fixed(Double($0.value) / events, 2))" }
            Report.line(title, parts.joined(separator: ", "))
        }
        line("bytes written/event", result.writtenByKind)
        line("behind the log, ns/event", result.compactNanoseconds)
        Report.line(
            "generations",
            result.compactCounts.map { "\($0.name) \(grouped($0.value))" }
                .joined(separator: ", "))
        let blocks = max(1, result.log.blockCount)
        Report.line(
            "log",
            "\(grouped(result.log.blockCount)) blocks of "
                + "\(grouped(result.log.rowCount / blocks)) events, "
                + "\(grouped(result.log.commitCount)) commits, \(result.log.segmentCount) segments")
        let first = result.memory.first?.residentByteCount ?? 0
        let last = result.memory.last?.residentByteCount ?? 0
        Report.line(
            "daemon memory",
            "\(mebibytes(first)) at start, \(mebibytes(result.residentByteCountMax)) at most, "
                + "\(mebibytes(last)) at the end; "
                + "\(mebibytes(result.touchedByteCount)) touched before")
        Report.line("receive buffer", result.receiveBuffer)
        Report.line(
            "start and stop",
            "ready in \(fixed(result.readySeconds, 3)) s, stopped in \(fixed(result.stopSeconds, 3)) s"
        )
    }
}

/// `ingest-bench compare`: what a change of the daemon does to a load.
struct CompareCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare",
        abstract: "Two builds of the daemon under the same load, in turn: ratios by pair.",
        discussion: """
            A machine that others share is faster and slower by the minute, so that a figure of today says \
            nothing of one of yesterday; two runs beside each other do. Which is first changes with each \
            pair. What several pairs agree on is a difference.

                ingest-bench compare --with ../before/.build/release/ingestd --acks --rate 0
            """)

    @OptionGroup var mix: MixOptions
    @OptionGroup var offer: OfferOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(
        name: .customLong("with"),
        help: ArgumentHelp("The other daemon, what --daemon is held against.", valueName: "path"))
    var otherDaemon: String

    @OptionGroup var pairs: PairOptions

    /// What is compared.
    private static let figures:
        [(name: String, digits: Int, of: @Sendable (LoadRun.Result) -> Double)] = [
            ("durable events/s", 0, { $0.durableEventsPerSecond }),
            ("CPU ns/event", 1, { $0.cpuNanosecondsOfEvent }),
            ("bytes/event", 2, { Double($0.log.byteCount) / Double(max(1, $0.log.rowCount)) }),
            ("MiB at most", 0, { Double($0.residentByteCountMax) / Double(1 << 20) }),
            ("lost events", 0, { Double($0.lostEventCount) }),
        ]

    func validate() throws {
        guard FileManager.default.isExecutableFile(atPath: otherDaemon) else {
            throw ValidationError("--with \(otherDaemon) is no program")
        }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        Report.heading(Self.figures.map(\.name).joined(separator: ", "))
        var pool = mix.makePool()
        let results = try pairs.run { number, isFirst in
            var daemon = daemon
            if !isFirst { daemon.daemon = otherDaemon }
            let result = try offer.run(&pool, mix, daemon)
            Report.line(
                "pair \(number), \(isFirst ? "--daemon" : "--with")",
                Self.figures.map { grouped(fixed: $0.of(result), $0.digits) }
                    .joined(separator: ", "))
            return result
        }
        Report.heading("--daemon : --with, median of the pairs (least to greatest)")
        for figure in Self.figures.dropLast() {
            let ratios = results.map { figure.of($0.first) / figure.of($0.other) }.sorted()
            Report.line(
                figure.name,
                "\(fixed(median(ratios), 3)) (\(fixed(ratios[0], 3)) to \(fixed(ratios.last!, 3)))")
        }
    }
}

/// `ingest-bench ladder`: steps the offered rate until events are lost.
struct LadderCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ladder",
        abstract: "Find the highest offered rate at which nothing is lost, by stepping.",
        discussion: """
            Goes up by --step from --from until a run loses events (or the sender cannot keep its \
            schedule), then halves the distance --refine times. Each run has a daemon of its own; a rate \
            stands if all of its --runs lost nothing.
            """)

    @OptionGroup var mix: MixOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("The first rate, events per second.", valueName: "n"))
    var from = 1_000_000.0

    @Option(help: ArgumentHelp("The last rate to try.", valueName: "n"))
    var to = 8_000_000.0

    @Option(help: ArgumentHelp("How much faster each rung is.", valueName: "n"))
    var step = 500_000.0

    @Option(
        help: ArgumentHelp("Halvings between the last good and the first bad rate.", valueName: "n")
    )
    var refine = 2

    @Option(help: ArgumentHelp("Seconds of load a run.", valueName: "n"))
    var seconds = 10.0

    @Option(help: ArgumentHelp("Runs a rate.", valueName: "n"))
    var runs = 1

    func validate() throws {
        guard from > 0, to >= from, to.isFinite, step > 0, 0...86_400 ~= seconds, seconds > 0,
            runs > 0, refine >= 0
        else {
            throw ValidationError(
                "--from, --step, --seconds and --runs are above 0, --to is at least --from, --refine 0 or more"
            )
        }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        Report.heading(
            "offered/s, durable/s, lost, runs dropped by the kernel, late ms, CPU ns/event")
        var pool = mix.makePool()
        var good: Double?
        var bad: Double?
        var rate = from
        while bad == nil, rate <= to {
            if try holds(rate, &pool) { good = rate } else { bad = rate }
            rate += step
        }
        for _ in 0..<refine {
            guard let low = good, let high = bad else { break }
            let middle = (low + high) / 2
            if try holds(middle, &pool) { good = middle } else { bad = middle }
        }
        Report.heading("result")
        Report.line(
            "highest without loss", good.map { "\(grouped(Int($0))) events/s offered" } ?? "none")
        Report.line(
            "lowest with loss", bad.map { "\(grouped(Int($0))) events/s offered" } ?? "none")
    }

    /// Whether every run at this rate lost nothing and was offered as scheduled.
    private func holds(_ rate: Double, _ pool: inout PacketPool) throws -> Bool {
        for _ in 0..<runs {
            let result = try LoadRun(daemon: daemon, isSingly: mix.singly).run(
                &pool, eventCount: UInt64(rate * seconds), eventsPerSecond: rate)
            let columns = [
                grouped(Int(rate)), grouped(Int(result.durableEventsPerSecond)),
                "\(result.lostEventCount)", "\(result.kernelDropCount)",
                fixed(Double(result.sent.lagNanosecondsMax) / 1e6, 1),
                fixed(result.cpuNanosecondsOfEvent, 1),
            ]
            print("  " + columns.joined(separator: ", "))
            // A sender that ends more than a tenth late has not offered this rate.
            let isOffered = result.sent.eventsPerSecond > 0.9 * rate
            if !isOffered { print("  the sender could not offer \(grouped(Int(rate)))/s") }
            if result.lostEventCount != 0 || !isOffered { return false }
        }
        return true
    }
}
