// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

extension Manifest {
    private typealias Head = ManifestLayout.Head

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
        try reader.identify(Head.directory, directory?.rawValue)
        try reader.identify(Head.generation, generation?.rawValue)
        try reader.expectZeros(Head.fields)
        let counts = try ManifestCounts(reader)
        var manifest = try Manifest(head: reader)
        manifest.shard = try ShardState.layout.next(&reader, into: ShardState())
        if manifest.cut.segment.rawValue == 0 {
            try reader.expect(ShardState.layout.cutBlockCount, 0)
        }
        let shard = reader
        manifest.shard.totals = try LogTotals(&reader)
        manifest.expired = try decodeExpired(&reader, count: counts.expired)
        manifest.sealed = try decodeSealed(
            &reader, count: counts.sealed, after: manifest.lastExpired)
        manifest.runs = try manifest.decodeRuns(&reader, count: counts.runs)
        manifest.namesRuns = try manifest.decodeNamesRuns(&reader, count: counts.namesRuns)
        manifest.lost = try LostRange.decode(&reader, count: counts.lost)
        manifest.uncleanStops = try decodeStops(&reader, count: counts.stops)
        try manifest.checkFileNumbers()
        try manifest.checkCut(shard)
        try manifest.checkExpired()
        return manifest
    }

    /// Checks length, magic, checksum and version, and begins the head.
    private static func open(_ bytes: [UInt8]) throws(FormatError) -> FieldReader {
        var reader = FieldReader(bytes)
        try reader.begin(Head.byteCount)
        try reader.identify(Head.magic, Head.magicNumber)
        let smallest = Head.byteCount + FileEnvelope.checksumByteCount
        let said = try reader.load(
            Head.fileByteCount, in: UInt64(smallest)...UInt64(Limits.manifestByteCountMax))
        guard UInt64(bytes.count) >= said else {
            throw .torn("file byte count", at: 8, available: bytes.count, needed: Int(said))
        }
        try reader.expect(Head.fileByteCount, bytes.count)
        _ = try FileEnvelope.open(bytes, magic: Head.magicNumber, byteCount: bytes.count)
        return reader
    }

    private init(head reader: FieldReader) throws(FormatError) {
        let algorithm = UInt8(truncatingIfNeeded: reader.load(Head.hashAlgorithm))
        guard algorithm <= KeyedHash.algorithm else {
            throw .newerFormat(
                "hash algorithm", at: Head.hashAlgorithm.offset, got: algorithm,
                expected: .atMost(KeyedHash.algorithm))
        }
        try reader.expect(Head.hashAlgorithm, KeyedHash.algorithm)
        self.init(
            directory: DirectoryID(rawValue: reader.load(Head.directory)),
            createdAt: reader.i64(Head.directoryCreatedAt), hashAlgorithm: algorithm,
            hashKey: reader.array(Head.hashKey))
        generation = Generation(rawValue: reader.load(Head.generation))
        createdAt = reader.i64(Head.createdAt)
        nextFileNumber = FileNumber(
            rawValue: try reader.load(Head.nextFileNumber, in: 1...UInt64.max))
        idsCompleteSince = reader.i64(Head.idsCompleteSince)
    }

    /// The expired stretches: from segment 1 on without a gap.
    private static func decodeExpired(
        _ reader: inout FieldReader, count: Int
    ) throws(FormatError) -> [ExpiredEntry] {
        let layout = ExpiredEntry.layout
        let blank = ExpiredEntry(
            fileNumber: FileNumber(rawValue: 0), byteCount: 0, checksum: 0, span: .blank,
            missingCount: 0, rowCount: 0, minTimestamp: 0, maxTimestamp: 0)
        var expired: [ExpiredEntry] = []
        for _ in 0..<count {
            let entry = try layout.next(&reader, into: blank)
            let span = try reader.span(
                layout.firstSegment, last: layout.lastSegment, blockCount: layout.lastBlockCount)
            _ = try reader.load(layout.missingCount, in: 0...span.segmentCount - 1)
            let last = expired.last?.span.lastSegment ?? LogPosition.start.segment
            try reader.expect(layout.firstSegment, last.rawValue &+ 1)
            expired.append(entry)
        }
        return expired
    }

    private static func decodeSealed(
        _ reader: inout FieldReader, count: Int, after last: SegmentNumber
    ) throws(FormatError) -> [SealedSegment] {
        let segmentField = SealedSegment.layout.segment
        let blank = SealedSegment(
            number: last, byteCount: 0, footerChecksum: 0, blockCount: 0, rowCount: 0,
            minTimestamp: 0, maxTimestamp: 0)
        var sealed: [SealedSegment] = []
        sealed.reserveCapacity(count)
        var next = UInt64(last.rawValue) + 1
        for _ in 0..<count {
            sealed.append(try SealedSegment.layout.next(&reader, into: blank))
            // At the end of all numbers there is none that it could be.
            try reader.expect(segmentField, next)
            next += 1
        }
        return sealed
    }

    /// The runs: by table, and in each from segment 1 on without a gap, over the same segments.
    private func decodeRuns(
        _ reader: inout FieldReader, count: Int
    ) throws(FormatError) -> [RunEntry] {
        let layout = RunEntry.layout
        let blank = RunEntry(
            table: .rewards, fileNumber: FileNumber(rawValue: 0), byteCount: 0, checksum: 0,
            span: .blank, rowCount: 0)
        let tables = TableKind.counterTables
        guard count % tables.count == 0 else { throw ManifestCounts.corruptRunCount(count) }
        let ofTable = count / tables.count
        var runs: [RunEntry] = []
        runs.reserveCapacity(count)
        for place in 0..<count {
            let run = try layout.next(&reader, into: blank)
            let span = try reader.span(
                layout.firstSegment, last: layout.lastSegment, blockCount: layout.lastBlockCount)
            try reader.expect(layout.table, tables[place / ofTable].rawValue)
            let isFirst = place % ofTable == 0
            let next = isFirst ? 1 : runs[place - 1].span.end.segment.next.rawValue
            try reader.expect(layout.firstSegment, next)
            if place >= ofTable {
                let other = runs[place - ofTable].span
                try reader.expect(layout.lastSegment, other.lastSegment.rawValue)
                try reader.expect(layout.lastBlockCount, other.end.blockCount)
            } else {
                try checkEnd(of: span, reader)
            }
            runs.append(run)
        }
        return runs
    }

    /// A run ends where a sealed segment does, if that has not expired.
    private func checkEnd(of span: LogSpan, _ reader: FieldReader) throws(FormatError) {
        let layout = RunEntry.layout
        _ = try reader.load(layout.lastSegment, in: 0...UInt64(lastSealed.rawValue))
        guard span.lastSegment > lastExpired else { return }
        let place = Int(span.lastSegment.rawValue - lastExpired.rawValue) - 1
        try reader.expect(layout.lastBlockCount, sealed[place].blockCount)
    }

    /// What has expired is in the runs.
    private func checkExpired() throws(FormatError) {
        guard lastExpired <= mergedEnd.segment else {
            throw .corrupt(
                "last segment", at: Head.byteCount, got: mergedEnd.segment.rawValue,
                expected: .atLeast(lastExpired.rawValue))
        }
    }

    /// The names runs: from the first name and key on without a gap, not beyond what was given.
    private func decodeNamesRuns(
        _ reader: inout FieldReader, count: Int
    ) throws(FormatError) -> [NamesRunEntry] {
        let layout = NamesRunEntry.layout
        let blank = NamesRunEntry(
            fileNumber: FileNumber(rawValue: 0), byteCount: 0, checksum: 0, names: 0..<0,
            keys: 0..<0)
        var runs: [NamesRunEntry] = []
        runs.reserveCapacity(count)
        for _ in 0..<count {
            let run = try layout.next(&reader, into: blank)
            try reader.expect(layout.firstName, runs.last?.names.upperBound ?? 1)
            try reader.expect(layout.firstKey, runs.last?.keys.upperBound ?? 0)
            _ = try reader.load(layout.nextName, in: 0...UInt64(shard.nextName))
            _ = try reader.load(layout.nextKey, in: 0...UInt64(shard.nextKey))
            runs.append(run)
        }
        return runs
    }

    private static func decodeStops(
        _ reader: inout FieldReader, count: Int
    ) throws(FormatError) -> [UncleanStop] {
        let blank = UncleanStop(foundAt: 0, position: .start)
        var stops: [UncleanStop] = []
        stops.reserveCapacity(count)
        for _ in 0..<count {
            let stop = try UncleanStop.layout.next(&reader, into: blank)
            if let last = stops.last, last.position > stop.position {
                throw reader.corrupt(
                    UncleanStop.layout.segment, .atLeast(last.position.segment.rawValue))
            }
            stops.append(stop)
        }
        return stops
    }

    /// Where the last sealed segment ends.
    private var sealedEnd: LogPosition {
        guard let last = sealed.last else { return expired.last?.span.end ?? .start }
        return LogPosition(segment: last.number, blockCount: last.blockCount)
    }

    /// The cut is the end of the last sealed segment.
    /// - Parameter reader: at the shard.
    private func checkCut(_ reader: FieldReader) throws(FormatError) {
        let layout = ShardState.layout
        try reader.expect(layout.cutSegment, lastSealed.rawValue)
        try reader.expect(layout.cutBlockCount, sealedEnd.blockCount)
        // Another segment comes.
        _ = try reader.load(layout.cutSegment, in: 0...UInt64(UInt32.max) - 1)
    }

    /// No file stands in it twice, and none is newer than the numbers given.
    private func checkFileNumbers() throws(FormatError) {
        var seen: Set<FileNumber> = []
        let numbers =
            expired.map(\.fileNumber) + runs.map(\.fileNumber) + namesRuns.map(\.fileNumber)
        for number in numbers {
            guard number.rawValue >= 1, number < nextFileNumber, seen.insert(number).inserted else {
                throw .corrupt(
                    "file number", at: Head.nextFileNumber.offset, got: number.rawValue,
                    expected: .atMost(nextFileNumber.rawValue - 1))
            }
        }
    }
}

