import ArgumentParser
import Foundation
import IngestClient
import IngestFormat
import IngestKeys
import IngestReader

/// `ingest-bench tenants`: what one tenant's floods do to another.
struct TenantsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tenants",
        abstract:
            "A tenant at a steady rate, alone and then beside another who floods: what it costs him.",
        discussion: """
            For each kind a daemon with two keys, each bound to a business. The flood has no more than half of the \
            rate that comes through where one thread sends it as fast as it can. Exit status 1 if a counter of the \
            other tenant is not what was sent, or verify finds a fault.
            """)

    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("Kinds of floods.", valueName: "kind,…"))
    var kinds = TenantFlood.Kind.allCases.map { $0.rawValue }.joined(separator: ",")

    @Option(help: ArgumentHelp("Packets of a flood.", valueName: "n"))
    var packets = 1_000_000

    @Option(
        help: ArgumentHelp(
            "Packets per second of a flood; 0 = half of what comes through.", valueName: "n"))
    var rate = 0.0

    @Option(help: ArgumentHelp("Events per second of the other tenant.", valueName: "n"))
    var goodRate = 50_000.0

    @Option(help: ArgumentHelp("Seconds that it sends alone.", valueName: "n"))
    var seconds = 5.0

    func validate() throws {
        guard 1...1_000_000_000 ~= packets, rate >= 0, rate.isFinite, goodRate > 0,
            goodRate.isFinite, seconds > 0, seconds <= 86_400
        else {
            throw ValidationError(
                "--packets is 1 or more, --rate 0 or more, --good-rate above 0, --seconds above 0 to 86,400"
            )
        }
    }

    func run() throws {
        let kinds = try kinds.split(separator: ",").map { text in
            guard let kind = TenantFlood.Kind(rawValue: String(text)) else {
                throw ValidationError("no kind of flood: '\(text)'")
            }
            return kind
        }
        Report.machine(directory: daemon.scratch)
        var isExact = true
        for kind in kinds {
            Report.heading(kind.rawValue)
            let run = try TenantRun(kind, command: self)
            isExact = try run.run() && isExact
        }
        guard isExact else {
            throw BenchFailure("a counter of the other tenant is not what was sent")
        }
    }
}

/// One flood: a daemon of its own, the tenant alone, the same beside the flood.
private struct TenantRun {
    private static let businesses = (own: "flooder", other: "shop")
    private static let keys = (good: [UInt8](1...32), flood: [UInt8](101...132))
    private let kind: TenantFlood.Kind
    private let command: TenantsCommand
    private let directory: ScratchDirectory
    private let keysPath: String

    init(_ kind: TenantFlood.Kind, command: TenantsCommand) throws {
        (self.kind, self.command) = (kind, command)
        directory = try command.daemon.makeScratch()
        keysPath = directory.path + ".keys"
    }

    func run() throws -> Bool {
        try writeKeys()
        defer { try? FileManager.default.removeItem(atPath: keysPath) }
        let rate = command.rate > 0 ? command.rate : try takenPerSecond() / 2
        let process = try start(in: directory)
        let alone = try good(process, seconds: command.seconds).run()
        let before = try ProcessFigures(processID: process.processID)
        var flood = TenantFlood(
            kind, key: PacketKey(id: 2, key: Self.keys.flood), businesses: Self.businesses)
        var flooded = TenantFlood.Figures()
        let beside = try PathLoad.run(
            [good(process, seconds: Double(command.packets) / rate)],
            beside: {
                flooded = try flood.send(
                    command.packets, to: process.address, packetsPerSecond: rate)
            })[0]
        let drops = kernelDropCount(port: HostPort(process.address)?.port ?? 0)
        let after = try ProcessFigures(processID: process.processID)
        _ = try process.stop()
        report(flooded, drops: drops, memory: (before, after))
        return try report(alone, beside)
    }

    private func start(in directory: ScratchDirectory) throws -> DaemonProcess {
        var daemon = command.daemon
        daemon.daemonOption.append("--keys=\(keysPath)")
        return try daemon.start(in: directory)
    }

    private func good(_ process: DaemonProcess, seconds: Double) throws -> PathLoad {
        var load = PathLoad(address: process.address, seconds: seconds)
        load.eventsPerSecond = command.goodRate
        load.unackedByteCountMax = 64 << 20
        load.business = Self.businesses.other
        load.key = try EventSender.Key(id: 1, bytes: Self.keys.good)
        return load
    }

