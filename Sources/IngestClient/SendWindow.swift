// packet → [window] → socket → ack → [window]

import IngestFormat

/// The packets of one sender epoch that are not final yet, in the order of their sequences: which of them
/// were sent when, which are durable, and which have to be sent again.
///
/// A pure value: no clock, no socket. Packets `base ..< nextSequence` are held; those below `sentEnd` were
/// sent at least once.
///
/// **Cost** A packet's bytes and 56 bytes beside them; an ack looks at each packet that is on its way once.
struct SendWindow: ~Copyable {
    struct Entry {
        /// The whole packet, tag and all; empty once it is done.
        var bytes: [UInt8]
        var eventCount: UInt32
        var sendCount: UInt16 = 0
        var isDone = false
        /// A later packet has arrived: do not wait for this one's ack any longer.
        var isOverdue = false
        /// When it was sent last; once it is done, when that was said, or 0 where another receiver had said it.
        var sentAt: UInt64 = 0
        /// As which of all sends.
        var sendNumber: UInt64 = 0
    }

    /// What an ack has changed.
    struct Change: Equatable {
        var ackedEvents: UInt64 = 0
        var ackedPackets: UInt64 = 0
        /// Of the acked events and packets those of which it is not known here that they were sent: an earlier
        /// process has sent them, or they left with a call that failed.
        var unsentEvents: UInt64 = 0
        var unsentPackets: UInt64 = 0
    }

    /// So many later sends have to arrive before a packet counts as lost and not as overtaken.
    static let overtakenCount: UInt64 = 3
    /// Between two bursts of resends.
    static let paceNanoseconds: UInt64 = 5_000_000

    /// The lowest sequence that is held.
    private(set) var base: UInt64
    /// The sequence of the next packet that is appended.
    private(set) var nextSequence: UInt64
    /// Below it everything was sent at least once.
    private(set) var sentEnd: UInt64
    /// Bytes of packets that are held.
    private(set) var byteCount = 0
    private(set) var roundTrip = RoundTrip()
    /// No packet's wait ends before this; `.max` while none is on its way.
    private(set) var nextWaitEnd = UInt64.max
    /// Whether a packet may be overdue.
    private(set) var hasOverdue = false
    /// Behind the greatest sequence that was acked.
    private(set) var ackedEnd: UInt64
    /// Behind what an earlier start has left.
    private(set) var leftEnd: UInt64 = 0
    /// Behind what was given to the network, whether or not it took all of it.
    private var attemptedEnd: UInt64 = 0
    private var sendNumber: UInt64 = 0
    /// The greatest send of which it is known that it arrived.
    private var arrivedNumber: UInt64 = 0
    /// A ring: sequence s is at s & (count - 1).
    private var ring: [Entry?]

    /// - Parameter firstSequence: of the first packet that is appended.
    init(firstSequence: UInt64) {
        base = firstSequence
        nextSequence = firstSequence
        sentEnd = firstSequence
        ackedEnd = firstSequence
        ring = Array(repeating: nil, count: 256)
    }

    var isEmpty: Bool { base == nextSequence }
    var packetCount: Int { Int(nextSequence - base) }

    /// The packet of a sequence; of one that is not held, one that is done.
    subscript(sequence: UInt64) -> Entry {
        guard sequence >= base, sequence < nextSequence, let entry = ring[place(sequence)] else {
            return Entry(bytes: [], eventCount: 0, isDone: true)
        }
        return entry
    }

    private func place(_ sequence: UInt64) -> Int { Int(sequence & UInt64(ring.count - 1)) }

    /// - Parameter isLeft: an earlier start may have sent it.
    mutating func append(_ bytes: [UInt8], eventCount: Int, isLeft: Bool = false) {
        if packetCount == ring.count { grow() }
        ring[place(nextSequence)] = Entry(bytes: bytes, eventCount: UInt32(eventCount))
        byteCount += bytes.count
        nextSequence += 1
        if isLeft { leftEnd = nextSequence }
    }

