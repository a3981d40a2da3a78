// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// Up to `Limits.runPageRowCountMax` decoded rows of a counter table, as columns; reused from page to
/// page. Owned by one stage at a time.
///
/// **Layout** `order`: key in the upper 32 bits, day + 2^31 in the lower, so that rows compare as one
/// integer; tables without days have day 0. `values`: column-major, the value of (column, row) at
/// `column * columnStride + row`.
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

    package init() {
        unsafe order = .allocate(capacity: Self.capacity)
        unsafe values = .allocate(capacity: Self.columnStride * CounterRow.columnCount)
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

    /// - Parameter row: 0 ..< rowCount.
    package func counters(_ row: Int) -> CounterRow {
        precondition(row >= 0 && row < rowCount)
        var counters = CounterRow()
        for column in 0..<CounterRow.columnCount {
            // SAFETY: column < columnCount and row < rowCount ≤ capacity.
            counters.values[column] = unsafe values[column &* Self.columnStride &+ row]
        }
        return counters
    }

    /// One counter of one row.
    /// - Parameter row: 0 ..< rowCount.
    package func value(_ column: CounterColumn, _ row: Int) -> UInt64 {
        precondition(row >= 0 && row < rowCount)
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
        }
        rowCount += 1
        return true
    }

    /// Empties the page; the memory stays.
    package func removeAll() { rowCount = 0 }

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
