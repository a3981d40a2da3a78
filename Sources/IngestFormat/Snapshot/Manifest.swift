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
    /// Expired segments up to this one left the generations at `droppedAt`, µs since 1970, at the latest, those behind it
    /// later; 0 if none has. Their files go a minute after that, whichever process comes to it.
    package var droppedSegment = LogPosition.start.segment
    package var droppedAt: Int64 = 0
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

extension Manifest {
    /// The head. The lists that it counts follow, then the CRC-32C of all before it.
    package static let layout = Layout<Self>(
        .magic, .version, .int("hash algorithm", \.hashAlgorithm), .reserved(1),
        .derived("file byte count", 8) { UInt64($0.fileByteCount) },
        .id("directory", \.directory), .id("generation", \.generation),
        .int("directory created at", \.directoryCreatedAt), .int("created at", \.createdAt),
        .bytes("hash key", \.hashKey, 32),
        .id("next file number", \.nextFileNumber, in: 1...UInt64.max),
        .derived("shard count", 4) { _ in 1 },
        .derived("sealed count", 4) { UInt64($0.level0.count) },
        .derived("run count", 4) { UInt64($0.runs.count) },
        .derived("names run count", 4) { UInt64($0.namesRuns.count) },
        .derived("lost range count", 4) { UInt64($0.lostOfLevel0.count) },
        .derived("unclean stop count", 4) { UInt64($0.uncleanStops.count) },
        .derived("expired count", 4) { UInt64($0.expired.count) },
        .id("dropped segment", \.droppedSegment), .int("ids complete since", \.idsCompleteSince),
        .int("dropped at", \.droppedAt, in: 0...UInt64(Int64.max)))
    /// `IGM1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x314D_4749

    /// The bytes of the whole file.
    ///
    /// What is listed must be as `decode` asks: the writer reads the file back before it is published.
    package func encode() -> [UInt8] {
        var writer = FileEnvelope.begin(Self.magic, Self.layout.byteCount)
        Self.layout.put(self, to: &writer)
        ShardState.layout.append(shard, to: &writer)
        LogTotals.layout.append(shard.totals, to: &writer)
        for entry in expired { RunEntry.layout.append(entry.run, to: &writer) }
        for entry in expired { NamesRunEntry.layout.append(entry.names, to: &writer) }
        for run in runs { RunEntry.layout.append(run, to: &writer) }
        for segment in level0 { SealedSegment.layout.append(segment, to: &writer) }
        for run in namesRuns { NamesRunEntry.layout.append(run, to: &writer) }
        writer.append(LostRange.encode(lostOfLevel0))
        for stop in uncleanStops { UncleanStop.layout.append(stop, to: &writer) }
        writer.begin(FileEnvelope.checksumByteCount)
        return FileEnvelope.finish(&writer)
    }

    /// Byte count of the whole file.
    package var fileByteCount: Int {
        Self.layout.byteCount + ShardState.layout.byteCount + LogTotals.layout.byteCount
            + expired.count * (RunEntry.layout.byteCount + NamesRunEntry.layout.byteCount)
            + level0.count * SealedSegment.layout.byteCount
            + runs.count * RunEntry.layout.byteCount
            + namesRuns.count * NamesRunEntry.layout.byteCount
            + lostOfLevel0.count * LostRange.layout.byteCount
            + uncleanStops.count * UncleanStop.layout.byteCount + FileEnvelope.checksumByteCount
    }

    /// The manifest lists no others: the runs have those of the segments that they cover.
    private var lostOfLevel0: ArraySlice<LostRange> {
        let end = mergedEnd.segment
        return lost.suffix(from: lost.firstIndex { $0.segment > end } ?? lost.count)
    }
}

