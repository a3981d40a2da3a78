// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Where the pages of a names run are, what each must sum to, and what each begins with.
///
/// **Layout** docs/format/names.md. 12 bytes a page: byte count u32, CRC-32C of the page u32, first u32. First is
/// the rank, name ordinal, key ordinal, hash or reward of the page's first item. Pages lie back to back in
/// this order.
///
/// **Cost** 24 bytes a page; about 6 pages for 1024 names and keys.
package struct NamesPageIndex: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        /// Of the page in the file; derived.
        package var offset: UInt64
        package var byteCount: UInt32
        package var checksum: UInt32
        package var first: UInt32
    }

    package private(set) var entries: [Entry] = []
    /// Where the pages of each kind begin in `entries`, and where the last kind's end.
    private var starts: [Int]

    private typealias Field = NamesLayout.PageEntry

    /// Decodes the index of a run.
    ///
    /// **Errors** `corrupt` for a wrong checksum, a page too large for its kind, pages that do not fill what is
    /// between header and index, and first items that cannot be.
    package init(_ bytes: [UInt8], header: NamesRun.Header) throws(FormatError) {
        guard bytes.count == header.pageIndexByteCount else {
            throw .torn(
                "page index", at: 0, available: bytes.count, needed: header.pageIndexByteCount)
        }
        let computed = Checksum.crc32c(bytes)
        guard computed == header.pageIndexChecksum else {
            throw .corrupt(
                "page index checksum", at: 0, got: computed,
                expected: .exactly(header.pageIndexChecksum))
        }
        starts = [0]
        entries.reserveCapacity(bytes.count / Field.byteCount)
        var end = UInt64(NamesRun.Header.byteCount)
        for kind in NamesPageKind.allCases {
            try append(kind, bytes, header, &end)
            starts.append(entries.count)
        }
        guard end == header.pageIndexOffset else {
            throw .corrupt(
                "page byte count", at: 0, got: end, expected: .exactly(header.pageIndexOffset))
        }
    }

    private mutating func append(
        _ kind: NamesPageKind, _ bytes: [UInt8], _ header: NamesRun.Header, _ end: inout UInt64
    ) throws(FormatError) {
        for page in 0..<header.pageCount(kind) {
            let at = entries.count * Field.byteCount
            let entry = Entry(
                offset: end, byteCount: Self.u32(bytes, at + Field.pageByteCount.offset),
                checksum: Self.u32(bytes, at + Field.checksum.offset),
                first: Self.u32(bytes, at + Field.first.offset))
            let most = min(UInt64(kind.byteCountMax), header.pageIndexOffset - end)
            guard entry.byteCount <= most else {
                throw .corrupt(
                    "page byte count", at: at, got: entry.byteCount, expected: .atMost(most))
            }
            try check(entry.first, kind, page: page, header, at: at + Field.first.offset)
            entries.append(entry)
            end += UInt64(entry.byteCount)
        }
    }

    /// Ranks and ordinals follow from the page's place; hashes and rewards ascend.
    private func check(
        _ first: UInt32, _ kind: NamesPageKind, page: Int, _ header: NamesRun.Header, at: Int
    ) throws(FormatError) {
        let begin = UInt32(page * kind.capacity)
        let expected: UInt32
        switch kind {
        case .names: expected = begin
        case .ranks: expected = header.names.lowerBound + begin
        case .keys: expected = header.keys.lowerBound + begin
        case .hashes, .rewards:
            if page > 0, let last = entries.last, first < last.first {
                throw .corrupt("first", at: at, got: first, expected: .atLeast(last.first))
            }
            return
        }
        guard first == expected else {
            throw .corrupt("first", at: at, got: first, expected: .exactly(expected))
        }
    }

    private static func u32(_ bytes: [UInt8], _ at: Int) -> UInt32 {
        UInt32(bytes[at]) | UInt32(bytes[at + 1]) << 8 | UInt32(bytes[at + 2]) << 16
            | UInt32(bytes[at + 3]) << 24
    }

    /// The pages of a kind, as places in `entries`.
    package func pages(_ kind: NamesPageKind) -> Range<Int> {
        starts[kind.rawValue]..<starts[kind.rawValue + 1]
    }

    /// The pages, as places in `entries`, that may hold `wanted`, in a kind whose items ascend.
    ///
    /// **Cost** Two binary searches.
    package func pages(_ kind: NamesPageKind, holding wanted: UInt32) -> Range<Int> {
        let all = pages(kind)
        // The page before the first that begins with it may end with it.
        let first = max(all.lowerBound, partition(all) { $0.first >= wanted } - 1)
        let end = partition(all) { $0.first > wanted }
        return min(first, end)..<end
    }

    /// The first page in `range` that `isBeyond` holds for, and so for all after it.
    private func partition(_ range: Range<Int>, _ isBeyond: (Entry) -> Bool) -> Int {
        var low = range.lowerBound
        var high = range.upperBound
        while low < high {
            let middle = (low + high) / 2
            if isBeyond(entries[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
