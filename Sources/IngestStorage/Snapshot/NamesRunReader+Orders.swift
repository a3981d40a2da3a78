// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import IngestFormat

// Whole orders of a run, page by page in constant memory, and many names at once.

extension NamesRunReader {
    /// All names in bytewise order with their ordinals, lost ones first.
    ///
    /// **Cost** Names lie in this order: a pread a page of 1024 and 50 ns a name, however the ordinals lie.
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

    /// Appends the names of the keys in `range`, which is within `keys`; (none, none) for one that was lost.
    ///
    /// **Cost** A pread a page of 1024 and 5 ns a key.
    package func readKeys(
        _ range: Range<UInt32>, to pairs: inout [RewardKey]
    ) throws(StorageError) {
        guard !range.isEmpty else { return }
        precondition(keys.lowerBound <= range.lowerBound && range.upperBound <= keys.upperBound)
        pairs.reserveCapacity(pairs.count + range.count)
        let batch = PairBatch()
        let first = Int(range.lowerBound - keys.lowerBound)
        let end = Int(range.upperBound - keys.lowerBound)
        let capacity = NamesPageKind.keys.capacity
        for number in first / capacity...(end - 1) / capacity {
            try readPairs(.keys, page: number, into: batch)
            let start = number * capacity
            for place in max(first, start)..<min(end, start + batch.count) {
                pairs.append(RewardKey(word: batch[place - start]))
            }
        }
    }

    /// The bytes of many names, in the order of `ordinals`; `nil` for those that were lost or are not of this run.
    ///
    /// **Cost** Each page of ranks and names is read once, in their order: 1 µs a name where few fall on a page.
    package func names(_ ordinals: [NameOrdinal]) throws(StorageError) -> [[UInt8]?] {
        var wanted = ordinals.enumerated().compactMap { place, ordinal in
            names.contains(ordinal.rawValue) ? Wanted(place: place, ordinal: ordinal) : nil
        }
        wanted.sort { $0.ordinal < $1.ordinal }
        let cache = NamesPageCache()
        for place in wanted.indices {
            wanted[place].rank = try rank(of: wanted[place].ordinal, cache)
        }
        wanted.sort { $0.rank < $1.rank }
        var found = [[UInt8]?](repeating: nil, count: ordinals.count)
        for one in wanted {
            found[one.place] = try name(one.ordinal, rank: one.rank, cache)
        }
        return found
    }
}

/// A name that is asked for: where in the answer it goes, and where it stands.
private struct Wanted {
    var place: Int
    var ordinal: NameOrdinal
    var rank = 0
}

extension RewardKey {
    /// A pair of a page of keys.
    fileprivate init(word: UInt64) {
        self.init(
            reward: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word >> 32)),
            business: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word)))
    }
}
