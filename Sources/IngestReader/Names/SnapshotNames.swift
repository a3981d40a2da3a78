// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// The dictionary of a cut: its names runs, of which a look-up reads some pages, and the names of the tail, of which the first
/// few look-ups read what they need in the blocks, and later ones a table. Owned by one query.
///
/// **Cost** A look-up reads one to three small pages a run, 1–3 µs each where they are in memory, and those of the tail as
/// `TailNames` says, or later as `NameTable`.
final class SnapshotNames<Files: FileSystem>: NameSource {
    private let parts: NameParts<Files>
    /// The pages that this query has read.
    private let cache = NamesPageCache()
    init(_ parts: NameParts<Files>) { self.parts = parts }

    var nextName: UInt32 { parts.nextName }
    var nextKey: UInt32 { parts.nextKey }

    /// All names and keys that no run has.
    private func tail() throws(ReaderError) -> NameTable { try parts.tail.names.makeNames() }

    /// What finds single ones of these.
    /// - Parameter isSearch: as that of `namesForLookUp`.
    private func tailLookUp(isSearch: Bool) throws(ReaderError) -> any NameLookUp {
        let names = parts.tail.names
        if let table = try names.namesForLookUp(isSearch: isSearch) { return table }
        return names
    }

    func storedOrdinal(of name: [UInt8]) throws(ReaderError) -> NameOrdinal? {
        for run in parts.runs {
            let found = try ReaderError.reading { () throws(StorageError) in
                try run.ordinal(of: name, cache: cache)
            }
            if let found { return found }
        }
        return try tailLookUp(isSearch: true).storedOrdinal(of: name)
    }

    func bytes(of name: NameOrdinal) throws(ReaderError) -> [UInt8] {
        guard let run = parts.run(where: { $0.names.upperBound > name.rawValue }) else {
            return try tailLookUp(isSearch: false).bytes(of: name)
        }
        return try ReaderError.reading { () throws(StorageError) in
            try run.name(name, cache: cache)
        } ?? []
    }

    func names(of key: KeyOrdinal) throws(ReaderError) -> RewardKey {
        guard let run = parts.run(where: { $0.keys.upperBound > key.rawValue }) else {
            return try tailLookUp(isSearch: false).names(of: key)
        }
        return try ReaderError.reading { () throws(StorageError) in
            try run.key(key, cache: cache)
        } ?? RewardKey(reward: .none, business: .none)
    }

    func keys(ofReward reward: NameOrdinal) throws(ReaderError) -> [KeyOrdinal] {
        var keys: [KeyOrdinal] = []
        for run in parts.runs {
            keys += try ReaderError.reading { () throws(StorageError) in
                try run.keys(ofReward: reward, cache: cache)
            }
        }
        return keys + (try tailLookUp(isSearch: true).keys(ofReward: reward))
    }

    func forEachKeys(
        in keys: Range<UInt32>, _ body: (UInt32, Span<UInt64>) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let pairs = PairBatch()
        for run in parts.runs {
            let wanted = keys.clamped(to: run.keys)
            var cursor = run.makeKeyCursor(wanted)
            while let first = try ReaderError.reading({ () throws(StorageError) in
                try cursor.nextKeys(into: pairs)
            }) {
                let end = first + UInt32(pairs.count)
                let part = wanted.clamped(to: first..<end)
                try pairs.withWords { (words) throws(ReaderError) in
                    try body(
                        part.lowerBound,
                        words.extracting(
                            Int(part.lowerBound - first)..<Int(part.upperBound - first)))
                }
            }
        }
        let tail = try tail()
        try tail.forEachKeys(in: keys, body)
        // Keys that were lost with the blocks that gave them.
        let known = max(tail.nextKey, keys.lowerBound)
        if known < keys.upperBound {
            try body(known, [UInt64](repeating: 0, count: Int(keys.upperBound - known)).span)
        }
    }

    func lostKeyCount() throws(ReaderError) -> Int {
        let tail = try tail()
        var count = try tail.lostKeyCount()
        for run in parts.runs {
            count += try ReaderError.reading { () throws(StorageError) in
                try run.lostKeys().count
            }
        }
        return count + Int(nextKey - min(nextKey, tail.nextKey))
    }

    func lostNames() throws(ReaderError) -> [UInt32] {
        var lost: [UInt32] = []
        for run in parts.runs {
            lost += try ReaderError.reading { () throws(StorageError) in try run.lostNames() }
        }
        let tail = try tail()
        lost += try tail.lostNames()
        if tail.nextName < nextName { lost += tail.nextName..<nextName }
        return lost.sorted()
    }

    func makeCursors() throws(ReaderError) -> [NameCursor] {
        var cursors = parts.runs.map(Self.cursor)
        cursors += try tail().makeCursors()
        return cursors
    }

    private static func cursor(_ run: NamesRunReader<Files>) -> NameCursor {
        var cursor = run.makeNameCursor()
        func next(into batch: NameBatch) throws(ReaderError) -> Bool {
            do throws(StorageError) { return try cursor.nextNames(into: batch) } catch {
                throw ReaderError(error)
            }
        }
        return next
    }
}

/// The names runs of a cut, and what a manifest says of them.
struct NameRuns<Files: FileSystem>: Sendable {
    /// By ordinal, contiguous.
    let runs: [NamesRunReader<Files>]
    let hash: KeyedHash
    let shard: ShardState

    /// The table of names that begins where the runs end, without any.
    var empty: NameTable {
        NameTable(
            firstName: runs.last?.names.upperBound ?? 1,
            firstKey: runs.last?.keys.upperBound ?? 0, hash: hash)
    }
}

/// What a cut's dictionary is made of; shared by all queries.
struct NameParts<Files: FileSystem>: Sendable {
    /// By ordinal, contiguous.
    let runs: [NamesRunReader<Files>]
    /// Begins where the runs end.
    let tail: Tail<Files>
    let hash: KeyedHash
    /// The next ordinals at the cut: names of lost blocks may be in no run and no block.
    let nextName: UInt32
    let nextKey: UInt32

    init(_ names: NameRuns<Files>, _ tail: Tail<Files>) {
        let empty = names.empty
        runs = names.runs
        hash = names.hash
        self.tail = tail
        nextName = max(names.shard.nextName, empty.nextName, tail.nextName)
        nextKey = max(names.shard.nextKey, empty.nextKey, tail.nextKey)
    }

    /// The first run that `isBeyond` holds for, and so for all after it.
    func run(where isBeyond: (NamesRunReader<Files>) -> Bool) -> NamesRunReader<Files>? {
        let place = runs.indices.firstPlace { isBeyond(runs[$0]) }
        return place < runs.count ? runs[place] : nil
    }
}

extension ReaderError {
    /// Makes an error of files one of the reader.
    static func reading<Result>(
        _ body: () throws(StorageError) -> Result
    ) throws(ReaderError) -> Result {
        do throws(StorageError) { return try body() } catch { throw ReaderError(error) }
    }
}
