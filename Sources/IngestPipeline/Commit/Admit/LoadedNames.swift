// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage

/// Fills the dictionary at start: from the names runs, then from the segments that recovery has sealed.
/// An ordinal whose name was lost with its block stays reserved and finds nothing.
///
/// **Cost** The runs are read page by page (50 ns a name, 10 ns a key), and the lines of a page's names and of the
/// rewards of its keys are fetched together. 8 bytes a name beside the dictionary, until it is taken.
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
                restore(KeyOrdinal(rawValue: UInt32(place)), keys[place])
            }
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
                while keys.count < ordinal { keys.append(Self.lostKey) }
                keys.append(key)
                restore(KeyOrdinal(rawValue: UInt32(ordinal)), key)
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

    /// A key of a name that was lost is never asked for: who sends that name again gets a new ordinal.
    private mutating func restore(_ ordinal: KeyOrdinal, _ key: RewardKey) {
        guard key.reward != .none,
            let reward = dictionary.slot(of: key.reward, hash: nameHash(key.reward)),
            let business = dictionary.slot(of: key.business, hash: nameHash(key.business))
        else { return }
        // SAFETY: the dictionary's records stay where they are.
        let pair = unsafe hash.pair(
            reward: dictionary.bytes(of: reward), business: dictionary.bytes(of: business))
        if !dictionary.restoreKey(ordinal, pair, of: key) { isFull = true }
    }

    private func nameHash(_ name: NameOrdinal) -> UInt64 {
        name.rawValue < hashes.count ? hashes[Int(name.rawValue)] : 0
    }
}
