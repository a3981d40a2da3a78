// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
// One page of a counter table ⇄ bytes.

extension CounterPage {
    /// The most bytes that a page takes: keys, days and counters, all of them packed plainly, and their ids.
    package static let byteCountMax =
        (2 + CounterColumnSet.idCount) * PageColumnCodec.byteCountMax(capacity)
        + idsByteCount

    /// The fewest: form and base of the keys, and the ids of no columns.
    static let byteCountMin = 2 + idsByteCount
    private static let idsByteCount = 4

    /// Encodes the page's rows.
    ///
    /// **Layout** One column after the other, each as `PageColumnCodec` writes it: the differences of
    /// each key to the one before (one less than there are rows), the days + 2^31 (only in tables with
    /// days); a u32 with a bit for each counter that is not 0 in all rows, by its id; these counters.
    /// - Parameter target: room for `byteCountMax` and `PageColumnCodec.slackByteCount` bytes.
    /// - Returns: the bytes written.
    func encode(hasDay: Bool, to target: UnsafeMutableRawPointer) -> Int {
        precondition(columns == .all)
        guard rowCount > 0 else { return 0 }
        var end = unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: rowCount) {
            room in
            // SAFETY: rowCount ≤ capacity values fit; row - 1 ≥ 0.
            let column = room.baseAddress!
            for row in 1..<max(rowCount, 1) {
                unsafe column[row &- 1] = (order[row] >> 32) &- (order[row &- 1] >> 32)
            }
            var end = unsafe PageColumnCodec.encode(column, count: rowCount &- 1, to: target)
            if hasDay {
                for row in 0..<rowCount { unsafe column[row] = order[row] & 0xFFFF_FFFF }
                end &+= unsafe PageColumnCodec.encode(column, count: rowCount, to: target + end)
            }
            return end
        }
        let idsOffset = end
        end &+= Self.idsByteCount
        var (rest, stored) = (nonzero, CounterColumnSet())
        while let column = rest.popFirst() {
            // SAFETY: a column is columnStride long; target has room for all at their largest.
            let byteCount = unsafe PageColumnCodec.encode(
                values + column &* Self.columnStride, count: rowCount, to: target + end)
            // Form and base are 0 of a column of zeros alone: it is left out.
            if unsafe target.loadUnaligned(fromByteOffset: end, as: UInt16.self) == 0 { continue }
            stored.insert(column)
            end &+= byteCount
        }
        unsafe target.storeBytes(
            of: stored.rawValue.littleEndian, toByteOffset: idsOffset, as: UInt32.self)
        return end
    }

    /// Checks and decodes one page of a table.
    /// - Parameters:
    ///   - bytes: the page, of `entry.byteCount` bytes.
    ///   - hasDay: whether the table's rows have days (`TableKind.hasDay`).
    ///   - columns: those to decode. The others are passed over by their heads, and not checked beyond them.
    /// **Errors** `corrupt` for a checksum, order, count or value that cannot be, `torn` for a column that
    /// passes the page's end; offsets are from the page's first byte, and the page is empty then.
    package func decode(
        _ bytes: UnsafeRawBufferPointer, entry: CounterPageIndex.Entry, hasDay: Bool,
        columns: CounterColumnSet = .all
    ) throws(FormatError) {
        removeAll()
        // SAFETY: the reader lives inside this call, for which the caller's bytes are valid.
        var reader = unsafe try ColumnReader(page: bytes, entry)
        try decodeOrder(&reader, entry: entry, hasDay: hasDay)
        var stored = try reader.columns()
        var others = nonzero.subtracting(stored.intersection(columns))
        while let column = others.popFirst() { clear(column) }
        while let column = stored.popFirst() {
            let coded = try reader.counter(count: entry.rowCount)
            guard columns.contains(column) else { continue }
            open(CounterColumnSet(number: column))
            // SAFETY: a column has room for capacity values, and the index holds rowCount to that.
            try unsafe coded.decode(into: values + column &* Self.columnStride)
        }
        try reader.checkEnd()
        rowCount = entry.rowCount
        self.columns = columns
    }

    package func decode(
        _ bytes: ArraySlice<UInt8>, entry: CounterPageIndex.Entry, hasDay: Bool,
        columns: CounterColumnSet = .all
    ) throws(FormatError) {
        // SAFETY: the buffer is valid inside the closure.
        try unsafe bytes.withUnsafeBufferPointer { (buffer) throws(FormatError) in
            try unsafe decode(
                UnsafeRawBufferPointer(buffer), entry: entry, hasDay: hasDay, columns: columns)
        }
    }

    /// The key and day columns, put together in `order`, strictly ascending inside the entry's bounds.
    private func decodeOrder(
        _ reader: inout ColumnReader, entry: CounterPageIndex.Entry, hasDay: Bool
    ) throws(FormatError) {
        precondition(entry.rowCount > 0 && entry.rowCount <= Self.capacity)
        let count = entry.rowCount
        let steps = try CodedColumn(&reader, count: count - 1)
        let days = hasDay ? try CodedColumn(&reader, count: count) : nil
        // Of most pages of a footer all rows are of one day, as those of a table without days are.
        let day = days.map { $0.isConstant ? $0.base : .max } ?? CounterPage.order(key: 0, day: 0)
        let isOfOneDay = day <= UInt64(UInt32.max)
        if isOfOneDay && steps.isConstant && steps.base == 1 {
            try countKeys(from: entry.firstKey, day, count)
            return try entry.check(first: unsafe order[0], last: unsafe order[count &- 1])
        }
        // SAFETY: order has room for capacity values; the key differences, one less than there are
        // rows, are decoded behind the first place.
        try unsafe steps.decode(into: order + 1)
        unsafe order[0] = UInt64(entry.firstKey)
        if isOfOneDay && steps.base > 0 && steps.ceiling <= UInt64(UInt32.max) {
            try sumSteps(count, day)
        } else if let days {
            try sumKeys(count, days)
        } else {
            try sumKeys(count)
        }
        try entry.check(first: unsafe order[0], last: unsafe order[count &- 1])
    }

    /// The keys of rows of one day where none is left out.
    private func countKeys(from first: UInt32, _ day: UInt64, _ count: Int) throws(FormatError) {
        let last = UInt64(first) + UInt64(count - 1)
        guard last <= UInt64(UInt32.max) else {
            throw .corrupt("key", at: 0, got: last, expected: .atMost(UInt32.max))
        }
        let order = unsafe order
        let start = UInt64(first) << 32 | day
        for row in 0..<count {
            // SAFETY: row < count ≤ capacity.
            unsafe order[row] = start &+ UInt64(truncatingIfNeeded: row) &<< 32
        }
    }

    /// Differences to keys of rows of one day, where the head of their column says that none is 0 and none
    /// beyond 32 bits: what the encoder writes.
    private func sumSteps(_ count: Int, _ day: UInt64) throws(FormatError) {
        let order = unsafe order
        // Fewer than 2^10 steps below 2^32 do not wrap the sum.
        var key = unsafe order[0]
        unsafe order[0] = key << 32 | day
        for row in 1..<max(count, 1) {
            // SAFETY: row < count ≤ capacity.
            key &+= unsafe order[row]
            unsafe order[row] = key &<< 32 | day
        }
        guard key <= UInt64(UInt32.max) else {
            throw .corrupt("key", at: 0, got: key, expected: .atMost(UInt32.max))
        }
    }

    /// Differences to keys, in a table without days. A difference of 0 is a key twice.
    private func sumKeys(_ count: Int) throws(FormatError) {
        let order = unsafe order
        var key = unsafe order[0]
        var widest = key
        var repeats = 0
        unsafe order[0] = CounterPage.order(key: UInt32(truncatingIfNeeded: key), day: 0)
        for row in 1..<max(count, 1) {
            // SAFETY: row < count ≤ capacity.
            let step = unsafe order[row]
            repeats &+= step == 0 ? 1 : 0
            widest |= step
            key &+= step
            unsafe order[row] = key &<< 32 | 1 &<< 31
        }
        // Fewer than 2^10 steps below 2^32 do not wrap the sum.
        guard max(key, widest) <= UInt64(UInt32.max) else {
            throw .corrupt("key", at: 0, got: max(key, widest), expected: .atMost(UInt32.max))
        }
        guard repeats == 0 else { throw keysDoNotAscend }
    }

    /// Differences to keys, and the days beside them. The first value column serves as room for the days
    /// until the counters are decoded into it.
    private func sumKeys(_ count: Int, _ coded: CodedColumn) throws(FormatError) {
        let (order, days) = unsafe (order, values)
        open(CounterColumnSet(number: 0))
        try unsafe coded.decode(into: days)
        var key = unsafe order[0]
        var widest = unsafe key | days[0]
        var last = unsafe key &<< 32 | days[0]
        var repeats = 0
        unsafe order[0] = last
        for row in 1..<max(count, 1) {
            // SAFETY: row < count ≤ capacity.
            let (step, day) = unsafe (order[row], days[row])
            widest |= step | day
            key &+= step
            let next = key &<< 32 | day
            repeats &+= next <= last ? 1 : 0
            unsafe order[row] = next
            last = next
        }
        guard max(key, widest) <= UInt64(UInt32.max) else {
            throw .corrupt("key", at: 0, got: max(key, widest), expected: .atMost(UInt32.max))
        }
        guard repeats == 0 else { throw keysDoNotAscend }
    }

    private var keysDoNotAscend: FormatError {
        .corrupt("key order", at: 0, got: 0, expected: .atLeast(1))
    }
}

