import IngestCounting
import IngestFormat
import TestSupport

/// The files of one small directory, as the format pages show them. No part of them is long enough for
/// LZ4, so that their bytes are the same with every version of that library.
enum GoldenFiles {
    static let directory = BlockContext.example.directory
    static let time = BlockContent.example.context.admissionTime
    static let generation = Generation(rawValue: 12)
    static let segment = SegmentNumber(rawValue: 7)
    static let cut = LogPosition(segment: segment, blockCount: 4)
    static let span = LogSpan(
        firstSegment: SegmentNumber(rawValue: 1),
        end: LogPosition(segment: SegmentNumber(rawValue: 6), blockCount: cut.blockCount))

    static let header = SegmentHeader(
        directory: directory, shard: BlockContext.example.shard, segment: segment,
        createdAt: time - 1_000_000, previousChecksum: 0xCAFE_F00D,
        firstName: NameOrdinal(rawValue: 1), firstKey: KeyOrdinal(rawValue: 0),
        commitEpoch: BlockContext.example.commitEpoch - 3)

    /// The first three blocks were lost; the fourth is the golden block.
    static let blockOffset: UInt64 = 8_192

    static func footer(_ block: [UInt8]) throws -> SegmentFooter {
        let rows = BlockRows()
        let decoded = try BlockDecoder().decode(block.span.bytes, into: rows)
        var segment = SegmentAccumulator(
            header: header, counters: SegmentCounters(), windows: SenderWindows())
        segment.add(
            LostRange(
                segment: self.segment, firstBlock: 0, blockCount: 3, offset: 4_096,
                byteCount: 4_096,
                rowCount: nil, names: 1..<1, keys: 0..<0))
        let outcome = segment.add(
            decoded.header.summary, ordinal: 3, offset: blockOffset, rows: rows,
            names: decoded.names, keys: decoded.keys, ledger: decoded.ledger)
        precondition(outcome == .folded)
        return try segment.footer(sealedAt: time + 1_000_000, keys: decoded.keys)
    }

    static func segmentFile(_ block: [UInt8]) throws -> [UInt8] {
        let gap = [UInt8](repeating: 0, count: Int(blockOffset) - SegmentHeader.byteCount)
        let body = header.encode() + gap + block
        return body + (try footer(block)).encode(at: UInt64(body.count)).bytes
    }

    /// The same segment, if its number were 6; all that the run covers has expired.
    static func run(_ block: [UInt8]) throws -> Run {
        let counters = try footer(block).rewardDays
        let metadata = RunMetadata(SealedSegments().encode())
        return Run(
            header: RunHeader(
                table: .rewardDays, fileNumber: FileNumber(rawValue: 33), directory: directory,
                span: span, generation: generation, createdAt: time + 2_000_000,
                index: counters.index, metadata: metadata),
            counters: counters, metadata: metadata.bytes)
    }

    /// The same segment, if its number were 6 and the five before it had been lost.
    static func expired(_ block: [UInt8]) throws -> Run {
        var footer = try footer(block)
        footer.segment = SegmentNumber(rawValue: 6)
        var segments = ExpiredSegments(
            footer, from: SegmentNumber(rawValue: 1), nextCommitEpoch: footer.commitEpoch + 1)
        segments.lost = []
        segments.ledger = footer.ledger
        let metadata = RunMetadata(segments.encode())
        return Run(
            header: RunHeader(
                table: .expired, fileNumber: FileNumber(rawValue: 29), directory: directory,
                span: segments.span, generation: generation, createdAt: time + 2_000_000,
                index: footer.rewardDays.index, metadata: metadata),
            counters: footer.rewardDays, metadata: metadata.bytes)
    }

    static func namesRun(
        _ table: TableKind = .names, _ number: UInt64 = 34
    ) -> (bytes: [UInt8], entry: NamesRunEntry) {
        var encoder = NamesRunEncoder(
            table: table, fileNumber: FileNumber(rawValue: number), directory: directory,
            firstName: NameOrdinal(rawValue: 1), firstKey: KeyOrdinal(rawValue: 0),
            generation: generation, createdAt: time + 2_000_000)
        for name in ["r-1", "b-1", "iOS"] { encoder.append(name: Array(name.utf8)[...]) }
        encoder.append(
            key: RewardKey(reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 2)))
        return encoder.finish()
    }

    static func manifest(_ block: [UInt8]) throws -> Manifest {
        let footer = try footer(block)
        let end = blockOffset + UInt64(block.count)
        let run = try run(block).header
        var manifest = Manifest(
            directory: directory, createdAt: time - 2_000_000, hashAlgorithm: 1,
            hashKey: Array(0..<32))
        manifest.generation = generation
        manifest.createdAt = time + 2_000_000
        manifest.nextFileNumber = FileNumber(rawValue: 35)
        manifest.shard.cut = cut
        manifest.shard.nextName = footer.names.upperBound
        manifest.shard.nextKey = footer.keys.upperBound
        manifest.shard.commitEpoch = footer.commitEpoch
        manifest.shard.lastBlockChecksum = footer.lastBlockChecksum
        manifest.shard.totals = LogTotals(footer)
        (manifest.droppedSegment, manifest.droppedAt) = (
            manifest.droppedSegment.next, ManifestExample.time - 30_000_000
        )
        manifest.expired = [
            ExpiredEntry(
                run: try expired(block).header.entry, names: namesRun(.expiredNames, 30).entry)
        ]
        manifest.sealed = [footer.entry(trailer: footer.encode(at: end).trailer)]
        manifest.runs = [31, 32, 33].map { number in
            var entry = run.entry
            entry.table = TableKind(rawValue: UInt8(number - 30))!
            entry.fileNumber = FileNumber(rawValue: UInt64(number))
            return entry
        }
        manifest.namesRuns = [namesRun().entry]
        manifest.lost = footer.lost
        manifest.uncleanStops = [UncleanStop(foundAt: time + 500_000, position: cut)]
        return manifest
    }

    /// Of the key in the golden manifest.
    static let hash = KeyedHash(key: Array(0..<32))!

    static let mark = DurableMark(directory: directory, position: cut)
}

extension GoldenFiles {
    /// A footer of a hundred blocks, most of which LZ4 takes.
    static let longFooter: SegmentFooter = {
        var footer = SegmentFooter(header: header, headerChecksum: 1, sealedAt: time)
        footer.blocks = (0..<100).map {
            SegmentExample.block(
                $0, at: 4_096 + UInt64($0) * 512, rows: 0, names: 0, first: 1, keys: 0, key: 0)
        }
        footer.blockCount = 100
        footer.lastBlockChecksum = footer.blocks[99].summary.headerChecksum
        footer.commitEpoch = footer.blocks[99].summary.commitEpoch
        return footer
    }()

    /// Names of five pages, the other kinds of two each.
    static func longNamesRun() -> [UInt8] {
        var encoder = NamesRunEncoder(
            fileNumber: FileNumber(rawValue: 1), directory: directory,
            firstName: NameOrdinal(rawValue: 1), firstKey: KeyOrdinal(rawValue: 0),
            generation: generation, createdAt: time)
        for i in 1...1_200 { encoder.append(name: Array("reward-\(i)".utf8)[...]) }
        for i in 0..<1_100 as Range<UInt32> {
            encoder.append(
                key: RewardKey(
                    reward: NameOrdinal(rawValue: 1 + i * 7 % 1_200),
                    business: NameOrdinal(rawValue: 1 + i % 5)))
        }
        return encoder.finish().bytes
    }
}
