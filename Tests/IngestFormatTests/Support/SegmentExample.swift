import IngestCounting
import IngestFormat
import TestSupport

/// A segment that was sealed with three of its five blocks, as an example that is the same everywhere.
enum SegmentExample {
    static let directory = DirectoryID(rawValue: 0x0102_0304_0506_0708)
    /// 2026-11-20 10:00:00 UTC.
    static let time: Int64 = 1_795_168_800_000_000
    static let day: Int32 = 20_777

    static let header = SegmentHeader(
        directory: directory, segment: SegmentNumber(rawValue: 7), createdAt: time,
        previousChecksum: 0x0BAD_CAFE, firstName: NameOrdinal(rawValue: 11),
        firstKey: KeyOrdinal(rawValue: 4), commitEpoch: 900)

    static let footerOffset: UInt64 = 8_064

    static let footer: SegmentFooter = {
        let checksum = Array(header.encode().suffix(4))
        var footer = SegmentFooter(
            header: header,
            headerChecksum: checksum.reversed().reduce(0) { $0 << 8 | UInt32($1) },
            sealedAt: time + 60_000_000)
        footer.blocks = [
            block(0, at: 4_096, rows: 3, names: 2, first: 11, keys: 1, key: 4),
            block(1, at: 4_608, rows: 0, names: 0, first: 13, keys: 0, key: 5),
            // Block 2 was lost, with two names and a key; block 4 too.
            block(3, at: 6_016, rows: 2, names: 1, first: 15, keys: 1, key: 6),
        ]
        footer.blockCount = 5
        footer.names = 11..<18
        footer.keys = 4..<8
        footer.rowCount = 5
        footer.minTimestamp = time
        footer.maxTimestamp = time + 4_000
        footer.lastBlockChecksum = footer.blocks[2].summary.headerChecksum
        footer.commitEpoch = footer.blocks[2].summary.commitEpoch
        footer.rewardDays = counters
        footer.days = days
        footer.ledger = ledger
        footer.lost = [
            lost(2, at: 5_120, names: 13..<15, keys: 5..<6, rows: 4),
            lost(4, at: 6_528, names: 16..<18, keys: 7..<8, rows: nil),
        ]
        return footer
    }()

    static let rows: [Row] = [
        Row(key: 4, timestamp: time, day: day, eventHash: 1),
        Row(
            key: 4, timestamp: time + 1_000, day: day, type: .redemption, eventHash: 2,
            money: .init(revenue: 12_500_000, spend: 0)),
        Row(key: 4, timestamp: time + 2_000, day: day + 1, verdict: .duplicate, eventHash: 1),
        Row(key: 6, timestamp: time + 3_000, day: day, type: .click),
        Row(key: 6, timestamp: time + 4_000, day: day, verdict: .tooOld),
    ]

    static let counters: CounterTable = {
        let counters = SegmentCounters()
        precondition(counters.fold(BlockRows(rows)) == .folded)
        return counters.encodeTable()
    }()

    static let days: CounterTable = {
        let key = RewardKey(
            reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 3))
        let sums = DaySums(keys: Array(repeating: key, count: 8))
        var rows = DaySumming(counters.makeCursor(), into: sums)
        try! rows.drain()
        return .encode(sums.makeCursor())
    }()

    static let ledger: [LedgerEntry] = {
        var framed = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 77), epoch: SenderEpoch(rawValue: 5)))
        framed.packets[Int(PacketResult.accepted.rawValue)] = 3
        framed.packets[Int(PacketResult.resend.rawValue)] = 1
        framed.events[Int(Verdict.counted.rawValue)] = 3
        framed.events[Int(Verdict.duplicate.rawValue)] = 1
        framed.sequences = [0...1, 9...9]
        var plain = LedgerEntry(key: .plain)
        plain.packets[Int(PacketResult.accepted.rawValue)] = 1
        plain.events[Int(Verdict.tooOld.rawValue)] = 1
        plain.events[Int(Verdict.malformed.rawValue)] = 2
        return [framed, plain]
    }()

    static func lost(
        _ block: UInt32, at offset: UInt64, names: Range<UInt32>, keys: Range<UInt32>, rows: UInt64?
    ) -> LostRange {
        LostRange(
            segment: header.segment, firstBlock: block, blockCount: 1, offset: offset,
            byteCount: 512, rowCount: rows, names: names, keys: keys)
    }

    static func block(
        _ ordinal: UInt32, at offset: UInt64, rows: Int, names: Int, first: UInt32, keys: Int,
        key: UInt32
    ) -> BlockIndexEntry {
        BlockIndexEntry(
            ordinal: ordinal, offset: offset,
            summary: BlockSummary(
                byteCount: 512, headerChecksum: 0xB10C_0000 + ordinal, rowCount: rows,
                minTimestamp: rows == 0 ? 0 : time, maxTimestamp: rows == 0 ? 0 : time + 4_000,
                firstName: NameOrdinal(rawValue: first), nameCount: names,
                firstKey: KeyOrdinal(rawValue: key), keyCount: keys, eventHashCount: rows,
                ledgerEntryCount: 2, commitEpoch: 900 + UInt64(ordinal), admissionTime: time))
    }
}
