import ArgumentParser
import Dispatch
import Foundation
import IngestClient
import IngestFormat
import Synchronization

/// `ingest-bench paths`: real senders and a real daemon with a network path between them.
struct PathsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paths",
        abstract:
            "Senders over paths of some rate, round trip and loss: goodput, and packets sent in vain.",
        discussion: """
            A row for each combination of --rates, --round-trips and --losses. Goodput is what was durable when the \
            time was up, beginning with the first packet, of what the bottleneck takes in that time; headers of \
            IPv4 and UDP count in both. "sent for one" is packets sent less those that the path lost at random, by \
            packets delivered. The queue holds what is on the way, 20 packets at least.
            """)

    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("Rates of the bottleneck, Mbit/s.", valueName: "n,…"))
    var rates = "2,10,100"

    @Option(help: ArgumentHelp("Round trips, milliseconds.", valueName: "n,…"))
    var roundTrips = "2,50,200"

    @Option(help: ArgumentHelp("Random loss either way, per cent.", valueName: "n,…"))
    var losses = "0,1,10,30"

    @Option(
        help: ArgumentHelp(
            "Seconds a row; 0 = 10, or 30 where the round trip is over 50 ms.", valueName: "n"))
    var seconds = 0.0

    @Option(help: ArgumentHelp("Senders that share the bottleneck.", valueName: "n"))
    var senders = 1

    @Option(
        help: ArgumentHelp(
            "Beside it so many senders that have sent one event each and only send heartbeats: each row without and "
                + "with them.", valueName: "n"))
    var idleSenders = 0

    @Option(
        help: ArgumentHelp(
            "After 5 s the path takes nothing for so long, then goes on: packets that came meanwhile, from a second "
                + "after the last ack on.", valueName: "n"))
    var blackHoleSeconds = 0.0

    @Option(help: ArgumentHelp("Seed of the losses.", valueName: "n"))
    var seed: UInt64 = 1

    func validate() throws {
        guard try numbers(rates).allSatisfy({ 0.01...100_000 ~= $0 }),
            try numbers(roundTrips).allSatisfy({ $0 <= 60_000 }),
            try numbers(losses).allSatisfy({ $0 < 100 }),
            0...86_400 ~= seconds, 0...86_400 ~= blackHoleSeconds
        else {
            throw ValidationError(
                "--rates are 0.01 to 100,000, --round-trips 0 to 60,000, --losses 0 to below 100, --seconds and "
                    + "--black-hole-seconds 0 to 86,400")
        }
        guard 1...4_096 ~= senders, 0...1_000_000 ~= idleSenders else {
            throw ValidationError("--senders is 1 to 4,096, --idle-senders 0 to 1,000,000")
        }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        Report.heading(
            "  Mbit/s     ms  loss %  lost %   goodput  sent for one  dropped %  least : most    s  exact"
        )
        var isExact = true
        for rate in try numbers(rates) {
            for roundTrip in try numbers(roundTrips) {
                for loss in try numbers(losses) {
                    let path = PathProxy.Path(
                        megabitsPerSecond: rate, roundTripMilliseconds: roundTrip,
                        lossPercent: loss)
                    for count in idleSenders > 0 ? [0, idleSenders] : [0] {
                        let row = try PathRun(path, command: self, idleCount: count).run()
                        print(row.line)
                        fflush(nil)
                        isExact = isExact && row.isExact
                    }
                }
            }
        }
        guard isExact else { throw BenchFailure("not every event was counted once") }
    }

    private func numbers(_ text: String) throws -> [Double] {
        guard !text.isEmpty else { throw ValidationError("a list of numbers is empty") }
        return try text.split(separator: ",").map { part in
            guard let number = Double(part), number >= 0, number.isFinite else {
                throw ValidationError("'\(part)' is not a number from 0 on")
            }
            return number
        }
    }
}

/// One row: a daemon of its own, a path, and senders.
struct PathRun {
    struct Row {
        let path: PathProxy.Path
        let goodput: Double
        let sentForOne: Double
        /// Of the batches: lost at random, and dropped at the queue.
        let lostShare: Double
        let droppedShare: Double
        /// Of the senders' parts, the least by the greatest.
        let evenness: Double
        let seconds: Double
        let isExact: Bool
        let note: String

        var line: String {
            func column(_ value: Double, _ digits: Int, _ width: Int) -> String {
                let text = fixed(value, digits)
                return String(repeating: " ", count: max(0, width - text.count)) + text
            }
            return column(path.megabitsPerSecond, 0, 8) + column(path.roundTripMilliseconds, 0, 7)
                + column(path.lossPercent, 0, 8) + column(100 * lostShare, 1, 8)
                + column(goodput, 3, 10) + column(sentForOne, 3, 14)
                + column(100 * droppedShare, 2, 11) + column(evenness, 2, 14)
                + column(seconds, 0, 5) + (isExact ? "    yes" : "     NO") + note
        }
    }

    private static let holeAfterSeconds = 5.0
    private let path: PathProxy.Path
    private let command: PathsCommand
    private let idleCount: Int

    init(_ path: PathProxy.Path, command: PathsCommand, idleCount: Int) {
        (self.path, self.command, self.idleCount) = (path, command, idleCount)
    }

    private var seconds: Double {
        if command.blackHoleSeconds > 0 { return command.blackHoleSeconds + 20 }
        return command.seconds > 0
            ? command.seconds : path.roundTripMilliseconds > 50 ? 30 : 10
    }