    private func writeKeys() throws {
        func line(_ id: Int, _ key: [UInt8], _ business: String) -> String {
            "\(id) \(key.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()) "
                + "business=\(business)\n"
        }
        let text =
            line(1, Self.keys.good, Self.businesses.other)
            + line(2, Self.keys.flood, Self.businesses.own)
        let isMade = FileManager.default.createFile(
            atPath: keysPath, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        guard isMade else { throw BenchFailure("\(keysPath) cannot be made") }
    }

    /// What came to a daemon of its own where one thread sent as fast as it could.
    private func takenPerSecond() throws -> Double {
        let directory = try command.daemon.makeScratch()
        let process = try start(in: directory)
        var flood = TenantFlood(
            kind, key: PacketKey(id: 2, key: Self.keys.flood), businesses: Self.businesses)
        let sent = try flood.send(to: process.address, packetsPerSecond: 0, seconds: 2)
        let dropped = kernelDropCount(port: HostPort(process.address)?.port ?? 0)
        _ = try process.stop()
        // It goes with the last use.
        withExtendedLifetime(directory) {}
        return Double(sent.packetCount - min(sent.packetCount, Int(dropped))) / sent.seconds
    }

    // MARK: Report

    private func report(
        _ flood: TenantFlood.Figures, drops: UInt64,
        memory: (before: ProcessFigures, after: ProcessFigures)
    ) {
        Report.line(
            "flood",
            "\(grouped(flood.packetCount)) packets at \(grouped(Int(flood.packetsPerSecond)))/s; "
                + "the kernel dropped \(grouped(drops))")
        Report.line(
            "daemon memory",
            "\(mebibytes(memory.before.residentByteCount)) before, "
                + "\(mebibytes(memory.after.residentByteCountMax)) at most, "
                + "\(mebibytes(memory.after.residentByteCount)) after")
    }

    private func report(_ alone: PathLoad.Figures, _ beside: PathLoad.Figures) throws -> Bool {
        let log = try LogFigures(directory)
        Report.line("packets by result", list(log.packets))
        Report.line("events by verdict", list(log.events))
        func rate(_ figures: PathLoad.Figures) -> Double {
            Double(figures.eventCount) / max(1e-9, figures.seconds)
        }
        Report.line(
            "the other tenant",
            "\(grouped(Int(rate(alone))))/s alone, \(grouped(Int(rate(beside))))/s beside: "
                + fixed(rate(beside) / max(1, rate(alone)), 3)
                + "; sent again \(grouped(alone.totals.packetsResent)) and "
                + grouped(beside.totals.packetsResent),
            goal: "≥ 0.8")
        let sent = alone.totals.eventsSent + beside.totals.eventsSent
        let rows = try IngestReader.open(directory: directory.path)
            .days(DaysQuery(business: Self.businesses.other))
        let counted = rows.reduce(0) { $0 + $1.counters.impressions }
        let all = rows.reduce(0) { sum, row in
            sum + Counters.Kind.allCases.reduce(0) { $0 + row.counters.gross($1) }
        }
        let verify = try ProgramRun(
            DaemonOptions.besideThis("ingest-reader"), ["verify", "--data", directory.path])
        let isExact = counted == sent && all == sent && verify.exitCode == 0
        Report.line(
            "its counters",
            "\(grouped(counted)) of \(grouped(sent)) counted, \(grouped(all - counted)) others: "
                + (isExact ? "exact" : "NOT EXACT") + "; verify \(verify.exitCode)")
        return isExact
    }

    private func list<Key: NamedCode>(_ counts: [Key: UInt64]) -> String {
        Key.allCases.compactMap { key in
            counts[key].map { "\(key.name) \(grouped($0))" }
        }.joined(separator: ", ")
    }
}

/// What a tenant with a key of his own may send to harm others: packets that are right in every byte, from one thread.
struct TenantFlood {
    enum Kind: String, CaseIterable {
        /// Each of a sender that was never heard of.
        case heartbeats
        /// A batch of one event each, of one sender, under a greater epoch.
        case epochs
        /// Of one sender, an event each of a reward with a name not known before.
        case names
        /// Events of the greatest amounts that are taken, and of greater ones, in turn.
        case money
        /// Events of another tenant's business, and such that are too old, in turn.
        case refused
    }

