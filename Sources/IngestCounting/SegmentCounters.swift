// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
import CIngestLinux
import IngestFormat

/// The counters of one segment in memory, by (key, day), folded from its blocks' rows: by the compact
/// queue while the segment lives, by recovery, and by the reader for the tail. Owned by one of them.
///
/// **Cost** That of `CounterSlots`: 12 bytes a key ordinal, 64 bytes a (key, day) pair that lanes do not hold.
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
    /// Of the rows with a campaign or a source; `nil` before the first.
    package private(set) var attributed: AttributedCounters?

    package init() {}

    /// Adds the rows of one block: all of them or, with another outcome, none. Reads the columns key,
    /// day, attributes, revenue and spend; of a block with attribution campaign and source too.
    ///
    /// **Cost** 3 ns a row of the day that most have, of a million keys; another 4 to 8 ns a row with money, of a
    /// rare counter or of another day, more as slots are out of cache.
    package func fold(_ rows: BlockRows) -> FoldOutcome {
        let shape = BlockShape(rows)
        guard shape.isValid else { return .invalidRow }
        guard shape.keyMax < Limits.keyCountMax else { return .keyBeyondLimit }
        let added = rows.mark.isAttributed ? 2 * rows.rowCount : rows.rowCount
        let pairCountMax = pairCountMax + (attributed?.pairCountMax ?? 0)
        guard pairCountMax + added <= Limits.segmentKeyDayCountMax else { return .tooManyKeyDays }
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
        if rows.mark.isAttributed {
            if attributed == nil { attributed = AttributedCounters() }
            attributed?.add(rows)
        }
        return .folded
    }

    /// No more (key, day) pairs have been seen.
    var pairCountMax: Int {
        memory.slotCount - 1 + min(memory.lanes.count, Int(clamping: rowCount))
    }

    /// Forgets everything; the memory stays.
    package func removeAll() {
        memory.removeAll()
        attributed?.removeAll()
        revenueSum = 0
        spendSum = 0
        rowCount = 0
    }

    /// The rows of keys in order of (key, day). Valid until the next `fold` or `removeAll`.
    package func makeCursor() -> Cursor { Cursor(self) }
}

// MARK: Slots to rows in order: keys are dense, so going through them is sorting.

extension SegmentCounters {
    /// Gives the counters in order of (key, day).
    ///
    /// **Cost** 4 ns a row of lanes, 15–20 ns another, and a look at every key ordinal up to the largest.
    package struct Cursor: CounterPageSource {
        private let counters: SegmentCounters
        private var nextKey = 0
        /// Slots of a key with several days, by day, of which `pendingPlace` is the next.
        private var pending: [UInt32] = []
        private var pendingPlace = 0

        init(_ counters: SegmentCounters) {
            self.counters = counters
            counters.memory.reserveMoves()
        }

        package mutating func nextPage(into page: CounterPage) throws(Never) -> Bool {
            counters.memory.beginPage(page)
            while page.rowCount < CounterPage.capacity {
                if pendingPlace < pending.count {
                    counters.memory.appendRow(pending[pendingPlace], to: page)
                    pendingPlace += 1
                } else if nextKey < counters.memory.headCount {
                    pending.removeAll(keepingCapacity: true)
                    pendingPlace = 0
                    counters.memory.appendKeys(
                        from: &nextKey, upTo: counters.memory.headCount, to: page,
                        several: &pending)
                } else {
                    break
                }
            }
            return page.rowCount > 0
        }
    }
}

extension CounterSlots {
    /// Makes room for a slot of each key that has lanes beside slots.
    mutating func reserveMoves() { reserve(keyMax: headCount - 1, rowCount: slotCount) }

    /// Empties the page, and sets the columns to 0 that most rows leave so.
    func beginPage(_ page: CounterPage) {
        page.removeAll()
        for column in CountingTable.rareColumns { page.clear(column.rawValue) }
        page.clear(CounterColumn.revenueMicros.rawValue)
        page.clear(CounterColumn.spendMicros.rawValue)
    }

