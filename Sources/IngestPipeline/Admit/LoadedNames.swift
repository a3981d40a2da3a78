// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage

/// Fills the dictionary at start: from the names runs, then from the segments that recovery has sealed.
/// An ordinal whose name was lost with its block stays reserved and finds nothing.
struct LoadedNames: ~Copyable {
    private let hash: KeyedHash
    private var dictionary = NameDictionary()
    /// The names of every key, by ordinal; (none, none) for one that was lost.
    private(set) var keys: [RewardKey] = []
    private var isFull = false

    init(hash: KeyedHash) { self.hash = hash }

    /// **Errors** as `ManifestStore.readNames`; `overLimit` for more names than `Limits` allow.
    mutating func load<Files: FileSystem>(
        from directory: DataDirectory<Files>
    ) throws(PipelineError) {
        for run in directory.manifest.namesRuns {
            let contents: NamesRun
            do {
                contents = try directory.store.readNames(
                    run, directory: directory.manifest.directory)
            } catch {
                throw .storage(error)
            }
            for ordinal in run.names {
                let name = NameOrdinal(rawValue: ordinal)
                restore(name, contents.name(name))
            }
            for ordinal in run.keys {
                let key = KeyOrdinal(rawValue: ordinal)
                restore(key, contents.key(key))
            }
            if isFull {
                throw .storage(
                    .overLimit(path: run.fileName.text, detail: "more names than fit in memory"))
            }
        }
    }

    mutating func add(_ segments: [SealedSegmentFile]) {
        for block in segments.lazy.flatMap(\.names) {
            for index in 0..<block.names.count {
                let ordinal = block.firstName.rawValue + UInt32(index)
                restore(NameOrdinal(rawValue: ordinal), block.names.name(index)[...])
            }
            for (index, key) in block.keys.enumerated() {
                restore(KeyOrdinal(rawValue: block.firstKey.rawValue + UInt32(index)), key)
            }
        }
    }

    mutating func reserve(upTo next: LogAnchor) {
        dictionary.reserve(nextName: next.nextName, nextKey: next.nextKey)
    }

    consuming func takeDictionary() -> NameDictionary { dictionary }

    private mutating func restore(_ ordinal: NameOrdinal, _ name: ArraySlice<UInt8>) {
        if name.isEmpty { return }
        let hash = hash.name(Array(name))
        // SAFETY: the slice's bytes are valid inside the closure; it is not empty.
        let isRestored = unsafe name.withUnsafeBytes {
            unsafe dictionary.restore(
                ordinal, hash: hash, bytes: $0.baseAddress!, byteCount: $0.count)
        }
        if !isRestored { isFull = true }
    }

    private mutating func restore(_ ordinal: KeyOrdinal, _ key: RewardKey?) {
        while keys.count < Int(ordinal.rawValue) {
            keys.append(RewardKey(reward: .none, business: .none))
        }
        guard let key, key.reward != .none else {
            keys.append(RewardKey(reward: .none, business: .none))
            return
        }
        keys.append(key)
        if !dictionary.restoreKey(ordinal, key) { isFull = true }
    }
}
