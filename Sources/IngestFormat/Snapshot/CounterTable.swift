// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
import CIngestLinux

/// A whole counter table in memory, coded: what a footer holds, and what a run holds behind its header.
package struct CounterTable: Hashable, Sendable {
    package let hasDay: Bool
    package var pages: [UInt8] = []
    package var index = CounterPageIndex()

    package var rowCount: Int { index.rowCount }

    /// The table of all rows of a source that has days, in its order.
    package static func encode<Source: CounterPageSource>(
        _ rows: Source
    ) throws(Source.Failure) -> CounterTable {
        var encoder = CounterTableEncoder(hasDay: true)
        try encoder.append(contentsOf: rows)
        return encoder.finish()
    }

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

/// Sorted rows → pages and their index. Owned by one stage.
///
/// **Cost** 1–2 ns a row and column that is not all zeros; 600 KiB, and the coded pages until they are taken.
@safe package struct CounterTableEncoder: ~Copyable {
    package let hasDay: Bool
    /// Rows taken so far.
    package private(set) var rowCount = 0

    private var pages: [UInt8] = []
    private var index = CounterPageIndex()
    private let page = CounterPage()
    private var lastOrder: UInt64?
    private let room: UnsafeMutableRawPointer

    package init(hasDay: Bool) {
        self.hasDay = hasDay
        unsafe room = .allocate(
            byteCount: CounterPage.byteCountMax + PageColumnCodec.slackByteCount, alignment: 64)
    }

    deinit { unsafe room.deallocate() }

    /// Adds one row.
    /// - Parameters:
    ///   - key: greater than the last row's, or equal with a later day in a table with days; the
    ///     caller's order is a precondition.
    ///   - day: 0 in a table without days.
    package mutating func append(key: UInt32, day: Int32, counters: CounterRow) {
        precondition(hasDay || day == 0)
        precondition(follows(CounterPage.order(key: key, day: day)))
        if page.rowCount == CounterPage.capacity { flush() }
        _ = page.append(key: key, day: day, counters: counters)
        rowCount += 1
        lastOrder = CounterPage.order(key: key, day: day)
    }

    /// Adds all rows of `source`, which must come after those taken so far.
    package mutating func append<Source: CounterPageSource>(
        contentsOf source: Source
    ) throws(Source.Failure) {
        var source = source
        let incoming = CounterPage()
        while try source.nextPage(into: incoming) {
            append(contentsOf: incoming)
        }
    }

    /// Adds all rows of a page, which must come after those taken so far.
    package mutating func append(contentsOf incoming: CounterPage) {
        guard let bounds = incoming.orderBounds else { return }
        precondition(follows(bounds.lowerBound))
        defer {
            rowCount += incoming.rowCount
            lastOrder = bounds.upperBound
        }
        // Of a source that fills its pages, each is coded where it lies.
        if page.rowCount == CounterPage.capacity { flush() }
        if page.rowCount == 0 && incoming.rowCount == CounterPage.capacity {
            return write(incoming)
        }
        var taken = 0
        while taken < incoming.rowCount {
            if page.rowCount == CounterPage.capacity { flush() }
            taken += page.append(taken..<incoming.rowCount, of: incoming)
        }
    }

    /// The coded pages since the last call, for a writer that does not keep a whole table in memory.
    package mutating func takePages() -> [UInt8] {
        let taken = pages
        pages = []
        return taken
    }

    /// Ends the table; `pages` are those not yet taken.
    package mutating func finish() -> CounterTable {
        flush()
        return CounterTable(hasDay: hasDay, pages: takePages(), index: index)
    }

    private func follows(_ order: UInt64) -> Bool {
        guard let lastOrder else { return true }
        return order > lastOrder
    }

    private mutating func flush() {
        guard page.rowCount > 0 else { return }
        write(page)
        page.removeAll()
    }

    private mutating func write(_ page: CounterPage) {
        // SAFETY: room has byteCountMax bytes and the packer's slack, and encode wrote byteCount.
        let byteCount = unsafe page.encode(hasDay: hasDay, to: room)
        let bytes = unsafe UnsafeRawBufferPointer(start: room, count: byteCount)
        unsafe pages.append(contentsOf: bytes)
        index.append(
            CounterPageIndex.Entry(
                firstKey: page.key(0), firstDay: page.day(0), rowCount: page.rowCount,
                byteCount: byteCount, checksum: unsafe Checksum.crc32c(bytes)))
    }
}

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

/// An array that grows by moving, begins on a cache line, and is asked for as huge pages once it is large:
/// with pages of 4 KiB the look-ups in millions of slots wait for page tables as long as for memory. Once it is,
/// growing moves pages and copies nothing.
///
/// **Cost** Address space up to the capacity; only what was touched is resident, in steps of a page.
@safe package struct LineMemory<Value: BitwiseCopyable>: ~Copyable {
    private static var hugeByteCountMin: Int { 2 << 20 }

    package private(set) var base: UnsafeMutablePointer<Value>
    package private(set) var capacity = 1
    private var isMapped = false

    /// Room for one value, which is not initialised.
    package init() { unsafe base = .allocate(capacity: 1) }

    /// Room for `capacity` values at least, none of which is initialised.
    package init(capacity: Int) {
        self.init()
        reserve(capacity, keeping: 0)
    }

    deinit { unsafe Self.free(base, capacity: capacity, isMapped: isMapped) }

    /// Makes room for `count` values at least, the first `kept` of which stay; the others are not
    /// initialised. Pointers into the memory are of no use afterwards.
    package mutating func reserve(_ count: Int, keeping kept: Int) {
        guard count > capacity else { return }
        precondition(kept <= capacity)
        let larger = Int.bitWidth - (max(count, 1 << 12) - 1).leadingZeroBitCount
        let (old, oldCapacity, wasMapped) = unsafe (base, capacity, isMapped)
        capacity = 1 << larger
        let byteCount = capacity * MemoryLayout<Value>.stride
        if wasMapped,
            let grown = unsafe ingest_pages_grow(
                old, oldCapacity * MemoryLayout<Value>.stride, byteCount)
        {
            unsafe base = grown.bindMemory(to: Value.self, capacity: capacity)
            return
        }
        let mapped =
            byteCount >= Self.hugeByteCountMin ? unsafe ingest_pages_map(byteCount) : nil
        isMapped = unsafe mapped != nil
        let bytes = unsafe mapped ?? .allocate(byteCount: byteCount, alignment: 64)
        unsafe base = bytes.bindMemory(to: Value.self, capacity: capacity)
        // SAFETY: kept ≤ the old capacity, which is below the new one.
        unsafe base.initialize(from: old, count: kept)
        unsafe Self.free(old, capacity: oldCapacity, isMapped: wasMapped)
    }

    /// As `reserve`, of memory that is 0 behind the values that stay, and in what is added.
    ///
    /// **Cost** Of large memory nothing: the kernel gives zeros when a page is first touched.
    package mutating func reserveZeros(_ count: Int, keeping kept: Int)
    where Value: FixedWidthInteger {
        guard count > capacity else { return }
        reserve(count, keeping: kept)
        // SAFETY: there is room for capacity values.
        if !isMapped { unsafe (base + kept).initialize(repeating: 0, count: capacity - kept) }
    }

    private static func free(
        _ base: UnsafeMutablePointer<Value>, capacity: Int, isMapped: Bool
    ) {
        if isMapped {
            unsafe ingest_pages_unmap(base, capacity * MemoryLayout<Value>.stride)
        } else {
            unsafe base.deallocate()
        }
    }
}
