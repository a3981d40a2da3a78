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
        Cursor(self, columns: columns, keys: keys)
    }

    package typealias Cursor = CodedPageCursor<CounterTable>

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

extension CounterTable: CodedPages {
    /// **Errors** those of a page, with the offset from the first page's first byte.
    package func decode(
        _ number: Int, until end: Int, columns: CounterColumnSet, into page: CounterPage
    ) throws(FormatError) {
        try unsafe withPage(number) { (bytes, entry) throws(FormatError) in
            try unsafe page.decode(bytes, entry: entry, hasDay: hasDay, columns: columns)
        }
    }
}
