// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

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

    /// The rows in order.
    /// - Parameters:
    ///   - columns: those that pages have; the others are passed over.
    ///   - keys: rows of other keys are left out, and pages without these keys are not looked at.
    package func makeCursor(
        columns: CounterColumnSet = .all, keys: ClosedRange<UInt32> = 0...UInt32.max
    ) -> Cursor {
        Cursor(table: self, columns: columns, keys: keys)
    }

    /// Gives the pages of a table in order, each checked as it is decoded.
    package struct Cursor: CounterPageSource {
        private let table: CounterTable
        private let columns: CounterColumnSet
        private let keys: ClosedRange<UInt32>
        private var pages: Range<Int>

        fileprivate init(
            table: CounterTable, columns: CounterColumnSet, keys: ClosedRange<UInt32>
        ) {
            self.table = table
            self.columns = columns
            self.keys = keys
            pages = table.index.pages(ofKeys: keys)
        }

        /// **Errors** those of a page, with the offset from the first page's first byte.
        package mutating func nextPage(into page: CounterPage) throws(FormatError) -> Bool {
            while let number = pages.popFirst() {
                try unsafe table.withPage(number) { (bytes, entry) throws(FormatError) in
                    try unsafe page.decode(
                        bytes, entry: entry, hasDay: table.hasDay, columns: columns)
                }
                page.keep(keys: keys)
                if page.rowCount > 0 { return true }
            }
            page.removeAll()
            return false
        }
    }

    /// The rows of a point, by day.
    /// **Errors** those of a page, with the offset from the first page's first byte.
    package func rows(of point: CounterPoint) throws(FormatError) -> [CounterDayRow] {
        var found: [CounterDayRow] = []
        for number in index.pages(of: point, hasDay: hasDay) {
            try unsafe withPage(number) { (bytes, _) throws(FormatError) in
                try unsafe index.read(
                    point, on: number, of: bytes, hasDay: hasDay, into: &found)
            }
        }
        return found
    }

    private func withPage(
        _ number: Int,
        _ body: (UnsafeRawBufferPointer, CounterPageIndex.Entry) throws(FormatError) -> Void
    ) throws(FormatError) {
        let range = index.range(ofPage: number)
        guard range.upperBound <= pages.count else {
            throw .torn(
                "page", at: range.lowerBound, available: pages.count, needed: range.upperBound)
        }
        do throws(FormatError) {
            // SAFETY: the slice's bytes stay where they are inside the closure.
            try unsafe pages[range].withUnsafeBufferPointer { (bytes) throws(FormatError) in
                try unsafe body(UnsafeRawBufferPointer(bytes), index.entries[number])
            }
        } catch {
            throw error.moved(by: range.lowerBound)
        }
    }
}
