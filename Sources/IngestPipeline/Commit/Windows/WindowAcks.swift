// packet → decode → ring → [admit → block] → segment → compaction → snapshot → query
// What flows back: the acks that are owed, with a block or at once, and the credit that they grant.
import IngestFormat

/// The acks that are owed with the open block.
struct DueAcks {
    /// Of windows, each once.
    var due: [Int] = []
    /// Of packets without a window.
    private(set) var others: [OutgoingAck] = []

    private static let otherCountMax = 1 << 10

    var isOwed: Bool { !due.isEmpty || !others.isEmpty }

    mutating func refuse(_ packet: SequencedPacket, _ status: AckStatus, currentEpoch: UInt64) {
        guard others.count < Self.otherCountMax else { return }
        let isOld = status == .refused && currentEpoch > packet.key.epoch.rawValue
        let epoch = isOld ? SenderEpoch(rawValue: currentEpoch) : packet.key.epoch
        let ack = OutgoingAck(
            status, sender: packet.key.sender, epoch: epoch, echo: packet.echo, to: packet.source)
        if let ack { others.append(ack) }
    }

    mutating func removeAll() {
        due.removeAll(keepingCapacity: true)
        others.removeAll(keepingCapacity: true)
    }

    /// Tells a sender that its epoch has ended: nothing more comes of it, and it needs no credit.
    /// - Parameter events: of the epoch, by verdict.
    mutating func confirmEnd(_ packet: SequencedPacket, events: [UInt64]) {
        guard others.count < Self.otherCountMax else { return }
        let ack = OutgoingAck(
            .ok, sender: packet.key.sender, epoch: packet.key.epoch, floor: packet.sequence,
            echo: packet.echo, sums: EventSums(events), to: packet.source)
        if let ack { others.append(ack) }
    }

    /// A window is gone, and the last one has its place now.
    mutating func remove(_ index: Int, andMove last: Int) {
        due.removeAll { $0 == index }
        for place in due.indices where due[place] == last { due[place] = index }
    }
}

extension AckStatus {
    /// Of what two packets of one commit are owed, what is said: a packet far away, which anybody may have sent, must not
    /// keep a sender from hearing what has arrived.
    func stronger(_ other: AckStatus) -> AckStatus {
        other.strength > strength ? other : self
    }

    private var strength: Int {
        switch self {
        case .unsupported: 0
        case .beyondWindow: 1
        case .ok: 2
        case .busy: 3
        case .diskFull: 4
        case .rolledBack: 5
        case .refused: 6
        }
    }
}

extension AdmittedWindows {
    /// Whether a sender waits for an ack.
    var owesAcks: Bool { acks.isOwed }

    /// Puts what is owed into the slot of the block that is being closed: once that is durable it is true.
    ///
    /// - Parameter durable: the last commit that is durable now.
    mutating func takeAcks(into list: inout AckList, durable: UInt64, _ now: StageTime) {
        guard acks.isOwed else { return }
        credit.look(at: &table.entries, now)
        for index in acks.due {
            let ack = ack(ofWindow: index, table.entries[index].status, before: nil)
            if let ack { list.append(ack, table.entries[index].window.sequences) }
            table.entries[index].note(closing: commitEpoch, durable: durable)
        }
        for other in acks.others { list.append(other) }
        acks.removeAll()
    }

    /// The answer to a heartbeat that waits for no block: of what is durable already, or that it is not yet. One that ends
    /// its epoch is answered with the block.
    ///
    /// - Parameters:
    ///   - list: several may gather in it: that their commit is a later one's says nothing wrong.
    ///   - durable: the last commit that is durable, read after the heartbeat was received.
    mutating func answer(
        _ packet: SequencedPacket, _ told: Heartbeat, at place: Place, into list: inout AckList,
        durable: UInt64, _ now: StageTime, _ ledger: inout BlockLedger
    ) {
        if end(packet, told, at: place, durable: durable, now, &ledger) { return }
        let index = place.index
        credit.look(at: &table.entries, now)
        let own = self.status(ofHeartbeat: packet, index, now)
        let isRolledBack = told.seen > table.entries[index].window.sequences.floor
        let before = table.entries[index].stateWhilePending(durable: durable)
        // The ack of the commit answers it again, when there is more to say.
        if before != nil { table.entries[index].note(answering: packet) }
        if isRolledBack { rolledBackCount += 1 }
        let status: AckStatus = own != .refused && isRolledBack ? .rolledBack : own
        let ack = ack(ofWindow: index, status, before: before, answering: packet)
        guard let ack else { return }
        list.commitEpoch = durable
        let window = table.entries[index].window.sequences
        list.append(ack, before == nil ? window : nil, upTo: packet.sequence)
    }