extension Manifest {
    /// Checks and decodes a whole manifest file.
    /// - Parameters:
    ///   - directory: the directory that the file lies in, where it is known from another file.
    ///   - generation: the number in the file's name; `nil` = any.
    /// **Errors** `torn` for fewer bytes than the file says; `notThisFile` for another kind, directory or
    /// generation; `newerFormat` for a version or a hash algorithm of a later release; else `corrupt`: a
    /// wrong checksum, a count over its limit, entries out of order or twice, runs with a gap.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, generation: Generation? = nil
    ) throws(FormatError) -> Manifest {
        var reader = try open(bytes)
        try reader.identify(layout.directory, directory?.rawValue)
        try reader.identify(layout.generation, generation?.rawValue)
        let counts = try counts(reader)
        let algorithm = reader.load(layout.hashAlgorithm)
        guard algorithm <= UInt64(KeyedHash.algorithm) else {
            throw .newerFormat(
                "hash algorithm", at: layout.hashAlgorithm.offset, got: algorithm,
                expected: .atMost(KeyedHash.algorithm))
        }
        try reader.expect(layout.hashAlgorithm, KeyedHash.algorithm)
        var manifest = try layout.load(
            reader,
            into: Manifest(
                directory: DirectoryID(rawValue: 0), createdAt: 0, hashAlgorithm: 0, hashKey: []))
        manifest.shard = try ShardState.layout.next(&reader, into: ShardState())
        if manifest.cut.segment.rawValue == 0 {
            try reader.expect(ShardState.layout.cutBlockCount, 0)
        }
        let shard = reader
        manifest.shard.totals = try LogTotals.layout.next(&reader, into: LogTotals())
        try manifest.decodeExpired(&reader, count: counts.expired)
        manifest.runs = try manifest.decodeRuns(&reader, count: counts.runs)
        manifest.sealed = try SealedSegment.decode(
            &reader, count: counts.sealed, from: UInt64(manifest.mergedEnd.segment.rawValue) + 1)
        manifest.namesRuns = try manifest.decodeNamesRuns(
            &reader, count: counts.namesRuns, of: .names)
        manifest.lost = try LostRange.decode(&reader, count: counts.lost)
        manifest.uncleanStops = try UncleanStop.decode(&reader, count: counts.stops)
        try manifest.checkFileNumbers()
        try manifest.checkCut(shard)
        try manifest.checkExpired()
        return manifest
    }

    /// Checks length, magic, checksum and version, and begins the head.
    private static func open(_ bytes: [UInt8]) throws(FormatError) -> FieldReader {
        var reader = FieldReader(bytes)
        try reader.begin(layout.byteCount)
        try reader.identify(layout.magic, magic)
        let smallest = layout.byteCount + FileEnvelope.checksumByteCount
        let said = try reader.load(
            layout.fileByteCount, in: UInt64(smallest)...UInt64(Limits.manifestByteCountMax))
        guard UInt64(bytes.count) >= said else {
            throw .torn("file byte count", at: 8, available: bytes.count, needed: Int(said))
        }
        try reader.expect(layout.fileByteCount, bytes.count)
        _ = try FileEnvelope.open(bytes, magic: magic, byteCount: bytes.count)
        return reader
    }

    /// The expired stretches: from segment 1 and the first name and key on without a gap.
    private mutating func decodeExpired(
        _ reader: inout FieldReader, count: Int
    ) throws(FormatError) {
        let layout = RunEntry.layout
        var runs: [RunEntry] = []
        for _ in 0..<count {
            runs.append(try layout.next(&reader, into: .blank))
            _ = try reader.span(
                layout.firstSegment, last: layout.lastSegment, blockCount: layout.lastBlockCount)
            try reader.expect(layout.table, TableKind.expired.rawValue)
            let last = runs.dropLast().last?.span.lastSegment ?? LogPosition.start.segment
            try reader.expect(layout.firstSegment, last.rawValue &+ 1)
        }
        let names = try decodeNamesRuns(&reader, count: count, of: .expiredNames)
        expired = zip(runs, names).map { ExpiredEntry(run: $0, names: $1) }
    }

    /// The runs: by table, and in each from segment 1 on without a gap, over the same segments.
    private func decodeRuns(
        _ reader: inout FieldReader, count: Int
    ) throws(FormatError) -> [RunEntry] {
        let layout = RunEntry.layout
        let tables = TableKind.counterTables
        guard count % tables.count == 0 else {
            throw .corrupt(
                Self.layout.runCount.name, at: Self.layout.runCount.offset, got: count,
                expected: .exactly(count / tables.count * tables.count))
        }
        let ofTable = count / tables.count
        var runs: [RunEntry] = []
        runs.reserveCapacity(count)
        for place in 0..<count {
            let run = try layout.next(&reader, into: .blank)
            _ = try reader.span(
                layout.firstSegment, last: layout.lastSegment, blockCount: layout.lastBlockCount)
            try reader.expect(layout.table, tables[place / ofTable].rawValue)
            let isFirst = place % ofTable == 0
            let next = isFirst ? 1 : runs[place - 1].span.end.segment.next.rawValue
            try reader.expect(layout.firstSegment, next)
            if place >= ofTable {
                let other = runs[place - ofTable].span
                try reader.expect(layout.lastSegment, other.lastSegment.rawValue)
                try reader.expect(layout.lastBlockCount, other.end.blockCount)
            }
            runs.append(run)
        }
        return runs
    }

    /// What has expired is in the runs.
    private func checkExpired() throws(FormatError) {
        guard droppedSegment <= lastExpired else {
            throw .corrupt(
                "dropped segment", at: Self.layout.droppedSegment.offset,
                got: droppedSegment.rawValue, expected: .atMost(lastExpired.rawValue))
        }
        guard lastExpired <= mergedEnd.segment else {
            throw .corrupt(
                "last segment", at: Self.layout.byteCount, got: mergedEnd.segment.rawValue,
                expected: .atLeast(lastExpired.rawValue))
        }
    }

    /// Names runs: from the first name and key on without a gap, not beyond what was given.
    private func decodeNamesRuns(
        _ reader: inout FieldReader, count: Int, of table: TableKind
    ) throws(FormatError) -> [NamesRunEntry] {
        let layout = NamesRunEntry.layout
        let blank = NamesRunEntry(
            fileNumber: FileNumber(rawValue: 0), byteCount: 0, checksum: 0, names: 0..<0,
            keys: 0..<0)
        var runs: [NamesRunEntry] = []
        runs.reserveCapacity(count)
        for _ in 0..<count {
            let run = try layout.next(&reader, into: blank)
            try reader.expect(layout.table, table.rawValue)
            try reader.expect(layout.firstName, runs.last?.names.upperBound ?? 1)
            try reader.expect(layout.firstKey, runs.last?.keys.upperBound ?? 0)
            _ = try reader.load(layout.nextName, in: 0...UInt64(shard.nextName))
            _ = try reader.load(layout.nextKey, in: 0...UInt64(shard.nextKey))
            runs.append(run)
        }
        return runs
    }

    /// The cut is the end of the last sealed segment.
    /// - Parameter reader: at the shard.
    private func checkCut(_ reader: FieldReader) throws(FormatError) {
        let layout = ShardState.layout
        let end = sealed.last.map { LogPosition(segment: $0.number, blockCount: $0.blockCount) }
        try reader.expect(layout.cutSegment, (end ?? mergedEnd).segment.rawValue)
        try reader.expect(layout.cutBlockCount, (end ?? mergedEnd).blockCount)
        // Another segment comes.
        _ = try reader.load(layout.cutSegment, in: 0...UInt64(UInt32.max) - 1)
    }

    /// No file stands in it twice, and none is newer than the numbers given.
    private func checkFileNumbers() throws(FormatError) {
        var seen: Set<FileNumber> = []
        let numbers =
            expired.flatMap { [$0.run.fileNumber, $0.names.fileNumber] } + runs.map(\.fileNumber)
            + namesRuns.map(\.fileNumber)
        for number in numbers {
            guard number.rawValue >= 1, number < nextFileNumber, seen.insert(number).inserted else {
                throw .corrupt(
                    "file number", at: Self.layout.nextFileNumber.offset, got: number.rawValue,
                    expected: .atMost(nextFileNumber.rawValue - 1))
            }
        }
    }
}

