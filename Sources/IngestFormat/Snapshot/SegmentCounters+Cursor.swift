// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
// Slots → rows in order: keys are dense, so going through them is sorting.
import CIngestLinux

extension SegmentCounters {
    /// Gives the counters in order of (key, day).
    ///
    /// **Cost** About 15 ns a row, and a look at every key ordinal up to the largest.
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
        while key <= last, page.rowCount < CounterPage.capacity {
            // SAFETY: keys up to `last` are inside heads, and heads lead to slots.
            unsafe ingest_prefetch(slots + Int(heads[min(key &+ 12, last)]))
            let slot = unsafe heads[key]
            key &+= 1
            guard slot != 0 else { continue }
            let next = unsafe slots[Int(slot)].next
            if next == slot {
                appendRow(slot, to: page)
            } else if unsafe slots[Int(next)].next == slot,
                page.rowCount &+ 2 <= CounterPage.capacity
            {
                // Two days are common, around midnight.
                let isFirst = unsafe slots[Int(slot)].day < slots[Int(next)].day
                appendRow(isFirst ? slot : next, to: page)
                appendRow(isFirst ? next : slot, to: page)
            } else {
                collect(slot, into: &several)
                return
            }
        }
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
        // SAFETY: the slot is one of ours, its rare line too; the page has room for a row.
        let slot = unsafe slots + Int(number)
        let values = unsafe page.values + page.rowCount
        unsafe page.order[page.rowCount] = CounterPage.order(
            key: slot.pointee.key, day: slot.pointee.day)
        let hot = unsafe slot.pointee.hot
        for lane in 0..<CountingTable.hotCount {
            unsafe values[offsets.hot[lane]] = UInt64(hot[lane])
        }
        unsafe values[offsets.revenue] = slot.pointee.revenue
        unsafe values[offsets.spend] = slot.pointee.spend
        if unsafe slot.pointee.rare != 0 {
            let line = unsafe rareLines[Int(slot.pointee.rare)]
            page.open(offsets.rareColumns)
            for lane in 0..<CountingTable.rareCount {
                unsafe values[offsets.rare[lane]] = UInt64(line[lane])
            }
        }
        page.rowCount += 1
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
