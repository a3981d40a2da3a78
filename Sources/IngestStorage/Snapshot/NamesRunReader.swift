// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import IngestFormat

/// One names run in its file: header and page index in memory, pages on demand. Immutable, so that any number of
/// queries read it at once; the file stays readable after it was unlinked.
///
/// A look-up takes a `NamesPageCache`, which belongs to one query at a time; without one, each page is read anew.
///
/// **Errors** of every call: `corrupt` with file and offset for a page that is not what was written, `io`.
/// **Cost** 24 bytes a page, 150 bytes for 1024 names and keys. A page that is not cached costs a
/// pread and a checksum of 2 to 10 KiB, 1–2 µs; the ordinal of a name 6 µs where a run has it, 1.7 µs where not.
package struct NamesRunReader<Files: FileSystem>: Sendable {
    package let header: NamesRun.Header
    package let index: NamesPageIndex
    private let file: Files.File

    package var names: Range<UInt32> { header.names }
    package var keys: Range<UInt32> { header.keys }

    /// Opens a run that a manifest names, checks header and index.
    ///
    /// **Errors** `notFound`: the manifest is no longer the newest, read that again. `corrupt`: another file than
    /// the manifest means, or damaged.
    package init(
        _ entry: NamesRunEntry, directory: DirectoryID? = nil, in files: Files
    ) throws(StorageError) {
        let file = try files.open(entry.fileName.text, .read)
        try file.check(byteCount: entry.byteCount, max: UInt64(Limits.namesRunByteCountMax))
        let head = try file.readArray(at: 0, byteCount: NamesRun.Header.byteCount)
        let header = try StorageError.decoding(file.path) { () throws(FormatError) in
            try NamesRun.Header.decode(head, directory: directory, fileNumber: entry.fileNumber)
        }
        guard header.entry == entry else {
            throw .corrupt(
                path: file.path, offset: 0, detail: "not the run that the manifest means")
        }
        let bytes = try file.readArray(
            at: header.pageIndexOffset, byteCount: header.pageIndexByteCount)
        index = try StorageError.decoding(file.path, at: header.pageIndexOffset) {
            () throws(FormatError) in try NamesPageIndex(bytes, header: header)
        }
        self.header = header
        self.file = file
    }

    /// The whole run in memory, every page and every order of it checked.
    ///
    /// - Parameter hash: the directory's; `nil` = the stored hashes are not held against the names.
    /// **Cost** Memory of the file, of its names, and 24 bytes a name or key.
    package func readAll(hash: KeyedHash? = nil) throws(StorageError) -> NamesRun {
        let bytes = try file.readAll(byteCountMax: Limits.namesRunByteCountMax)
        let contents = try StorageError.decoding(file.path) { () throws(FormatError) in
            try NamesRun.decode(
                bytes, directory: header.directory, fileNumber: header.fileNumber, hash: hash)
        }
        guard contents.header == header else {
            throw .corrupt(path: file.path, offset: 0, detail: "not the run that was opened")
        }
        return contents
    }

    // MARK: One name or key

    /// The ordinal of a name that is in this run.
    /// - Parameter hash: the directory's of these bytes.
    /// **Cost** One small page where the run does not have the name; three where it has.
    package func ordinal(
        of name: [UInt8], hash: UInt64, cache: NamesPageCache? = nil
    ) throws(StorageError) -> NameOrdinal? {
        guard !name.isEmpty else { return nil }
        let half = UInt32(truncatingIfNeeded: hash >> 32)
        for ordinal in try seconds(.hashes, ofFirst: half, cache) {
            let candidate = NameOrdinal(rawValue: ordinal)
            if try self.name(candidate, cache: cache) == name { return candidate }
        }
        return nil
    }

    /// The bytes of a name; `nil` for one that was lost, and for an ordinal that is not of this run.
    /// **Cost** Two pages: its rank, then the name.
    package func name(
        _ ordinal: NameOrdinal, cache: NamesPageCache? = nil
    ) throws(StorageError) -> [UInt8]? {
        guard names.contains(ordinal.rawValue) else { return nil }
        return try name(ordinal, rank: try rank(of: ordinal, cache), cache)
    }

    /// The names of a key; `nil` for one that was lost, and for an ordinal that is not of this run.
    /// **Cost** One page.
    package func key(
        _ ordinal: KeyOrdinal, cache: NamesPageCache? = nil
    ) throws(StorageError) -> RewardKey? {
        guard keys.contains(ordinal.rawValue) else { return nil }
        let place = Int(ordinal.rawValue - keys.lowerBound)
        let number = place / NamesPageKind.keys.capacity
        let page = try page(.keys, number, cache)
        let pair = try decoding(.keys, number) { () throws(FormatError) in
            try PairPage.pair(
                place % NamesPageKind.keys.capacity, of: page,
                count: header.itemCount(.keys, page: number), bounds: bounds(.keys, number))
        }
        return RewardKey(pair)
    }

    /// The run's keys of a reward, ascending. **Cost** One page, or as many as they fill.
    package func keys(
        ofReward reward: NameOrdinal, cache: NamesPageCache? = nil
    ) throws(StorageError) -> [KeyOrdinal] {
        guard reward != .none else { return [] }
        return try seconds(.rewards, ofFirst: reward.rawValue, cache).map {
            KeyOrdinal(rawValue: $0)
        }
    }

    func rank(
        of ordinal: NameOrdinal, _ cache: NamesPageCache?
    ) throws(StorageError) -> Int {
        let place = Int(ordinal.rawValue - names.lowerBound)
        let number = place / NamesPageKind.ranks.capacity
        let page = try page(.ranks, number, cache)
        let rank = try decoding(.ranks, number) { () throws(FormatError) in
            try RankPage.rank(
                place % NamesPageKind.ranks.capacity, of: page,
                count: header.itemCount(.ranks, page: number), nameCount: names.count)
        }
        return Int(rank)
    }

    func name(
        _ ordinal: NameOrdinal, rank: Int, _ cache: NamesPageCache?
    ) throws(StorageError) -> [UInt8]? {
        let number = rank / NamesPageKind.names.capacity
        let page = try page(.names, number, cache)
        let found = try decoding(.names, number) { () throws(FormatError) in
            let found = try NamePage.name(
                rank % NamesPageKind.names.capacity, of: page,
                count: header.itemCount(.names, page: number))
            guard found.ordinal == UInt64(ordinal.rawValue) else {
                throw .corrupt(
                    "name ordinal", at: 0, got: found.ordinal, expected: .exactly(ordinal.rawValue))
            }
            return found.name
        }
        return found.isEmpty ? nil : found
    }

    /// The second values of the pairs whose first is `wanted`.
    private func seconds(
        _ kind: NamesPageKind, ofFirst wanted: UInt32, _ cache: NamesPageCache?
    ) throws(StorageError) -> [UInt32] {
        var found: [UInt32] = []
        for place in index.pages(kind, holding: wanted) {
            let number = place - index.pages(kind).lowerBound
            let page = try page(kind, number, cache)
            try decoding(kind, number) { () throws(FormatError) in
                try PairPage.appendSeconds(
                    ofFirst: wanted, in: page, count: header.itemCount(kind, page: number),
                    bounds: bounds(kind, number), to: &found)
            }
        }
        return found
    }

    // MARK: Pages

    /// The bytes of a page, its checksum checked.
    /// - Parameter number: from the first page of its kind.
    func page(
        _ kind: NamesPageKind, _ number: Int, _ cache: NamesPageCache? = nil
    ) throws(StorageError) -> [UInt8] {
        let place = index.pages(kind).lowerBound + number
        let slot = NamesPageCache.Slot(file: header.fileNumber, page: place)
        if let page = cache?[slot] { return page }
        let entry = index.entries[place]
        let page = try file.readArray(at: entry.offset, byteCount: Int(entry.byteCount))
        try decoding(kind, number) { () throws(FormatError) in try entry.check(page) }
        cache?[slot] = page
        return page
    }

    /// What the pairs of a page can be.
    func bounds(_ kind: NamesPageKind, _ number: Int) -> PairPage.Bounds {
        PairPage.Bounds(kind, header, index.entries[index.pages(kind).lowerBound + number])
    }

    /// Adds file and offset to what is wrong with a page.
    func decoding<Result>(
        _ kind: NamesPageKind, _ number: Int, _ body: () throws(FormatError) -> Result
    ) throws(StorageError) -> Result {
        let entry = index.entries[index.pages(kind).lowerBound + number]
        return try StorageError.decoding(file.path, at: entry.offset, body)
    }
}

