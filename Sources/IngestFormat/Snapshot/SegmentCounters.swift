// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]

/// The counters of one segment in memory, by (key, day), folded from its blocks' rows: by the compact
/// queue while the segment lives, by recovery, and by the reader for the tail. Owned by one of them.
///
/// **Cost** That of `CounterSlots`: 64 bytes a (key, day) pair.
package final class SegmentCounters {
    /// What became of a block. Every outcome but `folded` left the counters as they were.
    package enum FoldOutcome: Hashable, Sendable {
        case folded
        /// A row whose attributes, or money below 0, or number of amounts cannot be: no decoder and no
        /// admission makes such.
        case invalidRow
        /// A key ordinal of `Limits.keyCountMax` or more.
        case keyBeyondLimit
        /// More than `Limits.segmentKeyDayCountMax` (key, day) pairs would be possible.
        case tooManyKeyDays
        /// More than `Limits.segmentRowCountMax` rows.
        case tooManyRows
        /// The revenue or the spend of the segment would not fit 64 bits.
        case moneyOverflow
    }

    private let table = CountingTable()
    var memory = CounterSlots()
    private var revenueSum: UInt64 = 0
    private var spendSum: UInt64 = 0
    /// Rows folded so far.
    package private(set) var rowCount: UInt64 = 0

    package init() {}

    /// Distinct (key, day) pairs so far.
    package var keyDayCount: Int { memory.slotCount - 1 }

    /// Adds the rows of one block: all of them or, with another outcome, none. Reads the columns key,
    /// day, attributes, revenue and spend.
    ///
    /// **Cost** About 3 ns a row while the slots are in cache; head and slot are prefetched, so that
    /// keys beyond it cost little more.
    package func fold(_ rows: BlockRows) -> FoldOutcome {
        let shape = BlockShape(rows)
        guard shape.isValid else { return .invalidRow }
        guard shape.keyMax < Limits.keyCountMax else { return .keyBeyondLimit }
        guard keyDayCount + rows.rowCount <= Limits.segmentKeyDayCountMax else {
            return .tooManyKeyDays
        }
        guard rowCount + UInt64(rows.rowCount) <= UInt64(Limits.segmentRowCountMax) else {
            return .tooManyRows
        }
        let (revenue, revenueOverflow) = revenueSum.addingReportingOverflow(shape.revenue)
        let (spend, spendOverflow) = spendSum.addingReportingOverflow(shape.spend)
        if revenueOverflow || spendOverflow || shape.moneyOverflows { return .moneyOverflow }
        revenueSum = revenue
        spendSum = spend
        rowCount += UInt64(rows.rowCount)
        memory.add(rows, shape, by: table)
        return .folded
    }

    /// Forgets everything; the memory stays.
    package func removeAll() {
        memory.removeAll()
        revenueSum = 0
        spendSum = 0
        rowCount = 0
    }

    /// The rows in order of (key, day). Valid until the next `fold` or `removeAll`.
    package func makeCursor() -> Cursor { Cursor(self) }

    /// The counters as a coded reward-days table.
    package func encodeTable() -> CounterTable {
        var encoder = CounterTableEncoder(hasDay: true)
        encoder.append(contentsOf: makeCursor())
        return encoder.finish()
    }
}
