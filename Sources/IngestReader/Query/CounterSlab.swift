// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Room for the counters of many rows, found by their numbers. Owned by one query, reused from range to
/// range.
///
/// **Layout** A slot is three cache lines, 24 words: the counters, then `tag`, a number of the owner's.
/// **Cost** 192 bytes a slot, and none for those beyond the highest that was used.
@safe final class CounterSlab {
    private static let stride = 24
    private static let tagPlace = CounterRow.columnCount

    let capacity: Int
    private let words: UnsafeMutablePointer<UInt64>

    /// - Parameter capacity: at most `Limits.queryRowCountMax`.
    init(capacity: Int) {
        precondition(capacity <= Limits.queryRowCountMax)
        self.capacity = max(1, capacity)
        // SAFETY: aligned to a cache line; freed once. What is not used is never touched.
        unsafe words = UnsafeMutableRawPointer.allocate(
            byteCount: 8 * Self.stride * self.capacity, alignment: 64
        ).bindMemory(to: UInt64.self, capacity: Self.stride * self.capacity)
    }

    deinit { unsafe words.deallocate() }

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
            unsafe words[slot &* Self.stride &+ column] = counters.values[column]
        }
    }

    func counters(_ slot: Int) -> CounterRow {
        precondition(slot >= 0 && slot < capacity)
        var row = CounterRow()
        for column in 0..<CounterRow.columnCount {
            // SAFETY: the slot is inside, and has a word for each column.
            row.values[column] = unsafe words[slot &* Self.stride &+ column]
        }
        return row
    }

    /// Adds the counters of a page's row to a slot; `false` if a sum does not fit 64 bits.
    /// - Parameters:
    ///   - row: 0 ..< page.rowCount.
    ///   - columns: those of the page that are not 0 in all rows (`CounterPage.nonzeroColumns`).
    func add(_ row: Int, of page: CounterPage, _ columns: [Int], to slot: Int) -> Bool {
        precondition(slot >= 0 && slot < capacity && row >= 0 && row < page.rowCount)
        precondition(columns.last ?? 0 < CounterRow.columnCount)
        // SAFETY: slot and row are inside, and both have a word for each column; the last is the greatest.
        let target = unsafe words + slot &* Self.stride
        let source = unsafe page.values + row
        var overflows = false
        for column in columns {
            let (sum, overflow) = unsafe target[column].addingReportingOverflow(
                source[column &* CounterPage.columnStride])
            unsafe target[column] = sum
            overflows = overflow || overflows
        }
        return !overflows
    }
}

extension CounterPage {
    /// The columns of which a row may be other than 0, ascending.
    var nonzeroColumns: [Int] {
        CounterColumn.allCases.map(\.rawValue).filter { nonzero.rawValue >> UInt32($0) & 1 != 0 }
    }

    /// The page's rows as the integers that they are sorted by, for a loop over all of them.
    func withOrders<Result, Failure: Error>(
        _ body: (Span<UInt64>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: rowCount values are initialised, and nothing changes the page during the call.
        let buffer = unsafe UnsafeBufferPointer(start: order, count: rowCount)
        return try body(unsafe buffer.span)
    }

    /// One column of the page's rows.
    func withColumn<Result, Failure: Error>(
        _ column: CounterColumn, _ body: (Span<UInt64>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: as above; a column has rowCount values.
        let start = unsafe values + column.rawValue * CounterPage.columnStride
        return try body(unsafe UnsafeBufferPointer(start: start, count: rowCount).span)
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
