// packet → decode → ring → [admit] → [block] → segment → compaction → snapshot → query

import IngestFormat

/// The ledger of the block being filled: what each sender epoch added since the block before.
/// Owned by the commit queue.
///
/// Packets of one sender that follow each other are a run: what they brought is added up, and goes to the sender's entry
/// when the run ends.
///
/// **Cost** Some nanoseconds a packet of a run; a dictionary look-up where another one begins. Memory grows with the senders
/// of one block only, bounded by its packets.
struct BlockLedger: ~Copyable {
    private var entries: [LedgerEntry] = []
    private var indexes: [SenderKey: Int] = [:]
    private var lastIndex = 0
    /// Of all entries together, before ranges that meet are merged.
    private var rangeCount = 0
    private var checkCount = 0

    // The run: of the sender whose entry is at `lastIndex`, and not in it yet.

    /// Its events by verdict.
    var tally = VerdictTally()
    private var packetCount: UInt64 = 0
    private var sequences: ClosedRange<UInt64>?

    /// Of the runs that have ended since `takeTally`.
    private var endedTally = VerdictTally()

    /// Whether it has sequences or floors: an ack of these must wait for it to be durable.
    private(set) var movesWindows = false

    var isEmpty: Bool { entries.isEmpty }

    /// Whether one more record fits the block, with an entry of its own, one for refusals, and one of a window that is
    /// closed for it.
    var hasRoom: Bool {
        entries.count + 3 <= Limits.blockSenderCountMax
            && rangeCount + (sequences == nil ? 0 : 1) < Limits.blockSequenceRangeCountMax
            && checkCount < Limits.blockCheckCountMax
    }

    /// Whether a window may be closed for its silence: that must not take the room of the record behind it.
    var hasRoomForExpiry: Bool { entries.count < Limits.blockSenderCountMax / 2 }

    /// The entry of a sender, whose run it is from then on: `lastIndex`.
    private mutating func indexOfRun(of key: SenderKey) -> Int {
        if lastIndex < entries.count, entries[lastIndex].key == key { return lastIndex }
        endRun()
        if let index = indexes[key] {
            lastIndex = index
            return index
        }
        lastIndex = entries.count
        entries.append(LedgerEntry(key: key))
        indexes[key] = lastIndex
        return lastIndex
    }

    mutating func addPackets(_ count: UInt64, _ result: PacketResult, from key: SenderKey) {
        let index = indexOfRun(of: key)
        entries[index].packets[Int(result.rawValue)] &+= count
    }

    /// Goes on with the run of a sender, or begins it: before `tally` gets the verdicts of one of its packets.
    @inline(__always)
    mutating func continueRun(of key: SenderKey) { _ = indexOfRun(of: key) }

    /// Adds an accepted packet of the sender whose run it is.
    ///
    /// - Parameter sequence: of a batch packet, each once. Order does not matter; they are put in order at `take`.
    @inline(__always)
    mutating func addAccepted(_ sequence: ArrivedSequence?) {
        packetCount &+= 1
        if let sequence { add(sequence) }
    }

    /// Adds a packet of which nothing could be used, but whose sequence is consumed.
    mutating func addMalformed(from key: SenderKey, _ sequence: ArrivedSequence) {
        addPackets(1, .malformed, from: key)
        add(sequence)
    }

    /// The entries so far, in the order in which their senders came.
    mutating func completeEntries() -> [LedgerEntry] {
        endRun()
        return entries
    }

    /// Puts what the run has brought into its sender's entry.
    private mutating func endRun() {
        if packetCount == 0 && sequences == nil { return }
        entries[lastIndex].packets[Int(PacketResult.accepted.rawValue)] &+= packetCount
        for code in 0..<VerdictTally.count where tally.counts[code] != 0 {
            entries[lastIndex].events[code] &+= UInt64(tally.counts[code])
        }
        endRange()
        endedTally.add(tally)
        tally = VerdictTally()
        packetCount = 0
    }

    /// Events by verdict since the last call.
    mutating func takeTally() -> VerdictTally {
        endRun()
        return exchange(&endedTally, with: VerdictTally())
    }

    /// Notes what happened to a window beside a sequence that arrived.
    mutating func add(_ delta: WindowDelta, to key: SenderKey) {
        entries[indexOfRun(of: key)].window.add(delta)
        movesWindows = movesWindows || delta.movesFloor
    }

    private mutating func add(_ arrived: ArrivedSequence) {
        movesWindows = true
        let value = arrived.sequence.rawValue
        entries[lastIndex].checks.append(arrived.check)
        checkCount += 1
        if let range = sequences, value > range.upperBound, value - range.upperBound == 1 {
            sequences = range.lowerBound...value
        } else {
            endRange()
            sequences = value...value
        }
    }

