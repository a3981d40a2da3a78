// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// A whole names run in memory → names and keys by ordinal, every order held against them.
struct NamesRunDecoder {
    private let bytes: [UInt8]
    private let header: NamesRun.Header
    private let index: NamesPageIndex

    private(set) var nameBytes: [UInt8] = []
    private(set) var nameEnds: [UInt32] = []
    private(set) var pairs: [RewardKey] = []
    /// The place of each name in the bytewise order, by ordinal.
    private var ranks: [UInt32] = []

    /// Checks the file's length and the index.
    init(_ bytes: [UInt8], header: NamesRun.Header) throws(FormatError) {
        self.bytes = bytes
        self.header = header
        guard UInt64(bytes.count) >= header.fileByteCount else {
            throw .torn(
                "file byte count", at: 0, available: bytes.count, needed: Int(header.fileByteCount))
        }
        guard UInt64(bytes.count) == header.fileByteCount else {
            throw .corrupt(
                "file byte count", at: 0, got: bytes.count, expected: .exactly(header.fileByteCount)
            )
        }
        let start = Int(header.pageIndexOffset)
        do { index = try NamesPageIndex(Array(bytes[start...]), header: header) } catch {
            throw error.moved(by: start)
        }
    }

    /// Names lie in the order of their bytes: read once for their places, then put in the order of ordinals.
    mutating func decodeNames() throws(FormatError) {
        var sorted: [UInt8] = []
        var ends: [UInt32] = []
        ends.reserveCapacity(header.names.count)
        var ranks = [UInt32](repeating: UInt32.max, count: header.names.count)
        let batch = NameBatch()
        var last: (name: [UInt8], ordinal: NameOrdinal)?
        try forEachPage(.names) { (page, count, _) throws(FormatError) in
            try NamePage.decode(page, count: count, ordinals: header.names, into: batch)
            if let last { try batch.expectFirst(after: last.name, last.ordinal) }
            for place in 0..<count {
                let ordinal = Int(batch.ordinal(place).rawValue - header.names.lowerBound)
                guard ranks[ordinal] == UInt32.max else {
                    throw .corrupt(
                        "name ordinal", at: 0, got: batch.ordinal(place).rawValue,
                        expected: .exactly(0))
                }
                ranks[ordinal] = UInt32(ends.count)
                // SAFETY: the name is copied where it lies, inside the closure.
                batch.withName(place) { name in
                    unsafe name.withUnsafeBytes { unsafe sorted.append(contentsOf: $0) }
                }
                ends.append(UInt32(truncatingIfNeeded: sorted.count))
            }
            last = (batch.name(count - 1), batch.ordinal(count - 1))
        }
        self.ranks = ranks
        nameBytes.reserveCapacity(sorted.count)
        nameEnds.reserveCapacity(ends.count)
        for rank in ranks {
            let start = rank == 0 ? 0 : Int(ends[Int(rank) - 1])
            nameBytes.append(contentsOf: sorted[start..<Int(ends[Int(rank)])])
            nameEnds.append(UInt32(truncatingIfNeeded: nameBytes.count))
        }
    }

    func checkRanks() throws(FormatError) {
        var found: [UInt32] = []
        found.reserveCapacity(header.names.count)
        try forEachPage(.ranks) { (page, count, _) throws(FormatError) in
            try RankPage.decode(page, count: count, nameCount: header.names.count, to: &found)
        }
        for (place, rank) in found.enumerated() where rank != ranks[place] {
            throw .corrupt("rank", at: 0, got: rank, expected: .exactly(ranks[place]))
        }
    }

    mutating func decodeKeys() throws(FormatError) {
        pairs.reserveCapacity(header.keys.count)
        var found: [RewardKey] = []
        try forEachPair(.keys) { (word) throws(FormatError) in
            found.append(
                RewardKey(
                    reward: NameOrdinal(rawValue: UInt32(word >> 32)),
                    business: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word))))
        }
        pairs = found
    }

    /// Each name once, in the order of the hashes; those of the names, where the hash is known.
    func checkHashes(_ hash: KeyedHash?) throws(FormatError) {
        var isSeen = [Bool](repeating: false, count: header.names.count)
        try forEachPair(.hashes) { (word) throws(FormatError) in
            let place = Int(UInt32(truncatingIfNeeded: word) - header.names.lowerBound)
            if isSeen[place] { throw .corrupt("hash", at: 0, got: word, expected: .exactly(0)) }
            isSeen[place] = true
            let start = place == 0 ? 0 : Int(nameEnds[place - 1])
            guard let hash else { return }
            let half = FreshNames.half(hash, nameBytes[start..<Int(nameEnds[place])])
            guard UInt32(word >> 32) == half else {
                throw .corrupt("hash", at: 0, got: word >> 32, expected: .exactly(half))
            }
        }
    }

    /// Each key once, in the order of the rewards.
    func checkRewards() throws(FormatError) {
        var isSeen = [Bool](repeating: false, count: header.keys.count)
        try forEachPair(.rewards) { (word) throws(FormatError) in
            let place = Int(UInt32(truncatingIfNeeded: word) - header.keys.lowerBound)
            let reward = pairs[place].reward.rawValue
            guard !isSeen[place], UInt32(word >> 32) == reward else {
                throw .corrupt("reward", at: 0, got: word >> 32, expected: .exactly(reward))
            }
            isSeen[place] = true
        }
    }

    private func forEachPair(
        _ kind: NamesPageKind, _ body: (UInt64) throws(FormatError) -> Void
    ) throws(FormatError) {
        let batch = PairBatch(capacity: kind.capacity)
        var last: UInt64?
        try forEachPage(kind) { (page, count, entry) throws(FormatError) in
            let bounds = PairPage.Bounds(kind, header, entry)
            try PairPage.decode(page, count: count, bounds: bounds, into: batch)
            if let last, bounds.isOrdered { try batch.expectFirst(after: last) }
            last = batch[count - 1]
            for place in 0..<count { try body(batch[place]) }
        }
    }

    /// Calls `body` with the bytes of each page of a kind, once their checksum was found right.
    private func forEachPage(
        _ kind: NamesPageKind,
        _ body: ([UInt8], Int, NamesPageIndex.Entry) throws(FormatError) -> Void
    ) throws(FormatError) {
        for (page, place) in index.pages(kind).enumerated() {
            let entry = index.entries[place]
            let start = Int(entry.offset)
            let stored = Array(bytes[start..<start + Int(entry.byteCount)])
            do {
                try entry.check(stored)
                try body(stored, header.itemCount(kind, page: page), entry)
            } catch {
                throw error.moved(by: start)
            }
        }
    }
}

extension NamesPageIndex.Entry {
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
