// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

// Packets of sender epochs that have no window: it is opened, or they are told why not.

extension AdmittedWindows {
    enum Found {
        case window(Int)
        case refused(PacketResult)
    }

    /// Opens the window of a batch's sender epoch.
    mutating func open(
        _ packet: SequencedPacket, _ now: StageTime, _ ledger: inout BlockLedger
    ) -> Found {
        let (key, keyID) = (packet.key, packet.source.provenKeyID)
        if isOver(packet, now) {
            refuseUnknown(packet, .refused)
            return .refused(.oldEpoch)
        }
        let told = unopened[packet]
        guard let start = told?.start ?? start(ofBatch: packet), start <= Limits.sequenceMax else {
            refuseUnknown(packet, .beyondWindow)
            return .refused(.farJump)
        }
        if let quota = quotaOfBeginning(packet, now) {
            sheds.note(quota, of: keyID)
            refuseUnknown(packet, .busy)
            return .refused(.shed)
        }
        guard makeRoom(for: keyID, now, &ledger) else {
            noteShedForRoom(keyID)
            refuseUnknown(packet, .busy)
            return .refused(.shed)
        }
        unopened.remove(packet)
        quotas.open(keyID, at: now.monotonicNanoseconds)
        let window = SenderWindow(start: start, keyID: keyID, lastSeen: now.wallMicroseconds)
        var delta = WindowDelta()
        (delta.start, delta.keyID) = (start, keyID)
        ledger.add(delta, to: key)
        let index = table.add(
            AdmittedWindow(key: key, window: window, seenNanoseconds: now.signedNanoseconds))
        table.entries[index].note(commit: commitEpoch)
        if let told { announce(index, told.announced, &ledger) }
        return .window(index)
    }

    /// Why the packet's key may begin no epoch now, whatever windows it has; `nil` if it may.
    func quotaOfBeginning(_ packet: SequencedPacket, _ now: StageTime) -> KeyQuota? {
        let keyID = packet.source.provenKeyID
        if !expired.hasRoom(for: packet.key, of: keyID, at: now.wallMilliseconds) {
            return .endedEpochs
        }
        return quotas.mayBegin(keyID, at: now.monotonicNanoseconds) ? nil : .epochs
    }

    /// Counts a packet for which there are no windows, or no memory of them: of its key, or of all.
    mutating func noteShedForRoom(_ keyID: UInt16) {
        if table.isFull || keyID == 0 {
            sheds.forRoom += 1
        } else {
            sheds.note(.windows, of: keyID)
        }
    }

    /// Where a window begins whose first packet is this batch; `nil` if that cannot be known.
    private func start(ofBatch packet: SequencedPacket) -> UInt64? {
        let sequence = packet.sequence
        if !packet.asksForAcks { return sequence - min(sequence, Self.reach - 1) }
        // A sender that asks for acks may still hold all that came before.
        return sequence < Self.reach ? 0 : nil
    }

    /// Whether no packet of the epoch may open a window: it has ended or expired, or begins in the future.
    ///
    /// What has ended under a key of before holds after its rotation: see `KeyRing.holdsEnds`.
    func isOver(_ packet: SequencedPacket, _ now: StageTime) -> Bool {
        expired.contains(packet.key, of: packet.source.provenKeyID) { other in
            keyRing?.holdsEnds(of: other, for: packet.key.sender) ?? true
        }
            || packet.key.epoch.rawValue >> 20
                > now.wallMilliseconds &+ Limits.epochLeadMillisecondsMax
    }

    /// Answers a packet of a sender that has no window.
    mutating func refuseUnknown(_ packet: SequencedPacket, _ status: AckStatus) {
        guard packet.asksForAcks else { return }
        // Of its own key alone: whoever has another must not learn the epochs of this one's senders.
        let (sender, keyID) = (packet.key.sender, packet.source.provenKeyID)
        let current = max(
            table.newestEpoch(of: sender, keyID) ?? 0, expired.newest(of: sender, of: keyID) ?? 0)
        acks.refuse(packet, status, currentEpoch: current)
    }
}