    /// The answer to a heartbeat of a sender whose window would begin here.
    func answer(
        _ packet: SequencedPacket, unopenedAt floor: UInt64, into list: inout AckList,
        durable: UInt64
    ) {
        let ack = OutgoingAck(
            .ok, sender: packet.key.sender, epoch: packet.key.epoch, floor: floor,
            credit: CreditPool.idleCount, echo: packet.echo, to: packet.source)
        guard let ack else { return }
        list.commitEpoch = durable
        list.append(ack)
    }

    /// - Parameters:
    ///   - before: what was durable before, where not all that has arrived is.
    ///   - packet: the only one that it answers; `nil`: those of the commit.
    private mutating func ack(
        ofWindow index: Int, _ status: AckStatus, before: AdmittedWindow.Durable?,
        answering packet: SequencedPacket? = nil
    ) -> OutgoingAck? {
        let granted = credit.grant(&table.entries[index])
        let state = before ?? AdmittedWindow.Durable(table.entries[index].window)
        let window = table.entries[index].window.sequences
        guard let source = packet?.source ?? table.entries[index].ackSource else { return nil }
        // What came already is not in flight.
        let arrived = window.floor - state.floor + window.arrivedAboveFloorCount
        return OutgoingAck(
            status, sender: table.entries[index].key.sender, epoch: table.entries[index].key.epoch,
            floor: state.floor,
            credit: status == .busy ? 0 : granted + Int(clamping: arrived),
            echo: packet?.echo ?? table.entries[index].echo, sums: state.sums,
            isPending: before != nil, to: source)
    }
}

/// How much all senders together may have on its way to the daemon: what the ring takes in without shedding, shared out by
/// demand. Owned by the commit queue.
///
/// A sender has demand for two seconds after a batch. It may have what it needs, four times as many packets as came from it
/// in the last second, so that it can grow; those that need more than an equal part share what the others leave. A sender
/// that only sends heartbeats takes nothing from the pool: it may begin with 64 packets.
///
/// Who has more than its part, because others came, gets less with its next answer. The sum of what is granted may pass the
/// pool by two packets a sender with demand: each of these gets as many at least.
///
/// What has lain in the ring all of the time since the last look, beyond `standingByteCountMax`, is credit that made acks
/// later and nothing faster: the pool gets smaller by so much, a quarter at most, and the next look lets that take effect.
/// Else it grows by an eighth, up to what the ring holds. So it is as large as disk and network need.
///
/// **Cost** A pass over all windows, five times a second at most.
struct CreditPool {
    private let byteCountMax: Int
    private var byteCount: Int
    /// The least that has waited in the ring at once since the last look.
    private var leastWaitingByteCount: Int?
    /// Whether the last look has made the pool smaller.
    private var isSettling = false
    private var grantedByteCount = 0
    /// Senders with demand.
    private var sharerCount = 0
    /// What those may have that need more than an equal part.
    private var levelByteCount: Int
    private var lookedAtNanoseconds: UInt64 = 0
    private var secondBeganNanoseconds: UInt64 = 0

    /// The least that a packet takes, which is what the kernel's buffer needs for an empty one, about.
    private static let packetByteCountMin = 768
    static let leastCount = 2
    /// Packets of a sender without demand: also what it may send before the first ack.
    static let idleCount = 64
    private static let needFactor = 4
    private static let lapseNanoseconds: UInt64 = 2_000_000_000
    private static let lookIntervalNanoseconds: UInt64 = 200_000_000
    private static let secondNanoseconds: UInt64 = 1_000_000_000
    /// Packets of about 20,000 events: the commit queue need not wait for senders that hear of a block.
    static let standingByteCountMax = 4 << 20
    /// An eighth of the pool is left at least, since senders without acks may be what fills the ring.
    static let leastDivisor = 8
    private static let growthDivisor = 8
    private static let shrinkDivisor = 4

    /// - Parameter byteCount: at most, and at first.
    init(byteCount: Int) {
        byteCountMax = byteCount
        self.byteCount = byteCount
        levelByteCount = byteCount
    }