extension RewardKey {
    /// `nil` for the pair of no names that stands for a key that was lost.
    fileprivate init?(_ pair: (first: UInt32, second: UInt32)) {
        guard pair.first != 0 else { return nil }
        self.init(
            reward: NameOrdinal(rawValue: pair.first), business: NameOrdinal(rawValue: pair.second))
    }
}

/// Pages that look-ups have read, of all names runs of a cut. Owned by one query at a time.
///
/// **Cost** At most 256 pages of some KiB; the page that falls on another's place takes it.
package final class NamesPageCache {
    struct Slot: Equatable {
        let file: FileNumber
        /// Of the run's index.
        let page: Int
    }

    private static let slotCount = 256
    private var pages = [(slot: Slot, page: [UInt8])?](repeating: nil, count: slotCount)

    package init() {}

    subscript(_ slot: Slot) -> [UInt8]? {
        get {
            guard let found = pages[Self.place(slot)], found.slot == slot else { return nil }
            return found.page
        }
        set { pages[Self.place(slot)] = newValue.map { (slot, $0) } }
    }

    private static func place(_ slot: Slot) -> Int {
        let mixed = (slot.file.rawValue << 32 ^ UInt64(slot.page)) &* 0x9E37_79B9_7F4A_7C15
        return Int(truncatingIfNeeded: mixed >> 56)
    }
}
