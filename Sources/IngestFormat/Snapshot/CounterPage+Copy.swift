// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
// Rows from page to page, whole columns of them at a time.

extension CounterPage {
    /// Adds rows of another page behind the last one, as many as there is room for.
    /// - Parameter rows: of `source`, inside `0 ..< source.rowCount`.
    /// - Returns: how many were taken.
    func append(_ rows: Range<Int>, of source: CounterPage) -> Int {
        precondition(rows.lowerBound >= 0 && rows.upperBound <= source.rowCount)
        let count = min(rows.count, Self.capacity - rowCount)
        let from = rows.lowerBound
        // SAFETY: count rows from `from` on are inside source, and there is room for count rows behind
        // rowCount; both pages have columnCount columns at columnStride.
        unsafe (order + rowCount).update(from: source.order + from, count: count)
        for column in 0..<CounterRow.columnCount {
            let start = column &* Self.columnStride
            unsafe (values + (start &+ rowCount)).update(
                from: source.values + (start &+ from), count: count)
        }
        rowCount += count
        return count
    }

    /// Adds the counters of one row of another page to the last row of this one.
    /// - Returns: `false`, with the row half added, if a sum does not fit 64 bits.
    func addToLast(_ row: Int, of source: CounterPage) -> Bool {
        precondition(row >= 0 && row < source.rowCount && rowCount > 0)
        var overflows = false
        for column in 0..<CounterRow.columnCount {
            let start = column &* Self.columnStride
            // SAFETY: row is inside source, rowCount - 1 inside this page.
            let (sum, overflow) = unsafe values[start &+ rowCount &- 1].addingReportingOverflow(
                source.values[start &+ row])
            unsafe values[start &+ rowCount &- 1] = sum
            overflows = overflows || overflow
        }
        return !overflows
    }

    /// Adds the counters of one row to `counters`.
    /// - Returns: `false`, with the row half added, if a sum does not fit 64 bits.
    func add(_ row: Int, to counters: inout CounterRow) -> Bool {
        precondition(row >= 0 && row < rowCount)
        var overflows = false
        for column in 0..<CounterRow.columnCount {
            // SAFETY: column < columnCount and row < rowCount.
            let (sum, overflow) = unsafe counters.values[column].addingReportingOverflow(
                values[column &* Self.columnStride &+ row])
            counters.values[column] = sum
            overflows = overflows || overflow
        }
        return !overflows
    }

    /// The rows' sort integer; for merges, which have checked the row.
    @inline(__always)
    func order(uncheckedAt row: Int) -> UInt64 {
        assert(row >= 0 && row < rowCount)
        // SAFETY: the caller's row is below rowCount.
        return unsafe order[row]
    }

    /// Sets the day of the last `count` rows to 0.
    func dropDays(ofLast count: Int) {
        precondition(count >= 0 && count <= rowCount)
        for row in rowCount - count..<rowCount {
            // SAFETY: row is inside the page.
            unsafe order[row] = order[row] & ~0xFFFF_FFFF | 1 << 31
        }
    }
}
