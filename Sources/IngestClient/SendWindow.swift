// packet → [window] → socket → ack → [window]

import IngestFormat

/// The packets of one sender epoch that are not final yet, in the order of their sequences: which of them
/// are in flight, which are durable, and which were lost and have to be sent again.
///
/// A pure value: no clock, no socket. Packets `base ..< nextSequence` are held; those below `sentEnd` were
/// sent at least once, or passed over. Their bytes are in the spool; without one, here.
///
/// **Cost** 16 bytes a packet, 40 more from when it is sent until it is final, and without a spool its bytes; an ack looks at
/// what it calls durable, and where something is missing, at each packet from there on.
struct SendWindow: ~Copyable {
    /// **Layout** 16 bytes.
    struct Entry: Equatable, Sendable, BitwiseCopyable {
        /// In the spool, if there is one.
        var place = SpoolPlace()
        /// Without a tag.
        var byteCount: UInt16 = 0
        var eventCount: UInt16 = 0
        var sendCount: UInt16 = 0
        var state = State.waiting

        var isDone: Bool { state == .done }
    }

    enum State: UInt8 {
        /// Never sent.
        case waiting
        case inFlight
        /// To be sent again.
        case lost
        /// Durable at the receiver, or damaged: in either case never sent again.
        case done
    }

    /// What is known of a packet that was sent, or acked.
    private struct Flight: Sendable {
        /// Of the last time.
        var departure = CongestionControl.Departure()
        /// When it was said to be durable; 0 where another receiver had said it.
        var ackedAt: UInt64 = 0
    }

    /// What an ack has changed.
    struct Change {
        var ackedEvents: UInt64 = 0
        var ackedPackets: UInt64 = 0
        /// Of the acked events and packets those of which it is not known here that they were sent: an earlier
        /// process has sent them, or they left with a call that failed.
        var unsentEvents: UInt64 = 0
        var unsentPackets: UInt64 = 0
        var progress = CongestionControl.Progress()
        /// Of the packet that left last, of those that left once.
        var newest: CongestionControl.Departure?
    }

    /// The first packet leaves twice when it was lost so often; and one that begins so many that have left.
    private static let sendCountFirst: UInt16 = 4
    private static let sendCountMany: UInt16 = 3
    private static let manyCount: UInt64 = 4_096

    private var entries: SequenceArray<Entry>
    /// As far as any was sent or acked.
    private var flights: SequenceArray<Flight>
    /// Without a spool.
    private var packets: SequenceArray<[UInt8]>
    /// Below it everything was sent at least once, or passed over and is lost.
    private(set) var sentEnd: UInt64
    /// Bytes of packets that are held here, and not in a spool.
    private(set) var byteCount = 0
    /// Packets that are to be sent again, and where the first of them is at the earliest.
    private(set) var lostCount = 0
    private var lostFrom: UInt64 = 0
    /// Behind the greatest sequence that was acked.
    private(set) var ackedEnd: UInt64
    /// Behind what an earlier start of the epoch has left; `nil` = this start has begun it.
    private(set) var leftEnd: UInt64?
    /// Behind the greatest sequence whose packet was damaged; 0 = none was.
    private(set) var damagedEnd: UInt64 = 0
    /// Behind what was given to the network, whether or not it took all of it.
    private var attemptedEnd: UInt64 = 0
    /// The greatest sends of which it is known that they arrived, the greatest first.
    private var arrived: (UInt64, UInt64, UInt64) = (0, 0, 0)

    /// - Parameter left: in the spool; an earlier start may have sent them, or, `isContinued`, others. Damaged ones are done.
    init(left: SequenceArray<Entry>, isContinued: Bool = false) {
        entries = left
        flights = SequenceArray(start: left.start)
        packets = SequenceArray(start: left.start)
        sentEnd = left.start
        ackedEnd = left.start
        leftEnd = isContinued || !left.isEmpty ? left.end : nil
        for sequence in left.start..<left.end where left[sequence].isDone {
            damagedEnd = sequence + 1
        }
        advance()
    }

    /// The lowest sequence that is held.
    var base: UInt64 { entries.start }
    /// The sequence of the next packet that is appended.
    var nextSequence: UInt64 { entries.end }
    var isEmpty: Bool { entries.isEmpty }
    var packetCount: Int { Int(nextSequence - base) }

    /// The packet of a sequence; of one that is not held, one that is done.
    subscript(sequence: UInt64) -> Entry {
        guard sequence >= base, sequence < nextSequence else { return Entry(state: .done) }
        return entries[sequence]
    }

    /// The bytes of a packet that is held here.
    func bytes(of sequence: UInt64) -> [UInt8] { packets[sequence] }

    /// Appends a packet that lies in the spool.
    mutating func append(_ entry: Entry) { entries.append(entry) }

    /// Appends a packet that is to be kept here.
    mutating func append(_ bytes: [UInt8], eventCount: Int) {
        entries.append(
            Entry(
                byteCount: UInt16(clamping: bytes.count), eventCount: UInt16(clamping: eventCount)))
        packets.append(bytes)
        byteCount += bytes.count
    }

