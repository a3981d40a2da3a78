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
        let order: [AckStatus] = [.refused, .rolledBack, .diskFull, .busy, .ok, .beyondWindow]
        return order.first { $0 == self || $0 == other } ?? self
    }
}