    struct Figures {
        var packetCount = 0
        var seconds = 0.0
        var packetsPerSecond: Double { Double(packetCount) / max(1e-9, seconds) }
    }

    let kind: Kind
    let key: PacketKey
    /// Of the key, and of the other tenant.
    let businesses: (own: String, other: String)
    private var number: UInt64 = 0
    private var texts: [UInt8] = []
    private var encoder = EventBatchEncoder(packetByteCountMax: 1_452)
    private let sender = UInt64.random(in: 1 ... .max)
    private let epoch = SenderIdentity.epoch(
        unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000, random: 0)
    private let unixMicroseconds = Int64(SenderClock.unixNanoseconds() / 1_000)

    init(_ kind: Kind, key: PacketKey, businesses: (own: String, other: String)) {
        (self.kind, self.key, self.businesses) = (kind, key, businesses)
    }

    /// Sends so many, at this rate; 0 = as fast as it goes, for `seconds`.
    mutating func send(
        _ count: Int = .max, to address: String, packetsPerSecond: Double,
        seconds: Double = .infinity
    ) throws -> Figures {
        let transport = try UDPTransport(address: address)
        var figures = Figures()
        let startedAt = SenderClock.monotonicNanoseconds()
        while figures.packetCount < count, figures.seconds < seconds {
            let packet = try next()
            try transport.send(packet.span, segmentByteCount: packet.count)
            figures.packetCount += 1
            // In runs, so that a sleep costs no rate.
            guard figures.packetCount % 32 == 0 || figures.packetCount == count else { continue }
            if packetsPerSecond > 0 {
                let due = Double(figures.packetCount) / packetsPerSecond * 1e9
                SenderClock.sleep(untilMonotonicNanoseconds: startedAt + UInt64(due))
            }
            figures.seconds = Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
        }
        return figures
    }

    private mutating func next() throws -> [UInt8] {
        defer { number += 1 }
        var packet: [UInt8]
        switch kind {
        case .heartbeats:
            packet = Heartbeat(base: 0).packet(
                header(.heartbeat, sender: SeededRandom.mix(sender &+ number) | 1))
        case .epochs: packet = try batch(epoch: epoch.rawValue + number)
        case .names, .money, .refused: packet = try batch(sequence: number)
        }
        key.tag.append(to: &packet)
        return packet
    }

    private mutating func batch(epoch: UInt64? = nil, sequence: UInt64 = 0) throws -> [UInt8] {
        let isOdd = number % 2 == 1
        let isOthers = kind == .refused && isOdd
        var event = AdEvent(
            .redemption, rewardID: kind == .names ? "flood-\(sender)-\(number)" : "reward",
            businessID: isOthers ? businesses.other : businesses.own,
            timestampMicroseconds: unixMicroseconds)
        if kind == .refused && !isOdd { event.timestampMicroseconds -= 30 * 86_400_000_000 }
        if kind == .money {
            event.revenueMicros = isOdd ? Limits.moneyMicrosMax : 1_000_000 * 1_000_000
            event.spendMicros = event.revenueMicros
        }
        let descriptor = try event.describe(into: &texts)
        // SAFETY: the descriptor points into `texts`.
        _ = unsafe texts.withUnsafeBytes { unsafe encoder.append(descriptor, from: $0) }
        return encoder.seal(header(.batch, epoch: epoch, sequence: sequence), byteCountMin: 80)
    }

    private func header(
        _ kind: PacketKind, sender: UInt64? = nil, epoch: UInt64? = nil, sequence: UInt64 = 0
    ) -> PacketHeader {
        // Acks are asked for where they cost the receiver something: a window each.
        let isAcked = kind == .heartbeat || self.kind == .epochs
        return PacketHeader(
            kind: kind,
            flags: PacketHeader.Flags.hasTag | (isAcked ? PacketHeader.Flags.isAckWanted : 0),
            keyID: key.id, sender: SenderID(rawValue: sender ?? self.sender),
            epoch: SenderEpoch(rawValue: epoch ?? self.epoch.rawValue),
            sequence: PacketSequence(rawValue: sequence))
    }
}