    /// Adds the rows of keys from `key` on and below `end`, until the page has no room for those of a key: its slots are
    /// then put in `several`, by day.
    ///
    /// First all rows are found, with the word of each that is in lanes; then these are spread over the page's columns,
    /// one after the other, and the rows of slots are written.
    mutating func appendKeys(
        from key: inout Int, upTo end: Int, to page: CounterPage, several: inout [UInt32]
    ) {
        let last = end - 1
        let (heads, slots, words) = unsafe (heads, slots, lanes.words)
        let (rowWords, rowSlots) = unsafe (lanes.rowWords, lanes.rowSlots)
        let day = lanes.day ?? 0
        let dayOrder = CounterPage.order(key: 0, day: day)
        let start = page.rowCount
        var target = RowTarget(page)
        while key <= last, target.hasRoom(1) {
            // SAFETY: keys up to `last` are inside heads and lanes, and heads lead to slots; there is room for
            // a row.
            unsafe ingest_prefetch(slots + Int(heads[min(key &+ 32, last)]))
            if unsafe heads[key] == 0 {
                let word = unsafe words[key]
                unsafe target.order[target.row] = UInt64(truncatingIfNeeded: key) &<< 32 | dayOrder
                unsafe rowWords[target.row] = word
                unsafe rowSlots[target.row] = 0
                target.row &+= word != 0 ? 1 : 0
                key &+= 1
                continue
            }
            // What was fetched by now leads to the slot of another day.
            let soon = unsafe slots + Int(heads[min(key &+ 16, last)])
            unsafe ingest_prefetch(slots + Int(soon.pointee.next))
            key &+= 1
            if !placeSlots(ofKey: key &- 1, day, in: &target, &several) { break }
        }
        spreadWords(start..<target.row, over: page)
        for row in start..<target.row {
            // SAFETY: rows found by now have a slot each, or 0.
            let number = unsafe rowSlots[row]
            if number != 0 { unsafe target.write(slots + Int(number), rareLines, at: row, offsets) }
        }
        finish(target, page)
    }

    /// Gives the next rows to a key that has slots, and lanes perhaps.
    /// - Returns: `false` where there is no room for all: then its slots, which have the lanes too, are in `several`.
    @inline(__always)
    private mutating func placeSlots(
        ofKey key: Int, _ day: Int32, in target: inout RowTarget, _ several: inout [UInt32]
    ) -> Bool {
        // SAFETY: the key has a head and a word, and heads lead to slots.
        let number = unsafe heads[key]
        guard unsafe slots[Int(number)].next == number else {
            return placeSeveral(number, ofKey: key, day, in: &target, &several)
        }
        let slotDay = unsafe slots[Int(number)].day
        if slotDay == day { addLanes(of: key, to: number) }
        if unsafe lanes.words[key] == 0 {
            place(number, in: &target)
            return true
        }
        // Two days are common, around midnight.
        guard target.hasRoom(2) else {
            return placeSeveral(number, ofKey: key, day, in: &target, &several)
        }
        if slotDay < day { place(number, in: &target) }
        placeLanes(ofKey: key, day, in: &target)
        if slotDay > day { place(number, in: &target) }
        return true
    }

    @inline(never)
    private mutating func placeSeveral(
        _ first: UInt32, ofKey key: Int, _ day: Int32, in target: inout RowTarget,
        _ several: inout [UInt32]
    ) -> Bool {
        collect(first, into: &several)
        // SAFETY: what is collected are slots.
        if let number = several.first(where: { unsafe slots[Int($0)].day == day }) {
            addLanes(of: key, to: number)
        }
        guard target.hasRoom(several.count + 1) else {
            if unsafe lanes.words[key] == 0 { return false }
            moveLanes(of: UInt32(truncatingIfNeeded: key), day: day)
            several.removeAll(keepingCapacity: true)
            collect(first, into: &several)
            return false
        }
        for number in several {
            if unsafe lanes.words[key] != 0 && slots[Int(number)].day > day { break }
            place(number, in: &target)
        }
        if unsafe lanes.words[key] != 0 {
            placeLanes(ofKey: key, day, in: &target)
            for number in several where unsafe slots[Int(number)].day > day {
                place(number, in: &target)
            }
        }
        several.removeAll(keepingCapacity: true)
        return true
    }

    /// Adds the lanes of a key to its slot of their day.
    @inline(__always)
    private mutating func addLanes(of key: Int, to number: UInt32) {
        // SAFETY: the key has a word, and the slot is one of ours.
        unsafe slots[Int(number)].hot &+= DayLanes.lanes(lanes.words[key])
        unsafe lanes.words[key] = 0
    }

    /// Gives the next row to the lanes of a key.
    @inline(__always)
    private func placeLanes(ofKey key: Int, _ day: Int32, in target: inout RowTarget) {
        // SAFETY: the key has a word, and the page has room for a row.
        unsafe target.order[target.row] = CounterPage.order(
            key: UInt32(truncatingIfNeeded: key), day: day)
        unsafe lanes.rowWords[target.row] = lanes.words[key]
        unsafe lanes.rowSlots[target.row] = 0
        target.row &+= 1
    }

    /// Gives the next row to a slot, which is written later.
    @inline(__always)
    private func place(_ number: UInt32, in target: inout RowTarget) {
        // SAFETY: the slot is one of ours, and the page has room for a row.
        let slot = unsafe slots + Int(number)
        // Nearly half of this pass was spent on waiting for rare lines.
        unsafe ingest_prefetch(rareLines + Int(slot.pointee.rare))
        unsafe target.order[target.row] = CounterPage.order(
            key: slot.pointee.key, day: slot.pointee.day)
        unsafe lanes.rowWords[target.row] = 0
        unsafe lanes.rowSlots[target.row] = number
        target.row &+= 1
    }

