// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// The windows of all sender epochs: says of each framed packet whether it is new, and what is owed to its
/// sender. Owned by the commit queue; the rules are those of docs/protocol.md.
///
/// What it decides goes into the ledger of the open block, so that the log makes the same windows again
/// (`SenderWindows`). What only memory knows is lost with the process and costs nothing but time: the credit granted.
///
/// **Cost** 10–20 ns a packet while packets of one sender follow each other, a dictionary look-up where they
/// change. Memory is bounded by `Limits.windowByteCountMax`.
struct AdmittedWindows: ~Copyable {
    /// What a window says to a packet.
    enum Verdict: Equatable {
        /// It is new: its events may be admitted, and then it is to be accepted.
        case new(Place)
        /// It is not consumed and counts as this; without a place its sender is not known.
        case refused(PacketResult, Place?)
    }

    /// Of a window; holds until the next packet is considered.
    struct Place: Equatable {
        let index: Int
    }

    var table = WindowTable()
    var expired: ExpiredEpochs
    /// Of which no batch came.
    var unopened = UnopenedSenders()
    var idle: IdleWindows
    var acks = DueAcks()
    var credit: CreditPool
    var quotas: KeyQuotas
    /// `nil`: senders are not authenticated.
    let keyRing: KeyRing?
    var sheds = ShedCounts()
    /// Heartbeats whose senders had heard of more than there is, since it was counted.
    var rolledBackCount: UInt64 = 0
    /// Of the block that is open, or is opened next.
    var commitEpoch: UInt64 = 0

    static var farJumpMin: UInt64 { 1 << 20 }
    static var reach: UInt64 { UInt64(Limits.windowSequenceCountMax) }

    /// - Parameters:
    ///   - windows: as the log has them.
    ///   - creditByteCount: what all senders together may have in flight.
    init(
        _ windows: SenderWindows, creditByteCount: Int, quotas: KeyQuotas.Bounds,
        keyRing: KeyRing?, now: StageTime
    ) {
        self.keyRing = keyRing
        self.quotas = KeyQuotas(quotas)
        expired = windows.expired
        idle = IdleWindows(start: now)
        credit = CreditPool(byteCount: creditByteCount)
        table.entries.reserveCapacity(windows.open.count)
        for (key, window) in windows.open {
            let silent = IdleWindows.silence(since: window.lastSeen, atStart: now)
            _ = table.add(
                AdmittedWindow(
                    key: key, window: window,
                    seenNanoseconds: now.signedNanoseconds - silent * 1_000))
            self.quotas.open(window.keyID)
        }
    }

    /// The window of a sender epoch, for tests.
    func window(of key: SenderKey) -> SenderWindow? {
        table.index(of: key).map { table.entries[$0].window }
    }

    // MARK: Packets

    /// Says whether a batch is new. Opens the window of a new sender epoch.
    ///
    /// - Parameter ledger: gets what changes in the window by this.
    mutating func consider(
        batch packet: SequencedPacket, _ now: StageTime, _ ledger: inout BlockLedger
    ) -> Verdict {
        let index: Int
        if let found = table.find(packet.key) {
            index = found
        } else {
            switch open(packet, now, &ledger) {
            case .window(let opened): index = opened
            case .refused(let result): return .refused(result, nil)
            }
        }
        let standing = table.entries[index].note(batch: packet, now)
        guard decideAcks(packet, index, &ledger) else {
            return refuse(packet, index, .badKind, now)
        }
        if packet.asksForAcks { credit.note(batchOf: &table.entries[index], now) }
        let sequence = packet.sequence
        if sequence > Limits.sequenceMax { return refuse(packet, index, .farJump, now) }
        switch standing.state {
        case .arrived:
            table.entries[index].run.end()
            if table.entries[index].window.isConflict(sequence, check: packet.check) {
                return refuse(packet, index, .sequenceConflict, now)
            }
            return refuse(packet, index, .resend, .ok)
        case .missing:
            table.entries[index].run.end()
            return refuse(packet, index, .belowFloor, .ok)
        case .open, .beyond:
            return considerAhead(packet, index, standing, now, &ledger)
        }
    }

    /// A sequence at or above the floor that has not arrived.
    private mutating func considerAhead(
        _ packet: SequencedPacket, _ index: Int, _ first: AdmittedWindow.Standing,
        _ now: StageTime, _ ledger: inout BlockLedger
    ) -> Verdict {
        let sequence = packet.sequence
        var standing = first
        if packet.asksForAcks {
            // Its sender says by its heartbeats what it has given up.
            if sequence - standing.floor >= Self.reach {
                return refuse(packet, index, .farJump, .beyondWindow)
            }
        } else if sequence >= standing.end && sequence - standing.end >= Self.farJumpMin {
            guard let low = table.entries[index].run.note(sequence, at: now.monotonicNanoseconds)
            else {
                return refuse(packet, index, .farJump, .beyondWindow)
            }
            raise(index, to: low, &ledger)
            standing = table.entries[index].standing(of: sequence)
        } else {
            table.entries[index].run.end()
        }
        if sequence - standing.floor >= Self.reach {
            raise(index, to: sequence - (Self.reach - 1), &ledger)
            standing = table.entries[index].standing(of: sequence)
        }
        guard table.hasMemory(toInsert: sequence, standing, at: index) else {
            if packet.asksForAcks {
                noteShedForRoom(table.entries[index].window.keyID)
                return refuse(packet, index, .shed, .busy)
            }
            // Who never resends is not held up by a hole.
            raise(index, to: sequence - (standing.bitCount - 1), &ledger)
            return .new(Place(index: index))
        }
        return .new(Place(index: index))
    }

