// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

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
            byteCount: CounterPage.byteCountMax + CounterColumnCodec.slackByteCount, alignment: 64)
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
