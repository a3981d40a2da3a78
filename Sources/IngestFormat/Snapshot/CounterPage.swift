// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// Up to `Limits.runPageRowCountMax` decoded rows of a counter table, as columns; reused from page to
/// page. Owned by one stage at a time.
///
/// **Layout** `order`: key in the upper 32 bits, day + 2^31 in the lower, so that rows compare as one
/// integer; tables without days have day 0. `values`: column-major, the value of (column, row) at
/// `column * columnStride + row`. A column that is not in `nonzero` holds zeros in all of its places,
/// whatever `rowCount` is: nobody who knows that has to write, add or code it. Columns that this release does
/// not know are there as well, so that merges carry them.
///
/// **Cost** 270 KiB, taken once.
@safe package final class CounterPage {
    @inlinable package static var capacity: Int { Limits.runPageRowCountMax }
    /// A cache line more than the capacity: at a power of two all columns of a row would share one set
    /// of the first-level cache.
    @inlinable package static var columnStride: Int { capacity + 8 }

    package let order: UnsafeMutablePointer<UInt64>
    package let values: UnsafeMutablePointer<UInt64>
    package var rowCount = 0
    /// The columns that the rows have: all of them, or those that the decoder was asked for. The others
    /// hold zeros.
    package var columns = CounterColumnSet.all
    /// The columns of which a value may be other than 0.
    package private(set) var nonzero: CounterColumnSet = []

    package init() {
        let valueCount = Self.columnStride * CounterColumnSet.idCount
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
        var rest = nonzero.intersection(.known)
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
        return (0..<rowCount).firstPlace { orderOf($0) >= wanted }
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
    }

    /// Says that a value other than 0 may be written to these columns from now on.
    package func open(_ columns: CounterColumnSet) { nonzero.formUnion(columns) }

    /// Makes all values of a column 0: nothing where they are already.
    package func clear(_ column: Int) {
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
    @inlinable package static func order(key: UInt32, day: Int32) -> UInt64 {
        UInt64(key) << 32 | UInt64(UInt32(bitPattern: day) ^ 0x8000_0000)
    }

    @inlinable package static func day(ofOrder order: UInt64) -> Int32 {
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

    /// The integers that the first and the last row are sorted by.
    var orderBounds: ClosedRange<UInt64>? {
        guard rowCount > 0 else { return nil }
        // SAFETY: both are inside the page, whose rows ascend.
        let (first, last) = unsafe (order[0], order[rowCount - 1])
        return first <= last ? first...last : nil
    }
}
