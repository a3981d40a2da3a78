// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import IngestFormat

// Whole orders of a run, page by page in constant memory.

extension NamesRunReader {
    /// All names in bytewise order with their ordinals, lost ones first.
    ///
    /// **Cost** Names lie in this order: a pread a page of 1024 and 15 ns a name, however the ordinals lie.
    package func makeNameCursor() -> NameCursor { NameCursor(run: self) }

    package struct NameCursor {
        private let run: NamesRunReader
        private var number = 0
        private var last: (name: [UInt8], ordinal: NameOrdinal)?

        fileprivate init(run: NamesRunReader) { self.run = run }

        /// The next page of names. `false` at the end.
        /// **Errors** `corrupt` also where a page does not go on after the one before.
        package mutating func nextNames(into batch: NameBatch) throws(StorageError) -> Bool {
            batch.removeAll()
            guard number < run.header.pageCount(.names) else { return false }
            try run.readNames(page: number, into: batch)
            if let last {
                try run.decoding(.names, number) { () throws(FormatError) in
                    try batch.expectFirst(after: last.name, last.ordinal)
                }
            }
            last = (batch.name(batch.count - 1), batch.ordinal(batch.count - 1))
            number += 1
            return true
        }
    }

    /// Decodes a page of names. - Parameter number: 0 ..< `header.pageCount(.names)`.
    package func readNames(page number: Int, into batch: NameBatch) throws(StorageError) {
        let page = try page(.names, number)
        try decoding(.names, number) { () throws(FormatError) in
            try NamePage.decode(
                page, count: header.itemCount(.names, page: number), ordinals: names, into: batch)
        }
    }

    /// Appends the places of names in the bytewise order, by ordinal. - Parameter number: 0 ..< `header.pageCount(.ranks)`.
    package func readRanks(page number: Int, to ranks: inout [UInt32]) throws(StorageError) {
        let page = try page(.ranks, number)
        try decoding(.ranks, number) { () throws(FormatError) in
            try RankPage.decode(
                page, count: header.itemCount(.ranks, page: number), nameCount: names.count,
                to: &ranks)
        }
    }

    /// All pairs of a kind (keys, hashes, rewards) in its order.
    package func makePairCursor(_ kind: NamesPageKind) -> PairCursor {
        PairCursor(run: self, kind: kind)
    }

    package struct PairCursor {
        private let run: NamesRunReader
        private let kind: NamesPageKind
        private var number = 0
        private var last: UInt64?

        fileprivate init(run: NamesRunReader, kind: NamesPageKind) {
            self.run = run
            self.kind = kind
        }

        /// The next page of pairs. `false` at the end.
        /// **Errors** `corrupt` also where a page does not go on after the one before.
        package mutating func nextPairs(into batch: PairBatch) throws(StorageError) -> Bool {
            batch.removeAll()
            guard number < run.header.pageCount(kind) else { return false }
            try run.readPairs(kind, page: number, into: batch)
            if let last, kind != .keys {
                try run.decoding(kind, number) { () throws(FormatError) in
                    try batch.expectFirst(after: last)
                }
            }
            last = batch[batch.count - 1]
            number += 1
            return true
        }
    }

    /// Decodes a page of keys, hashes or rewards. - Parameter number: 0 ..< `header.pageCount(kind)`.
    package func readPairs(
        _ kind: NamesPageKind, page number: Int, into batch: PairBatch
    ) throws(StorageError) {
        let page = try page(kind, number)
        try decoding(kind, number) { () throws(FormatError) in
            try PairPage.decode(
                page, count: header.itemCount(kind, page: number),
                bounds: bounds(kind, number), into: batch)
        }
    }

    /// The pairs of some keys in their order, page by page. - Parameter range: within `keys`.
    package func makeKeyCursor(_ range: Range<UInt32>) -> KeyCursor {
        KeyCursor(run: self, range: range)
    }

    package struct KeyCursor {
        private let run: NamesRunReader
        private var pages: Range<Int>

        fileprivate init(run: NamesRunReader, range: Range<UInt32>) {
            self.run = run
            pages = 0..<0
            guard !range.isEmpty else { return }
            let keys = run.keys
            precondition(keys.contains(range.lowerBound) && range.upperBound <= keys.upperBound)
            let capacity = NamesPageKind.keys.capacity
            let first = Int(range.lowerBound - run.keys.lowerBound)
            let last = Int(range.upperBound - run.keys.lowerBound) - 1
            pages = first / capacity..<last / capacity + 1
        }

        /// The next page with such keys.
        /// - Returns: the ordinal of the page's first key, which may lie before the range, as the last may lie
        ///   behind it; `nil` at the end, with `batch` empty.
        ///
        /// **Cost** A pread a page of 1024 and 2 ns a key.
        package mutating func nextKeys(into batch: PairBatch) throws(StorageError) -> UInt32? {
            batch.removeAll()
            guard let number = pages.first else { return nil }
            try run.readPairs(.keys, page: number, into: batch)
            pages.removeFirst()
            return run.keys.lowerBound + UInt32(number * NamesPageKind.keys.capacity)
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
            batch.withWords { words in
                for place in words.indices where range.contains(first + UInt32(place)) {
                    pairs.append(RewardKey(word: words[place]))
                }
            }
        }
    }

    /// How many keys were lost: in the order of rewards they come first.
    ///
    /// **Cost** As many pages as they fill, one at least.
    package func lostKeyCount() throws(StorageError) -> Int {
        var count = 0
        let batch = PairBatch()
        var cursor = makePairCursor(.rewards)
        while try cursor.nextPairs(into: batch) {
            let lost = batch.withWords { words in
                words.indices.first { words[$0] >> 32 != 0 } ?? words.count
            }
            count += lost
            if lost < batch.count { break }
        }
        return count
    }
}

extension RewardKey {
    /// A pair of a page of keys.
    fileprivate init(word: UInt64) {
        self.init(
            reward: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word >> 32)),
            business: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word)))
    }
}
