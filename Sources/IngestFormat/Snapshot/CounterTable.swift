// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// Where the pages of a counter table are, and what each must sum to: one read leads to a key.
///
/// **Layout** docs/format/run.md: 20 bytes a page: first key u32, first day i32, row count u32, byte count
/// u32, CRC-32C of the page u32. Pages lie back to back in this order.
package struct CounterPageIndex: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package static let byteCount = 20
        package var firstKey: UInt32
        package var firstDay: Int32
        package var rowCount: Int
        package var byteCount: Int
        package var checksum: UInt32
        /// Of the page, from the first page's first byte; derived.
        package var offset: Int
    }
    package private(set) var entries: [Entry] = []

    package init() {}

    package var rowCount: Int { 0 }
    package var pagesByteCount: Int { 0 }

    package func encode() -> [UInt8] { fatalError("being written") }

    /// Decodes an index whose checksum the caller has checked.
    /// **Errors** `corrupt` unless keys ascend, pages have 1 … `Limits.runPageRowCountMax` rows and fill
    /// `pagesByteCount` exactly.
    package static func decode(
        _ bytes: [UInt8], pagesByteCount: Int, rowCount: Int
    ) throws(FormatError) -> CounterPageIndex {
        fatalError("being written")
    }

    /// The pages that may hold rows of `key`; more than one where its days cross pages.
    package func pages(of key: UInt32) -> Range<Int> { fatalError("being written") }
}

extension CounterPage {
    /// Checks and decodes one page of a table.
    /// - Parameters:
    ///   - bytes: the page, of `entry.byteCount` bytes.
    ///   - hasDay: whether the table's rows have days (`TableKind.hasDay`).
    /// **Errors** `corrupt` for a checksum, order, count or value that cannot be; the page is empty then.
    package func decode(
        _ bytes: UnsafeRawBufferPointer, entry: CounterPageIndex.Entry, hasDay: Bool
    ) throws(FormatError) {
        fatalError("being written")
    }

    package func decode(
        _ bytes: ArraySlice<UInt8>, entry: CounterPageIndex.Entry, hasDay: Bool
    ) throws(FormatError) {
        // SAFETY: the buffer is valid inside the closure.
        try unsafe bytes.withUnsafeBufferPointer { (buffer) throws(FormatError) in
            try unsafe decode(UnsafeRawBufferPointer(buffer), entry: entry, hasDay: hasDay)
        }
    }
}

/// A whole counter table in memory, coded: what a footer holds, and what a run holds behind its header.
package struct CounterTable: Hashable, Sendable {
    package let hasDay: Bool
    package var pages: [UInt8]
    package var index: CounterPageIndex

    package init(hasDay: Bool, pages: [UInt8] = [], index: CounterPageIndex = CounterPageIndex()) {
        self.hasDay = hasDay
        self.pages = pages
        self.index = index
    }

    package var rowCount: Int { index.rowCount }

    /// The rows from the first on.
    package func makeCursor() -> Cursor { Cursor(table: self) }

    package struct Cursor: CounterPageSource {
        let table: CounterTable
        var page = 0
        package mutating func nextPage(into page: CounterPage) throws(FormatError) -> Bool {
            fatalError("being written")
        }
    }
}

/// Sorted rows → pages and their index. Owned by one stage.
package struct CounterTableEncoder {
    package let hasDay: Bool
    /// Rows taken so far.
    package private(set) var rowCount = 0

    package init(hasDay: Bool) { self.hasDay = hasDay }

    /// Adds one row.
    /// - Parameters:
    ///   - key: greater than the last row's, or equal with a later day in a table with days; the
    ///     caller's order is a precondition.
    ///   - day: 0 in a table without days.
    package mutating func append(key: UInt32, day: Int32, counters: CounterRow) {
        fatalError("being written")
    }

    /// Adds all rows of `source`, which must come after those taken so far.
    package mutating func append<Source: CounterPageSource>(
        contentsOf source: Source
    ) throws(Source.Failure) {
        fatalError("being written")
    }

    /// The coded pages since the last call, for a writer that does not keep a whole table in memory.
    package mutating func takePages() -> [UInt8] { fatalError("being written") }

    /// Ends the table; `pages` are those not yet taken.
    package mutating func finish() -> CounterTable { fatalError("being written") }
}