    /// Counts packets that are sent once and never held.
    mutating func pass(_ count: Int) {
        sentEnd += UInt64(count)
        entries.remove(below: sentEnd)
        packets.remove(below: sentEnd)
        flights.remove(below: sentEnd)
    }

    /// Behind what this start has given to the network; the base at least.
    var givenEnd: UInt64 { max(sentEnd, attemptedEnd) }

    /// Below it a receiver may have packets; from here on, none.
    var knownEnd: UInt64 { max(givenEnd, leftEnd ?? 0) }

    /// Notes that the network is about to get packets below `end`. A burst can leave in part, and be acked, though
    /// its call fails.
    mutating func attempted(upTo end: UInt64) { attemptedEnd = max(attemptedEnd, end) }

    /// Passes over a packet whose bytes can no longer be read.
    mutating func giveUp(_ sequence: UInt64) {
        if entries[sequence].state == .lost { lostCount -= 1 }
        entries[sequence].state = .done
        damagedEnd = max(damagedEnd, sequence + 1)
        advance()
    }

    private func flight(_ sequence: UInt64) -> Flight {
        sequence < flights.end ? flights[sequence] : Flight()
    }

    private mutating func setFlight(_ sequence: UInt64, _ body: (inout Flight) -> Void) {
        while flights.end <= sequence { flights.append(Flight()) }
        body(&flights[sequence])
    }

    /// Notes that a packet has left.
    ///
    /// - Returns: whether it had left before.
    mutating func sent(_ sequence: UInt64, _ departure: CongestionControl.Departure) -> Bool {
        if entries[sequence].state == .lost { lostCount -= 1 }
        entries[sequence].state = .inFlight
        setFlight(sequence) { $0.departure = departure }
        let sendCount = entries[sequence].sendCount + 1
        entries[sequence].sendCount = min(sendCount, 1 << 12)
        while sentEnd <= sequence {
            // One that was passed over for its size is as one that was lost.
            if entries[sentEnd].state == .waiting { markLost(sentEnd) }
            sentEnd += 1
        }
        return sendCount > 1
    }

    /// The first packet that was never sent; `nil` if all were.
    mutating func firstUnsent() -> UInt64? {
        while sentEnd < nextSequence, entries[sentEnd].isDone { sentEnd += 1 }
        return sentEnd < nextSequence ? sentEnd : nil
    }

    /// What is to be sent next: what was lost, below `edge`, and then what is new, below `newEdge`.
    ///
    /// - Parameter byteCountMax: of new packets: of lost ones that are larger one is enough, since they may never pass.
    mutating func next(
        edge: UInt64, newEdge: UInt64, countMax: Int, byteCountMax: Int = .max
    ) -> [UInt64] {
        var found: [UInt64] = []
        var hasLarge = false
        var sequence = max(lostFrom, base)
        var missing = lostCount
        while missing > 0, found.count < countMax, sequence < min(sentEnd, edge) {
            let isLarge = entries[sequence].byteCount > byteCountMax
            if entries[sequence].state == .lost, isLarge, hasLarge {
                missing -= 1
            } else if entries[sequence].state == .lost {
                hasLarge = hasLarge || isLarge
                found.append(sequence)
                if leavesTwice(sequence) { found.append(sequence) }
                missing -= 1
            } else if found.isEmpty {
                lostFrom = sequence
            }
            sequence += 1
        }
        guard let first = firstUnsent() else { return found }
        sequence = first
        while found.count < countMax, sequence < min(nextSequence, newEdge) {
            if !entries[sequence].isDone { found.append(sequence) }
            sequence += 1
        }
        return found
    }
}

// MARK: Acks

extension SendWindow {
    /// A sequence that the receiver says to have and that was never given to the network from here.
    func unknownSequence(in ack: borrowing AckView) -> UInt64? {
        if ack.floor > knownEnd { return ack.floor - 1 }
        for index in 0..<ack.wordCount {
            let bits = ack.word(index)
            if bits == 0 { continue }
            let last = UInt64(64 * index + 63 - bits.leadingZeroBitCount)
            let (sequence, isOutside) = ack.floor.addingReportingOverflow(last)
            if isOutside || sequence >= knownEnd { return isOutside ? .max : sequence }
        }
        return nil
    }

    /// When the first of those packets was acked that an ack does not have, as far as it tells of them; `nil` = it has all.
    func ackedTime(ofLackingIn ack: borrowing AckView) -> UInt64? {
        var earliest: UInt64?
        for index in 0..<ack.wordCount {
            let (first, isOutside) = ack.floor.addingReportingOverflow(UInt64(64 * index))
            if isOutside || first >= ackedEnd { break }
            let bits = ack.word(index)
            for sequence in max(first, base)..<max(first, base, min(first + 64, ackedEnd))
            where bits >> (sequence - first) & 1 == 0 {
                let ackedAt = flight(sequence).ackedAt
                guard entries[sequence].isDone, ackedAt > 0 else { continue }
                earliest = min(earliest ?? .max, ackedAt)
            }
        }
        return earliest
    }

