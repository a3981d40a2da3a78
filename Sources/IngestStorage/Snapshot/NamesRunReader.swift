// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import IngestFormat

/// One names run in its file: header and page index in memory, pages on demand. Immutable, so that any number of
/// queries read it at once; the file stays readable after it was unlinked.
///
/// A look-up takes a `NamesPageCache`, which belongs to one query at a time; without one, each page is read anew.
///
/// **Errors** of every call: `corrupt` with file and offset for a page that is not what was written, `io`.
/// **Cost** 24 bytes a page and a name for each page of names; 300 bytes for 1024 names and keys. A page that is not
/// cached costs a pread and a checksum of 2 to 10 KiB, 1–2 µs; the ordinal of a name is one such page.
package struct NamesRunReader<Files: FileSystem>: Sendable {
    package let header: NamesRun.Header
    package let index: NamesPageIndex
    let file: Files.File

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
        let head = try file.readArray(at: 0, byteCount: NamesRun.Header.byteCount)
        let header = try StorageError.decoding(file.path) { () throws(FormatError) in
            try NamesRun.Header.decode(
                head, directory: directory, table: entry.table, fileNumber: entry.fileNumber)
        }
        guard header.entry == entry else {
            throw .corrupt(
                path: file.path, offset: 0, detail: "run does not match its manifest entry")
        }
        try self.init(file, header)
    }

    /// A run in any file, of which the header has been read.
    package init(_ file: Files.File, _ header: NamesRun.Header) throws(StorageError) {
        try file.check(
            byteCount: header.fileByteCount, max: UInt64(Limits.namesRunByteCountMax))
        let bytes = try file.readArray(
            at: header.pageIndexOffset, byteCount: header.pageIndexByteCount)
        index = try StorageError.decoding(file.path, at: header.pageIndexOffset) {
            () throws(FormatError) in try NamesPageIndex(bytes, header: header)
        }
        self.header = header
        self.file = file
    }

    // MARK: One name or key

    /// The ordinal of a name that is in this run.
    /// **Cost** One page of names; seldom two.
    package func ordinal(
        of name: [UInt8], cache: NamesPageCache? = nil
    ) throws(StorageError) -> NameOrdinal? {
        guard !name.isEmpty else { return nil }
        for number in index.pages(holding: name) {
            let page = try page(.names, number, cache)
            let found = try decoding(.names, number) { () throws(FormatError) in
                let ordinal = try NamePage.ordinal(
                    of: name, in: page, count: header.itemCount(.names, page: number))
                guard let ordinal else { return UInt32?.none }
                guard ordinal < UInt64(names.upperBound), names.contains(UInt32(ordinal)) else {
                    throw .corrupt(
                        "name ordinal", at: 0, got: ordinal, expected: .atMost(names.upperBound))
                }
                return UInt32(ordinal)
            }
            if let found { return NameOrdinal(rawValue: found) }
        }
        return nil
    }

    /// The bytes of a name; `nil` for one that was lost, and for an ordinal that is not of this run.
    /// **Cost** Two pages: its rank, then the name.
    package func name(
        _ ordinal: NameOrdinal, cache: NamesPageCache? = nil
    ) throws(StorageError) -> [UInt8]? {
        guard names.contains(ordinal.rawValue) else { return nil }
        let rank = try Int(
            pair(.ranks, Int(ordinal.rawValue - names.lowerBound), cache).first)
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

    /// The names of a key; `nil` for one that was lost, and for an ordinal that is not of this run.
    /// **Cost** One page.
    package func key(
        _ ordinal: KeyOrdinal, cache: NamesPageCache? = nil
    ) throws(StorageError) -> RewardKey? {
        guard keys.contains(ordinal.rawValue) else { return nil }
        let pair = try pair(.keys, Int(ordinal.rawValue - keys.lowerBound), cache)
        guard pair.first != 0 else { return nil }
        return RewardKey(
            reward: NameOrdinal(rawValue: pair.first), business: NameOrdinal(rawValue: pair.second))
    }

    /// One pair of a kind. - Parameter place: in the order of the kind, from 0.
    private func pair(
        _ kind: NamesPageKind, _ place: Int, _ cache: NamesPageCache?
    ) throws(StorageError) -> (first: UInt32, second: UInt32) {
        let number = place / kind.capacity
        let page = try page(kind, number, cache)
        return try decoding(kind, number) { () throws(FormatError) in
            try PairPage.pair(
                place % kind.capacity, of: page, count: header.itemCount(kind, page: number),
                bounds: bounds(kind, number))
        }
    }

    /// The run's keys of a reward, ascending. **Cost** One page, or as many as they fill.
    package func keys(
        ofReward reward: NameOrdinal, cache: NamesPageCache? = nil
    ) throws(StorageError) -> [KeyOrdinal] {
        guard reward != .none else { return [] }
        var found: [UInt32] = []
        for place in index.pages(holding: reward.rawValue) {
            let number = place - index.pages(.rewards).lowerBound
            let page = try page(.rewards, number, cache)
            try decoding(.rewards, number) { () throws(FormatError) in
                try PairPage.appendSeconds(
                    ofFirst: reward.rawValue, in: page,
                    count: header.itemCount(.rewards, page: number),
                    bounds: bounds(.rewards, number), to: &found)
            }
        }
        return found.map { KeyOrdinal(rawValue: $0) }
    }

    // MARK: Whole orders, page by page in constant memory

    /// All names in bytewise order with their ordinals, lost ones first.
    ///
    /// **Cost** Names lie in this order: a pread a page of 256 and 15 ns a name, however the ordinals lie.
    package func makeNameCursor() -> NameCursor {
        NameCursor(run: self, pages: 0..<header.pageCount(.names))
    }

    /// Some pages of names; a page before the first is read too, to see that they go on from it.
    package func makeNameCursor(pages: Range<Int>) throws(StorageError) -> NameCursor {
        var cursor = NameCursor(run: self, pages: max(0, pages.lowerBound - 1)..<pages.upperBound)
        if pages.lowerBound > 0 { _ = try cursor.nextNames(into: NameBatch()) }
        return cursor
    }

    package struct NameCursor {
        private let run: NamesRunReader
        private var pages: Range<Int>
        private var last: (name: [UInt8], ordinal: NameOrdinal)?

        fileprivate init(run: NamesRunReader, pages: Range<Int>) {
            (self.run, self.pages) = (run, pages)
        }

        /// The next page of names. `false` at the end.
        /// **Errors** `corrupt` also where a page does not begin as the index says, or does not go on after the one
        /// before.
        package mutating func nextNames(into batch: NameBatch) throws(StorageError) -> Bool {
            batch.removeAll()
            guard let number = pages.popFirst() else { return false }
            let page = try run.page(.names, number)
            try run.decoding(.names, number) { () throws(FormatError) in
                try NamePage.decode(
                    page, count: run.header.itemCount(.names, page: number), ordinals: run.names,
                    into: batch)
                guard batch.name(0)[...] == run.index.firstName(number) else {
                    throw .corrupt("first name", at: 0, got: number, expected: .exactly(0))
                }
                if let last { try batch.expectFirst(after: last.name, last.ordinal) }
            }
            last = (batch.name(batch.count - 1), batch.ordinal(batch.count - 1))
            return true
        }
    }

    /// All pairs of a kind (ranks, keys, rewards) in its order.
    package func makePairCursor(_ kind: NamesPageKind) -> PairCursor {
        PairCursor(run: self, kind: kind, pages: 0..<header.pageCount(kind))
    }

    /// The pages that have some keys. - Parameter range: within `keys`.
    package func makeKeyCursor(_ range: Range<UInt32>) -> PairCursor {
        var pages = 0..<0
        if !range.isEmpty {
            precondition(keys.contains(range.lowerBound) && range.upperBound <= keys.upperBound)
            let capacity = NamesPageKind.keys.capacity
            let first = Int(range.lowerBound - keys.lowerBound)
            let last = Int(range.upperBound - keys.lowerBound) - 1
            pages = first / capacity..<last / capacity + 1
        }
        return PairCursor(run: self, kind: .keys, pages: pages)
    }

    package struct PairCursor {
        private let run: NamesRunReader
        private let kind: NamesPageKind
        private var pages: Range<Int>
        private var last: UInt64?

        fileprivate init(run: NamesRunReader, kind: NamesPageKind, pages: Range<Int>) {
            self.run = run
            self.kind = kind
            self.pages = pages
        }

        /// The next page of pairs. `false` at the end.
        /// **Errors** `corrupt` also where a page does not go on after the one before.
        /// **Cost** A pread a page of 1024 and 2 ns a pair.
        package mutating func nextPairs(into batch: PairBatch) throws(StorageError) -> Bool {
            batch.removeAll()
            guard let number = pages.popFirst() else { return false }
            let page = try run.page(kind, number)
            try run.decoding(kind, number) { () throws(FormatError) in
                try PairPage.decode(
                    page, count: run.header.itemCount(kind, page: number),
                    bounds: run.bounds(kind, number), into: batch)
                if let last, kind == .rewards { try batch.expectFirst(after: last) }
            }
            last = batch[batch.count - 1]
            return true
        }

        /// The next page of keys.
        /// - Returns: the ordinal of the page's first key, which may lie before the range, as the last may lie
        ///   behind it; `nil` at the end, with `batch` empty.
        package mutating func nextKeys(into batch: PairBatch) throws(StorageError) -> UInt32? {
            guard let number = pages.first else { return nil }
            return try nextPairs(into: batch)
                ? run.keys.lowerBound + UInt32(number * NamesPageKind.keys.capacity) : nil
        }
    }

    /// Appends the names of the keys in `range`, which is within `keys`; (none, none) for one that was lost.
    ///
    /// **Cost** A pread a page of 1024 and 4 ns a key.
    package func readKeys(
        _ range: Range<UInt32>, to pairs: inout [RewardKey]
    ) throws(StorageError) {
        pairs.reserveCapacity(pairs.count + range.count)
        let batch = PairBatch()
        var cursor = makeKeyCursor(range)
        while let first = try cursor.nextKeys(into: batch) {
            for place in 0..<batch.count where range.contains(first + UInt32(place)) {
                let word = batch[place]
                pairs.append(
                    RewardKey(
                        reward: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word >> 32)),
                        business: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word))))
            }
        }
    }

    /// The keys that were lost: in the order of rewards they come first.
    ///
    /// **Cost** As many pages as they fill, one at least.
    package func lostKeys() throws(StorageError) -> [UInt32] {
        var lost: [UInt32] = []
        let batch = PairBatch()
        var cursor = makePairCursor(.rewards)
        while try cursor.nextPairs(into: batch) {
            let places = (0..<batch.count).prefix { batch[$0] >> 32 == 0 }
            lost += places.map { UInt32(truncatingIfNeeded: batch[$0]) }
            if places.count < batch.count { break }
        }
        return lost
    }

    /// The ordinals whose names were lost: in bytewise order they come first.
    ///
    /// **Cost** As many pages as they fill, one at least.
    package func lostNames() throws(StorageError) -> [UInt32] {
        var lost: [UInt32] = []
        let batch = NameBatch()
        var cursor = makeNameCursor()
        while try cursor.nextNames(into: batch) {
            let places = (0..<batch.count).prefix { batch.isLost($0) }
            lost += places.map { batch.ordinal($0).rawValue }
            if places.count < batch.count { break }
        }
        return lost
    }

    // MARK: Pages

    /// Checks the checksum of every page of some kinds.
    ///
    /// **Cost** Reads the file.
    package func checkPages(
        of kinds: [NamesPageKind] = NamesPageKind.allCases
    ) throws(StorageError) {
        for kind in kinds {
            for number in 0..<index.pages(kind).count { _ = try page(kind, number) }
        }
    }

    /// The bytes of a page, its checksum checked.
    /// - Parameter number: from the first page of its kind.
    private func page(
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
