// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// The dictionary of a cut: its names runs, of which a look-up reads some pages, and the names of the tail in
/// memory. Owned by one query.
///
/// **Cost** A look-up reads one to three small pages a run, 1–3 µs each where they are in memory.
final class SnapshotNames<Files: FileSystem>: NameSource {
    private let parts: NameParts<Files>
    /// The pages that this query has read.
    private let cache = NamesPageCache()

    init(_ parts: NameParts<Files>) { self.parts = parts }

    var nextName: UInt32 { max(parts.nextName, parts.tail.nextName) }
    var nextKey: UInt32 { max(parts.nextKey, parts.tail.nextKey) }

    func storedOrdinal(of name: [UInt8]) throws(ReaderError) -> NameOrdinal? {
        let hash = parts.hash.name(name)
        if let found = parts.tail.storedOrdinal(of: name, hash: hash) { return found }
        for run in parts.runs {
            let found = try ReaderError.reading { () throws(StorageError) in
                try run.ordinal(of: name, cache: cache)
            }
            if let found { return found }
        }
        return nil
    }

    func bytes(of name: NameOrdinal) throws(ReaderError) -> [UInt8] {
        guard let run = parts.run(where: { $0.names.upperBound > name.rawValue }) else {
            return try parts.tail.bytes(of: name)
        }
        return try ReaderError.reading { () throws(StorageError) in
            try run.name(name, cache: cache)
        } ?? []
    }

    func names(of key: KeyOrdinal) throws(ReaderError) -> RewardKey {
        guard let run = parts.run(where: { $0.keys.upperBound > key.rawValue }) else {
            return try parts.tail.names(of: key)
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
        return keys + (try parts.tail.keys(ofReward: reward))
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
        try parts.tail.forEachKeys(in: keys, body)
        // Keys that were lost with the blocks that gave them.
        let known = max(parts.tail.nextKey, keys.lowerBound)
        if known < keys.upperBound {
            try body(known, [UInt64](repeating: 0, count: Int(keys.upperBound - known)).span)
        }
    }

    func lostKeyCount() throws(ReaderError) -> Int {
        var count = try parts.tail.lostKeyCount()
        for run in parts.runs {
            count += try ReaderError.reading { () throws(StorageError) in
                try run.lostKeyCount()
            }
        }
        return count + Int(nextKey - min(nextKey, parts.tail.nextKey))
    }

    func lostNames() throws(ReaderError) -> [UInt32] {
        var lost: [UInt32] = []
        for run in parts.runs {
            lost += try ReaderError.reading { () throws(StorageError) in try run.lostNames() }
        }
        lost += try parts.tail.lostNames()
        if parts.tail.nextName < nextName { lost += parts.tail.nextName..<nextName }
        return lost.sorted()
    }

    func makeCursors() throws(ReaderError) -> [NameCursor] {
        var cursors = parts.runs.map(Self.cursor)
        cursors += try parts.tail.makeCursors()
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

/// What a cut's dictionary is made of; shared by all queries.
struct NameParts<Files: FileSystem>: Sendable {
    /// By ordinal, contiguous.
    let runs: [NamesRunReader<Files>]
    /// Begins where the runs end.
    var tail: NameTable
    let hash: KeyedHash
    /// The next ordinals at the cut: names of lost blocks may be in no run and no block.
    private(set) var nextName: UInt32
    private(set) var nextKey: UInt32

    init(runs: [NamesRunReader<Files>], hash: KeyedHash, shard: ShardState) {
        self.runs = runs
        self.hash = hash
        nextName = shard.nextName
        nextKey = shard.nextKey
        tail = NameTable(
            firstName: runs.last?.names.upperBound ?? 1,
            firstKey: runs.last?.keys.upperBound ?? 0, hash: hash)
    }

    /// Has ordinals given up to these, which are the next.
    mutating func give(upTo name: UInt32, key: UInt32) {
        nextName = max(nextName, name)
        nextKey = max(nextKey, key)
    }

    /// The first run that `isBeyond` holds for, and so for all after it.
    func run(where isBeyond: (NamesRunReader<Files>) -> Bool) -> NamesRunReader<Files>? {
        var low = 0
        var high = runs.count
        while low < high {
            let middle = (low + high) / 2
            if isBeyond(runs[middle]) { high = middle } else { low = middle + 1 }
        }
        return low < runs.count ? runs[low] : nil
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
