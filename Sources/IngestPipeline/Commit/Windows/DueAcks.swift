// packet → decode → ring → [admit → block] → segment → compaction → snapshot → query
// What flows back: the acks that are due with a block, and the credit that they grant.
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
    mutating func confirmEnd(_ packet: SequencedPacket) {
        guard others.count < Self.otherCountMax else { return }
        let ack = OutgoingAck(
            .ok, sender: packet.key.sender, epoch: packet.key.epoch, floor: packet.sequence,
            echo: packet.echo, to: packet.source)
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
        let order: [AckStatus] = [.refused, .rolledBack, .diskFull, .busy, .ok, .beyondWindow]
        return order.first { $0 == self || $0 == other } ?? self
    }
}

/// How much all senders together may have on its way to the daemon: what the ring takes in without shedding, shared out
/// in equal parts among those that asked in the last two seconds.
///
/// Who has more than that, because there were fewer before, gets less with its next answer; until then a new one gets what is
/// left. The sum of what is granted passes the pool by a packet a sender at most: every sender gets at least one.
struct CreditPool {
    private let byteCount: Int
    private var grantedByteCount = 0
    /// Senders that asked, and were not silent since.
    private var shareCount = 0
    private var lapsedAtNanoseconds: UInt64 = 0

    /// The least that a packet takes, which is what the kernel's buffer needs for an empty one, about.
    private static let packetByteCountMin = 768
    /// Packets of a sender of which only heartbeats came: how large its batches are is not known.
    private static let unseenCountMax = 64
    private static let lapseNanoseconds: UInt64 = 2_000_000_000
    private static let lookIntervalNanoseconds: UInt64 = 200_000_000

    init(byteCount: Int) { self.byteCount = byteCount }

    /// Grants a sender its share, in place of what it had.
    ///
    /// - Returns: packets of its size that it may have in flight; at most as many as a window holds.
    mutating func grant(_ entry: inout AdmittedWindow) -> Int {
        grantedByteCount -= entry.grantedByteCount
        if !entry.isSharing {
            entry.isSharing = true
            shareCount += 1
        }
        let packetByteCount = max(entry.batchByteCount, Self.packetByteCountMin)
        let share = min(byteCount / shareCount, byteCount - grantedByteCount)
        let most =
            entry.batchByteCount > 0 ? Limits.windowSequenceCountMax : Self.unseenCountMax
        let count = min(max(1, share / packetByteCount), most)
        entry.grantedByteCount = count * packetByteCount
        grantedByteCount += entry.grantedByteCount
        return count
    }

    mutating func giveBack(_ entry: inout AdmittedWindow) {
        guard entry.isSharing else { return }
        grantedByteCount -= entry.grantedByteCount
        entry.grantedByteCount = 0
        entry.isSharing = false
        shareCount -= 1
    }

    /// Takes back what silent senders were granted; a pass over all, five times a second at most.
    mutating func lapse(_ entries: inout [AdmittedWindow], _ now: StageTime) {
        let time = now.monotonicNanoseconds
        guard time &- lapsedAtNanoseconds >= Self.lookIntervalNanoseconds else { return }
        lapsedAtNanoseconds = time
        for index in entries.indices where entries[index].isSharing {
            let silent = Int64(clamping: time) - entries[index].seenNanoseconds
            if silent >= Int64(Self.lapseNanoseconds) { giveBack(&entries[index]) }
        }
    }
}
