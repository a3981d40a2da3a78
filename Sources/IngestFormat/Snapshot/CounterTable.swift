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

    /// The rows from the first on.
    package func makeCursor() -> Cursor { Cursor(table: self) }

    /// Gives the pages of a table in order, each checked as it is decoded.
    package struct Cursor: CounterPageSource {
        private let table: CounterTable
        private var nextPage = 0

        fileprivate init(table: CounterTable) { self.table = table }

        /// **Errors** those of a page, with the offset from the first page's first byte.
        package mutating func nextPage(into page: CounterPage) throws(FormatError) -> Bool {
            page.removeAll()
            guard nextPage < table.index.entries.count else { return false }
            let range = table.index.range(ofPage: nextPage)
            guard range.upperBound <= table.pages.count else {
                throw .torn(
                    "page", at: range.lowerBound, available: table.pages.count,
                    needed: range.upperBound)
            }
            do {
                try page.decode(
                    table.pages[range], entry: table.index.entries[nextPage], hasDay: table.hasDay)
            } catch {
                throw error.moved(by: range.lowerBound)
            }
            nextPage += 1
            return true
        }
    }

    /// The rows of one key (all days), for a reader of few.
    /// **Errors** those of a page.
    package func rows(
        of key: UInt32, page: CounterPage
    ) throws(FormatError) -> [(day: Int32, counters: CounterRow)] {
        var found: [(day: Int32, counters: CounterRow)] = []
        for number in index.pages(of: key) {
            try page.decode(
                pages[index.range(ofPage: number)], entry: index.entries[number], hasDay: hasDay)
            var row = page.firstRow(key: key, day: Int32.min)
            while row < page.rowCount, page.key(row) == key {
                found.append((page.day(row), page.counters(row)))
                row += 1
            }
        }
        return found
    }
}