extension CounterPageIndex.Entry {
    /// Holds the first and the last row of a page against what the index says of it and of the next.
    func check(first: UInt64, last: UInt64) throws(FormatError) {
        guard first == firstOrder else {
            throw .corrupt("first day", at: 0, got: first, expected: .exactly(firstOrder))
        }
        if let endOrder, last >= endOrder {
            throw .corrupt("key order", at: 0, got: last, expected: .atMost(endOrder - 1))
        }
    }
}

extension ColumnReader {
    /// The columns of a page whose length and checksum are those of its entry.
    @unsafe init(
        page bytes: UnsafeRawBufferPointer, _ entry: CounterPageIndex.Entry
    ) throws(FormatError) {
        guard bytes.count == entry.byteCount else {
            throw .torn(
                "page byte count", at: 0, available: bytes.count, needed: entry.byteCount)
        }
        let computed = unsafe Checksum.crc32c(bytes)
        guard computed == entry.checksum else {
            throw .corrupt(
                "page checksum", at: 0, got: computed, expected: .exactly(entry.checksum))
        }
        unsafe self.init(bytes)
    }

    /// The ids of the counters that follow.
    mutating func columns() throws(FormatError) -> CounterColumnSet {
        // SAFETY: 32 bits are there.
        let ids = unsafe try packed("column ids", count: 1, width: CounterColumnSet.idCount)
            .loadUnaligned(as: UInt32.self)
        return CounterColumnSet(rawValue: UInt32(littleEndian: ids))
    }

    /// One of the counters that are not 0 in all rows.
    mutating func counter(count: Int) throws(FormatError) -> CodedColumn {
        let start = offset
        let coded = try CodedColumn(&self, count: count)
        guard !coded.isZero else {
            throw .corrupt("column form", at: start, got: 0, expected: .atLeast(1))
        }
        return coded
    }

    /// Nothing follows the last column.
    func checkEnd() throws(FormatError) {
        guard remainingByteCount == 0 else {
            throw .corrupt(
                "page byte count", at: offset, got: remainingByteCount, expected: .exactly(0))
        }
    }
}
