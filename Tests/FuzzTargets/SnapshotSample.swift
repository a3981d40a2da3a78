import IngestFormat
import TestSupport

/// Small files of every kind.
enum SnapshotSample {
    static let directory = DirectoryID(rawValue: 7)
    static let hash = KeyedHash(key: InlineArray(repeating: 3))
    static let cut = LogPosition(segment: SegmentNumber(rawValue: 3), blockCount: 2)
    private static let footerOffset = SegmentLayout.blocksOffset + 2_048

    static let counters: CounterTable = {
        var encoder = CounterTableEncoder(hasDay: true)
        for key in 0..<40 as Range<UInt32> {
            var row = CounterRow()
            row[.impressions] = UInt64(key) * 7
            row[.clicks] = key == 9 ? 1 << 40 : 1
            row[.revenueMicros] = UInt64(key % 3) * 12_500_000
            encoder.append(key: key * 2, day: Int32(key), counters: row)
        }
        return encoder.finish()
    }()

    private static let footer: SegmentFooter = {
        let header = SegmentHeader(
            directory: directory, segment: cut.segment, createdAt: 1, previousChecksum: 5,
            firstName: NameOrdinal(rawValue: 3), firstKey: KeyOrdinal(rawValue: 1), commitEpoch: 9)
        var footer = SegmentFooter(header: header, headerChecksum: 4, sealedAt: 2)
        footer.blocks = (0..<2).map { ordinal in
            BlockIndexEntry(
                ordinal: ordinal, offset: SegmentLayout.blocksOffset + UInt64(ordinal) * 1_024,
                summary: BlockSummary(
                    byteCount: 512, headerChecksum: ordinal, rowCount: 2, minTimestamp: 5,
                    maxTimestamp: 6, firstName: NameOrdinal(rawValue: 3 + ordinal), nameCount: 1,
                    firstKey: KeyOrdinal(rawValue: 1), keyCount: 0, eventHashCount: 2,
                    ledgerEntryCount: 1, commitEpoch: 9 + UInt64(ordinal), admissionTime: 7))
        }
        footer.blockCount = 3
        footer.names = 3..<5
        footer.rowCount = 4
        footer.minTimestamp = 5
        footer.maxTimestamp = 6
        footer.lastBlockChecksum = 1
        footer.commitEpoch = 10
        footer.rewardDays = counters
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 8), epoch: SenderEpoch(rawValue: 1)))
        entry.packets[0] = 2
        entry.events[0] = 4
        entry.sequences = [0...0, 5...9]
        entry.seen = 5...7
        (entry.window.start, entry.window.floor, entry.window.keyID) = (0, 5, 3)
        (entry.window.missingCount, entry.window.asksForAcks) = (4, true)
        footer.ledger = [entry]
        entry.checks = [1, 2, 3, 4, 5, 6]
        var expired = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 9), epoch: SenderEpoch(rawValue: 1)))
        expired.window.isExpired = true
        footer.windows.apply([entry, expired], at: 7)
        footer.attributions = AttributionList(sorted: [
            Attribution(key: 0, campaign: 3, source: 0),
            Attribution(key: 0, campaign: 4, source: Attribution.other),
        ])
        footer.lost = [lost]
        return footer
    }()

    private static let lost = LostRange(
        segment: cut.segment, firstBlock: 2, blockCount: 1,
        offset: SegmentLayout.blocksOffset + 1_800, byteCount: 100,
        rowCount: nil, names: 5..<5, keys: 1..<1)

    static let footerBytes: [UInt8] = {
        let bytes = Array(
            footer.encode(at: footerOffset).bytes.dropLast(SegmentTrailer.byteCount))
        precondition(
            (try? SegmentFooter.decode(bytes, trailer: trailer(of: bytes))) == footer,
            "the sample of a footer")
        return bytes
    }()

    /// The trailer that belongs to these bytes.
    static func trailer(of bytes: [UInt8]) -> SegmentTrailer {
        let sections = bytes.count >= 8 ? Int(bytes[6]) | Int(bytes[7]) << 8 : 0
        let covered = min(bytes.count, 128 + 16 * sections)
        return SegmentTrailer(
            directory: directory, segment: cut.segment, footerOffset: footerOffset,
            footerByteCount: UInt64(bytes.count), footerChecksum: Checksum.crc32c(bytes[..<covered])
        )
    }

    /// Of the two segments before.
    static let expired: Run = {
        var last = footer
        last.segment = SegmentNumber(rawValue: cut.segment.rawValue - 1)
        var segments = ExpiredSegments(
            last, from: SegmentNumber(rawValue: 1), nextCommitEpoch: 12)
        segments.ledger = footer.ledger
        segments.uncleanStops = [
            UncleanStop(foundAt: 4, position: LogPosition(segment: cut.segment, blockCount: 1))
        ]
        let metadata = RunMetadata(segments.encode())
        return Run(
            header: RunHeader(
                table: .expired, fileNumber: FileNumber(rawValue: 4), directory: directory,
                span: segments.span, generation: Generation(rawValue: 2), createdAt: 3,
                index: counters.index, metadata: metadata),
            counters: counters, metadata: metadata.bytes)
    }()

    static let run = Run(
        header: RunHeader(
            table: .rewardDays, fileNumber: FileNumber(rawValue: 5), directory: directory,
            span: LogSpan(firstSegment: SegmentNumber(rawValue: 1), end: cut),
            generation: Generation(rawValue: 2), createdAt: 3, index: counters.index),
        counters: counters)

    static let namesBytes: [UInt8] = {
        var encoder = NamesRunEncoder(
            fileNumber: FileNumber(rawValue: 6), directory: directory,
            firstName: NameOrdinal(rawValue: 1), firstKey: KeyOrdinal(rawValue: 0),
            generation: Generation(rawValue: 2), createdAt: 3)
        for i in 0..<60 { encoder.append(name: Array("name-\(i * i)".utf8)[...]) }
        encoder.append(name: [])
        for i in 1..<9 as Range<UInt32> {
            encoder.append(
                key: i == 5
                    ? nil
                    : RewardKey(
                        reward: NameOrdinal(rawValue: i), business: NameOrdinal(rawValue: 1 + i % 2)
                    ))
        }
        return encoder.finish().bytes
    }()

    private static func names(
        _ table: TableKind, _ number: FileNumber, names: Range<UInt32>, keys: Range<UInt32>
    ) -> NamesRunEntry {
        guard var entry = try? NamesRun.Header.decode(namesBytes).entry else {
            preconditionFailure("the sample of a names run")
        }
        (entry.table, entry.fileNumber) = (table, number)
        (entry.names, entry.keys) = (names, keys)
        return entry
    }

    static let manifest: Manifest = {
        var manifest = Manifest(
            directory: directory, createdAt: 1, hashAlgorithm: KeyedHash.algorithm,
            hashKey: [UInt8](repeating: 3, count: KeyedHash.keyByteCount))
        manifest.generation = Generation(rawValue: 2)
        manifest.nextFileNumber = FileNumber(rawValue: 20)
        manifest.shard.cut = cut
        manifest.shard.nextName = 62
        manifest.shard.nextKey = 8
        manifest.expired = [
            ExpiredEntry(
                run: expired.header.entry,
                names: names(.expiredNames, FileNumber(rawValue: 3), names: 1..<5, keys: 0..<1))
        ]
        manifest.sealed = [
            SealedSegment(
                number: cut.segment, byteCount: 9_000, footerChecksum: 4, blockCount: 2,
                rowCount: 4, minTimestamp: 5, maxTimestamp: 6, lastCommitTime: 7)
        ]
        manifest.runs = TableKind.counterTables.map { table in
            var entry = run.header.entry
            entry.table = table
            entry.fileNumber = FileNumber(rawValue: 10 + UInt64(table.rawValue))
            return entry
        }
        manifest.namesRuns = [
            names(.names, FileNumber(rawValue: 6), names: 1..<62, keys: 0..<8)
        ]
        manifest.lost = [lost]
        manifest.uncleanStops = [UncleanStop(foundAt: 4, position: cut)]
        return manifest
    }()
}