/// How many entries of each kind follow the head: within limits, and filling the file exactly.
private struct ManifestCounts {
    private typealias Head = ManifestLayout.Head
    let expired: Int
    let sealed: Int
    let runs: Int
    let namesRuns: Int
    let lost: Int
    let stops: Int

    init(_ reader: FieldReader) throws(FormatError) {
        try reader.expect(Head.shardCount, 1)
        expired = try reader.count(Head.expiredCount, max: Limits.runCountMax)
        sealed = try reader.count(Head.sealedCount, max: Limits.manifestFileCountMax)
        runs = try reader.count(
            Head.runCount, max: TableKind.counterTables.count * Limits.runCountMax)
        namesRuns = try reader.count(
            Head.namesRunCount, max: Limits.manifestNamesRunCountMax)
        lost = try reader.count(Head.lostRangeCount, max: Limits.manifestLostRangeCountMax)
        stops = try reader.count(Head.uncleanStopCount, max: Limits.manifestUncleanStopCountMax)
        let entries =
            ShardState.layout.byteCount + ManifestLayout.Totals.byteCount
            + expired * ExpiredEntry.layout.byteCount
            + sealed * SealedSegment.layout.byteCount + runs * RunEntry.layout.byteCount
            + namesRuns * NamesRunEntry.layout.byteCount
            + lost * LostRange.layout.byteCount + stops * UncleanStop.layout.byteCount
        try reader.expect(
            Head.fileByteCount, Head.byteCount + entries + FileEnvelope.checksumByteCount)
    }

    static func corruptRunCount(_ count: Int) -> FormatError {
        .corrupt(
            Head.runCount.name, at: Head.runCount.offset, got: count,
            expected: .exactly(
                count / TableKind.counterTables.count * TableKind.counterTables.count))
    }
}

extension LogTotals {
    fileprivate init(_ reader: inout FieldReader) throws(FormatError) {
        typealias Field = ManifestLayout.Totals
        try reader.begin(Field.byteCount)
        self.init(
            rowCount: reader.load(Field.rowCount),
            packets: try Self.counts(Field.packets, Self.packetCodeCount, reader),
            events: try Self.counts(Field.events, Self.eventCodeCount, reader))
    }

    private static func counts(
        _ field: FormatField, _ count: Int, _ reader: FieldReader
    ) throws(FormatError) -> [UInt64] {
        for code in count..<ManifestLayout.Totals.codeCount {
            try reader.expect(ManifestLayout.Totals.place(code, in: field), 0)
        }
        return (0..<count).map { reader.load(ManifestLayout.Totals.place($0, in: field)) }
    }
}

extension LogSpan {
    /// Of nothing.
    fileprivate static let blank = LogSpan(firstSegment: SegmentNumber(rawValue: 0), end: .start)
}
