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

    /// Whether no packet of the epoch may open a window: it has ended or expired, or begins in the future; or
    /// is 0, which no start has.
    ///
    /// What has ended under a key of before holds after its rotation: see `KeyRing.holdsEnds`.
    func isOver(_ packet: SequencedPacket, _ now: StageTime) -> Bool {
        expired.contains(packet.key, of: packet.source.provenKeyID) { other in
            keyRing?.holdsEnds(of: other, for: packet.key.sender) ?? true
        }
            || packet.key.epoch.rawValue == 0
            || packet.key.epoch.rawValue >> 20
                > now.wallMilliseconds &+ Limits.epochLeadMillisecondsMax
    }

    /// Answers a packet of a sender that has no window, or that is none of its window's.
    mutating func refuseUnknown(_ packet: SequencedPacket, _ status: AckStatus) {
        guard packet.asksForAcks else { return }
        // Of its own key alone: whoever has another must not learn the epochs of this one's senders.
        let (sender, keyID) = (packet.key.sender, packet.source.provenKeyID)
        let current = max(
            table.newestEpoch(of: sender, keyID) ?? 0, expired.newest(of: sender, of: keyID) ?? 0)
        acks.refuse(packet, status, currentEpoch: current)
    }
}

/// Senders of which only heartbeats came: where their windows will begin. Owned by the commit queue.
///
/// Known to memory alone, since nothing of them was taken. A heartbeat that there is no room for takes the place of that
/// sender of its key that was silent longest, which tells of itself again within a second; or, where its key has less than its
/// part of the places, of one of the key that has the most. So the heartbeats of a key turn out nobody else's senders: one that
/// is forgotten between its heartbeat and its first batch would begin at 0, and what it never sent would be missing.
///
/// **Layout** A list for each key, by the time of the last heartbeat, linked by places in an array of
/// `Limits.unopenedSenderCountMax` entries at most, and a dictionary of these places.
/// **Units** About 100 bytes a sender. **Cost** A dictionary look-up.
struct UnopenedSenders {
    /// What a sender has said.
    struct Told: Equatable {
        /// Whether its heartbeats ask for acks.
        let asksForAcks: Bool
        /// The first sequence of its window.
        var start: UInt64
        /// One more than the highest sequence that it has announced.
        var announced: UInt64
        /// Whether a batch was shed that would have opened its window, since its key had no names left.
        var isShedForNames = false
    }

    /// A sender epoch, and the key of its tag: what one tenant says of an epoch says nothing of another's.
    private struct Sender: Hashable {
        let key: SenderKey
        let keyID: UInt16

        init(_ packet: SequencedPacket) {
            (key, keyID) = (packet.key, packet.source.provenKeyID)
        }
    }

    private struct Entry {
        var sender: Sender
        var told: Told
        /// Places, −1 at the ends.
        var newer: Int
        var older: Int
    }

    /// The ends of a list.
    private struct OfKey {
        var newest = -1
        var oldest = -1
        var count = 0
    }

    private var entries: [Entry] = []
    private var places: [Sender: Int] = [:]
    private var ofKeys: [UInt16: OfKey] = [:]
    /// Places that are free.
    private var free: [Int] = []

    var count: Int { places.count }

    /// What a packet's sender has said in heartbeats that ask for acks if the packet does: those of the other kind say nothing
    /// of what it has given up.
    subscript(packet: SequencedPacket) -> Told? {
        guard let place = places[Sender(packet)],
            entries[place].told.asksForAcks == packet.asksForAcks
        else { return nil }
        return entries[place].told
    }

    /// Notes what a sender's heartbeat has said, whose base is at most its sequence.
    ///
    /// - Returns: where its window would begin.
    mutating func note(_ packet: SequencedPacket, _ heartbeat: Heartbeat) -> UInt64 {
        let next = packet.sequence
        var told = Told(
            asksForAcks: packet.asksForAcks, start: heartbeat.base, announced: next)
        var known = self[packet]
        told.isShedForNames = known?.isShedForNames ?? false
        if packet.asksForAcks {
            told.start = max(told.start, known?.start ?? 0)
            // It may hold any number of packets; a window need not know of all of them.
            told.announced = min(next, told.start + AdmittedWindows.farJumpMin)
        } else {
            // Nothing was taken: what was said before, if it was far away, counts for nothing.
            if let last = known, next > last.announced + AdmittedWindows.farJumpMin { known = nil }
            // 0 is no base: it holds nothing.
            let base = told.start > 0 ? told.start : next - min(next, AdmittedWindows.reach)
            told.start = known?.start ?? base
        }
        told.announced = max(told.announced, known?.announced ?? 0)
        set(Sender(packet), told)
        return told.start
    }

    /// Notes that a batch was shed that would have opened its window, since its key had no names left.
    mutating func noteShedForNames(_ packet: SequencedPacket) {
        if let place = places[Sender(packet)] { entries[place].told.isShedForNames = true }
    }

    private mutating func set(_ sender: Sender, _ told: Told) {
        let place: Int
        if let known = places[sender] {
            place = known
            unlink(place)
        } else {
            if places.count >= Limits.unopenedSenderCountMax { makeRoom(for: sender.keyID) }
            place = free.popLast() ?? entries.count
            let entry = Entry(sender: sender, told: told, newer: -1, older: -1)
            if place == entries.count { entries.append(entry) } else { entries[place] = entry }
            places[sender] = place
        }
        var own = ofKeys[sender.keyID] ?? OfKey()
        entries[place].told = told
        entries[place].newer = -1
        entries[place].older = own.newest
        if own.newest >= 0 { entries[own.newest].newer = place } else { own.oldest = place }
        own.newest = place
        own.count += 1
        ofKeys[sender.keyID] = own
    }

    private mutating func makeRoom(for keyID: UInt16) {
        let part = Limits.unopenedSenderCountMax / max(1, ofKeys.count)
        let own = ofKeys[keyID].flatMap { $0.count >= part ? $0 : nil }
        guard let list = own ?? ofKeys.values.max(by: { $0.count < $1.count }) else { return }
        remove(entries[list.oldest].sender)
    }

    /// Forgets a sender, whose window was opened.
    mutating func remove(_ packet: SequencedPacket) { remove(Sender(packet)) }

    private mutating func remove(_ sender: Sender) {
        guard let place = places.removeValue(forKey: sender) else { return }
        unlink(place)
        free.append(place)
    }

    private mutating func unlink(_ place: Int) {
        let (newer, older, keyID) = (
            entries[place].newer, entries[place].older, entries[place].sender.keyID
        )
        guard var own = ofKeys[keyID] else { return }
        if newer >= 0 { entries[newer].older = older } else { own.newest = older }
        if older >= 0 { entries[older].newer = newer } else { own.oldest = newer }
        own.count -= 1
        ofKeys[keyID] = own.count > 0 ? own : nil
    }
}
