// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// The coded pages of one table and their index, wherever they lie: in memory, or in the file of a run.
package protocol CodedPages {
    associatedtype Failure: Error
    var index: CounterPageIndex { get }
    /// Checks and decodes one page.
    /// - Parameters:
    ///   - number: an index of `index.entries`.
    ///   - end: the pages up to before this one will be asked for next.
    ///   - columns: as in `CounterPage.decode`.
    func decode(
        _ number: Int, until end: Int, columns: CounterColumnSet, into page: CounterPage
    ) throws(Failure)
}

/// Gives the rows of a table in order, page by page, each checked as it is decoded.
///
/// **Cost** That of decoding a page; constant memory.
package struct CodedPageCursor<Pages: CodedPages>: CounterPageSource {
    private let source: Pages
    private let columns: CounterColumnSet
    private let keys: ClosedRange<UInt32>
    private var pages: Range<Int>

    /// - Parameters:
    ///   - columns: those that pages have; the others are passed over.
    ///   - keys: rows of other keys are left out, and pages without these keys are not looked at.
    package init(_ source: Pages, columns: CounterColumnSet, keys: ClosedRange<UInt32>) {
        self.source = source
        self.columns = columns
        self.keys = keys
        pages = source.index.pages(ofKeys: keys)
    }

    /// **Errors** those of the pages; the cursor stays where it was.
    package mutating func nextPage(into page: CounterPage) throws(Pages.Failure) -> Bool {
        while let number = pages.first {
            try source.decode(number, until: pages.upperBound, columns: columns, into: page)
            pages.removeFirst()
            page.keep(keys: keys)
            if page.rowCount > 0 { return true }
        }
        page.removeAll()
        return false
    }
}