    /// One that nobody has would keep others from being told of.
    private func leavesTwice(_ sequence: UInt64) -> Bool {
        let sendCount = entries[sequence].sendCount
        if sentEnd - sequence >= Self.manyCount { return sendCount >= Self.sendCountMany }
        return sequence == base && sendCount >= Self.sendCountFirst
    }

    /// Another receiver has acked nothing yet.
    mutating func forgetAcks() {
        ackedEnd = base
        for sequence in base..<max(base, flights.end) { flights[sequence].ackedAt = 0 }
    }

    /// Takes over what an ack says of sequences: all below its floor, and those whose bit is set.
    ///
    /// - Parameter ack: of known sequences alone.
    mutating func apply(_ ack: borrowing AckView, now: UInt64) -> Change {
        var change = Change()
        var newest = CongestionControl.Departure()
        var sequence = base
        let end = knownEnd
        while sequence < min(ack.floor, end) {
            finish(sequence, now, &change, &newest)
            sequence += 1
        }
        for index in 0..<ack.wordCount {
            var bits = ack.word(index)
            let (first, isOutside) = ack.floor.addingReportingOverflow(UInt64(64 * index))
            if isOutside || first >= end { break }
            while bits != 0 {
                let (sequence, isOutside) = first.addingReportingOverflow(
                    UInt64(bits.trailingZeroBitCount))
                bits &= bits - 1
                if !isOutside && sequence >= base && sequence < end {
                    finish(sequence, now, &change, &newest)
                }
            }
        }
        change.newest = newest.number > 0 ? newest : nil
        let known = Self.end(of: ack)
        // Packets become durable in the order in which they were admitted. One that is not, though three that left after it
        // are, was lost; fewer may have overtaken it.
        let number = arrived.2
        lose(upTo: min(known, ackedEnd), into: &change.progress) { $0.number < number }
        advance()
        return change
    }

    private mutating func finish(
        _ sequence: UInt64, _ now: UInt64, _ change: inout Change,
        _ newest: inout CongestionControl.Departure
    ) {
        let entry = entries[sequence]
        if entry.isDone { return }
        if entry.sendCount == 1 {
            let departure = flight(sequence).departure
            arrive(departure.number)
            if departure.number > newest.number { newest = departure }
        }
        change.ackedEvents += UInt64(entry.eventCount)
        change.ackedPackets += 1
        ackedEnd = max(ackedEnd, sequence + 1)
        if entry.sendCount == 0 {
            change.unsentEvents += UInt64(entry.eventCount)
            change.unsentPackets += 1
        } else {
            change.progress.durableCount += 1
            if entry.sendCount > 1 { change.progress.resent.durableCount += 1 }
        }
        if entry.state == .inFlight { change.progress.landedCount += 1 }
        if entry.state == .lost { lostCount -= 1 }
        entries[sequence].state = .done
        setFlight(sequence) { $0.ackedAt = now }
        if sequence < packets.end {
            byteCount -= packets[sequence].count
            packets[sequence] = []
        }
    }

    private mutating func arrive(_ number: UInt64) {
        if number > arrived.0 {
            arrived = (number, arrived.0, arrived.1)
        } else if number > arrived.1 {
            (arrived.1, arrived.2) = (number, arrived.1)
        } else {
            arrived.2 = max(arrived.2, number)
        }
    }

    private mutating func advance() {
        var base = base
        while base < nextSequence, entries[base].isDone { base += 1 }
        entries.remove(below: base)
        flights.remove(below: base)
        packets.remove(below: base)
        sentEnd = max(sentEnd, base)
    }

    /// What left before an answered heartbeat and is not durable, as far as the answer tells, was lost: also what had been
    /// sent again.
    ///
    /// - Parameter takesAll: also what the answer does not tell of, since nothing gets through.
    mutating func lose(
        sentBefore time: UInt64, known ack: borrowing AckView, takesAll: Bool = false,
        into progress: inout CongestionControl.Progress
    ) {
        lose(upTo: takesAll ? .max : Self.end(of: ack), into: &progress) { $0.at < time }
    }

    /// Takes everything in flight for lost.
    mutating func loseAll(into progress: inout CongestionControl.Progress) {
        lose(upTo: .max, into: &progress) { _ in true }
    }

    /// Behind the last sequence of which an ack tells anything.
    private static func end(of ack: borrowing AckView) -> UInt64 {
        let (end, isOutside) = ack.floor.addingReportingOverflow(UInt64(64 * ack.wordCount))
        return isOutside ? .max : end
    }

    private mutating func lose(
        upTo end: UInt64, into progress: inout CongestionControl.Progress,
        where isLost: (CongestionControl.Departure) -> Bool
    ) {
        var sequence = base
        while sequence < min(sentEnd, end) {
            if entries[sequence].state == .inFlight, isLost(flight(sequence).departure) {
                markLost(sequence)
                if entries[sequence].sendCount > 1 { progress.resent.lostCount += 1 }
                progress.lostCount += 1
            }
            sequence += 1
        }
    }

    private mutating func markLost(_ sequence: UInt64) {
        entries[sequence].state = .lost
        lostFrom = lostCount == 0 ? sequence : min(lostFrom, sequence)
        lostCount += 1
    }
}
