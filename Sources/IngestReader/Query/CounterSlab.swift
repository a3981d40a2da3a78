// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Room for the counters of the rows of one range, found by their numbers.
///
/// `@unchecked Sendable`: one query fills it; then it goes into a `ListedRange`, and is only read.
///
/// **Layout** A slot is a cache line of the eight counters that are not 0 in most rows; nearly every row touches that line
/// alone. Each of the others has a column of its own, which is taken when a page first has one that is not 0: most listings
/// have a few.
/// **Cost** 64 bytes a slot, 8 more for each of these columns, and none for slots beyond the highest that was used; in huge
/// pages, as slots are touched in any order.
@safe final class CounterSlab: @unchecked Sendable {
    private static let firstStride = 8
    /// Those in a slot's line, in their order there: `places`, the other way round.
    private static let firstColumns: InlineArray<8, UInt8> = [0, 1, 2, 3, 4, 5, 19, 20]
    /// By column: its place in a slot's line; 8 of the others.
    private static let places: InlineArray<26, UInt8> = [
        0, 1, 2, 3, 4, 5, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 6, 7, 8, 8, 8, 8, 8,
    ]

    let capacity: Int
    private let first: LineMemory<UInt64>
    private var others = LineMemory<UInt64>()
    /// Those of the others that were taken.
    private var taken: CounterColumnSet = []
    /// Slots that were cleared and may be used.
    private var clearedCount = 0
    /// A sum over slots that were looked at for nothing but to have them in the cache.
    private var touched: UInt64 = 0

    /// - Parameter capacity: at most `Limits.queryRowCountMax`.
    init(capacity: Int) {
        precondition(capacity <= Limits.queryRowCountMax)
        self.capacity = max(1, capacity)
        // What is not used is never touched.
        first = LineMemory(capacity: Self.firstStride * self.capacity)
    }

    /// Makes the counters of the first `count` slots 0.
    func clear(_ count: Int) {
        precondition(count >= 0 && count <= capacity)
        clearedCount = count
        // SAFETY: the slots are inside.
        unsafe first.base.update(repeating: 0, count: count * Self.firstStride)
        var rest = taken
        while let column = rest.popFirst() {
            unsafe rareColumn(column).update(repeating: 0, count: count)
        }
    }

    /// One of the others, by slot.
    @inline(__always)
    private func rareColumn(_ column: Int) -> UnsafeMutablePointer<UInt64> {
        // SAFETY: there is room for all columns; whoever uses one has taken it.
        unsafe others.base + column &* capacity
    }

    /// Clears one of the others at its first use.
    private func take(_ column: Int) {
        if taken.contains(column) { return }
        // Columns that are not taken are not touched.
        if taken.isEmpty { others = LineMemory(capacity: Self.places.count * capacity) }
        taken.insert(column)
        // SAFETY: the slots are inside.
        unsafe rareColumn(column).initialize(repeating: 0, count: clearedCount)
    }

    func set(_ counters: CounterRow, _ slot: Int) {
        precondition(slot >= 0 && slot < clearedCount)
        for column in 0..<CounterRow.columnCount {
            let (place, value) = (Int(Self.places[column]), counters.values[column])
            // SAFETY: the slot is inside.
            if place < Self.firstStride {
                unsafe first.base[slot &* Self.firstStride &+ place] = value
            } else {
                if value != 0 { take(column) }
                if taken.contains(column) {
                    unsafe rareColumn(column)[slot] = value
                }
            }
        }
    }

    /// Sets all counters of a row.
    func read(_ slot: Int, into row: inout CounterRow) {
        precondition(slot >= 0 && slot < clearedCount)
        // SAFETY: the slot is inside.
        let line = unsafe first.base + slot &* Self.firstStride
        for column in 0..<CounterRow.columnCount { row.values[column] = 0 }
        for place in 0..<Self.firstStride {
            row.values[Int(Self.firstColumns[place])] = unsafe line[place]
        }
        var rest = taken
        while let column = rest.popFirst() { row.values[column] = unsafe rareColumn(column)[slot] }
    }

