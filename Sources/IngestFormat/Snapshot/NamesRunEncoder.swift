// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Names and keys by ordinal → the bytes of a names run. Owned by one stage.
///
/// **Cost** That of `FreshNames`, and the coded file in memory: for a run that is small or a test's. Larger ones
/// are merged and written page by page (`NamesRunWriter`).
package struct NamesRunEncoder {
    private let fileNumber: FileNumber
    private let directory: DirectoryID
    private let generation: Generation
    private let createdAt: Int64
    private var fresh: FreshNames

    /// - Parameter hash: the directory's.
    package init(
        fileNumber: FileNumber, directory: DirectoryID, firstName: NameOrdinal,
        firstKey: KeyOrdinal, hash: KeyedHash, generation: Generation, createdAt: Int64
    ) {
        self.fileNumber = fileNumber
        self.directory = directory
        self.generation = generation
        self.createdAt = createdAt
        fresh = FreshNames(firstName: firstName, firstKey: firstKey, hash: hash)
    }

    /// Names and keys taken so far, lost ones included.
    package var nameCount: Int { fresh.names.count }
    package var keyCount: Int { fresh.keyRange.count }

    /// The next name, or (empty) the gap of one that was lost.
    /// - Parameter name: at most `Limits.nameByteCountMax` bytes.
    package mutating func append(name: ArraySlice<UInt8>) { fresh.append(name: name) }

    /// The next key, or (`nil`) the gap of one that was lost.
    package mutating func append(key: RewardKey?) { fresh.append(key: key) }

    /// All names and keys of a run that goes on where this one stands.
    package mutating func append(contentsOf run: NamesRun) {
        precondition(run.names.lowerBound == fresh.names.upperBound)
        precondition(run.keys.lowerBound == fresh.keyRange.upperBound)
        for ordinal in run.names { append(name: run.name(NameOrdinal(rawValue: ordinal))) }
        for ordinal in run.keys { append(key: run.key(KeyOrdinal(rawValue: ordinal))) }
    }

    /// The whole file, and what the manifest keeps of it.
    package mutating func finish() -> (bytes: [UInt8], entry: NamesRunEntry) {
        var builder = NamesRunBuilder(
            fileNumber: fileNumber, directory: directory, names: fresh.names,
            keys: fresh.keyRange, generation: generation, createdAt: createdAt)
        fresh.sort()
        let names = NameBatch()
        while fresh.nextNames(into: names) {
            let isOrder = builder.appendNames(names)
            precondition(isOrder)
        }
        for kind in [NamesPageKind.keys, .hashes, .rewards] {
            let pairs = PairBatch(capacity: kind.capacity)
            while fresh.nextPairs(kind, into: pairs) { builder.appendPairs(pairs) }
        }
        let pages = builder.takeBytes()
        let (header, index) = builder.finish()
        return (header.encode() + pages + index, header.entry)
    }
}
