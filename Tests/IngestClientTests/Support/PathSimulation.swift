import TestSupport

@testable import IngestClient
@testable import IngestFormat

/// Senders that share one bottleneck, each with more to send than it takes, and the daemon behind it: deterministic from a
/// seed.
///
/// **Path** A rate, a delay, a queue of so many packets, and random loss either way; every datagram takes as much of it
/// as a packet of 1,452 bytes. It may swallow everything for a while, or all but heartbeats, become slower, or drop at once
/// what exceeds its rate.
/// **Daemon** Commits every 5 ms, an ack a commit and sender; its disk may stall. A heartbeat is answered at once. Its credit
/// is that of the pool of a daemon with room for all: four times what came in a second, eight packets at least.
final class PathSimulation {
    struct Path {
        var megabitsPerSecond: Double
        var roundTripMilliseconds: Double
        var lossPercent: UInt64 = 0
        /// Packets that wait at the bottleneck at most; as many as are on the way, 20 at least, unless it is set.
        var queueCount: Int?
        var blackHole: Range<UInt64> = 0..<0
        /// Takes data packets, and lets heartbeats through.
        var dataHole: Range<UInt64> = 0..<0
        /// From when on it has another rate.
        var change: (at: UInt64, megabitsPerSecond: Double)?
        /// Drops what exceeds the rate by more than so many packets, in place of a queue.
        var policedCount: Double?
        /// Of commits, one in so many takes 300 ms.
        var stallInterval: UInt64 = .max

        var packetNanoseconds: Double { 1_452 * 8_000 / megabitsPerSecond }
        var packetsPerSecond: Double { 1e9 / packetNanoseconds }
        var queueNanoseconds: Double {
            let onTheWay = roundTripMilliseconds * 1e6 / packetNanoseconds
            return Double(queueCount ?? max(20, Int(onTheWay))) * packetNanoseconds
        }
    }

    /// A sender, and what the daemon has of it.
    final class Flow {
        let network = SimulatedNetwork()
        var stream: SenderStream
        fileprivate var floor: UInt64 = 0
        fileprivate var above: Set<UInt64> = []
        fileprivate var admitted: Set<UInt64> = []
        fileprivate var isOwed = false
        fileprivate var demand = (now: 0, before: 0, second: UInt64(0), batchAt: UInt64(0))
        fileprivate(set) var durableCount = 0
        fileprivate(set) var sentCount = 0
        /// When data packets and heartbeats left.
        fileprivate(set) var departures: [UInt64] = []

        init(packetCount: UInt64, nonceSeed: UInt64?, now: UInt64) {
            var configuration = SenderStream.Configuration(identity: SampleEvents.identity())
            configuration.packetByteCountMax = 1_452
            let nonces = CountedNonces(seed: nonceSeed)
            configuration.makeNonce = { nonces.next() }
            stream = SenderStream(configuration, transport: network, spool: nil, now: now)
            for sequence in 0..<packetCount {
                var bytes = [UInt8](repeating: 0, count: 80)
                bytes[4] = 1
                bytes.put(sequence, at: 24)
                stream.window.append(bytes, eventCount: 1)
            }
            stream.timers.waitsSince = now
            stream.pump(now: now)
        }
    }

    private struct Datagram {
        let at: UInt64
        let flow: Int
        let bytes: [UInt8]
    }

    private(set) var path: Path
    private(set) var flows: [Flow] = []
    private(set) var now: UInt64 = 1_000_000_000
    private(set) var dropCount = 0
    private var random: SeededRandom
    private let nonceSeed: UInt64?
    private var freeAt = 1e9
    private var policed = (count: 0.0, at: UInt64(1_000_000_000))
    private var there: [Datagram] = []
    private var thereFirst = 0
    private var back: [Datagram] = []
    private var backFirst = 0
    private var commitAt: UInt64 = 1_005_000_000
    private var commitEpoch: UInt64 = 1

    /// - Parameter nonceSeed: heartbeats leave early or late by it; `nil` = at their times.
    init(
        _ path: Path, senderCount: Int = 1, packetCount: UInt64, seed: UInt64 = 1,
        nonceSeed: UInt64? = nil
    ) {
        self.path = path
        self.nonceSeed = nonceSeed
        random = SeededRandom(seed: seed)
        for _ in 0..<senderCount { join(packetCount: packetCount) }
    }

    /// One more sender begins.
    func join(packetCount: UInt64) {
        let seed = nonceSeed.map { 64 * $0 + UInt64(flows.count) }
        flows.append(Flow(packetCount: packetCount, nonceSeed: seed, now: now))
    }

