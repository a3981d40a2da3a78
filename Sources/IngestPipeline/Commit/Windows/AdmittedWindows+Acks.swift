// packet → decode → ring → [admit → block] → segment → compaction → snapshot → query
// What flows back: what the windows owe their senders, with a block or at once.
import IngestFormat

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
