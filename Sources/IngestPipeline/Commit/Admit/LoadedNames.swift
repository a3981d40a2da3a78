// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage

/// Fills the dictionary at start: from the names runs, then from the segments that recovery has sealed.
/// An ordinal whose name was lost with its block stays reserved and finds nothing.
///
/// **Cost** The runs are read page by page (50 ns a name; a key is two look-ups and two hashes), and the lines of a
/// page's names, of the rewards of its keys and of its pairs are fetched together. 8 bytes a name beside the
/// dictionary, until it is taken.
struct LoadedNames: ~Copyable {
    private let hash: KeyedHash
    private var dictionary: NameDictionary
    /// By ordinal: where a key's reward is found. 0 for names that were lost.
    private var hashes: [UInt64] = []
    /// The names of every key, by ordinal; (none, none) for one that was lost.
    private(set) var keys: [RewardKey] = []
    private var isFull = false

    private static var lostKey: RewardKey { RewardKey(reward: .none, business: .none) }

    /// - Parameter hash: the directory's.
    /// **Errors** as `NamesRunReader`; `overLimit` for more names than `Limits` allow.
    init<Files: FileSystem>(
        hash: KeyedHash, of directory: DataDirectory<Files>
    ) throws(PipelineError) {
        let manifest = directory.manifest
        self.hash = hash
        dictionary = NameDictionary(
            expectedNameCount: Int(manifest.shard.nextName),
            expectedKeyCount: Int(manifest.shard.nextKey))
        hashes.reserveCapacity(Int(manifest.shard.nextName))
        keys.reserveCapacity(Int(manifest.shard.nextKey))
        for entry in manifest.namesRuns {
            do {
                let run = try NamesRunReader(
                    entry, directory: manifest.directory, in: directory.store.files)
                try loadNames(of: run)
                try loadKeys(of: run)
            } catch {
                throw .storage(error)
            }
            if isFull {
                throw .storage(
                    .overLimit(path: entry.fileName.text, detail: "more names than fit in memory"))
            }
        }
    }

    private mutating func loadNames<Files: FileSystem>(
        of run: NamesRunReader<Files>
    ) throws(StorageError) {
        let missing = Int(run.names.upperBound) - hashes.count
        if missing > 0 { hashes.append(contentsOf: repeatElement(0, count: missing)) }
        var cursor = run.makeNameCursor()
        let batch = NameBatch()
        while try cursor.nextNames(into: batch) {
            for place in 0..<batch.count {
                // SAFETY: the batch does not change while its names are read.
                let name = unsafe batch.pointer(place)
                guard unsafe !name.isEmpty else { continue }
                let hash = unsafe hash.name(name)
                hashes[Int(batch.ordinal(place).rawValue)] = hash
                dictionary.prefetch(hash: hash)
            }
            for place in 0..<batch.count {
                let name = unsafe batch.pointer(place)
                unsafe restore(batch.ordinal(place), name)
            }
        }
    }

    private mutating func loadKeys<Files: FileSystem>(
        of run: NamesRunReader<Files>
    ) throws(StorageError) {
        let missing = Int(run.keys.lowerBound) - keys.count
        if missing > 0 { keys.append(contentsOf: repeatElement(Self.lostKey, count: missing)) }
        let step = NamesPageKind.keys.capacity
        var pairs: [(KeyOrdinal, PairHash)] = []
        for first in stride(from: keys.count, to: Int(run.keys.upperBound), by: step) {
            let end = min(first + step, Int(run.keys.upperBound))
            try run.readKeys(UInt32(first)..<UInt32(end), to: &keys)
            for place in first..<end {
                dictionary.prefetch(hash: nameHash(keys[place].reward))
            }
            for place in first..<end {
                dictionary.prefetchRecord(hash: nameHash(keys[place].reward))
            }
            for place in first..<end {
                guard let pair = takePair(of: keys[place]) else { continue }
                dictionary.prefetch(pair)
                pairs.append((KeyOrdinal(rawValue: UInt32(place)), pair))
            }
            for (key, pair) in pairs { restore(key, pair) }
            pairs.removeAll(keepingCapacity: true)
        }
    }

    /// Adds those of blocks that the names runs do not have.
    mutating func add(_ blocks: [NamesOfBlock]) {
        for block in blocks {
            for index in 0..<block.names.count {
                let ordinal = NameOrdinal(rawValue: block.firstName.rawValue + UInt32(index))
                add(ordinal, block.names.name(index))
            }
            for (index, key) in block.keys.enumerated() {
                let ordinal = Int(block.firstKey.rawValue) + index
                if ordinal < keys.count { continue }
                while keys.count < ordinal { keys.append(Self.lostKey) }
                keys.append(key)
                guard let pair = takePair(of: key) else { continue }
                restore(KeyOrdinal(rawValue: UInt32(ordinal)), pair)
            }
        }
    }

    mutating func reserve(upTo next: LogAnchor) {
        dictionary.reserve(nextName: next.nextName, nextKey: next.nextKey)
    }

    consuming func takeDictionary() -> NameDictionary { dictionary }

    private mutating func add(_ ordinal: NameOrdinal, _ name: [UInt8]) {
        while hashes.count <= Int(ordinal.rawValue) { hashes.append(0) }
        hashes[Int(ordinal.rawValue)] = hash.name(name)
        // SAFETY: the bytes are used inside the closure only.
        unsafe name.withUnsafeBytes { unsafe restore(ordinal, $0) }
    }

    /// - Parameter name: its hash is in `hashes`; none if it was lost.
    private mutating func restore(_ ordinal: NameOrdinal, _ name: UnsafeRawBufferPointer) {
        guard unsafe !name.isEmpty else { return }
        // SAFETY: the name has as many bytes as it says.
        let slot = unsafe dictionary.restore(
            ordinal, hash: hashes[Int(ordinal.rawValue)], name)
        if slot == nil { isFull = true }
    }

    /// The hash of a key's names; the key is counted for its business, which owns the reward if it is the first. `nil` where a
    /// name was lost: such a key is never asked for, who sends that name again gets a new ordinal.
    private mutating func takePair(of key: RewardKey) -> PairHash? {
        guard key.reward != .none,
            let reward = dictionary.slot(of: key.reward, hash: nameHash(key.reward)),
            let business = dictionary.slot(of: key.business, hash: nameHash(key.business))
        else { return nil }
        // SAFETY: the dictionary's records stay where they are.
        let bytes = unsafe dictionary.bytes(of: reward)
        if unsafe !OtherRewards.isName(bytes) { dictionary.addKey(of: business) }
        dictionary.noteOwner(of: reward, business)
        return unsafe hash.pair(reward: bytes, business: dictionary.bytes(of: business))
    }

    private mutating func restore(_ key: KeyOrdinal, _ pair: PairHash) {
        if !dictionary.restoreKey(key, pair, of: keys[Int(key.rawValue)]) { isFull = true }
    }

    private func nameHash(_ name: NameOrdinal) -> UInt64 {
        name.rawValue < hashes.count ? hashes[Int(name.rawValue)] : 0
    }
}
