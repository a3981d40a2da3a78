// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Where the pages of a names run are, what each must sum to, and what each begins with.
///
/// **Layout** docs/format/names.md. 12 bytes a page: byte count u32, CRC-32C of the page u32, first u32; then the first
/// names of the pages of names, back to back. First is the ordinal or reward of the page's first item; for a page of
/// names, where its first name ends among those. Pages lie back to back in this order.
///
/// **Cost** 24 bytes a page, and a name for each page of names: 0.4 bytes a name with its key.
package struct NamesPageIndex: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        /// Of the page in the file; derived.
        package var offset: UInt64
        package var byteCount: UInt32
        package var checksum: UInt32
        package var first: UInt32

        /// Checks a page that was read.
        /// **Errors** `torn` for fewer bytes, `corrupt` for a wrong checksum.
        package func check(_ page: [UInt8]) throws(FormatError) {
            guard page.count == Int(byteCount) else {
                throw .torn("page", at: 0, available: page.count, needed: Int(byteCount))
            }
            let computed = Checksum.crc32c(page)
            guard computed == checksum else {
                throw .corrupt("page checksum", at: 0, got: computed, expected: .exactly(checksum))
            }
        }
    }

    package private(set) var entries: [Entry] = []
    /// The first names of the pages of names.
    private let firstNames: ArraySlice<UInt8>
    /// Where the pages of each kind begin in `entries`, and where the last kind's end.
    private var starts = [0]

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
        firstNames = bytes[header.pageEntriesByteCount...]
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
        try checkFirstNames()
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
            let least = page == 0 ? 0 : entries[entries.count - 1].first
            let expected: ClosedRange<UInt32> =
                switch kind {
                // As many bytes as one name has.
                case .names: least...least + UInt32(Limits.nameByteCountMax)
                case .ranks: header.first(.ranks, page)...header.first(.ranks, page)
                case .keys: header.first(.keys, page)...header.first(.keys, page)
                case .rewards: least...UInt32.max
                }
            guard expected.contains(entry.first) else {
                throw .corrupt(
                    "first", at: at + Field.first.offset, got: entry.first,
                    expected: .atLeast(expected.lowerBound))
            }
            entries.append(entry)
            end += UInt64(entry.byteCount)
        }
    }

    /// The first names ascend, and are all that follows the entries.
    private func checkFirstNames() throws(FormatError) {
        let pages = pages(.names)
        let end = pages.last.map { Int(entries[$0].first) } ?? 0
        guard end == firstNames.count else {
            throw .corrupt(
                "first names", at: 0, got: firstNames.count, expected: .exactly(end))
        }
        for page in pages.dropFirst()
        where firstName(page).lexicographicallyPrecedes(firstName(page - 1)) {
            throw .corrupt("first names", at: 0, got: page, expected: .atLeast(page + 1))
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

    /// The first name of a page of names.
    package func firstName(_ page: Int) -> ArraySlice<UInt8> {
        let start = page == 0 ? 0 : Int(entries[page - 1].first)
        return firstNames[
            firstNames.startIndex + start..<firstNames.startIndex + Int(entries[page].first)]
    }

    /// The pages of names, as places in `entries`, that may hold `name`: one, or two where the second begins with it.
    ///
    /// **Cost** Two binary searches.
    package func pages(holding name: [UInt8]) -> Range<Int> {
        pages(
            .names, { !firstName($0).lexicographicallyPrecedes(name) },
            { name.lexicographicallyPrecedes(firstName($0)) })
    }

    /// The pages of rewards, as places in `entries`, that may hold keys of `reward`.
    package func pages(holding reward: UInt32) -> Range<Int> {
        pages(.rewards, { entries[$0].first >= reward }, { entries[$0].first > reward })
    }

    /// From the page before the first that begins with what is wanted, which may end with it.
    private func pages(
        _ kind: NamesPageKind, _ isNotBefore: (Int) -> Bool, _ isBehind: (Int) -> Bool
    ) -> Range<Int> {
        let all = pages(kind)
        let end = all.firstPlace(where: isBehind)
        return min(max(all.lowerBound, all.firstPlace(where: isNotBefore) - 1), end)..<end
    }
}

extension NamesRun.Header {
    /// The ordinal of the first item of a page of a kind that is in the order of ordinals.
    func first(_ kind: NamesPageKind, _ page: Int) -> UInt32 {
        (kind == .keys ? keys : names).lowerBound + UInt32(page * kind.capacity)
    }
}

/// The fixed places of a names run: docs/format/names.md has the same tables, and a test compares them.
package enum NamesLayout {
    /// Names of one page: a look-up reads one page of a run that does not have the name.
    package static let namePageCapacity = 256
    /// Ranks, keys and rewards of one page. All but the last page of each kind are full.
    package static let pairPageCapacity = 1024

    /// One entry of the page index: the pages of `NamesPageKind.allCases`, kind by kind.
    package enum PageEntry {
        package static let byteCount = 12
        package static let pageByteCount = FormatField("page byte count", 0, 4)
        package static let checksum = FormatField("checksum", 4, 4)
        package static let first = FormatField("first", 8, 4)

        package static let fields = [pageByteCount, checksum, first]
    }
}

/// The kinds of pages of a names run, in the order in which they lie in the file: by text, by ordinal, by reward.
package enum NamesPageKind: Int, CaseIterable, Sendable {
    /// The names in bytewise order, each with its ordinal.
    case names
    /// The place of each name in that order, by ordinal.
    case ranks
    /// The names of each key, by ordinal.
    case keys
    /// The reward of each key and its ordinal, in the order of the rewards.
    case rewards

    /// Items of one page.
    package var capacity: Int {
        self == .names ? NamesLayout.namePageCapacity : NamesLayout.pairPageCapacity
    }

    /// Packed columns of a page.
    var columnCount: Int {
        switch self {
        case .names: 3
        case .ranks: 1
        case .keys, .rewards: 2
        }
    }

    /// What a page of `capacity` items takes at most.
    package var byteCountMax: Int {
        let columns = columnCount * PageColumnCodec.plainByteCountMax(capacity)
        return self == .names ? columns + capacity * Limits.nameByteCountMax : columns
    }
}
