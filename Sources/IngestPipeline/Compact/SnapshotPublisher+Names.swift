// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat
import IngestStorage

extension SnapshotPublisher {
    /// Writes names and keys before there is a generation that covers them, so that as many as come until then need
    /// not be kept in memory. The one that covers the blocks takes the run on.
    ///
    /// - Parameter blocks: of one segment, none of them half; they follow those of the call before.
    package mutating func writeNamesAhead(of blocks: [NamesOfBlock]) throws(PipelineError) {
        guard let last = blocks.last else { return }
        let start = OrdinalPair(endOf: namesAhead.last, from: manifest.shard)
        let end = OrdinalPair(
            name: last.firstName.rawValue + UInt32(last.names.count),
            key: last.firstKey.rawValue + UInt32(last.keys.count))
        if end.name <= start.name && end.key <= start.key { return }
        try measuring(.namesNanoseconds) { (publisher) throws(PipelineError) in
            let number = publisher.manifest.takeFileNumber()
            let entry = try publisher.writeRun(
                number, of: blocks, start, end, for: publisher.makeNext(), isNamed: false)
            publisher.namesAhead.append(entry)
        }
    }

    /// Writes the blocks' names and keys, but for those that were written ahead; merges make larger runs of them.
    mutating func writeNames(
        of blocks: [NamesOfBlock], into next: inout Manifest
    ) throws(PipelineError) {
        let end = OrdinalPair(name: next.shard.nextName, key: next.shard.nextKey)
        let covered = namesAhead.prefix {
            $0.names.upperBound <= end.name && $0.keys.upperBound <= end.key
        }
        for (index, entry) in covered.enumerated() {
            if index >= namedAheadCount {
                try storing { () throws(StorageError) in
                    try DurableFile.name(entry.fileName, in: store.files)
                }
                namedAheadCount = index + 1
            }
            next.namesRuns.append(entry)
        }
        let start = OrdinalPair(endOf: covered.last, from: manifest.shard)
        if start.name == end.name && start.key == end.key { return }
        let number = next.takeFileNumber()
        next.namesRuns.append(
            try writeRun(number, of: blocks, start, end, for: next, isNamed: true))
    }

    /// Writes a run of what the blocks have from `start` on, with gaps for what was lost before `end`.
    private mutating func writeRun(
        _ number: FileNumber, of blocks: [NamesOfBlock], _ start: OrdinalPair, _ end: OrdinalPair,
        for manifest: Manifest, isNamed: Bool
    ) throws(PipelineError) -> NamesRunEntry {
        let blocks = blocks.filter {
            $0.firstName.rawValue >= start.name && $0.firstKey.rawValue >= start.key
        }
        appendKeys(of: blocks, upTo: end.key)
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
                number, merging: none, and: fresh, for: manifest, in: store.files, isNamed: isNamed)
        }
        counters.compact.add(.namesBytes, entry.byteCount)
        return entry
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

    init(name: UInt32, key: UInt32) {
        self.name = name
        self.key = key
    }

    /// Behind a run, or where there is none, behind a cut.
    init(endOf run: NamesRunEntry?, from shard: ShardState) {
        self.init(
            name: run?.names.upperBound ?? shard.nextName,
            key: run?.keys.upperBound ?? shard.nextKey)
    }
}