    /// Adds the counters of rows of a page to slots; `false` if a sum does not fit.
    /// - Parameter picks: of rows of the page, each with its slot as the unit.
    func add(_ picks: Span<RowPick>, of page: CounterPage) -> Bool {
        touch(picks)
        let columns = Columns(of: page)
        for index in columns.firstCount..<columns.count {
            take(Int(columns.columns[index].place))
        }
        for place in picks.indices {
            let (row, slot) = (Int(picks[place].row), Int(picks[place].unit))
            precondition(slot < clearedCount && row < page.rowCount)
            let source = unsafe page.values + row
            var carries: UInt64 = 0
            // SAFETY: slot and row are inside, and both have a word for each column.
            let line = unsafe first.base + slot &* Self.firstStride
            for index in 0..<columns.firstCount {
                let column = columns.columns[index]
                unsafe Self.add(source[Int(column.offset)], to: line + Int(column.place), &carries)
            }
            if carries >> 63 != 0 {
                guard carry(columns, to: slot, { unsafe source[$0] }) else { return false }
                carries = 0
            }
            for index in columns.firstCount..<columns.count {
                let column = columns.columns[index]
                let value = unsafe source[Int(column.offset)]
                // These columns are looked at for nothing but a number.
                if value == 0 { continue }
                unsafe Self.add(value, to: rareColumn(Int(column.place)) + slot, &carries)
            }
            if carries >> 63 != 0 { return false }
        }
        return true
    }

    /// Has the first lines of slots brought into the cache, all at once.
    private func touch(_ picks: Span<RowPick>) {
        var sum: UInt64 = 0
        for place in picks.indices {
            let slot = Int(picks[place].unit)
            precondition(slot < clearedCount)
            // SAFETY: the slot is inside. Loads that do not wait for each other.
            sum ^= unsafe first.base[slot &* Self.firstStride]
        }
        touched ^= sum
    }

    /// Carries the sums of a slot's first line that did not fit into their high halves; `false` if one has none.
    /// - Parameter value: that was added, by its offset in the page.
    private func carry(_ columns: Columns, to slot: Int, _ value: (Int) -> UInt64) -> Bool {
        for index in 0..<columns.firstCount {
            let column = columns.columns[index]
            // SAFETY: as in `add`.
            let sum = unsafe first.base[slot &* Self.firstStride &+ Int(column.place)]
            if sum >= value(Int(column.offset)) { continue }
            guard let high = column.high else { return false }
            take(Int(high))
            let highs = unsafe rareColumn(Int(high)) + slot
            guard unsafe highs.pointee < .max else { return false }
            unsafe highs.pointee += 1
        }
        return true
    }

    /// - Parameter carries: gets the carries out of the top bit.
    @inline(__always)
    private static func add(
        _ value: UInt64, to target: UnsafeMutablePointer<UInt64>, _ carries: inout UInt64
    ) {
        let old = unsafe target.pointee
        let sum = old &+ value
        carries |= old & value | (old | value) & ~sum
        unsafe target.pointee = sum
    }

    /// Columns of a page, those of a slot's first line first.
    struct Columns {
        fileprivate struct Column {
            /// From a row's place in the page's first column.
            var offset: UInt16 = 0
            /// In a slot's line; of one of the others, its id.
            var place: UInt16 = 0
            /// The column of the high half of its sum.
            var high: UInt8?
        }

        fileprivate var columns = InlineArray<26, Column>(repeating: Column())
        fileprivate var count = 0
        fileprivate var firstCount = 0

        /// Those of which a row of the page may be other than 0.
        init(of page: CounterPage) {
            append(page) { $0 < CounterSlab.firstStride }
            firstCount = count
            append(page) { $0 >= CounterSlab.firstStride }
        }

        private mutating func append(_ page: CounterPage, where isAsked: (Int) -> Bool) {
            for column in CounterColumn.allCases where page.nonzero.contains(column) {
                let place = Int(CounterSlab.places[column.rawValue])
                guard isAsked(place) else { continue }
                columns[count] = Column(
                    offset: UInt16(column.rawValue * CounterPage.columnStride),
                    place: UInt16(place < CounterSlab.firstStride ? place : column.rawValue),
                    high: column.high.map { UInt8($0.rawValue) })
                count += 1
            }
        }
    }
}

/// A row of a page and the unit of a range that it belongs to, then the slot that it is added to.
struct RowPick: BitwiseCopyable {
    var row: UInt32 = 0
    var unit: UInt32 = 0
    /// Says nothing in `rewards`.
    var day: Int32 = 0
}

extension CounterPage {
    /// The page's rows as the integers that they are sorted by, for a loop over all of them.
    func withOrders<Result, Failure: Error>(
        _ body: (Span<UInt64>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: rowCount values are initialised, and nothing changes the page during the call.
        let buffer = unsafe UnsafeBufferPointer(start: order, count: rowCount)
        return try body(unsafe buffer.span)
    }
}

/// Key and day of a row's order, inlined into loops over pages.
enum RowOrder {
    @inline(__always)
    static func ordinal(_ order: UInt64) -> Int { Int(truncatingIfNeeded: order >> 32) }

    @inline(__always)
    static func day(_ order: UInt64) -> Int32 {
        Int32(bitPattern: UInt32(truncatingIfNeeded: order) ^ 0x8000_0000)
    }
}