    /// Whether the senders of the packet's key may give no names now.
    func lacksNames(_ packet: SequencedPacket, _ now: StageTime) -> Bool {
        !quotas.mayName(packet.source.provenKeyID, at: now.monotonicNanoseconds)
    }

    /// Counts what happened since the last call.
    mutating func flush(to counters: CounterGroup<CommitCounter>, _ state: StageLinks.SharedState) {
        counters.add(.rolledBackHeartbeats, rolledBackCount)
        rolledBackCount = 0
        sheds.flush(to: counters, state)
    }

    /// Takes names, or pairs of them, that a packet has given from what its key has left.
    mutating func take(names count: UInt32, of packet: SequencedPacket, _ now: StageTime) {
        quotas.take(Int(count), of: packet.source.provenKeyID, at: now.monotonicNanoseconds)
    }

    /// Sheds a batch that would open a window, while its key has no names left: nothing is claimed for it.
    mutating func shedUnknown(_ packet: SequencedPacket, _ now: StageTime) -> Bool {
        // Of an epoch that is over: to wait would help nothing.
        guard table.index(of: packet.key) == nil, !isOver(packet, now) else { return false }
        sheds.note(.names, of: packet.source.provenKeyID)
        unopened.noteShedForNames(packet)
        refuseUnknown(packet, .busy)
        return true
    }

    /// Sheds a new batch whose key has no names left: it is sent again.
    mutating func shed(_ packet: SequencedPacket, at place: Place) {
        sheds.note(.names, of: packet.source.provenKeyID)
        table.entries[place.index].isShedForNames = true
        _ = refuse(packet, place.index, .shed, .busy)
    }

    /// Takes a new batch as consumed: its rows and its sequence are in the open block.
    mutating func accept(_ packet: SequencedPacket, at place: Place) {
        if table.accept(packet, at: place.index, commit: commitEpoch) {
            acks.due.append(place.index)
        }
    }

    /// Adds what became of the events of the block that is being closed to the windows of their packets.
    mutating func add(eventsOf entries: [LedgerEntry]) {
        for entry in entries where entry.key.kind == .framed {
            guard let index = table.index(of: entry.key) else { continue }
            table.entries[index].window.add(events: entry.events)
        }
    }

    /// What becomes of a heartbeat.
    enum HeartbeatVerdict: Equatable {
        /// It is answered with the block: it has moved a window, or asks for no acks.
        case taken
        /// It has moved nothing, and is to be answered at once: see `answer`.
        case asks(Place)
        /// It is of a sender whose window would begin here, and is to be answered at once.
        case asksUnopened(floor: UInt64)
        case refused(PacketResult)
    }

    /// Takes a heartbeat: what was announced, and what its sender no longer holds. It opens no window.
    ///
    /// The base of a sender with acks makes no jump. One that has heard more than is known here moves nothing.
    mutating func consider(
        heartbeat packet: SequencedPacket, _ told: Heartbeat, _ now: StageTime,
        _ ledger: inout BlockLedger
    ) -> HeartbeatVerdict {
        guard told.base <= packet.sequence, packet.sequence <= Limits.sequenceMax + 1 else {
            return .refused(.malformed)
        }
        guard let index = table.find(packet.key) else {
            return considerUnopened(packet, told, now, &ledger)
        }
        if let asks = table.entries[index].window.asksForAcks, asks != packet.asksForAcks {
            refuseUnknown(packet, .refused)
            return .refused(.badKind)
        }
        table.entries[index].seenNanoseconds = now.signedNanoseconds
        let (floor, announced) = (
            table.entries[index].window.sequences.floor, table.entries[index].window.announced
        )
        var next = packet.sequence
        if packet.asksForAcks {
            if told.seen > floor { return .asks(Place(index: index)) }
            // It may hold any number of packets; the window need not know of all of them.
            next = min(next, max(announced, told.base) + Self.farJumpMin)
        } else if next > announced + Self.farJumpMin {
            let time = now.monotonicNanoseconds
            if table.entries[index].run.note(next, at: time) == nil { return .refused(.farJump) }
        } else {
            table.entries[index].run.end()
        }
        raise(index, to: told.base, &ledger)
        announce(index, next, &ledger)
        guard packet.asksForAcks else { return .taken }
        if floor == table.entries[index].window.sequences.floor {
            return .asks(Place(index: index))
        }
        owe(packet, index, status(ofHeartbeat: packet, index, now))
        return .taken
    }