    /// Counts packets that are sent once and never held.
    mutating func pass(_ count: Int) {
        base += UInt64(count)
        nextSequence += UInt64(count)
        sentEnd += UInt64(count)
    }

    /// Behind what this start has given to the network; the base at least.
    var givenEnd: UInt64 { max(sentEnd, attemptedEnd) }

    /// Below it a receiver may have packets; from here on, none.
    var knownEnd: UInt64 { max(givenEnd, leftEnd) }

    /// Notes that the network is about to get packets below `end`. A burst can leave in part, and be acked, though
    /// its call fails.
    mutating func attempted(upTo end: UInt64) { attemptedEnd = max(attemptedEnd, end) }

    private mutating func grow() {
        var larger = [Entry?](repeating: nil, count: 2 * ring.count)
        for sequence in base..<nextSequence {
            larger[Int(sequence & UInt64(larger.count - 1))] = ring[place(sequence)]
        }
        ring = larger
    }

    /// Notes that a packet has left.
    ///
    /// - Returns: whether it had left before.
    mutating func sent(_ sequence: UInt64, now: UInt64) -> Bool {
        let at = place(sequence)
        sendNumber += 1
        ring[at]?.sentAt = now
        ring[at]?.sendNumber = sendNumber
        ring[at]?.isOverdue = false
        let sendCount = Int(ring[at]?.sendCount ?? 0) + 1
        ring[at]?.sendCount = UInt16(min(sendCount, 1 << 12))
        sentEnd = max(sentEnd, sequence + 1)
        nextWaitEnd = min(nextWaitEnd, now + roundTrip.wait(sendCount: sendCount))
        return sendCount > 1
    }

    /// The first packet that was never sent; `nil` if all were.
    mutating func firstUnsent() -> UInt64? {
        while sentEnd < nextSequence, ring[place(sentEnd)]?.isDone == true { sentEnd += 1 }
        return sentEnd < nextSequence ? sentEnd : nil
    }

    /// The sequences below `edge` that are to be sent again: overdue ones, and those whose wait has ended.
    /// Those from `edge` on are looked at again after `recheck`.
    mutating func due(now: UInt64, edge: UInt64, countMax: Int) -> [UInt64] {
        guard hasOverdue || now >= nextWaitEnd else { return [] }
        var found: [UInt64] = []
        nextWaitEnd = .max
        hasOverdue = false
        var sequence = base
        while sequence < min(sentEnd, edge) {
            if let entry = ring[place(sequence)], !entry.isDone {
                let end = entry.sentAt + roundTrip.wait(sendCount: Int(entry.sendCount))
                if !entry.isOverdue && now < end {
                    nextWaitEnd = min(nextWaitEnd, end)
                } else if found.count < countMax {
                    found.append(sequence)
                } else {
                    hasOverdue = true
                    nextWaitEnd = min(nextWaitEnd, now + Self.paceNanoseconds)
                }
            }
            sequence += 1
        }
        return found
    }

