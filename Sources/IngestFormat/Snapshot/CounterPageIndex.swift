// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// Where the pages of a counter table are, and what each must sum to: one read leads to a key.
///
/// **Layout** docs/format/run.md. 20 bytes a page: first key u32, first day i32, row count u32, byte count
/// u32, CRC-32C of the page u32. Pages lie back to back in this order.
package struct CounterPageIndex: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package static let byteCount = CounterLayout.PageEntry.byteCount
        package var firstKey: UInt32
        package var firstDay: Int32
        /// 1 … `Limits.runPageRowCountMax`.
        package var rowCount: Int
        package var byteCount: Int
        package var checksum: UInt32
        /// Of the page, from the first page's first byte; derived.
        package internal(set) var offset = 0
        /// What every row's order is below: the next page's first; derived, `nil` for the last page.
        package internal(set) var endOrder: UInt64?
        /// What the first row is sorted by.
        package var firstOrder: UInt64 { CounterPage.order(key: firstKey, day: firstDay) }
    }

    package private(set) var entries: [Entry] = []
    /// Over all pages.
    package private(set) var rowCount = 0
    package private(set) var pagesByteCount = 0

    package init() {}

    /// Adds the entry of the page that follows; its first row comes after the last page's.
    mutating func append(_ entry: Entry) {
        var entry = entry
        entry.offset = pagesByteCount
        if let last = entries.indices.last { entries[last].endOrder = entry.firstOrder }
        rowCount += entry.rowCount
        pagesByteCount += entry.byteCount
        entries.append(entry)
    }

    /// Where a page is, from the first page's first byte.
    package func range(ofPage page: Int) -> Range<Int> {
        let entry = entries[page]
        return entry.offset..<entry.offset + entry.byteCount
    }

    /// The pages that may hold rows of any of these keys.
    ///
    /// **Cost** Two binary searches.
    package func pages(ofKeys keys: ClosedRange<UInt32>) -> Range<Int> {
        pages(
            ofOrders: CounterPage.order(
                key: keys.lowerBound, day: .min)...CounterPage.order(
                    key: keys.upperBound, day: .max))
    }

    /// The pages that may hold rows of these places in the order (`CounterPage.order`).
    ///
    /// **Cost** Two binary searches.
    package func pages(ofOrders orders: ClosedRange<UInt64>) -> Range<Int> {
        // The page that begins last before or at the range may reach into it.
        let next = entries.indices.firstPlace { entries[$0].firstOrder > orders.lowerBound }
        let end = entries.indices.firstPlace { entries[$0].firstOrder > orders.upperBound }
        return min(max(0, next - 1), end)..<end
    }

    private typealias Field = CounterLayout.PageEntry

    package func encode() -> [UInt8] {
        var writer = FieldWriter(capacity: entries.count * Entry.byteCount)
        for entry in entries {
            writer.begin(Entry.byteCount)
            writer.put(entry.firstKey, Field.firstKey)
            writer.put(entry.firstDay, Field.firstDay)
            writer.put(entry.rowCount, Field.rowCount)
            writer.put(entry.byteCount, Field.pageByteCount)
            writer.put(entry.checksum, Field.checksum)
        }
        return writer.bytes
    }

    /// Checks and decodes the index of a file in which it follows the pages.
    /// - Parameters:
    ///   - bytes: of `pageCount` entries, from `offset` on in the file.
    ///   - checksum: CRC-32C of them.
    ///   - pagesOffset: where the first page begins in the file; the last one ends at `offset`.
    ///   - rowCount: what the pages' rows must come to.
    /// **Errors** `torn` for other bytes than `pageCount` entries, `corrupt` for another checksum, and those of
    /// the entries; offsets are from the file's first byte.
    static func decode(
        _ bytes: [UInt8], pageCount: Int, checksum: UInt32, at offset: UInt64, pagesOffset: Int,
        rowCount: Int
    ) throws(FormatError) -> CounterPageIndex {
        let offset = Int(offset)
        let byteCount = pageCount * Entry.byteCount
        guard bytes.count == byteCount else {
            throw .torn("page index", at: offset, available: bytes.count, needed: byteCount)
        }
        let computed = Checksum.crc32c(bytes)
        guard computed == checksum else {
            throw .corrupt(
                "page index checksum", at: offset, got: computed, expected: .exactly(checksum))
        }
        do {
            return try decode(bytes, pagesByteCount: offset - pagesOffset, rowCount: rowCount)
        } catch {
            throw error.moved(by: offset)
        }
    }

    /// Decodes an index whose checksum the caller has checked.
    /// - Parameters:
    ///   - pagesByteCount: what the pages must fill exactly.
    ///   - rowCount: what their rows must come to.
    /// **Errors** `torn` for a part of an entry; `corrupt` unless first rows ascend, each page has 1 …
    /// `Limits.runPageRowCountMax` rows and at most `CounterPage.byteCountMax` bytes, and sums agree.
    package static func decode(
        _ bytes: [UInt8], pagesByteCount: Int, rowCount: Int
    ) throws(FormatError) -> CounterPageIndex {
        var reader = FieldReader(bytes)
        var index = CounterPageIndex()
        index.entries.reserveCapacity(bytes.count / Entry.byteCount)
        while reader.end < bytes.count {
            try reader.begin(Entry.byteCount)
            try index.append(decodeEntry(reader, after: index.entries.last))
        }
        guard index.rowCount == rowCount else {
            throw .corrupt(
                "row count", at: bytes.count, got: index.rowCount, expected: .exactly(rowCount))
        }
        guard index.pagesByteCount == pagesByteCount else {
            throw .corrupt(
                "pages byte count", at: bytes.count, got: index.pagesByteCount,
                expected: .exactly(pagesByteCount))
        }
        return index
    }

    private static func decodeEntry(
        _ reader: FieldReader, after last: Entry?
    ) throws(FormatError) -> Entry {
        let entry = Entry(
            firstKey: reader.u32(Field.firstKey),
            firstDay: Int32(bitPattern: reader.u32(Field.firstDay)),
            rowCount: Int(
                try reader.load(Field.rowCount, in: 1...UInt64(Limits.runPageRowCountMax))),
            byteCount: Int(
                try reader.load(Field.pageByteCount, in: 1...UInt64(CounterPage.byteCountMax))),
            checksum: reader.u32(Field.checksum))
        if let last, entry.firstOrder <= last.firstOrder {
            throw reader.corrupt(Field.firstKey, .atLeast(last.firstKey))
        }
        return entry
    }
}

/// The fixed places of counter tables: docs/format/run.md has the same table, and a test compares them.
package enum CounterLayout {
    /// One entry of a page index.
    package enum PageEntry {
        package static let byteCount = 20
        package static let firstKey = FormatField("first key", 0, 4)
        package static let firstDay = FormatField("first day", 4, 4)
        package static let rowCount = FormatField("row count", 8, 4)
        package static let pageByteCount = FormatField("page byte count", 12, 4)
        package static let checksum = FormatField("checksum", 16, 4)

        package static let fields = [firstKey, firstDay, rowCount, pageByteCount, checksum]
    }
}