extension Manifest {
    /// How many entries of each kind follow the head: within limits, and filling the file exactly.
    private static func counts(
        _ reader: FieldReader
    ) throws(FormatError) -> (
        expired: Int, sealed: Int, runs: Int, namesRuns: Int, lost: Int, stops: Int
    ) {
        try reader.expect(layout.shardCount, 1)
        let expired = try reader.count(layout.expiredCount, max: Limits.runCountMax)
        let sealed = try reader.count(layout.sealedCount, max: Limits.manifestLevel0CountMax)
        let runs = try reader.count(
            layout.runCount, max: TableKind.counterTables.count * Limits.runCountMax)
        let namesRuns = try reader.count(
            layout.namesRunCount, max: Limits.manifestNamesRunCountMax)
        let lost = try reader.count(layout.lostRangeCount, max: Limits.manifestLostRangeCountMax)
        let stops = try reader.count(
            layout.uncleanStopCount, max: Limits.manifestUncleanStopCountMax)
        let entries =
            ShardState.layout.byteCount + LogTotals.layout.byteCount
            + expired * (RunEntry.layout.byteCount + NamesRunEntry.layout.byteCount)
            + sealed * SealedSegment.layout.byteCount + runs * RunEntry.layout.byteCount
            + namesRuns * NamesRunEntry.layout.byteCount
            + lost * LostRange.layout.byteCount + stops * UncleanStop.layout.byteCount
        try reader.expect(
            layout.fileByteCount, layout.byteCount + entries + FileEnvelope.checksumByteCount)
        return (expired, sealed, runs, namesRuns, lost, stops)
    }
}

extension RunEntry {
    /// Of nothing.
    fileprivate static let blank = RunEntry(
        table: .rewards, fileNumber: FileNumber(rawValue: 0), byteCount: 0, checksum: 0,
        span: LogSpan(firstSegment: SegmentNumber(rawValue: 0), end: .start), rowCount: 0)
}
