// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Names and keys of a range of ordinals in a file of their own, so that they outlive their segments: one sorted table
/// with three orders, by text, by ordinal and by reward.
///
/// **Layout** docs/format/names.md: a fixed header of 128 bytes, pages of four kinds, the page index. A name of no
/// bytes and a key without names stand for ordinals that were lost with their block.
package enum NamesRun {
    package struct Header: Hashable, Sendable {
        package static let layout = Layout<Self>(
            .magic, .version, .id("table", \.table, in: NamesRunEntry.tables), .reserved(1),
            .range("first name", "next name", \.names, max: Limits.nameCountMax + 1),
            .id("directory", \.directory), .id("file number", \.fileNumber, in: 1...UInt64.max),
            .id("generation", \.generation), .int("created at", \.createdAt),
            .range("first key", "next key", \.keys, max: Limits.keyCountMax),
            .derived("file byte count", 8, \.fileByteCount),
            .int(
                "page index offset", \.pageIndexOffset,
                in: UInt64(byteCount)...UInt64(Limits.namesRunByteCountMax)),
            .int("page index checksum", \.pageIndexChecksum), .reserved(48, "reserved end"),
            .checksum)
        package static let byteCount = 128
        /// `IGN1` as its bytes lie in the file.
        package static let magic: UInt32 = 0x314E_4749

        package internal(set) var table = TableKind.names
        package internal(set) var fileNumber: FileNumber
        package internal(set) var directory: DirectoryID
        package internal(set) var names: Range<UInt32>
        package internal(set) var keys: Range<UInt32>
        /// Generation and time that it was made for; microseconds since 1970 UTC.
        package internal(set) var generation: Generation
        package internal(set) var createdAt: Int64
        package internal(set) var pageIndexOffset = UInt64(byteCount)
        /// CRC-32C of the page index, which holds that of each page.
        package internal(set) var pageIndexChecksum: UInt32 = 0
        /// Entries, and the first names of the pages of names.
        package internal(set) var pageIndexByteCount = 0

        /// Items of all pages of a kind.
        package func itemCount(_ kind: NamesPageKind) -> Int {
            switch kind {
            case .names, .ranks: names.count
            case .keys, .rewards: keys.count
            }
        }
        package func pageCount(_ kind: NamesPageKind) -> Int {
            (itemCount(kind) + kind.capacity - 1) / kind.capacity
        }
        /// Items of a page, `page` counted from the first of its kind.
        package func itemCount(_ kind: NamesPageKind, page: Int) -> Int {
            min(kind.capacity, itemCount(kind) - page * kind.capacity)
        }
        /// Of the page index, less the first names.
        var pageEntriesByteCount: Int {
            NamesPageKind.allCases.reduce(0) { $0 + pageCount($1) }
                * NamesLayout.PageEntry.byteCount
        }
        /// Of the whole file.
        package var fileByteCount: UInt64 { pageIndexOffset + UInt64(pageIndexByteCount) }
        /// The checksum at the header's end, and so, by the index, of the whole file: what the manifest
        /// holds.
        package var checksum: UInt32 { Checksum.crc32c(encode().dropLast(4)) }

        package var entry: NamesRunEntry {
            NamesRunEntry(
                table: table, fileNumber: fileNumber, byteCount: fileByteCount, checksum: checksum,
                names: names,
                keys: keys)
        }

        package func encode() -> [UInt8] { Self.layout.encode(self, magic: Self.magic) }

        /// Checks and decodes the first 128 bytes of a names run; more may follow.
        /// **Errors** as `FileEnvelope.open`; `notThisFile` for another directory, table or number; `corrupt` for
        /// ranges and offsets that do not fit each other or are over their limit.
        package static func decode(
            _ bytes: [UInt8], directory: DirectoryID? = nil, table: TableKind? = nil,
            fileNumber: FileNumber? = nil
        ) throws(FormatError) -> Header {
            let reader = try layout.openRun(bytes, magic: magic, directory, table, fileNumber)
            _ = try reader.load(layout.firstName, in: Limits.nextNames)
            var header = try layout.load(
                reader,
                into: Header(
                    fileNumber: FileNumber(rawValue: 1), directory: DirectoryID(rawValue: 0),
                    names: 1..<1, keys: 0..<0, generation: Generation(rawValue: 0), createdAt: 0))
            let least = UInt64(header.pageEntriesByteCount)
            let most = least + UInt64(header.pageCount(.names) * Limits.nameByteCountMax)
            let end = try reader.load(
                layout.fileByteCount,
                in: header.pageIndexOffset + least...header.pageIndexOffset + most)
            header.pageIndexByteCount = Int(end - header.pageIndexOffset)
            return header
        }
    }
}