    private mutating func endRange() {
        guard let range = sequences else { return }
        sequences = nil
        let count = entries[lastIndex].sequences.count
        SequenceSet.append(range, to: &entries[lastIndex].sequences)
        rangeCount += entries[lastIndex].sequences.count - count
    }

    /// The entries in their order on disk, ranges merged; the ledger is empty afterwards.
    mutating func take() -> [LedgerEntry] {
        endRun()
        var taken = entries
        entries.removeAll(keepingCapacity: true)
        indexes.removeAll(keepingCapacity: true)
        lastIndex = 0
        (rangeCount, checkCount) = (0, 0)
        movesWindows = false
        taken.sort { $0.key < $1.key }
        for index in taken.indices {
            taken[index].putInOrder()
        }
        return taken
    }
}

extension LedgerEntry {
    /// Puts ranges, and the checks of their packets, that are as they came into the order of sequences.
    fileprivate mutating func putInOrder() {
        if zip(sequences, sequences.dropFirst()).allSatisfy({ $0.upperBound < $1.lowerBound }) {
            sequences = SequenceSet.merged(sequences)
            return
        }
        var slices: [(lower: UInt64, checks: ArraySlice<UInt16>)] = []
        var rest = checks[...]
        for range in sequences {
            let count = Int(range.upperBound - range.lowerBound) + 1
            slices.append((range.lowerBound, rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        checks = slices.sorted { $0.lower < $1.lower }.flatMap(\.checks)
        sequences = SequenceSet.merged(sequences)
    }
}

/// The sequence of a batch that is consumed, and 16 bits of its packet's bytes.
struct ArrivedSequence {
    let sequence: PacketSequence
    let check: UInt16
}

/// Events of one run, or of one turn, by verdict.
struct VerdictTally: ~Copyable {
    static let count = 16
    var counts = InlineArray<16, UInt32>(repeating: 0)

    @inline(__always)
    mutating func add(_ verdict: Verdict, _ count: UInt32 = 1) {
        counts[Int(verdict.rawValue)] &+= count
    }

    mutating func add(_ other: borrowing VerdictTally) {
        for code in 0..<Self.count { counts[code] &+= other.counts[code] }
    }
}

/// When the open block is due to be closed, and how long the commit stage may sleep until then. Times are monotonic, in
/// nanoseconds.
struct BlockPace {
    /// A block with rows or acks is no older than this when it is closed, unless the disk holds it up.
    let intervalNanoseconds: UInt64
    /// When the open block got its first row, or was opened.
    var openedAt: UInt64 = 0
    var closedAt: UInt64 = 0
    /// When the oldest entry of the ledger came.
    var ledgerAt: UInt64 = 0

    /// How long a block without rows may wait. Refusals are in the log within a second, of which the receive
    /// stage takes up to 200 ms before it hands them down.
    private static let ledgerIntervalNanoseconds: UInt64 = 700_000_000
    /// How long the stage may sleep through what comes.
    private static let gatherNanosecondsMax: UInt64 = 1_000_000
    private static let sleepNanosecondsMax: UInt64 = 100_000_000

    init(intervalNanoseconds: UInt64) { self.intervalNanoseconds = intervalNanoseconds }

    func isLedgerDue(_ now: UInt64) -> Bool { now &- ledgerAt >= Self.ledgerIntervalNanoseconds }

    /// Whether a block is due that holds something that its senders wait for.
    ///
    /// - Parameter waiting: blocks that are not synced yet.
    func isDue(_ now: UInt64, ringIsEmpty: Bool, waiting: Int) -> Bool {
        let wasIdle = now &- closedAt >= intervalNanoseconds
        if ringIsEmpty && waiting == 0 && wasIdle { return true }
        return waiting < 2 && now &- openedAt >= intervalNanoseconds
    }

    /// How long the stage may sleep while there are ledger entries alone.
    func ledgerWait(_ now: UInt64, waiting: Int) -> UInt64 {
        let age = now &- ledgerAt
        let interval = Self.ledgerIntervalNanoseconds
        if age < interval { return min(interval - age, Self.sleepNanosecondsMax) }
        // Due, but blocks may still be being written: the sync stage wakes this one.
        return waiting < 2 ? 1 : Self.sleepNanosecondsMax
    }

    /// How long the stage may sleep while there is nothing at all.
    var idleWait: UInt64 { Self.sleepNanosecondsMax }

    /// How long rows may gather before the block is looked at again.
    func gatherWait(_ now: UInt64, waiting: Int) -> UInt64 {
        let age = now &- (waiting == 0 ? closedAt : openedAt)
        // Due, but two blocks are still being written: look again soon.
        if age >= intervalNanoseconds { return 200_000 }
        return min(intervalNanoseconds - age, Self.gatherNanosecondsMax)
    }
}
