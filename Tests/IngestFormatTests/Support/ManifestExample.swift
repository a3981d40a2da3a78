import TestSupport

@testable import IngestFormat

/// A directory's files as examples that are the same everywhere: a run, a names run, a manifest.
enum ManifestExample {
    static let directory = SegmentExample.directory
    static let time = SegmentExample.time
    static let generation = Generation(rawValue: 12)

    static let span = LogSpan(
        firstSegment: SegmentNumber(rawValue: 1),
        end: LogPosition(segment: SegmentNumber(rawValue: 7), blockCount: 5))

    static let run = Run(
        header: RunHeader(
            table: .rewardDays, fileNumber: FileNumber(rawValue: 33), directory: directory,
            span: span, generation: generation, createdAt: time,
            index: SegmentExample.counters.index),
        counters: SegmentExample.counters)

    static let names: [String] = ["reward-1", "", "business-1", "reward-2", "iOS", "é"]
    static let keys: [RewardKey?] = [
        RewardKey(reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 3)), nil,
        RewardKey(reward: NameOrdinal(rawValue: 4), business: NameOrdinal(rawValue: 3)),
    ]

    static func namesRun() -> (bytes: [UInt8], entry: NamesRunEntry) {
        var encoder = NamesRunEncoder(
            fileNumber: FileNumber(rawValue: 34), directory: directory,
            firstName: NameOrdinal(rawValue: 1), firstKey: KeyOrdinal(rawValue: 0),
            generation: generation, createdAt: time)
        for name in names { encoder.append(name: Array(name.utf8)[...]) }
        for key in keys { encoder.append(key: key) }
        return encoder.finish()
    }

    /// Of the key in the manifest.
    static let hash = KeyedHash(key: Array(1...32))!

    static let manifest: Manifest = {
        var manifest = Manifest(
            directory: directory, createdAt: time - 1_000_000, hashAlgorithm: 1,
            hashKey: Array(1...32))
        manifest.generation = generation
        manifest.createdAt = time
        manifest.nextFileNumber = FileNumber(rawValue: 100)
        manifest.shard.cut = position(8, 5)
        manifest.shard.nextName = 18
        manifest.shard.nextKey = 8
        manifest.shard.commitEpoch = 903
        manifest.shard.lastBlockChecksum = 0xB10C_0003
        manifest.shard.totals = totals(rowCount: 1_234)
        manifest.expired = [expired(12, 1...2), expired(13, 3...4)]
        (manifest.droppedSegment, manifest.droppedAt) = (
            SegmentNumber(rawValue: 2), time - 2_000_000
        )
        manifest.sealed = [sealed(7), sealed(8)]
        manifest.runs = [
            entry(.rewards, 20, 1...4), entry(.rewards, 30, 5...6), entry(.days, 21, 1...4),
            entry(.days, 31, 5...6), entry(.rewardDays, 22, 1...4), entry(.rewardDays, 32, 5...6),
        ]
        manifest.namesRuns = [names(10, 1..<11, 0..<4), names(11, 11..<15, 4..<4)]
        manifest.lost = SegmentExample.footer.lost
        manifest.uncleanStops = [
            UncleanStop(foundAt: time - 9_000, position: position(5, 2)),
            UncleanStop(foundAt: time - 8_000, position: position(7, 5)),
        ]
        return manifest
    }()

    static func totals(rowCount: UInt64) -> LogTotals {
        var entry = LedgerEntry(key: .plain)
        entry.packets[Int(PacketResult.accepted.rawValue)] = rowCount / 10
        entry.packets[Int(PacketResult.shed.rawValue)] = 3
        entry.events[Int(Verdict.counted.rawValue)] = rowCount
        entry.events[Int(Verdict.malformed.rawValue)] = 2
        var totals = LogTotals()
        totals.add([entry])
        totals.rowCount = rowCount
        return totals
    }

    static func position(_ segment: UInt32, _ blockCount: UInt32) -> LogPosition {
        LogPosition(segment: SegmentNumber(rawValue: segment), blockCount: blockCount)
    }

    static func expired(_ number: UInt64, _ segments: ClosedRange<UInt32>) -> ExpiredEntry {
        var names = names(number + 50, 1..<1, 0..<0)
        names.table = .expiredNames
        return ExpiredEntry(run: entry(.expired, number, segments), names: names)
    }

    static func sealed(_ number: UInt32) -> SealedSegment {
        SealedSegment(
            number: SegmentNumber(rawValue: number), byteCount: 70_000, footerChecksum: 0xF007,
            blockCount: 5, rowCount: 5, minTimestamp: time, maxTimestamp: time + 4_000,
            lastCommitTime: time + 5_000)
    }

    static func entry(
        _ table: TableKind, _ number: UInt64, _ segments: ClosedRange<UInt32>,
        _ blockCount: UInt32 = 5
    ) -> RunEntry {
        let span = LogSpan(
            firstSegment: SegmentNumber(rawValue: segments.lowerBound),
            end: position(segments.upperBound, blockCount))
        return RunEntry(
            table: table, fileNumber: FileNumber(rawValue: number), byteCount: 5_000,
            checksum: 0xC0DE, span: span, rowCount: 3)
    }

    static func span(_ first: UInt32, _ last: UInt32) -> LogSpan {
        LogSpan(firstSegment: SegmentNumber(rawValue: first), end: position(last, 5))
    }

    static func names(
        _ number: UInt64, _ names: Range<UInt32>, _ keys: Range<UInt32>
    ) -> NamesRunEntry {
        NamesRunEntry(
            fileNumber: FileNumber(rawValue: number), byteCount: 300, checksum: 0xDEED,
            names: names, keys: keys)
    }
}
