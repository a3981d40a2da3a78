// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
// Single rows of a coded page, without decoding the page.

/// One row of a key in a counter table.
package struct CounterDayRow: Equatable, Sendable {
    /// Days since 1970-01-01; 0 in a table without days.
    package var day: Int32
    /// 0 in columns that were not asked for.
    package var counters: CounterRow
}

/// Which rows a point query asks for, and of which columns.
package struct CounterPoint: Hashable, Sendable {
    package var key: UInt32
    /// Without meaning in a table without days.
    package var days: ClosedRange<Int32>
    /// Of those known.
    package var columns: CounterColumnSet

    package init(
        key: UInt32, days: ClosedRange<Int32> = Int32.min...Int32.max,
        columns: CounterColumnSet = .known
    ) {
        self.key = key
        self.days = days
        self.columns = columns.intersection(.known)
    }

    /// The places in the order that rows of the point have.
    func orders(hasDay: Bool) -> ClosedRange<UInt64> {
        let days = hasDay ? days : 0...0
        return CounterPage.order(
            key: key, day: days.lowerBound)...CounterPage.order(key: key, day: days.upperBound)
    }
}

extension CounterPageIndex {
    /// The pages that may hold rows of a point: one, or several where the days of its key cross pages.
    ///
    /// **Cost** Two binary searches.
    package func pages(of point: CounterPoint, hasDay: Bool) -> Range<Int> {
        pages(ofOrders: point.orders(hasDay: hasDay))
    }

    /// Adds the rows of a point that lie on one page, by day, to `rows`.
    ///
    /// The keys are summed up to the one asked for; then each value is picked from its column alone. What
    /// is read is checked as a decoder of the page would: its length and checksum, the head of every
    /// column, keys and days up to the last row given, and what makes up the values given.
    /// - Parameters:
    ///   - bytes: the page.
    ///   - page: its number.
    /// **Errors** those of `CounterPage.decode`; `rows` is as it was then.
    /// **Cost** 1–2 µs: the checksum, 1 ns a row for its key, some ns a column.
    package func read(
        _ point: CounterPoint, on page: Int, of bytes: UnsafeRawBufferPointer, hasDay: Bool,
        into rows: inout [CounterDayRow]
    ) throws(FormatError) {
        let start = rows.count
        let entry = entries[page]
        do throws(FormatError) {
            try unsafe withUnsafeTemporaryAllocation(
                of: UInt64.self, capacity: CounterPage.capacity
            ) { (room) throws(FormatError) in
                // SAFETY: the room has capacity values, and the caller's bytes are valid in this call.
                var probe = unsafe try PageProbe(
                    ColumnReader(page: bytes, entry), entry, room: room.baseAddress!)
                try probe.read(point, hasDay: hasDay, into: &rows)
            }
        } catch {
            rows.removeLast(rows.count - start)
            throw error
        }
    }
}

/// The coded columns of one page, from which single rows are picked.
@safe private struct PageProbe {
    /// From how many rows on a column is decoded whole: picking a value costs as much as decoding some,
    /// and looks at all patches of the column each time.
    private static let decodedRowCountMin = 12

    private var reader: ColumnReader
    private let entry: CounterPageIndex.Entry
    /// For one decoded column.
    private let room: UnsafeMutablePointer<UInt64>

    init(
        _ reader: ColumnReader, _ entry: CounterPageIndex.Entry, room: UnsafeMutablePointer<UInt64>
    ) {
        self.reader = reader
        self.entry = entry
        unsafe self.room = room
    }

    mutating func read(
        _ point: CounterPoint, hasDay: Bool, into rows: inout [CounterDayRow]
    ) throws(FormatError) {
        var places = try findKey(point.key, hasDay: hasDay)
        if hasDay {
            let days = try CodedColumn(&reader, count: entry.rowCount)
            places = try findDays(point, days, in: places, into: &rows)
        } else if !places.isEmpty {
            rows.append(CounterDayRow(day: 0, counters: CounterRow()))
        }
        if places.isEmpty { return }
        let start = rows.count - places.count
        var stored = try reader.columns()
        while let column = stored.popFirst() {
            let coded = try reader.counter(count: entry.rowCount)
            guard point.columns.contains(column) else { continue }
            try withValues(of: coded, in: places) { rows[start + $0].counters.values[column] = $1 }
        }
        try reader.checkEnd()
    }