    /// Writes the lanes of the words that were found for some rows to their columns.
    private func spreadWords(_ rows: Range<Int>, over page: CounterPage) {
        var union: UInt64 = 0
        let words = unsafe UnsafePointer(lanes.rowWords)
        // SAFETY: rows are below the page's capacity, and a column has room for these.
        for row in rows { unsafe union |= words[row] }
        for (lane, column) in CountingTable.hotColumns.enumerated() {
            let shift = UInt64(8 * lane)
            if union &>> shift & 0xFF != 0 { page.open(CounterColumnSet([column])) }
            guard page.nonzero.contains(column) else { continue }
            let values = unsafe page.values + offsets.hot[lane]
            for row in rows { unsafe values[row] = words[row] &>> shift & 0xFF }
        }
    }

    /// Where rows of slots are written, and what was other than 0 in these. A value that stays in registers, where each
    /// look at the page itself would be a checked access.
    @safe struct RowTarget {
        let order: UnsafeMutablePointer<UInt64>
        let values: UnsafeMutablePointer<UInt64>
        var row: Int
        var hot = SIMD8<UInt32>(repeating: 0)
        var rare = RareLine(repeating: 0)
        var revenue: UInt64 = 0
        var spend: UInt64 = 0

        init(_ page: CounterPage) {
            unsafe order = page.order
            unsafe values = page.values
            row = page.rowCount
        }

        @inline(__always)
        func hasRoom(_ count: Int) -> Bool { row &+ count <= CounterPage.capacity }

        /// - Parameters:
        ///   - slot: one of ours, and not none.
        ///   - row: inside the page.
        @inline(__always)
        mutating func write(
            _ slot: UnsafePointer<Slot>, _ rareLines: UnsafePointer<RareLine>, at row: Int,
            _ offsets: borrowing CounterColumnOffsets
        ) {
            // SAFETY: the slot's rare line is one of ours too, and each offset is that of a column.
            let values = unsafe values + row
            let counts = unsafe slot.pointee.hot
            hot |= counts
            for lane in 0..<CountingTable.hotCount {
                unsafe values[offsets.hot[lane]] = UInt64(counts[lane])
            }
            unsafe revenue |= slot.pointee.revenue
            unsafe spend |= slot.pointee.spend
            unsafe values[offsets.revenue] = slot.pointee.revenue
            unsafe values[offsets.spend] = slot.pointee.spend
            guard unsafe slot.pointee.rare != 0 else { return }
            let line = unsafe rareLines[Int(slot.pointee.rare)]
            rare |= line
            for lane in 0..<CountingTable.rareCount {
                unsafe values[offsets.rare[lane]] = UInt64(line[lane])
            }
        }

        /// The columns of which a slot has a value.
        var columns: CounterColumnSet {
            var bits: UInt32 = 0
            func add(_ column: CounterColumn) { bits |= 1 << UInt32(column.rawValue) }
            for (lane, column) in CountingTable.hotColumns.enumerated() where hot[lane] != 0 {
                add(column)
            }
            for (lane, column) in CountingTable.rareColumns.enumerated() where rare[lane] != 0 {
                add(column)
            }
            if revenue != 0 { add(.revenueMicros) }
            if spend != 0 { add(.spendMicros) }
            return CounterColumnSet(rawValue: bits)
        }
    }

    private func finish(_ target: RowTarget, _ page: CounterPage) {
        page.rowCount = target.row
        page.open(target.columns)
    }

    /// All slots of the key of `slot`, by day.
    private func collect(_ slot: UInt32, into several: inout [UInt32]) {
        var next = slot
        repeat {
            several.append(next)
            // SAFETY: `next` is a slot; the ring leads back to where it began.
            next = unsafe slots[Int(next)].next
        } while next != slot
        let (first, second) = (several[0], several[several.count - 1])
        if several.count <= 2 {
            if unsafe slots[Int(first)].day > slots[Int(second)].day { several.swapAt(0, 1) }
        } else {
            several.sort { unsafe slots[Int($0)].day < slots[Int($1)].day }
        }
    }

    /// Adds the row of one slot to a page that has room for it.
    func appendRow(_ number: UInt32, to page: CounterPage) {
        precondition(page.rowCount < CounterPage.capacity && Int(number) < slotCount)
        var target = RowTarget(page)
        // SAFETY: the slot is one of ours.
        let slot = unsafe slots + Int(number)
        unsafe target.order[target.row] = CounterPage.order(
            key: slot.pointee.key, day: slot.pointee.day)
        unsafe target.write(slot, rareLines, at: target.row, offsets)
        target.row += 1
        finish(target, page)
    }
}

/// Where the columns of slots and rare lines are in a page's values.
struct CounterColumnOffsets {
    let hot: InlineArray<8, Int>
    let rare: InlineArray<14, Int>
    let revenue = offset(.revenueMicros)
    let spend = offset(.spendMicros)

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
