// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// Up to `Limits.runPageRowCountMax` decoded rows of a counter table, as columns; reused from page to
/// page. Owned by one stage at a time.
///
/// **Layout** `order`: key in the upper 32 bits, day + 2^31 in the lower, so that rows compare as one
/// integer; tables without days have day 0. `values`: column-major, the value of (column, row) at
/// `column * columnStride + row`. A column that is not in `nonzero` holds zeros in all of its places,
/// whatever `rowCount` is: nobody who knows that has to write, add or code it.
///
/// **Cost** 180 KiB, taken once.
@safe package final class CounterPage {
    package static let capacity = Limits.runPageRowCountMax
    /// A cache line more than the capacity: at a power of two all columns of a row would share one set
    /// of the first-level cache.
    package static let columnStride = capacity + 8

    package let order: UnsafeMutablePointer<UInt64>
    package let values: UnsafeMutablePointer<UInt64>
    package internal(set) var rowCount = 0
    /// The columns that the rows have: all of them, or those that the decoder was asked for. The others
    /// hold zeros.
    package internal(set) var columns = CounterColumnSet.all
    /// Whether several rows may have the same key.
    var mayRepeatKeys = true
    /// Whether no two rows have the same key.
    package var hasEachKeyOnce: Bool { !mayRepeatKeys }
    /// The columns of which a value may be other than 0.
    package private(set) var nonzero: CounterColumnSet = []

    package init() {
        let valueCount = Self.columnStride * CounterRow.columnCount
        unsafe order = .allocate(capacity: Self.capacity)
        unsafe values = .allocate(capacity: valueCount)
        unsafe values.initialize(repeating: 0, count: valueCount)
    }

    deinit {
        unsafe order.deallocate()
        unsafe values.deallocate()
    }

    /// - Parameter row: 0 ..< rowCount.
    package func key(_ row: Int) -> UInt32 { UInt32(truncatingIfNeeded: orderOf(row) >> 32) }

    /// Days since 1970-01-01; 0 in a table without days.
    /// - Parameter row: 0 ..< rowCount.
    package func day(_ row: Int) -> Int32 { Self.day(ofOrder: orderOf(row)) }

    /// The counters of one row; 0 in columns that are not in `columns`.
    /// - Parameter row: 0 ..< rowCount.
    package func counters(_ row: Int) -> CounterRow {
        precondition(row >= 0 && row < rowCount)
        var counters = CounterRow()
        var rest = nonzero
        while let column = rest.popFirst() {
            // SAFETY: column < columnCount and row < rowCount ≤ capacity.
            counters.values[column] = unsafe values[column &* Self.columnStride &+ row]
        }
        return counters
    }

    /// One counter of one row.
    /// - Parameters:
    ///   - column: one of `columns`.
    ///   - row: 0 ..< rowCount.
    package func value(_ column: CounterColumn, _ row: Int) -> UInt64 {
        precondition(row >= 0 && row < rowCount && columns.contains(column))
        // SAFETY: as above.
        return unsafe values[column.rawValue &* Self.columnStride &+ row]
    }

    /// The first row of (key, day) or after it, by binary search; `rowCount` if there is none.
    package func firstRow(key: UInt32, day: Int32) -> Int {
        let wanted = Self.order(key: key, day: day)
        var low = 0
        var high = rowCount
        while low < high {
            let middle = (low &+ high) / 2
            if orderOf(middle) < wanted { low = middle &+ 1 } else { high = middle }
        }
        return low
    }

    /// Adds a row behind the last one.
    /// - Returns: `false` if the page is full.
    package func append(key: UInt32, day: Int32, counters: CounterRow) -> Bool {
        guard rowCount < Self.capacity else { return false }
        // SAFETY: rowCount < capacity and column < columnCount.
        unsafe order[rowCount] = Self.order(key: key, day: day)
        for column in 0..<CounterRow.columnCount {
            unsafe values[column &* Self.columnStride &+ rowCount] = counters.values[column]
            if counters.values[column] != 0 { nonzero.insert(column) }
        }
        rowCount += 1
        return true
    }

    /// Empties the page, for rows of all columns; the memory stays.
    package func removeAll() {
        rowCount = 0
        columns = .all
        mayRepeatKeys = true
    }

    /// Says that a value other than 0 may be written to these columns from now on.
    @inline(__always)
    func open(_ columns: CounterColumnSet) { nonzero.formUnion(columns) }

    /// Makes all values of a column 0: nothing where they are already.
    func clear(_ column: Int) {
        guard nonzero.contains(column) else { return }
        // SAFETY: a column is columnStride long.
        unsafe (values + column &* Self.columnStride).update(repeating: 0, count: Self.capacity)
        nonzero.remove(column)
    }

    /// Keeps the rows of some keys.
    package func keep(keys: ClosedRange<UInt32>) {
        let first = firstRow(key: keys.lowerBound, day: .min)
        let isLast = keys.upperBound == UInt32.max
        let end = isLast ? rowCount : firstRow(key: keys.upperBound + 1, day: .min)
        keep(first..<end)
    }

    /// Keeps some of the rows, and moves them to the front.
    /// - Parameter rows: inside `0 ..< rowCount`.
    func keep(_ rows: Range<Int>) {
        precondition(rows.lowerBound >= 0 && rows.upperBound <= rowCount)
        let (start, count) = (rows.lowerBound, rows.count)
        rowCount = count
        guard start > 0, count > 0 else { return }
        // SAFETY: the rows are inside the page; update moves between places that overlap.
        unsafe order.update(from: order + start, count: count)
        var rest = nonzero
        while let column = rest.popFirst() {
            let first = unsafe values + column &* Self.columnStride
            unsafe first.update(from: first + start, count: count)
        }
    }

    /// The integer by which rows are sorted.
    package static func order(key: UInt32, day: Int32) -> UInt64 {
        UInt64(key) << 32 | UInt64(UInt32(bitPattern: day) ^ 0x8000_0000)
    }

    package static func day(ofOrder order: UInt64) -> Int32 {
        Int32(bitPattern: UInt32(truncatingIfNeeded: order) ^ 0x8000_0000)
    }

    private func orderOf(_ row: Int) -> UInt64 {
        precondition(row >= 0 && row < rowCount)
        // SAFETY: row < rowCount ≤ capacity.
        return unsafe order[row]
    }
}

/// Whatever gives the rows of a counter table in order, page by page: a table in memory, a run in a file,
/// a segment's accumulator, or a merge of such.
package protocol CounterPageSource<Failure> {
    associatedtype Failure: Error
    /// Fills `page` with the next rows, at least one; `false` at the end, with `page` empty.
    mutating func nextPage(into page: CounterPage) throws(Failure) -> Bool
}