    func run() throws -> Row {
        let directory = try command.daemon.makeScratch()
        let process = try command.daemon.start(in: directory)
        let idle = try IdleSenders(count: idleCount, to: process.address)
        let proxy = try PathProxy(path, to: process.address, seed: command.seed)
        let onTheWay = path.bytesPerNanosecond * path.roundTripMilliseconds * 1e6
        var load = PathLoad(address: proxy.address, seconds: seconds)
        // What a path holds with its queue, and what waits for acks of lost packets.
        load.unackedByteCountMax = max(1 << 20, min(64 << 20, Int(8 * onTheWay)))
        let loads = Array(repeating: load, count: command.senders)
        var note = ""
        let results = try PathLoad.run(loads) {
            if command.blackHoleSeconds > 0 { note = makeHole(proxy) }
        }
        proxy.stop()
        idle.stop()
        _ = try process.stop()
        let status = try LogFigures(directory)
        let sent = results.reduce(0) { $0 + $1.totals.eventsSent } + UInt64(idleCount)
        if idleCount > 0 { note += "   beside \(grouped(idleCount)) idle senders" }
        return row(results, proxy.figures, isExact: status.events[.counted] == sent, note)
    }

    private func row(
        _ results: [PathLoad.Figures], _ proxy: PathProxy.Figures, isExact: Bool, _ note: String
    ) -> Row {
        let batches = Double(max(1, proxy.batchCount))
        let byteCount = Double(proxy.batchByteCount) / batches
        let parts = results.map { $0.packetsPerSecond * byteCount }
        let sent = results.reduce(0) { $0 + Int($1.sentCount) }
        let delivered = max(1, results.reduce(0) { $0 + Int($1.packetCount) })
        return Row(
            path: path, goodput: parts.reduce(0, +) / (path.bytesPerNanosecond * 1e9),
            sentForOne: Double(sent - proxy.lostCount) / Double(delivered),
            lostShare: Double(proxy.lostCount) / batches,
            droppedShare: Double(proxy.droppedCount) / batches,
            evenness: parts.min()! / max(1, parts.max()!),
            seconds: results[0].seconds, isExact: isExact, note: note)
    }

    /// The first timer has fired within a second of the last ack.
    private func makeHole(_ proxy: PathProxy) -> String {
        Thread.sleep(forTimeInterval: Self.holeAfterSeconds)
        proxy.isBlackHole.store(true, ordering: .relaxed)
        let startedAt = SenderClock.monotonicNanoseconds()
        Thread.sleep(forTimeInterval: command.blackHoleSeconds)
        proxy.isBlackHole.store(false, ordering: .relaxed)
        let later = proxy.figures.swallowedAt.count { $0 > startedAt + 1_000_000_000 }
        return "   \(later) datagrams came into the hole after its first second"
    }
}

/// Senders that ask for acks, have sent one event each, and from then on only say each second that they are there: all from
/// one socket, since the daemon tells them apart by their ids.
final class IdleSenders: Sendable {
    private let identities: [SenderIdentity]
    private let transport: UDPTransport
    private let isStopped = Atomic(false)
    private let queue = DispatchQueue(label: "ingest-bench.idle")

    init(count: Int, to address: String) throws {
        transport = try UDPTransport(address: address)
        identities = (0..<count).map { _ in
            SenderIdentity(
                sender: SenderID(rawValue: .random(in: 1 ... .max)),
                epoch: SenderIdentity.epoch(
                    unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000, random: 0))
        }
        for identity in identities {
            send(Self.batch(of: identity))
            Thread.sleep(forTimeInterval: 0.000_2)
        }
        queue.async { [self] in run() }
    }

    func stop() {
        isStopped.store(true, ordering: .relaxed)
        queue.sync {}
    }

    private func run() {
        while !isStopped.load(ordering: .relaxed), !identities.isEmpty {
            for identity in identities where !isStopped.load(ordering: .relaxed) {
                send(Heartbeat(base: 1).packet(Self.header(.heartbeat, identity, sequence: 1)))
                Thread.sleep(forTimeInterval: 1 / Double(identities.count))
            }
        }
    }

    private func send(_ packet: [UInt8]) {
        try? transport.send(packet.span, segmentByteCount: packet.count)
    }

    private static func header(
        _ kind: PacketKind, _ identity: SenderIdentity, sequence: UInt64
    ) -> PacketHeader {
        PacketHeader(
            kind: kind, flags: PacketHeader.Flags.isAckWanted, sender: identity.sender,
            epoch: identity.epoch, sequence: PacketSequence(rawValue: sequence))
    }

    private static func batch(of identity: SenderIdentity) -> [UInt8] {
        var encoder = EventBatchEncoder(packetByteCountMax: 1_452)
        let event = AdEvent(
            .click, rewardID: "idle", businessID: "idle",
            timestampMicroseconds: Int64(SenderClock.unixNanoseconds() / 1_000))
        var texts: [UInt8] = []
        // SAFETY: the descriptor points into `texts`.
        if let descriptor = try? event.describe(into: &texts) {
            _ = unsafe texts.withUnsafeBytes { unsafe encoder.append(descriptor, from: $0) }
        }
        return encoder.seal(header(.batch, identity, sequence: 0), byteCountMin: 80)
    }
}