/// Names and keys in the orders of a names run → its bytes, kind by kind, so that neither what they are made of nor
/// what they become is in memory. Owned by one stage.
///
/// Order of calls: `appendNames` for all names, `appendPairs` for all keys, then all rewards, `finish`; `takeBytes` at
/// any time.
///
/// **Cost** 4 bytes a name for the ranks; 12 bytes a page, and a name for each page of names, for the index.
package struct NamesRunBuilder {
    private var header: NamesRun.Header
    private var kind = NamesPageKind.names
    /// Items of `kind` taken so far.
    private var count = 0
    /// By ordinal from the first on, until they are written.
    private var ranks: [UInt32]
    private static let noRank = UInt32.max

    private var bytes: [UInt8] = []
    private var index = FieldWriter()
    private var firstNames: [UInt8] = []

    package init(
        table: TableKind = .names, fileNumber: FileNumber, directory: DirectoryID,
        names: Range<UInt32>, keys: Range<UInt32>, generation: Generation, createdAt: Int64
    ) {
        header = NamesRun.Header(
            table: table, fileNumber: fileNumber, directory: directory, names: names, keys: keys,
            generation: generation, createdAt: createdAt)
        ranks = [UInt32](repeating: Self.noRank, count: names.count)
        skipEmptyKinds()
    }

    /// Adds the next page of names: full, or the last.
    /// - Returns: `false` for an ordinal that came before, or is none of the run's: an input was damaged, and
    ///   nothing more can be made of this run.
    package mutating func appendNames(_ batch: NameBatch) -> Bool {
        precondition(kind == .names)
        for place in 0..<batch.count {
            let ordinal = batch.ordinal(place).rawValue
            guard header.names.contains(ordinal),
                ranks[Int(ordinal - header.names.lowerBound)] == Self.noRank
            else { return false }
            ranks[Int(ordinal - header.names.lowerBound)] = UInt32(count + place)
        }
        firstNames += batch.name(0)
        append(
            NamePage.encode(batch), itemCount: batch.count, first: UInt32(firstNames.count))
        return true
    }

    /// Adds the next page of keys or rewards, whose turn it is: full, or the last.
    package mutating func appendPairs(_ batch: PairBatch) {
        let first =
            kind == .rewards
            ? UInt32(truncatingIfNeeded: batch[0] >> 32) : header.first(kind, count / kind.capacity)
        append(
            PairPage.encode(batch, columnCount: kind.columnCount), itemCount: batch.count,
            first: first)
    }

    /// The coded pages since the last call.
    package mutating func takeBytes() -> [UInt8] {
        let taken = bytes
        bytes.removeAll(keepingCapacity: true)
        return taken
    }

    /// Coded bytes that wait to be taken.
    package var waitingByteCount: Int { bytes.count }

    /// The header, and the page index that follows the last page.
    package mutating func finish() -> (header: NamesRun.Header, index: [UInt8]) {
        precondition(kind == .rewards && count == header.itemCount(.rewards))
        let whole = index.bytes + firstNames
        header.pageIndexByteCount = whole.count
        header.pageIndexChecksum = Checksum.crc32c(whole)
        return (header, whole)
    }

    private mutating func append(_ page: [UInt8], itemCount: Int, first: UInt32) {
        precondition(itemCount == header.itemCount(kind, page: count / kind.capacity))
        typealias Field = NamesLayout.PageEntry
        index.begin(Field.byteCount)
        index.put(page.count, Field.pageByteCount)
        index.put(Checksum.crc32c(page), Field.checksum)
        index.put(first, Field.first)
        header.pageIndexOffset += UInt64(page.count)
        bytes.append(contentsOf: page)
        count += itemCount
        skipEmptyKinds()
    }

    /// Goes on to the next kind that is not complete; ranks write themselves.
    private mutating func skipEmptyKinds() {
        while count == header.itemCount(kind),
            let next = NamesPageKind(rawValue: kind.rawValue + 1)
        {
            kind = next
            count = 0
            if kind == .ranks { appendRanks() }
        }
    }

    private mutating func appendRanks() {
        let page = PairBatch()
        for (place, rank) in ranks.enumerated() {
            page.append(PairBatch.word(rank, 0))
            if page.count < page.capacity && place + 1 < ranks.count { continue }
            appendPairs(page)
            page.removeAll()
        }
        ranks = []
    }
}