    /// What an answer to a heartbeat says but for its window: whether the sender has to stop, or has to wait for names.
    func status(
        ofHeartbeat packet: SequencedPacket, _ index: Int, _ now: StageTime
    ) -> AckStatus {
        if table.entries[index].isRefused(now) { return .refused }
        return table.entries[index].isShedForNames && lacksNames(packet, now) ? .busy : .ok
    }

    /// A heartbeat of a sender that has no window.
    private mutating func considerUnopened(
        _ packet: SequencedPacket, _ told: Heartbeat, _ now: StageTime,
        _ ledger: inout BlockLedger
    ) -> HeartbeatVerdict {
        if isOver(packet, now) {
            refuseUnknown(packet, .refused)
            return .refused(.oldEpoch)
        }
        if quotaOfBeginning(packet, now) != nil {
            // Nor would its first batch open a window.
            refuseUnknown(packet, .busy)
            return .taken
        }
        if told.seen > unopened[packet]?.start ?? 0 {
            // What it has heard of was acked by another directory, or is gone with a part of this one.
            refuseUnknown(packet, .rolledBack)
            rolledBackCount += 1
            return .taken
        }
        let floor = unopened.note(packet, told)
        let lacks = unopened[packet]?.isShedForNames == true && lacksNames(packet, now)
        if lacks || !makeRoom(for: packet.source.provenKeyID, now, &ledger) {
            refuseUnknown(packet, .busy)
            return .taken
        }
        return packet.asksForAcks ? .asksUnopened(floor: floor) : .taken
    }

    mutating func announce(_ index: Int, _ next: UInt64, _ ledger: inout BlockLedger) {
        guard next > table.entries[index].window.announced else { return }
        table.entries[index].window.announce(next)
        var delta = WindowDelta()
        delta.announced = next
        ledger.add(delta, to: table.entries[index].key)
    }

    /// Ends an epoch where a heartbeat that moves nothing says that no more of it comes: its window is closed for good.
    ///
    /// Not while anything that was announced is not durable, nor by a heartbeat of before the last packets.
    /// - Returns: whether it has ended.
    mutating func end(
        _ packet: SequencedPacket, _ told: Heartbeat, at place: Place, durable: UInt64,
        _ now: StageTime, _ ledger: inout BlockLedger
    ) -> Bool {
        let index = place.index
        guard told.endsEpoch, told.seen <= packet.sequence,
            table.entries[index].window.asksForAcks == true,
            table.entries[index].isFinal(upTo: packet.sequence, durable: durable),
            !table.entries[index].isRefused(now), mayClose(packet.key, now)
        else { return false }
        let events = table.entries[index].window.events
        close(packet.key, &ledger)
        acks.confirmEnd(packet, events: events)
        return true
    }

    /// The first batch decides whether the epoch is acked; `false` for a packet of the other kind.
    private mutating func decideAcks(
        _ packet: SequencedPacket, _ index: Int, _ ledger: inout BlockLedger
    ) -> Bool {
        if let asks = table.entries[index].window.asksForAcks { return asks == packet.asksForAcks }
        table.entries[index].window.asksForAcks = packet.asksForAcks
        var delta = WindowDelta()
        delta.asksForAcks = packet.asksForAcks
        ledger.add(delta, to: packet.key)
        return true
    }

    /// Refuses a packet so that its sender has to stop. That counts in an answer to a heartbeat alone, so that the next
    /// ones say it again.
    private mutating func refuse(
        _ packet: SequencedPacket, _ index: Int, _ result: PacketResult, _ now: StageTime
    ) -> Verdict {
        if packet.asksForAcks { table.entries[index].note(refusal: now) }
        return refuse(packet, index, result, .refused)
    }

    private mutating func refuse(
        _ packet: SequencedPacket, _ index: Int, _ result: PacketResult, _ status: AckStatus
    ) -> Verdict {
        if packet.asksForAcks { owe(packet, index, status) }
        return .refused(result, Place(index: index))
    }

    private mutating func owe(_ packet: SequencedPacket, _ index: Int, _ status: AckStatus) {
        if table.entries[index].owe(packet, status, isNewBatch: false) { acks.due.append(index) }
    }

    mutating func raise(_ index: Int, to floor: UInt64, _ ledger: inout BlockLedger) {
        let missing = table.changeSize(of: index) { $0.window.raise(to: floor) }
        guard missing > 0 else { return }
        table.entries[index].note(commit: commitEpoch)
        var delta = WindowDelta()
        delta.floor = floor
        delta.missingCount = missing
        ledger.add(delta, to: table.entries[index].key)
    }
}
