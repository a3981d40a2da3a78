// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat
import IngestStorage

extension SnapshotPublisher {
    /// Writes the blocks' names and keys; merges make larger runs of them.
    mutating func writeNames(
        of blocks: [NamesOfBlock], into next: inout Manifest
    ) throws(PipelineError) {
        let start = OrdinalPair(at: manifest.shard)
        let end = OrdinalPair(at: next.shard)
        if start.name == end.name && start.key == end.key { return }
        let number = next.takeFileNumbers(1)
        next.namesRuns.append(try writeRun(number, of: blocks, start, end, for: next))
    }

    /// Writes a run of what the blocks have from `start` on, with gaps for what was lost before `end`.
    private func writeRun(
        _ number: FileNumber, of blocks: [NamesOfBlock], _ start: OrdinalPair, _ end: OrdinalPair,
        for manifest: Manifest
    ) throws(PipelineError) -> NamesRunEntry {
        var fresh = FreshNames(
            firstName: NameOrdinal(rawValue: start.name), firstKey: KeyOrdinal(rawValue: start.key))
        fresh.reserve(
            nameCount: Int(end.name - start.name),
            nameByteCount: blocks.reduce(0) { $0 + $1.names.bytes.count },
            keyCount: Int(end.key - start.key))
        Self.appendNames(of: blocks, range: start.name..<end.name, to: &fresh)
        for key in keys[Int(start.key)..<Int(end.key)] {
            fresh.append(key: key.reward == .none ? nil : key)
        }
        fresh.sort()
        let none: [NamesRunReader<Files>] = []
        let entry = try storing { () throws(StorageError) in
            try NamesRunWriter.write(
                number, merging: none, and: fresh, for: manifest, in: store.files)
        }
        counters.compact.add(.namesBytes, entry.byteCount)
        return entry
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
            block.names.forEach(from: block.firstName) { _, place in
                fresh.append(name: block.names.bytes[place])
            }
            next += UInt32(block.names.count)
        }
        while next < range.upperBound {
            fresh.append(name: [])
            next += 1
        }
    }
}

/// The next name and the next key.
private struct OrdinalPair {
    let name: UInt32
    let key: UInt32

    init(at shard: ShardState) {
        name = shard.nextName
        key = shard.nextKey
    }
}
