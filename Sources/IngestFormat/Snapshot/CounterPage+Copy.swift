// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
// Rows from page to page.

extension CounterPage {
    /// From how many rows on a whole column is copied at a time: a call a column costs as much as some
    /// rows one by one.
    private static let columnCopyCountMin = 8

    /// Adds rows of another page behind the last one, as many as there is room for.
    /// - Parameter rows: of `source`, inside `0 ..< source.rowCount`.
    /// - Returns: how many were taken.
    func append(_ rows: Range<Int>, of source: CounterPage) -> Int {
        precondition(rows.lowerBound >= 0 && rows.upperBound <= source.rowCount)
        let count = min(rows.count, Self.capacity - rowCount)
        columns.formIntersection(source.columns)
        open(source.nonzero)
        // SAFETY: the rows are inside source, and there is room for count of them.
        unsafe append(
            count, order: source.order + rows.lowerBound, values: source.values + rows.lowerBound)
        return count
    }

    /// Adds `count` rows, for which there is room, behind the last one; columns that the source has and
    /// this page has not yet were opened.
    /// - Parameter values: the first column's value of the first row; columns are `columnStride` apart.
    func append(_ count: Int, order source: UnsafePointer<UInt64>, values: UnsafePointer<UInt64>) {
        precondition(count >= 0 && count <= Self.capacity - rowCount)
        // SAFETY: count rows from rowCount on are inside this page, and those of the source inside
        // theirs; both have columnCount columns.
        let target = unsafe self.values + rowCount
        unsafe (order + rowCount).update(from: source, count: count)
        if count < Self.columnCopyCountMin {
            for row in 0..<count {
                var rest = nonzero
                while let column = rest.popFirst() {
                    let place = column &* Self.columnStride &+ row
                    unsafe target[place] = values[place]
                }
            }
        } else {
            var rest = nonzero
            while let column = rest.popFirst() {
                let start = column &* Self.columnStride
                unsafe (target + start).update(from: values + start, count: count)
            }
        }
        rowCount += count
    }

    /// Keeps the rows of some days, in their order.
    package func keep(days: ClosedRange<Int32>) {
        let least = Self.order(key: 0, day: days.lowerBound)
        let most = Self.order(key: 0, day: days.upperBound)
        withPlaces(ofDays: least...most) { places in
            var rest = nonzero
            while let column = rest.popFirst() {
                // SAFETY: places ascend and are below rowCount, so none is written before it is read.
                let values = unsafe self.values + column &* Self.columnStride
                for row in places.indices { unsafe values[row] = values[Int(places[row])] }
            }
            for row in places.indices { unsafe order[row] = order[Int(places[row])] }
            rowCount = places.count
        }
    }

    private func withPlaces(ofDays days: ClosedRange<UInt64>, _ body: (Span<UInt16>) -> Void) {
        unsafe withUnsafeTemporaryAllocation(of: UInt16.self, capacity: Self.capacity) { room in
            var count = 0
            for row in 0..<rowCount {
                // SAFETY: count ≤ row < rowCount ≤ capacity.
                unsafe room[count] = UInt16(truncatingIfNeeded: row)
                count &+= unsafe days.contains(order[row] & 0xFFFF_FFFF) ? 1 : 0
            }
            // SAFETY: count places are initialised, and live as long as the call.
            body(unsafe UnsafeBufferPointer(rebasing: room[..<count]).span)
        }
    }

    /// Adds the counters of one row to `counters`.
    /// - Returns: `false`, with the row half added, if a sum does not fit 64 bits.
    func add(_ row: Int, to counters: inout CounterRow) -> Bool {
        precondition(row >= 0 && row < rowCount)
        // SAFETY: row < rowCount, and column < columnCount.
        let source = unsafe values + row
        var overflows = false
        var rest = nonzero
        while let column = rest.popFirst() {
            let (sum, overflow) = unsafe counters.values[column].addingReportingOverflow(
                source[column &* Self.columnStride])
            counters.values[column] = sum
            overflows = overflow || overflows
        }
        return !overflows
    }

    /// The integers that the first and the last row are sorted by.
    var orderBounds: ClosedRange<UInt64>? {
        guard rowCount > 0 else { return nil }
        // SAFETY: both are inside the page, whose rows ascend.
        let (first, last) = unsafe (order[0], order[rowCount - 1])
        return first <= last ? first...last : nil
    }
}
