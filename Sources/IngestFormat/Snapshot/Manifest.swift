// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// A generation of the directory: which files make it up, and the position of the log that they cover.
/// Written whole, published by a rename, never changed.
package struct Manifest: Hashable, Sendable {
    package var generation: Generation
    package var directory: DirectoryID
    /// Microseconds since 1970; of the directory and of this generation.
    package var directoryCreatedAt: Int64
    package var createdAt: Int64
    /// Algorithm and key of `KeyedHash`: chosen with generation 0, carried on unchanged.
    package var hashAlgorithm: UInt8
    /// 32 bytes.
    package var hashKey: [UInt8]
    package var nextFileNumber: FileNumber
    /// The newest commit time of a claim of an event id that the writer had forgotten, µs since 1970: of ids that were
    /// counted later, all repeats were found. 0 if it had forgotten none.
    package var idsCompleteSince: Int64 = 0
    package var shard: ShardState
    /// By span; contiguous from segment 1 to the last that has expired.
    package var expired: [ExpiredEntry]
    /// By number; behind those that have expired. The file lists those of `level0`, the others are in the metadata of
    /// the reward-days runs that cover them (`SealedSegments`): a manifest that was read alone has the first only.
    package var sealed: [SealedSegment]
    /// By table, then by span; contiguous from segment 1 on, and the same spans in each table. Behind them the
    /// footers of `level0` stand for the tables.
    package var runs: [RunEntry]
    /// By ordinal; contiguous from the first name and key.
    package var namesRuns: [NamesRunEntry]
    /// By (segment, block); of `sealed`.
    package var lost: [LostRange]
    /// By position.
    package var uncleanStops: [UncleanStop]

    /// Generation 0 of a new directory.
    package init(directory: DirectoryID, createdAt: Int64, hashAlgorithm: UInt8, hashKey: [UInt8]) {
        generation = Generation(rawValue: 0)
        self.directory = directory
        directoryCreatedAt = createdAt
        self.createdAt = createdAt
        self.hashAlgorithm = hashAlgorithm
        self.hashKey = hashKey
        nextFileNumber = FileNumber(rawValue: 1)
        shard = ShardState()
        expired = []
        sealed = []
        runs = []
        namesRuns = []
        lost = []
        uncleanStops = []
    }

    package var cut: LogPosition { shard.cut }

    /// The last segment whose rows have expired; 0 if none have.
    package var lastExpired: SegmentNumber {
        expired.last?.span.lastSegment ?? LogPosition.start.segment
    }

    /// The last sealed segment, expired or not; 0 if there is none.
    package var lastSealed: SegmentNumber { cut.segment }

    /// Sealed segments that have not expired.
    package var sealedCount: Int { Int(lastSealed.rawValue) - Int(lastExpired.rawValue) }

    /// Puts `entry` in the place of the segments that it covers, and of what they were merged with.
    ///
    /// - Parameter entry: from the first segment of an entry of `expired`, or behind the last of them.
    package mutating func expire(_ entry: ExpiredEntry) {
        expired.removeAll { $0.span.firstSegment >= entry.span.firstSegment }
        expired.append(entry)
        sealed.removeAll { $0.number <= entry.span.lastSegment }
        lost.removeAll { $0.segment <= entry.span.lastSegment }
    }

    /// The runs of a table.
    package func runs(of table: TableKind) -> [RunEntry] { runs.filter { $0.table == table } }

    /// Where the runs of each table end.
    package var mergedEnd: LogPosition { runs.last?.span.end ?? .start }

    /// The sealed segments that no run covers: their footers are level 0 of the tables.
    package var level0: ArraySlice<SealedSegment> {
        let end = mergedEnd.segment
        return sealed[((sealed.lastIndex { $0.number <= end } ?? -1) + 1)...]
    }

    package mutating func note(_ stop: UncleanStop) { uncleanStops.note(stop) }

    /// Puts the lost ranges of one segment in the place of those that it had.
    package mutating func replaceLost(of segment: SegmentNumber, by ranges: [LostRange]) {
        lost.removeAll { $0.segment == segment }
        lost.insert(contentsOf: ranges, at: lost.firstIndex { $0.segment > segment } ?? lost.count)
    }
}
