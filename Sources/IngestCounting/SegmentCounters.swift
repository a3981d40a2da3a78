// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
import CIngestLinux
import IngestFormat

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
    package func encodeTable() -> CounterTable { .encode(makeCursor()) }
}

// MARK: Slots to rows in order: keys are dense, so going through them is sorting.

extension SegmentCounters {
    /// Gives the counters in order of (key, day).
    ///
    /// **Cost** 15–20 ns a row, and a look at every key ordinal up to the largest.
    package struct Cursor: CounterPageSource {
        private let counters: SegmentCounters
        private var nextKey = 0
        /// Slots of a key with several days, by day, of which `pendingPlace` is the next.
        private var pending: [UInt32] = []
        private var pendingPlace = 0

        init(_ counters: SegmentCounters) { self.counters = counters }

        package mutating func nextPage(into page: CounterPage) throws(Never) -> Bool {
            counters.memory.beginPage(page)
            while page.rowCount < CounterPage.capacity {
                if pendingPlace < pending.count {
                    counters.memory.appendRow(pending[pendingPlace], to: page)
                    pendingPlace += 1
                } else if nextKey < counters.memory.headCount {
                    pending.removeAll(keepingCapacity: true)
                    pendingPlace = 0
                    counters.memory.appendKeys(from: &nextKey, to: page, several: &pending)
                } else {
                    break
                }
            }
            return page.rowCount > 0
        }
    }
}

extension CounterSlots {
    /// Empties the page and sets its rare columns to 0, as most rows leave them.
    func beginPage(_ page: CounterPage) {
        page.removeAll()
        for column in CountingTable.rareColumns { page.clear(column.rawValue) }
        page.open(offsets.written)
    }

    /// Adds the rows of keys from `key` on, until the page is full or a key has several days: its slots
    /// are then put in `several`, by day.
    func appendKeys(from key: inout Int, to page: CounterPage, several: inout [UInt32]) {
        let last = headCount - 1
        let (heads, slots) = unsafe (heads, slots)
        var target = RowTarget(page)
        while key <= last, target.hasRoom(1) {
            // SAFETY: keys up to `last` are inside heads, and heads lead to slots.
            unsafe ingest_prefetch(slots + Int(heads[min(key &+ 32, last)]))
            // What was fetched by then leads to the slot of the other day.
            let soon = unsafe slots + Int(heads[min(key &+ 16, last)])
            unsafe ingest_prefetch(slots + Int(soon.pointee.next))
            let slot = unsafe slots + Int(heads[key])
            let number = unsafe heads[key]
            key &+= 1
            guard number != 0 else { continue }
            let next = unsafe slot.pointee.next
            if next == number {
                unsafe append(slot, to: &target)
                continue
            }
            let other = unsafe slots + Int(next)
            guard unsafe other.pointee.next == number, target.hasRoom(2) else {
                collect(number, into: &several)
                break
            }
            // Two days are common, around midnight.
            let isFirst = unsafe slot.pointee.day < other.pointee.day
            unsafe append(isFirst ? slot : other, to: &target)
            unsafe append(isFirst ? other : slot, to: &target)
        }
        finish(target, page)
    }

    /// The row that the next slot goes to. A value that stays in registers, where each look at the page
    /// itself would be a checked access.
    @safe struct RowTarget {
        let order: UnsafeMutablePointer<UInt64>
        let values: UnsafeMutablePointer<UInt64>
        var row: Int
        var hasRare = false

        init(_ page: CounterPage) {
            unsafe order = page.order
            unsafe values = page.values
            row = page.rowCount
        }

        @inline(__always)
        func hasRoom(_ count: Int) -> Bool { row &+ count <= CounterPage.capacity }
    }

    private func finish(_ target: RowTarget, _ page: CounterPage) {
        page.rowCount = target.row
        if target.hasRare { page.open(offsets.rareColumns) }
    }

    /// All slots of the key of `slot`, by day.
    private func collect(_ slot: UInt32, into several: inout [UInt32]) {
        var next = slot
        repeat {
            several.append(next)
            // SAFETY: `next` is a slot; the ring leads back to where it began.
            next = unsafe slots[Int(next)].next
        } while next != slot
        several.sort { unsafe slots[Int($0)].day < slots[Int($1)].day }
    }

    /// Adds the row of one slot to a page that has room for it.
    func appendRow(_ number: UInt32, to page: CounterPage) {
        precondition(page.rowCount < CounterPage.capacity && Int(number) < slotCount)
        var target = RowTarget(page)
        // SAFETY: the slot is one of ours.
        unsafe append(slots + Int(number), to: &target)
        finish(target, page)
    }

    /// - Parameters:
    ///   - slot: one of ours, and not none.
    ///   - target: has room for a row.
    @inline(__always)
    private func append(_ slot: UnsafePointer<Slot>, to target: inout RowTarget) {
        // SAFETY: the slot's rare line is one of ours too; the page has room for a row, and each offset is
        // that of a column.
        let values = unsafe target.values + target.row
        unsafe target.order[target.row] = CounterPage.order(
            key: slot.pointee.key, day: slot.pointee.day)
        let hot = unsafe slot.pointee.hot
        for lane in 0..<CountingTable.hotCount {
            unsafe values[offsets.hot[lane]] = UInt64(hot[lane])
        }
        unsafe values[offsets.revenue] = slot.pointee.revenue
        unsafe values[offsets.spend] = slot.pointee.spend
        if unsafe slot.pointee.rare != 0 {
            let line = unsafe rareLines[Int(slot.pointee.rare)]
            target.hasRare = true
            for lane in 0..<CountingTable.rareCount {
                unsafe values[offsets.rare[lane]] = UInt64(line[lane])
            }
        }
        target.row &+= 1
    }
}

/// Where the columns of slots and rare lines are in a page's values.
struct CounterColumnOffsets {
    let hot: InlineArray<8, Int>
    let rare: InlineArray<11, Int>
    let revenue = offset(.revenueMicros)
    let spend = offset(.spendMicros)
    /// The columns that every row writes, and those that a row with a rare line does.
    let written = CounterColumnSet(CountingTable.hotColumns + [.revenueMicros, .spendMicros])
    let rareColumns = CounterColumnSet(CountingTable.rareColumns)

    init() {
        precondition(CountingTable.hotColumns.count == CountingTable.hotCount)
        precondition(CountingTable.rareColumns.count == CountingTable.rareCount)
        hot = InlineArray { Self.offset(CountingTable.hotColumns[$0]) }
        rare = InlineArray { Self.offset(CountingTable.rareColumns[$0]) }
    }

    private static func offset(_ column: CounterColumn) -> Int {
        column.rawValue * CounterPage.columnStride
    }
}
