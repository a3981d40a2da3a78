// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat
import IngestStorage

extension SnapshotPublisher {
    /// Writes the blocks' names and keys; merges make larger runs of them.
    mutating func writeNames(
        of blocks: [NamesOfBlock], into next: inout Manifest
    ) throws(PipelineError) {
        let names = manifest.shard.nextName..<next.shard.nextName
        let newKeys = manifest.shard.nextKey..<next.shard.nextKey
        appendKeys(of: blocks, upTo: next.shard.nextKey)
        if names.isEmpty && newKeys.isEmpty { return }
        guard let hash = KeyedHash(key: next.hashKey) else {
            throw .inconsistent("hash key of \(next.hashKey.count) bytes")
        }
        var fresh = FreshNames(
            firstName: NameOrdinal(rawValue: names.lowerBound),
            firstKey: KeyOrdinal(rawValue: newKeys.lowerBound), hash: hash)
        Self.appendNames(of: blocks, range: names, to: &fresh)
        for key in keys[Int(newKeys.lowerBound)..<Int(newKeys.upperBound)] {
            fresh.append(key: key.reward == .none ? nil : key)
        }
        fresh.sort()
        let number = next.takeFileNumber()
        let none: [NamesRunReader<Files>] = []
        let entry = try storing { () throws(StorageError) in
            try NamesRunWriter.write(number, merging: none, and: fresh, for: next, in: store.files)
        }
        next.namesRuns.append(entry)
        counters.compact.add(.namesBytes, entry.byteCount)
    }

    private mutating func appendKeys(of blocks: [NamesOfBlock], upTo nextKey: UInt32) {
        let lost = RewardKey(reward: .none, business: .none)
        for block in blocks {
            for (index, key) in block.keys.enumerated() {
                let ordinal = Int(block.firstKey.rawValue) + index
                while keys.count < ordinal { keys.append(lost) }
                if keys.count == ordinal { keys.append(key) }
            }
        }
        while keys.count < Int(nextKey) { keys.append(lost) }
    }

    /// Appends the names with ordinals in `range`, and gaps for those whose block was lost.
    private static func appendNames(
        of blocks: [NamesOfBlock], range: Range<UInt32>, to fresh: inout FreshNames
    ) {
        var next = range.lowerBound
        for block in blocks {
            while next < block.firstName.rawValue {
                fresh.append(name: [])
                next += 1
            }
            for index in 0..<block.names.count {
                fresh.append(name: block.names.name(index)[...])
                next += 1
            }
        }
        while next < range.upperBound {
            fresh.append(name: [])
            next += 1
        }
    }
}
