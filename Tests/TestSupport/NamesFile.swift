import IngestFormat
import IngestStorage

/// Names and keys by ordinal → the bytes of a names run, all of it in memory.
package struct NamesRunEncoder {
    private let table: TableKind
    private let fileNumber: FileNumber
    private let directory: DirectoryID
    private let generation: Generation
    private let createdAt: Int64
    private var fresh: FreshNames

    package init(
        table: TableKind = .names, fileNumber: FileNumber, directory: DirectoryID,
        firstName: NameOrdinal, firstKey: KeyOrdinal, generation: Generation, createdAt: Int64
    ) {
        self.table = table
        self.fileNumber = fileNumber
        self.directory = directory
        self.generation = generation
        self.createdAt = createdAt
        fresh = FreshNames(firstName: firstName, firstKey: firstKey)
    }

    /// The next name, or (empty) the gap of one that was lost.
    package mutating func append(name: ArraySlice<UInt8>) { fresh.append(name: name) }

    /// The next key, or (`nil`) the gap of one that was lost.
    package mutating func append(key: RewardKey?) { fresh.append(key: key) }

    /// The whole file, and what the manifest keeps of it.
    package mutating func finish() -> (bytes: [UInt8], entry: NamesRunEntry) {
        var builder = NamesRunBuilder(
            table: table, fileNumber: fileNumber, directory: directory, names: fresh.names,
            keys: fresh.keyRange, generation: generation, createdAt: createdAt)
        fresh.sort()
        let names = NameBatch()
        var place = 0
        while fresh.readNames(from: &place, into: names) {
            let isOrder = builder.appendNames(names)
            precondition(isOrder)
        }
        let pairs = PairBatch()
        for kind in [NamesPageKind.keys, .rewards] {
            var place = 0
            while fresh.readPairs(kind, from: &place, into: pairs) { builder.appendPairs(pairs) }
        }
        let pages = builder.takeBytes()
        let (header, index) = builder.finish()
        return (header.encode() + pages + index, header.entry)
    }
}

/// A whole names run in memory: names and keys by ordinal, every order held against them.
package struct DecodedNames {
    package let header: NamesRun.Header
    package private(set) var names: [[UInt8]] = []
    package private(set) var keys: [RewardKey?] = []
    private let bytes: [UInt8]
    private let index: NamesPageIndex

    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - fileNumber: the one in the file's name; `nil` = any.
    /// **Errors** those of `NamesRun.Header.decode`; `torn` for fewer bytes than the header says; else `corrupt`, also
    /// for orders that do not have each name and key once.
    package init(
        _ bytes: [UInt8], directory: DirectoryID? = nil, fileNumber: FileNumber? = nil
    ) throws(FormatError) {
        header = try NamesRun.Header.decode(bytes, directory: directory, fileNumber: fileNumber)
        let end = header.fileByteCount
        guard UInt64(bytes.count) >= end else {
            throw .torn("file byte count", at: 0, available: bytes.count, needed: Int(end))
        }
        guard UInt64(bytes.count) == end else {
            throw .corrupt("file byte count", at: 0, got: bytes.count, expected: .exactly(end))
        }
        self.bytes = bytes
        index = try NamesPageIndex(Array(bytes[Int(header.pageIndexOffset)...]), header: header)
        try checkRanks(decodeNames())
        try decodeKeys()
        try checkRewards()
    }

    /// - Returns: the place of each name in the order of their bytes, by ordinal.
    private mutating func decodeNames() throws(FormatError) -> [UInt64?] {
        var ranks = [UInt64?](repeating: nil, count: header.names.count)
        names = ranks.map { _ in [] }
        let batch = NameBatch()
        var last: (name: [UInt8], ordinal: NameOrdinal)?
        var rank: UInt64 = 0
        for (number, page) in try pages(.names).enumerated() {
            try NamePage.decode(page.bytes, count: page.count, ordinals: header.names, into: batch)
            if let last { try batch.expectFirst(after: last.name, last.ordinal) }
            guard batch.name(0)[...] == index.firstName(number) else {
                throw .corrupt("first name", at: 0, got: number, expected: .exactly(0))
            }
            for place in 0..<page.count {
                let ordinal = Int(batch.ordinal(place).rawValue - header.names.lowerBound)
                guard ranks[ordinal] == nil else {
                    throw .corrupt("name ordinal", at: 0, got: ordinal, expected: .exactly(0))
                }
                ranks[ordinal] = rank
                names[ordinal] = batch.name(place)
                rank += 1
            }
            last = (batch.name(page.count - 1), batch.ordinal(page.count - 1))
        }
        return ranks
    }

    private func checkRanks(_ ranks: [UInt64?]) throws(FormatError) {
        for (word, rank) in zip(try words(.ranks), ranks) where word >> 32 != rank {
            throw .corrupt("rank", at: 0, got: word >> 32, expected: .exactly(rank ?? 0))
        }
    }

    private mutating func decodeKeys() throws(FormatError) {
        keys = try words(.keys).map { word in
            word == 0
                ? nil
                : RewardKey(
                    reward: NameOrdinal(rawValue: UInt32(word >> 32)),
                    business: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word)))
        }
    }

    /// Each key once, in the order of the rewards.
    private func checkRewards() throws(FormatError) {
        var seen: Set<Int> = []
        for word in try words(.rewards) {
            let place = Int(UInt32(truncatingIfNeeded: word) - header.keys.lowerBound)
            let reward = keys[place]?.reward.rawValue ?? 0
            guard seen.insert(place).inserted, UInt32(word >> 32) == reward else {
                throw .corrupt("reward", at: 0, got: word >> 32, expected: .exactly(reward))
            }
        }
    }

    private func words(_ kind: NamesPageKind) throws(FormatError) -> [UInt64] {
        let batch = PairBatch()
        var words: [UInt64] = []
        for page in try pages(kind) {
            try PairPage.decode(
                page.bytes, count: page.count,
                bounds: PairPage.Bounds(kind, header, page.entry), into: batch)
            if kind == .rewards, let last = words.last { try batch.expectFirst(after: last) }
            words += (0..<batch.count).map { batch[$0] }
        }
        return words
    }

    /// The pages of a kind, their checksums found right.
    private func pages(
        _ kind: NamesPageKind
    ) throws(FormatError) -> [(bytes: [UInt8], count: Int, entry: NamesPageIndex.Entry)] {
        var pages: [(bytes: [UInt8], count: Int, entry: NamesPageIndex.Entry)] = []
        for (number, place) in index.pages(kind).enumerated() {
            let entry = index.entries[place]
            let start = Int(entry.offset)
            let page = Array(bytes[start..<start + Int(entry.byteCount)])
            try entry.check(page)
            pages.append((page, header.itemCount(kind, page: number), entry))
        }
        return pages
    }
}

/// What a start does with the unsealed segments of a directory, with the keys of its names runs.
package func recoverSegments(
    in files: SimulatedFileSystem, after manifest: Manifest, now: Int64
) throws(StorageError) -> RecoveryReport {
    try SegmentRecovery.run(
        in: files, after: manifest, keys: ManifestStore(files: files).readKeys(of: manifest),
        now: now)
}