    /// The rows of a key.
    private mutating func findKey(
        _ wanted: UInt32, hasDay: Bool
    ) throws(FormatError) -> Range<Int> {
        let steps = try CodedColumn(&reader, count: entry.rowCount - 1)
        // SAFETY: room has capacity values, more than there are steps.
        try unsafe steps.decode(into: room)
        var sum = KeySum(key: UInt64(entry.firstKey), repeatsKeys: hasDay)
        let found = unsafe sum.find(UInt64(wanted), room, count: steps.count)
        // Fewer than 2^10 steps below 2^32 do not wrap the sum.
        guard max(sum.key, sum.widest) <= UInt64(UInt32.max) else {
            throw .corrupt(
                "key", at: 0, got: max(sum.key, sum.widest), expected: .atMost(UInt32.max))
        }
        guard sum.areValid else { throw keysDoNotAscend }
        return found
    }

    /// The rows of a point's key and days, which are added to `rows`.
    /// - Parameter places: the rows of the key.
    private func findDays(
        _ point: CounterPoint, _ coded: CodedColumn, in places: Range<Int>,
        into rows: inout [CounterDayRow]
    ) throws(FormatError) -> Range<Int> {
        var found = places.lowerBound..<places.lowerBound
        var first: UInt64 = 0
        var last: UInt64?
        try withValues(of: coded, in: places) { (place, day) throws(FormatError) in
            guard day <= UInt64(UInt32.max) else {
                throw .corrupt("key", at: 0, got: day, expected: .atMost(UInt32.max))
            }
            if let last, day <= last { throw keysDoNotAscend }
            if place == 0 { first = day }
            last = day
            let day = CounterPage.day(ofOrder: day)
            let row = places.lowerBound + place
            if day < point.days.lowerBound { found = row + 1..<row + 1 }
            guard point.days.contains(day) else { return }
            found = found.lowerBound..<row + 1
            rows.append(CounterDayRow(day: day, counters: CounterRow()))
        }
        guard let last else { return found }
        // The bounds that the index gives are those of the first and of the last row.
        let key = UInt64(point.key) << 32
        let isFirst = places.lowerBound == 0
        try entry.check(first: isFirst ? key | first : entry.firstOrder, last: key | last)
        return found
    }

    /// Calls `body` with the value of each row in `places`, which is counted from the first of them on.
    private func withValues(
        of column: CodedColumn, in places: Range<Int>,
        _ body: (Int, UInt64) throws(FormatError) -> Void
    ) throws(FormatError) {
        if column.isConstant || places.count < Self.decodedRowCountMin {
            return try unsafe column.pick(places, room: room) { (row, value) throws(FormatError) in
                try body(row &- places.lowerBound, value)
            }
        }
        // SAFETY: room has capacity values, and rows are below the column's count.
        try unsafe column.decode(into: room)
        for row in places { try body(row &- places.lowerBound, unsafe room[row]) }
    }

    private var keysDoNotAscend: FormatError {
        .corrupt("key order", at: 0, got: 0, expected: .atLeast(1))
    }
}

/// Sums the key differences of a page up to a key.
private struct KeySum {
    private static let blockCount = 32
    /// Of the last row looked at.
    var key: UInt64
    /// Whether a key may have several rows.
    let repeatsKeys: Bool
    /// All differences looked at, one bit over the other.
    var widest: UInt64 = 0
    fileprivate var zeroCount = 0

    var areValid: Bool { repeatsKeys || zeroCount == 0 }

    /// The rows of a key. Differences are summed by blocks while the key lies behind.
    /// - Parameter steps: `count` differences.
    mutating func find(
        _ wanted: UInt64, _ steps: UnsafePointer<UInt64>, count: Int
    ) -> Range<Int> {
        var row = 0
        while row &+ Self.blockCount <= count {
            // SAFETY: a block of steps remains.
            let block = unsafe Self.sum(steps + row, count: Self.blockCount)
            // A hostile sum wraps; `widest` tells.
            guard key &+ block.sum < wanted else { break }
            take(block)
            row &+= Self.blockCount
        }
        var first = key == wanted ? row : Int.max
        while row < count {
            // SAFETY: row < count.
            let step = unsafe Self.sum(steps + row, count: 1)
            take(step)
            if key > wanted || step.widest > UInt64(UInt32.max) { break }
            row &+= 1
            if key == wanted { first = min(first, row) }
        }
        return first <= row ? first..<row &+ 1 : 0..<0
    }

    private struct Block {
        var sum: UInt64 = 0
        var widest: UInt64 = 0
        var zeroCount = 0
    }

    @inline(__always)
    private static func sum(_ steps: UnsafePointer<UInt64>, count: Int) -> Block {
        var block = Block()
        for i in 0..<count {
            // SAFETY: i < count.
            let step = unsafe steps[i]
            block.sum &+= step
            block.widest |= step
            block.zeroCount &+= step == 0 ? 1 : 0
        }
        return block
    }

    private mutating func take(_ block: Block) {
        key &+= block.sum
        widest |= block.widest
        zeroCount &+= block.zeroCount
    }
}
