import IngestCounting
import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// A log of several segments, made once, written to many disks.
struct LogScript {
    let headers: [SegmentHeader]
    let segments: [[TestLog.Block]]

    var blocks: [TestLog.Block] { segments.flatMap { $0 } }

    init(blockCounts: [Int], rowCount: Int = 12, seed: UInt64 = 1) {
        var log = TestLog(seed: seed)
        var headers: [SegmentHeader] = []
        segments = blockCounts.map { count in
            headers.append(log.startSegment())
            return (0..<count).map { _ in log.block(rowCount: rowCount) }
        }
        self.headers = headers
    }

    /// Writes the log as the stages do: segment N is sealed after N+1 has its first block.
    /// - Parameters:
    ///   - synced: grows with each durable block.
    ///   - seals: `false` leaves every segment unsealed.
    func write(to files: SimulatedFileSystem, synced: inout Int, seals: Bool = true) throws {
        let directory = try DataDirectory.open(files) { TestLog.manifest() }
        var mark = try DurableMarkFile(
            in: files, directory: directory.manifest.directory, startingAt: .start)
        var unsealed: Int?
        for (index, header) in headers.enumerated() {
            var writer = try SegmentWriter.create(header, byteCountMax: 4096, in: files)
            for block in segments[index] {
                try writer.append(block.bytes.span.bytes)
                try writer.sync()
                synced += 1
                try mark.set(block.end)
                if let last = unsealed, seals { try seal(last, in: files) }
                unsealed = nil
            }
            unsealed = index
        }
    }

    func seal(_ index: Int, in files: SimulatedFileSystem) throws {
        let footer = try footer(index)
        let file = try files.open(FileName.segment(headers[index].segment).text, .readWrite)
        _ = try SegmentSealer.seal(file, footer: footer.footer, at: footer.offset)
    }

    /// The footer that a start would write.
    func footer(_ index: Int) throws -> (footer: SegmentFooter, offset: UInt64) {
        let segment = try accumulated(index)
        var footer = try segment.footer(sealedAt: TestLog.now, keys: keys(upTo: index))
        footer.idsCompleteSince = SegmentFooter.unknownCompleteSince
        return (footer, segment.endOffset)
    }

    /// The segment as it is sealed.
    func file(_ index: Int) throws -> SealedSegmentFile {
        let segment = try accumulated(index)
        let (footer, offset) = try footer(index)
        let trailer = footer.encode(at: offset).trailer
        return SealedSegmentFile(
            footer: footer, entry: footer.entry(trailer: trailer), names: segment.names)
    }

    /// The keys of the segments up to one.
    private func keys(upTo index: Int) throws -> [RewardKey] {
        var keys: [RewardKey] = []
        for number in 0...index {
            let segment = try accumulated(number)
            keys.append(segment.names, upTo: segment.nextKey)
        }
        return keys
    }

    private func accumulated(_ index: Int) throws -> SegmentAccumulator {
        var segment = SegmentAccumulator(
            header: headers[index], counters: SegmentCounters(), windows: SenderWindows())
        let rows = BlockRows()
        let decoder = BlockDecoder()
        for block in segments[index] {
            let decoded = try decoder.decode(block.bytes.span.bytes, into: rows)
            let outcome = segment.add(
                block.summary, ordinal: block.header.blockOrdinal, offset: segment.endOffset,
                rows: rows, names: decoded.names, keys: decoded.keys, ledger: decoded.ledger)
            try #require(outcome == .folded)
        }
        return segment
    }

    /// Where a block lies in its segment file.
    func offset(segment index: Int, block: Int) -> Int {
        segments[index][..<block].reduce(Int(SegmentLayout.blocksOffset)) { $0 + $1.bytes.count }
    }

    func name(_ index: Int) -> String { FileName.segment(headers[index].segment).text }
}

/// What a start does before anything else.
func recover(_ files: SimulatedFileSystem) throws -> RecoveryReport {
    let directory = try DataDirectory.open(files) { TestLog.manifest() }
    return try recoverSegments(in: files, after: directory.manifest, now: TestLog.now)
}

extension RecoveryReport {
    /// The blocks that are in the log now.
    var blocks: [BlockSummary] { segments.flatMap { $0.file.footer.blocks.map(\.summary) } }
}