    func run(seconds: Double) {
        let end = now + UInt64(seconds * 1e9)
        while now < end {
            for flow in flows.indices { carry(flow) }
            let arrival = thereFirst < there.count ? there[thereFirst].at : .max
            let answer = backFirst < back.count ? back[backFirst].at : .max
            let deadline = flows.map { $0.stream.nextDeadline }.min() ?? .max
            now = max(now, min(arrival, answer, deadline, commitAt))
            if now == commitAt {
                commit()
            } else if now >= arrival {
                arrive(there[thereFirst])
                thereFirst += 1
            } else if now >= answer {
                let datagram = back[backFirst]
                backFirst += 1
                flows[datagram.flow].stream.receive(datagram.bytes.span, now: now)
            } else {
                for flow in flows where flow.stream.nextDeadline <= now {
                    flow.stream.tick(now: now)
                }
            }
        }
    }

    private func isLost() -> Bool {
        path.blackHole.contains(now) || random.below(100) < path.lossPercent
    }

    private var delay: UInt64 { UInt64(path.roundTripMilliseconds * 500_000) }

    private func carry(_ index: Int) {
        for bytes in flows[index].network.take() {
            flows[index].departures.append(now)
            if bytes[4] == 1 {
                flows[index].sentCount += 1
                if path.dataHole.contains(now) { continue }
            }
            guard passes() else {
                dropCount += 1
                continue
            }
            if isLost() { continue }
            there.append(Datagram(at: UInt64(freeAt) + delay, flow: index, bytes: bytes))
        }
    }

    /// Takes a place at the bottleneck.
    private func passes() -> Bool {
        if let change = path.change, now >= change.at {
            path.megabitsPerSecond = change.megabitsPerSecond
            path.change = nil
        }
        guard let countMax = path.policedCount else {
            guard freeAt - Double(now) <= path.queueNanoseconds else { return false }
            freeAt = max(freeAt, Double(now)) + path.packetNanoseconds
            return true
        }
        freeAt = Double(now)
        policed.count += Double(now - policed.at) / path.packetNanoseconds
        policed = (min(countMax, policed.count), now)
        guard policed.count >= 1 else { return false }
        policed.count -= 1
        return true
    }

    // MARK: The daemon

    private func arrive(_ datagram: Datagram) {
        let flow = flows[datagram.flow]
        let sequence = (0..<8).reduce(UInt64(0)) {
            $0 | UInt64(datagram.bytes[24 + $1]) << (8 * UInt64($1))
        }
        if let told = datagram.bytes.withUnsafeBytes({ Heartbeat(ofPacket: $0) }),
            datagram.bytes[4] == 2
        {
            return answer(datagram.flow, datagram.bytes.count, told, upTo: sequence)
        }
        flow.isOwed = true
        let second = now / 1_000_000_000
        if second != flow.demand.second {
            let isNext = second == flow.demand.second + 1
            flow.demand = (0, isNext ? flow.demand.now : 0, second, now)
        }
        (flow.demand.now, flow.demand.batchAt) = (flow.demand.now + 1, now)
        if sequence >= flow.floor, !flow.above.contains(sequence) { flow.admitted.insert(sequence) }
    }

    private func commit() {
        let isStalled = path.stallInterval != .max && random.below(path.stallInterval) == 0
        commitAt = now + (isStalled ? 300_000_000 : 5_000_000)
        for (index, flow) in flows.enumerated() where flow.isOwed {
            flow.isOwed = false
            flow.durableCount += flow.admitted.count
            flow.above.formUnion(flow.admitted)
            flow.admitted = []
            while flow.above.remove(flow.floor) != nil { flow.floor += 1 }
            answer(index, 1_452, nil)
        }
        commitEpoch += 1
    }

    /// - Parameter end: it tells of all below it, as far as words fit.
    private func answer(
        _ index: Int, _ byteCount: Int, _ told: Heartbeat?, upTo end: UInt64 = 0
    ) {
        let flow = flows[index]
        let need = 4 * max(flow.demand.now, flow.demand.before, 2)
        let grant = now < flow.demand.batchAt + 2_000_000_000 ? min(need, 65_536) : 64
        var ack = AckPacket(
            sender: SampleEvents.identity().sender, epoch: SampleEvents.identity().epoch,
            floor: PacketSequence(rawValue: flow.floor), credit: UInt32(grant + flow.above.count))
        ack.commitEpoch = commitEpoch
        ack.echo = told.map { .nonce($0.nonce) } ?? .sequence(0)
        ack.isPending = told != nil && !flow.admitted.isEmpty
        let further =
            AckPacket.furtherWordCount(
                fitting: byteCount, hasTag: false, isAnswer: ack.isAnswer) ?? 0
        let end = max(flow.above.max() ?? 0, end, flow.floor)
        var words = [UInt64](repeating: 0, count: 1 + min(further, Int(end - flow.floor) / 64))
        for sequence in flow.above where !ack.isPending {
            let place = Int(sequence - flow.floor)
            if place < 64 * words.count { words[place / 64] |= 1 << UInt64(place % 64) }
        }
        if isLost() { return }
        back.append(
            Datagram(at: now + delay, flow: index, bytes: ModelReceiver.bytes(ack, words: words)))
    }
}
