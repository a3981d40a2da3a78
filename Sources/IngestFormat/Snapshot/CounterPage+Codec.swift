// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
// One page of a counter table ⇄ bytes.

extension CounterPage {
    /// The most bytes that a page takes: keys, days and counters, all of them packed plainly.
    package static let byteCountMax =
        (2 + CounterRow.columnCount) * CounterColumnCodec.byteCountMax(capacity)

    /// Encodes the page's rows.
    ///
    /// **Layout** One column after the other, each as `CounterColumnCodec` writes it: the differences of
    /// each key to the one before (one less than there are rows), the days + 2^31 (only in tables with
    /// days), then the 21 counters.
    /// - Parameter target: room for `byteCountMax` and `BitPacking.slackByteCount` bytes.
    /// - Returns: the bytes written.
    func encode(hasDay: Bool, to target: UnsafeMutableRawPointer) -> Int {
        guard rowCount > 0 else { return 0 }
        var end = unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: rowCount) {
            room in
            // SAFETY: rowCount ≤ capacity values fit; row - 1 ≥ 0.
            let column = room.baseAddress!
            for row in 1..<max(rowCount, 1) {
                unsafe column[row &- 1] = (order[row] >> 32) &- (order[row &- 1] >> 32)
            }
            var end = unsafe CounterColumnCodec.encode(column, count: rowCount &- 1, to: target)
            if hasDay {
                for row in 0..<rowCount { unsafe column[row] = order[row] & 0xFFFF_FFFF }
                end &+= unsafe CounterColumnCodec.encode(column, count: rowCount, to: target + end)
            }
            return end
        }
        for column in 0..<CounterRow.columnCount {
            // SAFETY: a column is columnStride long; target has room for all at their largest.
            end &+= unsafe CounterColumnCodec.encode(
                values + column &* Self.columnStride, count: rowCount, to: target + end)
        }
        return end
    }

    /// Checks and decodes one page of a table.
    /// - Parameters:
    ///   - bytes: the page, of `entry.byteCount` bytes.
    ///   - hasDay: whether the table's rows have days (`TableKind.hasDay`).
    /// **Errors** `corrupt` for a checksum, order, count or value that cannot be, `torn` for a column that
    /// passes the page's end; offsets are from the page's first byte, and the page is empty then.
    package func decode(
        _ bytes: UnsafeRawBufferPointer, entry: CounterPageIndex.Entry, hasDay: Bool
    ) throws(FormatError) {
        rowCount = 0
        guard bytes.count == entry.byteCount else {
            throw .torn(
                "page byte count", at: 0, available: bytes.count, needed: entry.byteCount)
        }
        let computed = unsafe Checksum.crc32c(bytes)
        guard computed == entry.checksum else {
            throw .corrupt(
                "page checksum", at: 0, got: computed, expected: .exactly(entry.checksum))
        }
        // SAFETY: the reader lives inside this call, for which the caller's bytes are valid.
        var reader = unsafe ColumnReader(ByteReader(bytes))
        try decodeOrder(&reader, entry: entry, hasDay: hasDay)
        for column in 0..<CounterRow.columnCount {
            // SAFETY: a column has room for capacity values, and the index holds rowCount to that.
            try unsafe CounterColumnCodec.decode(
                &reader, count: entry.rowCount, into: values + column &* Self.columnStride)
        }
        guard reader.remainingByteCount == 0 else {
            throw .corrupt(
                "page byte count", at: reader.offset, got: reader.remainingByteCount,
                expected: .exactly(0))
        }
        rowCount = entry.rowCount
    }

    package func decode(
        _ bytes: ArraySlice<UInt8>, entry: CounterPageIndex.Entry, hasDay: Bool
    ) throws(FormatError) {
        // SAFETY: the buffer is valid inside the closure.
        try unsafe bytes.withUnsafeBufferPointer { (buffer) throws(FormatError) in
            try unsafe decode(UnsafeRawBufferPointer(buffer), entry: entry, hasDay: hasDay)
        }
    }

    /// The key and day columns, put together in `order`, strictly ascending inside the entry's bounds.
    private func decodeOrder(
        _ reader: inout ColumnReader, entry: CounterPageIndex.Entry, hasDay: Bool
    ) throws(FormatError) {
        precondition(entry.rowCount > 0 && entry.rowCount <= Self.capacity)
        let count = entry.rowCount
        // SAFETY: order has room for capacity values; the key differences, one less, are decoded
        // behind the first place. The first value column serves as room for the days until the
        // counters are decoded into it.
        try unsafe CounterColumnCodec.decode(&reader, count: count - 1, into: order + 1)
        let days = unsafe values
        if hasDay { try unsafe CounterColumnCodec.decode(&reader, count: count, into: days) }
        unsafe order[0] = UInt64(entry.firstKey)
        var key = UInt64(entry.firstKey)
        var last: UInt64?
        for row in 0..<count {
            if row > 0 { key = unsafe key.addingReportingOverflow(order[row]).partialValue }
            let day = hasDay ? unsafe days[row] : UInt64(1) << 31
            guard key <= UInt64(UInt32.max), day <= UInt64(UInt32.max) else {
                throw .corrupt("key", at: 0, got: max(key, day), expected: .atMost(UInt32.max))
            }
            let next = key << 32 | day
            if let last, next <= last {
                throw .corrupt("key order", at: 0, got: next, expected: .atLeast(last &+ 1))
            }
            unsafe order[row] = next
            last = next
        }
        try checkBounds(entry, lastOrder: last ?? 0)
    }

    private func checkBounds(
        _ entry: CounterPageIndex.Entry, lastOrder: UInt64
    ) throws(FormatError) {
        let first = unsafe order[0]
        guard first == entry.firstOrder else {
            throw .corrupt("first day", at: 0, got: first, expected: .exactly(entry.firstOrder))
        }
        if let end = entry.endOrder, lastOrder >= end {
            throw .corrupt("key order", at: 0, got: lastOrder, expected: .atMost(end - 1))
        }
    }
}
