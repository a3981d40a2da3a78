// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query
import IngestFormat

/// Where the next block goes: segment, ordinal, commit epoch, chain. Owned by the commit queue; made by
/// recovery at start. The only place that decides when a segment ends.
struct LogCursor {
    /// Bounds of one segment, from the options and `Limits`.
    struct Bounds {
        var byteCountMax: Int
        var ageMicrosecondsMax: Int64 = 3_600_000_000
        var blockCountMax = Limits.rollBlockCount
        var rowCountMax = Limits.rollRowCount
        var nameByteCountMax = Limits.rollNameByteCount
        var senderCountMax = Limits.rollSenderCount
        var sequenceRangeCountMax = Limits.rollSequenceRangeCount
        var moneyMicrosMax = Limits.rollMoneyMicros
    }

    let directory: DirectoryID
    let shard: UInt16
    let bounds: Bounds
    /// The segment of the last block; the next block starts a new one if `isSegmentFull`.
    private(set) var segment: SegmentNumber
    private(set) var blockCount: UInt32 = 0
    private(set) var segmentByteCount = 0
    private(set) var commitEpoch: UInt64
    private(set) var previousChecksum: UInt32
    private var rowCount = 0
    /// Of names and keys that the segment introduced.
    private var nameByteCount = 0
    private var openedAt: Int64 = 0
    private var senders: Set<SenderKey> = []
    private var sequenceRangeCount = 0
    private var moneyMicros: UInt64 = 0
    private var isSegmentOpen = false

    init(start: LogStart, bounds: Bounds) {
        directory = start.directory
        shard = start.shard
        segment = start.lastSegment
        commitEpoch = start.commitEpoch
        previousChecksum = start.previousChecksum
        self.bounds = bounds
    }

    /// Bytes that the open segment may still take before it is full.
    var remainingByteCount: Int {
        isSegmentOpen ? max(0, bounds.byteCountMax - segmentByteCount) : bounds.byteCountMax
    }

    /// What the header of the next block says, and whether the block starts a segment.
    func next(
        admissionTime: Int64, nextName: UInt32, nextKey: UInt32
    ) -> (context: BlockContext, startsSegment: Bool) {
        let starts = !isSegmentOpen || isFull(at: admissionTime)
        let context = BlockContext(
            directory: directory, shard: shard, segment: starts ? segment.next : segment,
            blockOrdinal: starts ? 0 : blockCount, commitEpoch: commitEpoch,
            previousChecksum: previousChecksum, admissionTime: admissionTime,
            policyVersion: CountingPolicy.version, firstName: NameOrdinal(rawValue: nextName),
            firstKey: KeyOrdinal(rawValue: nextKey))
        return (context, starts)
    }

    private func isFull(at time: Int64) -> Bool {
        segmentByteCount >= bounds.byteCountMax || Int(blockCount) >= bounds.blockCountMax
            || rowCount >= bounds.rowCountMax || nameByteCount >= bounds.nameByteCountMax
            || time &- openedAt >= bounds.ageMicrosecondsMax
            || senders.count >= bounds.senderCountMax
            || sequenceRangeCount >= bounds.sequenceRangeCountMax
            || moneyMicros >= bounds.moneyMicrosMax
    }

    /// Moves past a block that was encoded for the place given by `next`.
    mutating func advance(past slot: BlockSlot, _ summary: BlockSummary) {
        if slot.startsSegment {
            segment = slot.context.segment
            blockCount = 0
            segmentByteCount = 0
            rowCount = 0
            nameByteCount = 0
            openedAt = slot.admissionTime
            senders.removeAll()
            sequenceRangeCount = 0
            moneyMicros = 0
            isSegmentOpen = true
        }
        blockCount += 1
        segmentByteCount += summary.byteCount
        rowCount += summary.rowCount
        moneyMicros += slot.rows.mark.moneyMicros
        nameByteCount +=
            slot.names.byteCount + slot.keys.count * MemoryLayout<RewardKey>.stride
        commitEpoch += 1
        previousChecksum = summary.headerChecksum
        for entry in slot.ledger {
            senders.insert(entry.key)
            sequenceRangeCount += entry.sequences.count
        }
    }
}

/// Where the log stands when the pipeline starts: after recovery, every segment is sealed.
package struct LogStart: Sendable {
    package var directory: DirectoryID
    package var shard: UInt16
    /// The highest segment number ever used; 0 in a new directory.
    package var lastSegment: SegmentNumber
    /// The next group commit's number.
    package var commitEpoch: UInt64
    /// Header checksum of the last block of the log; 0 in a new directory.
    package var previousChecksum: UInt32
    package var origin = DirectoryOrigin()
    /// The counting rules of this life.
    package var policy = CountingPolicy()
    /// When this start, or one before it since when nothing was sealed, found that the log had not been ended properly; 0 if
    /// it had.
    package var uncleanStopAt: Int64 = 0
    /// When this life began: its first segment is created then, before it has a block. No claim of an earlier life counts
    /// as newer.
    package var beganAt: Int64 = 0
    /// The ordinals that the first block begins with.
    package var firstName = NameOrdinal(rawValue: 1)
    package var firstKey = KeyOrdinal(rawValue: 0)
    /// Of all senders.
    package var windows: SenderWindows
    /// Admission time of the last block; 0 if there is none.
    package var lastAdmissionTime: Int64

    /// What a wall clock may differ from what it should show.
    static var stepMicrosecondsMax: Int64 { 5_000_000 }

    package init(
        directory: DirectoryID, shard: UInt16, lastSegment: SegmentNumber, commitEpoch: UInt64,
        previousChecksum: UInt32, windows: SenderWindows = SenderWindows(),
        lastAdmissionTime: Int64 = 0
    ) {
        self.directory = directory
        self.shard = shard
        self.lastSegment = lastSegment
        self.commitEpoch = commitEpoch
        self.previousChecksum = previousChecksum
        self.windows = windows
        self.lastAdmissionTime = lastAdmissionTime
    }

    /// The header of the first segment of this life.
    var segmentHeader: SegmentHeader {
        SegmentHeader(
            directory: directory, shard: shard, segment: lastSegment.next, createdAt: beganAt,
            previousChecksum: previousChecksum, firstName: firstName, firstKey: firstKey,
            commitEpoch: commitEpoch, origin: origin, uncleanStopAt: uncleanStopAt, policy: policy)
    }

    /// Whether a clock that shows this is behind the log, by more than clocks may differ.
    package func isAhead(of wallMicroseconds: Int64) -> Bool {
        Self.isAhead(lastAdmissionTime, of: wallMicroseconds)
    }

    /// The same of a log whose last block has this admission time.
    static func isAhead(_ lastAdmissionTime: Int64, of wallMicroseconds: Int64) -> Bool {
        lastAdmissionTime &- stepMicrosecondsMax > wallMicroseconds
    }
}
