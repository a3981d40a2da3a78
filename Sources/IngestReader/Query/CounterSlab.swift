// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Room for the counters of many rows, found by their numbers. Owned by one query, reused from range to
/// range.
///
/// **Layout** A slot is three cache lines, 24 words. The first has `tag`, a number of the owner's, and the
/// counters that are 0 in few rows; nearly every row touches that line alone.
/// **Cost** 192 bytes a slot, and none for those beyond the highest that was used; in huge pages, as slots are
/// touched in any order.
@safe final class CounterSlab {
    private static let stride = 24
    private static let tagPlace = 0
    /// By column: its place in a slot.
    private static let places: InlineArray<21, UInt8> = [
        1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 7, 8,
    ]
    /// Columns of the first line.
    private static let firstLine = CounterColumnSet([
        .impressions, .clicks, .redemptions, .viewableImpressions, .undeterminedImpressions,
        .notViewableImpressions, .revenueMicros,
    ])

    let capacity: Int
    private let memory: LineMemory<UInt64>
    private var words: UnsafeMutablePointer<UInt64> { unsafe memory.base }
    /// A sum over slots that were looked at for nothing but to have them in the cache.
    private var touched: UInt64 = 0

    /// - Parameter capacity: at most `Limits.queryRowCountMax`.
    init(capacity: Int) {
        precondition(capacity <= Limits.queryRowCountMax)
        self.capacity = max(1, capacity)
        // What is not used is never touched.
        memory = LineMemory(capacity: Self.stride * self.capacity)
    }

    /// Sets slots to zero, the tag too.
    func clear(_ slots: Range<Int>) {
        precondition(slots.lowerBound >= 0 && slots.upperBound <= capacity)
        // SAFETY: the slots are inside.
        unsafe (words + slots.lowerBound * Self.stride).update(
            repeating: 0, count: slots.count * Self.stride)
    }

    func tag(_ slot: Int) -> UInt64 {
        precondition(slot >= 0 && slot < capacity)
        // SAFETY: the slot is inside.
        return unsafe words[slot &* Self.stride &+ Self.tagPlace]
    }

    func setTag(_ tag: UInt64, _ slot: Int) {
        precondition(slot >= 0 && slot < capacity)
        // SAFETY: the slot is inside.
        unsafe words[slot &* Self.stride &+ Self.tagPlace] = tag
    }

    func set(_ counters: CounterRow, tag: UInt64, _ slot: Int) {
        setTag(tag, slot)
        for column in 0..<CounterRow.columnCount {
            // SAFETY: setTag found the slot to be inside.
            unsafe words[slot &* Self.stride &+ Int(Self.places[column])] = counters.values[column]
        }
    }

    func counters(_ slot: Int) -> CounterRow {
        precondition(slot >= 0 && slot < capacity)
        let source = unsafe words + slot &* Self.stride
        var row = CounterRow()
        for column in 0..<CounterRow.columnCount {
            // SAFETY: the slot is inside, and has a word for each column.
            row.values[column] = unsafe source[Int(Self.places[column])]
        }
        return row
    }

    /// Has the first lines of slots brought into the cache, all at once.
    /// - Parameter picks: of rows and slots.
    func touch(_ picks: Span<RowPick>) {
        var sum: UInt64 = 0
        for place in picks.indices {
            let slot = Int(picks[place].slot)
            precondition(slot < capacity)
            // SAFETY: the slot is inside. Loads that do not wait for each other.
            sum ^= unsafe words[slot &* Self.stride]
        }
        touched ^= sum
    }

    /// Adds the counters of a page's row to a slot; `false` if a sum does not fit 64 bits.
    /// - Parameters:
    ///   - row: 0 ..< page.rowCount.
    ///   - columns: those of the page that are not 0 in all rows.
    func add(_ row: Int, of page: CounterPage, _ columns: Columns, to slot: Int) -> Bool {
        precondition(slot >= 0 && slot < capacity && row >= 0 && row < page.rowCount)
        // SAFETY: slot and row are inside, and both have a word for each column.
        let target = unsafe words + slot &* Self.stride
        let source = unsafe page.values + row
        var carries: UInt64 = 0
        for i in 0..<columns.count {
            let column = columns.columns[i]
            let value = unsafe source[Int(column.offset)]
            // The other lines are looked at for nothing but a number.
            if i >= columns.firstLineCount && value == 0 { continue }
            let old = unsafe target[Int(column.place)]
            let sum = old &+ value
            carries |= old & value | (old | value) & ~sum
            unsafe target[Int(column.place)] = sum
        }
        return carries >> 63 == 0
    }

    /// Columns of a page, those of a slot's first line first.
    struct Columns {
        fileprivate struct Column {
            /// From a row's place in the page's first column.
            var offset: UInt16 = 0
            /// In a slot.
            var place: UInt16 = 0
        }

        fileprivate var columns = InlineArray<21, Column>(repeating: Column())
        fileprivate var count = 0
        fileprivate var firstLineCount = 0

        /// Those of which a row of the page may be other than 0.
        init(of page: CounterPage) {
            append(page.nonzero.intersection(CounterSlab.firstLine))
            firstLineCount = count
            append(page.nonzero.subtracting(CounterSlab.firstLine))
        }

        private mutating func append(_ set: CounterColumnSet) {
            for column in CounterColumn.allCases where set.contains(column) {
                columns[count] = Column(
                    offset: UInt16(column.rawValue * CounterPage.columnStride),
                    place: UInt16(CounterSlab.places[column.rawValue]))
                count += 1
            }
        }
    }
}

/// A row of a page and the slot that it goes to.
struct RowPick: BitwiseCopyable {
    var row: UInt32
    var slot: UInt32
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
