// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]

/// The counters of one segment in memory, by (key, day), folded from its blocks' rows: by the compact
/// queue while the segment lives, by recovery, and by the reader for the tail.
package final class SegmentCounters {
    /// What became of a block. Every outcome but `folded` left the counters as they were.
    package enum FoldOutcome: Hashable, Sendable {
        case folded
        /// A row whose attributes or money cannot be: no decoder or admission makes such.
        case invalidRow
        /// A key ordinal of `Limits.keyCountMax` or more.
        case keyBeyondLimit
        /// More (key, day) pairs than `Limits.segmentKeyDayCountMax` are possible after this block.
        case tooManyKeyDays
        /// More than 2^32 − 1 rows.
        case tooManyRows
        /// The money of the segment would not fit 64 bits.
        case moneyOverflow
    }

    package init() {}

    /// Adds the rows of one block: all of them or, with another outcome, none.
    ///
    /// **Cost** About 5 ns a row in cache.
    package func fold(_ rows: BlockRows) -> FoldOutcome { fatalError("being written") }

    /// Distinct (key, day) pairs so far.
    package private(set) var keyDayCount = 0
    /// Rows folded so far.
    package private(set) var rowCount: UInt64 = 0
    /// Whether a further full block could be refused for `tooManyKeyDays` or `tooManyRows`: time to roll.
    package var isNearlyFull: Bool { false }

    /// Forgets everything; the memory stays.
    package func removeAll() {}

    /// The rows in order of (key, day). Valid until the next `fold` or `removeAll`.
    package func makeCursor() -> Cursor { Cursor(counters: self) }

    package struct Cursor: CounterPageSource {
        let counters: SegmentCounters
        package mutating func nextPage(into page: CounterPage) throws(Never) -> Bool {
            fatalError("being written")
        }
    }

    /// The counters as a coded reward-days table.
    package func encodeTable() -> CounterTable { fatalError("being written") }
}