/// All files below the data directory with their bytes, but the lock, the mark and temporaries.
func image(_ files: SimulatedFileSystem) throws -> [String: [UInt8]] {
    var image: [String: [UInt8]] = [:]
    for name in try files.names() where name != "LOCK" && name != "durable-mark" {
        if let bytes = files.disk.contents(name) { image[name] = bytes }
    }
    if let aside = try? files.subdirectory("aside", create: false) {
        for name in try aside.names() where !name.hasSuffix(".tmp") {
            image["aside/\(name)"] = files.disk.contents("aside/\(name)")
        }
    }
    return image
}

/// Publishes a generation that covers the given segments and all before, in a few large runs: what the
/// compact stage does, without its thrift.
func publish(
    _ segments: [SealedSegmentFile], after manifest: Manifest, in files: SimulatedFileSystem
) throws -> Manifest {
    let store = ManifestStore(files: files)
    var next = manifest
    next.generation = manifest.generation.next
    let last = try #require(segments.last).footer
    next.sealed += segments.map(\.entry)
    next.shard.cut = LogPosition(segment: last.segment, blockCount: last.blockCount)
    next.shard.nextName = last.names.upperBound
    next.shard.nextKey = last.keys.upperBound
    next.shard.commitEpoch = last.commitEpoch
    next.shard.lastBlockChecksum = last.lastBlockChecksum
    next.lost += segments.flatMap(\.footer.lost)
    func number() -> FileNumber {
        defer { next.nextFileNumber = next.nextFileNumber.next }
        return next.nextFileNumber
    }
    let entry = try writeNames(
        of: segments.flatMap(\.names), after: manifest, number(), next, in: files)
    next.namesRuns.append(entry)
    let span = LogSpan(
        firstSegment: segments[0].footer.segment, end: next.shard.cut)
    for table in TableKind.counterTables {
        // The rows of the first segment stand for all: the store does not look at them.
        let counters = segments[0].footer.rewardDays
        let entry: RunEntry
        switch table {
        case .rewards:
            entry = try write(table, number(), span, next, in: files) {
                CounterMerge([counters.makeCursor()], dropsDays: true)
            }
        case .days:
            let key = RewardKey(
                reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 2))
            let keys = [RewardKey](repeating: key, count: Int(next.shard.nextKey))
            let sums = DaySums(keys: keys)
            var rows = DaySumming(counters.makeCursor(), into: sums)
            try rows.drain()
            entry = try write(table, number(), span, next, in: files) { sums.makeCursor() }
        default:
            entry = try write(table, number(), span, next, in: files) { counters.makeCursor() }
        }
        next.runs.append(entry)
        next.runs.sort { ($0.table.rawValue, $0.fileNumber) < ($1.table.rawValue, $1.fileNumber) }
    }
    try store.publish(next)
    return next
}

/// Writes the names that `manifest` does not have.
private func writeNames(
    of blocks: [NamesOfBlock], after manifest: Manifest, _ number: FileNumber, _ next: Manifest,
    in files: SimulatedFileSystem
) throws -> NamesRunEntry {
    var names = NamesRunEncoder(
        fileNumber: number, directory: next.directory,
        firstName: NameOrdinal(rawValue: manifest.shard.nextName),
        firstKey: KeyOrdinal(rawValue: manifest.shard.nextKey),
        generation: next.generation, createdAt: next.createdAt)
    for block in blocks where block.firstName.rawValue >= manifest.shard.nextName {
        for index in 0..<block.names.count { names.append(name: block.names.name(index)[...]) }
        for key in block.keys { names.append(key: key) }
    }
    let (bytes, entry) = names.finish()
    try ManifestStore(files: files).write(entry.fileName, [bytes])
    return entry
}

private func write<Source: CounterPageSource>(
    _ table: TableKind, _ number: FileNumber, _ span: LogSpan, _ manifest: Manifest,
    in files: SimulatedFileSystem, rows: () -> Source
) throws -> RunEntry {
    do {
        let metadata =
            table == .rewardDays
            ? RunMetadata(SealedSegments(of: manifest, in: span).encode()) : RunMetadata()
        return try RunWriter.write(
            table, number: number, of: span, for: manifest, metadata: metadata, in: files,
            rows: rows)
    } catch {
        switch error {
        case .storage(let error): throw error
        case .source(let error): throw error
        }
    }
}

extension SegmentHeader {
    /// Its bytes, and the zeros up to the first block.
    var padded: [UInt8] {
        let count = Int(SegmentLayout.blocksOffset) - SegmentHeader.byteCount
        return encode() + [UInt8](repeating: 0, count: count)
    }
}
