// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// What is owed with the open block.
struct DueAnswers {
    /// Of windows, each once.
    var due: [Int] = []
    /// Of packets without a window.
    private(set) var refusals: [Answer] = []

    private static let refusalCountMax = 1 << 10

    var isOwed: Bool { !due.isEmpty || !refusals.isEmpty }

    mutating func refuse(_ packet: SequencedPacket, _ status: AckStatus, currentEpoch: UInt64) {
        guard refusals.count < Self.refusalCountMax else { return }
        let isOld = status == .refused && currentEpoch > packet.key.epoch.rawValue
        let epoch = isOld ? SenderEpoch(rawValue: currentEpoch) : packet.key.epoch
        let ack = AckPacket(
            sender: packet.key.sender, epoch: epoch, floor: PacketSequence(rawValue: 0), credit: 0,
            status: status)
        if let answer = Answer(ack, to: packet.source) { refusals.append(answer) }
    }

    mutating func removeAll() {
        due.removeAll(keepingCapacity: true)
        refusals.removeAll(keepingCapacity: true)
    }

    /// A window has another place now.
    mutating func move(_ index: Int, to newIndex: Int) {
        for place in due.indices where due[place] == index { due[place] = newIndex }
    }
}

extension AckStatus {
    /// Of what two packets of one commit are owed, what is said: a packet far away, which anybody may have sent, must not
    /// keep a sender from hearing what has arrived.
    func stronger(_ other: AckStatus) -> AckStatus {
        let order: [AckStatus] = [.refused, .diskFull, .busy, .ok, .beyondWindow]
        return order.first { $0 == self || $0 == other } ?? self
    }
}
