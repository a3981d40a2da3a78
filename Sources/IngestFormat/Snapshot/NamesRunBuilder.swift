// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

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