    /// Notes how much waits in the ring; for each turn of the commit stage.
    mutating func note(waitingByteCount: Int) {
        leastWaitingByteCount = min(leastWaitingByteCount ?? .max, waitingByteCount)
    }

    /// Notes that a batch came: its sender has demand.
    mutating func note(batchOf entry: inout AdmittedWindow, _ now: StageTime) {
        entry.demand.batchNanoseconds = now.monotonicNanoseconds
        entry.demand.countNow += 1
        guard !entry.demand.isSharing else { return }
        entry.demand.isSharing = true
        sharerCount += 1
        // It takes what it needs, an equal part at most, from those that have more than theirs.
        levelByteCount = max(byteCount / sharerCount, levelByteCount - need(of: entry))
    }

    /// Grants a sender its part, in place of what it had.
    ///
    /// - Returns: packets of its size that it may have in flight; at most as many as a window holds.
    mutating func grant(_ entry: inout AdmittedWindow) -> Int {
        guard entry.demand.isSharing else { return Self.idleCount }
        grantedByteCount -= entry.demand.grantedByteCount
        let packetByteCount = max(entry.batchByteCount, Self.packetByteCountMin)
        // While the pool gets smaller, what others still have of the larger one is theirs until their next answer.
        let part = min(levelByteCount, byteCountMax - grantedByteCount, need(of: entry))
        let count = min(
            max(Self.leastCount, part / packetByteCount), Limits.windowSequenceCountMax)
        entry.demand.grantedByteCount = count * packetByteCount
        grantedByteCount += entry.demand.grantedByteCount
        return count
    }

    private func need(of entry: borrowing AdmittedWindow) -> Int {
        let count = max(entry.demand.countBefore, entry.demand.countNow, Self.leastCount)
        return Self.needFactor * count * max(entry.batchByteCount, Self.packetByteCountMin)
    }

    mutating func giveBack(_ entry: inout AdmittedWindow) {
        guard entry.demand.isSharing else { return }
        grantedByteCount -= entry.demand.grantedByteCount
        entry.demand = SenderDemand()
        sharerCount -= 1
    }

    /// Takes back what senders without batches were granted, and looks at what the others need; now and then.
    mutating func look(at entries: inout [AdmittedWindow], _ now: StageTime) {
        let time = now.monotonicNanoseconds
        guard time &- lookedAtNanoseconds >= Self.lookIntervalNanoseconds else { return }
        lookedAtNanoseconds = time
        let isNewSecond = time &- secondBeganNanoseconds >= Self.secondNanoseconds
        if isNewSecond { secondBeganNanoseconds = time }
        for index in entries.indices where entries[index].demand.isSharing {
            if time &- entries[index].demand.batchNanoseconds >= Self.lapseNanoseconds {
                giveBack(&entries[index])
            } else if isNewSecond {
                entries[index].demand.endSecond()
            }
        }
        fit()
        level(entries)
    }

    /// Makes the pool as large as is of use.
    private mutating func fit() {
        let excess = (leastWaitingByteCount ?? 0) - Self.standingByteCountMax
        leastWaitingByteCount = nil
        if isSettling {
            isSettling = false
        } else if excess > 0 {
            let smaller = byteCount - min(excess, byteCount / Self.shrinkDivisor)
            byteCount = max(smaller, byteCountMax / Self.leastDivisor)
            isSettling = true
        } else {
            byteCount = min(byteCount + byteCount / Self.growthDivisor, byteCountMax)
        }
    }

    /// Equal parts; what some do not need of theirs is for those that need more.
    private mutating func level(_ entries: borrowing [AdmittedWindow]) {
        let part = byteCount / max(1, sharerCount)
        var (spare, needyCount) = (0, 0)
        for index in entries.indices where entries[index].demand.isSharing {
            let need = need(of: entries[index])
            if need < part { spare += part - need } else { needyCount += 1 }
        }
        levelByteCount = min(byteCount, part + spare / max(1, needyCount))
    }
}

/// What a sender needs of the credit.
struct SenderDemand {
    /// What it was granted last, in bytes of the pool.
    var grantedByteCount = 0
    /// Whether a batch came in the last two seconds.
    var isSharing = false
    /// When the last batch came.
    var batchNanoseconds: UInt64 = 0
    /// Batches of this second, and of the one before.
    var countNow = 0
    var countBefore = 0

    mutating func endSecond() { (countBefore, countNow) = (countNow, 0) }
}