    /// Has the next `due` look at every packet.
    mutating func recheck() { if !isEmpty { nextWaitEnd = 0 } }
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
                guard ring[place(sequence)]?.isDone == true,
                    let ackedAt = ring[place(sequence)]?.sentAt, ackedAt > 0
                else { continue }
                earliest = min(earliest ?? .max, ackedAt)
            }
        }
        return earliest
    }

    /// Packets of the range that are held and not acked.
    func unackedCount(in range: Range<UInt64>) -> UInt64 {
        UInt64(range.clamped(to: base..<nextSequence).count { !self[$0].isDone })
    }

    /// Another receiver has acked nothing yet.
    mutating func forgetAcks() {
        ackedEnd = base
        for sequence in base..<nextSequence where ring[place(sequence)]?.isDone == true {
            ring[place(sequence)]?.sentAt = 0
        }
    }

    /// Takes over what an ack says of sequences: all below its floor, and those whose bit is set.
    ///
    /// - Parameter ack: of known sequences alone.
    mutating func apply(_ ack: borrowing AckView, now: UInt64) -> Change {
        var change = Change()
        var newest: (sentAt: UInt64, number: UInt64) = (0, 0)
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
        if newest.sentAt > 0, now > newest.sentAt { roundTrip.measured(now - newest.sentAt) }
        advance()
        markOverdue()
        return change
    }

    private mutating func finish(
        _ sequence: UInt64, _ now: UInt64, _ change: inout Change,
        _ newest: inout (sentAt: UInt64, number: UInt64)
    ) {
        let at = place(sequence)
        guard let entry = ring[at], !entry.isDone else { return }
        arrivedNumber = max(arrivedNumber, entry.sendCount == 1 ? entry.sendNumber : 0)
        if entry.sendCount == 1, entry.sendNumber > newest.number {
            newest = (entry.sentAt, entry.sendNumber)
        }
        change.ackedEvents += UInt64(entry.eventCount)
        change.ackedPackets += 1
        ackedEnd = max(ackedEnd, sequence + 1)
        if entry.sendCount == 0 {
            change.unsentEvents += UInt64(entry.eventCount)
            change.unsentPackets += 1
        }
        byteCount -= entry.bytes.count
        ring[at]?.sentAt = now
        ring[at]?.isDone = true
        ring[at]?.bytes = []
    }

    private mutating func advance() {
        while base < nextSequence, ring[place(base)]?.isDone == true {
            ring[place(base)] = nil
            base += 1
        }
        sentEnd = max(sentEnd, base)
        if isEmpty { nextWaitEnd = .max }
    }

    /// Packets are durable in the order in which they were admitted: one that is not, though others that
    /// were sent after it are, was lost, or overtaken.
    private mutating func markOverdue() {
        guard arrivedNumber > Self.overtakenCount else { return }
        for sequence in base..<sentEnd {
            let at = place(sequence)
            guard let entry = ring[at], !entry.isDone, !entry.isOverdue else { continue }
            if entry.sendNumber + Self.overtakenCount <= arrivedNumber {
                ring[at]?.isOverdue = true
                hasOverdue = true
            }
        }
    }
}

/// How long an ack takes, from send to receive, commit of the receiver and all, and so how long to wait
/// for one before the packet is sent again.
///
/// **Units** Nanoseconds.
/// **Source** RFC 6298: smoothed mean and deviation; what was sent twice is not measured (Karn).
struct RoundTrip: Sendable {
    /// Before anything was measured. A receiver that starts may take longer; a packet too many does no harm.
    static let waitFirst: UInt64 = 500_000_000
    /// An ack comes with a commit: some milliseconds, and a slow disk's flush on top.
    static let waitMin: UInt64 = 100_000_000
    static let waitMax: UInt64 = 5_000_000_000

    private var smoothed: UInt64?
    private var deviation: UInt64 = 0

    mutating func measured(_ sample: UInt64) {
        // A machine that slept is not a slow network.
        let sample = min(sample, Self.waitMax)
        guard let smoothed else {
            smoothed = sample
            deviation = sample / 2
            return
        }
        let distance = sample > smoothed ? sample - smoothed : smoothed - sample
        deviation = (3 * deviation + distance) / 4
        self.smoothed = (7 * smoothed + sample) / 8
    }

    /// The wait after a packet was sent for the `sendCount`-th time: twice as long each time.
    func wait(sendCount: Int) -> UInt64 {
        let first = smoothed.map { max(Self.waitMin, $0 + 4 * deviation) } ?? Self.waitFirst
        let doublings = UInt64(min(max(0, sendCount - 1), 16))
        return min(Self.waitMax, min(first, Self.waitMax) << doublings)
    }
}
