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
    /// By number; all behind those that have expired.
    package var sealed: [SealedSegment]
    /// By table, then by span; contiguous from segment 1 on, and the same spans in each table. Behind them the
    /// footers of `level0` stand for the tables.
    package var runs: [RunEntry]
    /// By ordinal; contiguous from the first name and key.
    package var namesRuns: [NamesRunEntry]
    /// By (segment, block).
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
    package var lastSealed: SegmentNumber { sealed.last?.number ?? lastExpired }

    /// Puts `entry` in the place of the segments that it covers, and of what they were folded with.
    ///
    /// - Parameter entry: from the first segment of an entry of `expired`, or behind the last of them.
    package mutating func expire(_ entry: ExpiredEntry) {
        expired.removeAll { $0.span.firstSegment >= entry.span.firstSegment }
        expired.append(entry)
        sealed.removeAll { $0.number <= entry.span.lastSegment }
    }

    /// The runs of a table.
    package func runs(of table: TableKind) -> [RunEntry] { runs.filter { $0.table == table } }

    /// Where the runs of each table end.
    package var mergedEnd: LogPosition { runs.last?.span.end ?? .start }

    /// The sealed segments that no run covers: their footers are level 0 of the tables.
    package var level0: ArraySlice<SealedSegment> {
        let end = mergedEnd.segment
        return sealed[(sealed.firstIndex { $0.number > end } ?? sealed.count)...]
    }

    /// Adds an unclean stop. Over `Limits.manifestUncleanStopCountMax` the oldest but one goes, so that
    /// since when something is unknown stays known.
    package mutating func note(_ stop: UncleanStop) {
        if uncleanStops.count >= Limits.manifestUncleanStopCountMax { uncleanStops.remove(at: 1) }
        uncleanStops.append(stop)
    }

    /// Adds a lost range in its place, unless it is there already.
    /// - Returns: `false`, with nothing added, over `Limits.manifestLostRangeCountMax`.
    package mutating func note(_ range: LostRange) -> Bool {
        if lost.contains(range) { return true }
        guard lost.count < Limits.manifestLostRangeCountMax else { return false }
        let place = lost.firstIndex {
            ($0.segment, $0.firstBlock) > (range.segment, range.firstBlock)
        }
        lost.insert(range, at: place ?? lost.count)
        return true
    }
}
