import IngestCounting
import IngestFormat
import TestSupport
import Testing

/// Expired footers: the header, the ledger, and what several stretches are together.
struct ExpiredTests {
    private typealias Field = ExpiredLayout.Header

    private static func sums(
        _ segments: ClosedRange<UInt32>, missing: UInt32 = 0, rows: UInt64 = 5
    ) -> ExpiredSums {
        var footer = SegmentExample.footer
        footer.segment = SegmentNumber(rawValue: segments.upperBound)
        footer.rowCount = rows
        if rows == 0 { (footer.minTimestamp, footer.maxTimestamp) = (0, 0) }
        return ExpiredSums(
            footer, from: SegmentNumber(rawValue: segments.lowerBound), missingCount: missing,
            byteCount: 70_000, nextCommitEpoch: footer.commitEpoch + 2)
    }

    private static func file(
        _ sums: ExpiredSums, _ table: CounterTable = SegmentExample.counters,
        ledger: [LedgerEntry] = SegmentExample.ledger
    ) -> (header: ExpiredHeader, bytes: [UInt8]) {
        var sum = LedgerSum()
        sum.add(ledger)
        let stored = ExpiredLedger(sum.entries())
        let header = ExpiredHeader(
            fileNumber: FileNumber(rawValue: 30), directory: SegmentExample.directory, sums: sums,
            generation: Generation(rawValue: 12), createdAt: SegmentExample.time,
            index: table.index, ledger: stored)
        return (header, header.encode() + table.pages + table.index.encode() + stored.bytes)
    }

    /// All that a reader checks.
    private static func read(_ bytes: [UInt8]) throws {
        let header = try ExpiredHeader.decode(bytes)
        let (index, ledger) = (Int(header.pageIndexOffset), Int(header.ledgerOffset))
        guard bytes.count == Int(header.fileByteCount) else {
            throw FormatError.torn(
                "file byte count", at: 0, available: bytes.count,
                needed: Int(header.fileByteCount))
        }
        let table = CounterTable(
            hasDay: true, pages: Array(bytes[ExpiredHeader.byteCount..<index]),
            index: try header.decodeIndex(Array(bytes[index..<ledger])))
        _ = try CounterModel(table.makeCursor())
        _ = try header.decodeLedger(Array(bytes[ledger...]))
    }

    @Test func `they come back as they were written`() throws {
        let (header, bytes) = Self.file(Self.sums(3...7, missing: 2))
        let found = try ExpiredHeader.decode(
            bytes, directory: SegmentExample.directory, fileNumber: FileNumber(rawValue: 30))
        #expect(found == header && found.entry == header.entry)
        #expect(header.fileByteCount == UInt64(bytes.count))
        #expect(header.entry.checksum == Checksum.crc32c(bytes[..<188]))
        #expect(header.entry.missingCount == 2 && header.sums.footerCount == 1)
        let stored = Array(bytes[Int(header.ledgerOffset)...])
        #expect(try header.decodeLedger(stored) == SegmentExample.ledger)
        try Self.read(bytes)
        // Without rows and senders, too.
        let empty = Self.file(
            Self.sums(1...1, rows: 0), CounterTable(hasDay: true), ledger: [])
        try Self.read(empty.bytes)
        #expect(try ExpiredHeader.decode(empty.bytes) == empty.header)
    }

    @Test func `every flipped bit and every cut is seen`() {
        let bytes = Self.file(Self.sums(3...7, missing: 2)).bytes
        #expect(Damage.unseenFlips(bytes, Self.read) == [])
        #expect(Damage.unseenCuts(bytes, Self.read) == [])
    }

    @Test(arguments: [
        (Field.magic, 1, "notThisFile magic"),
        (Field.version, 2, "newerFormat version"),
        (Field.version, 0, "corrupt version"),
        (Field.directory, 1, "notThisFile directory"),
        (Field.fileNumber, 1, "notThisFile file number"),
        (Field.columnCount, 22, "corrupt column count"),
        (Field.ledgerEncoding, 2, "corrupt ledger encoding"),
        (Field.firstSegment, 0, "corrupt first segment"),
        (Field.firstSegment, 8, "corrupt first segment"),
        (Field.lastSegment, 0, "corrupt last segment"),
        (Field.lastBlockCount, 1 << 20, "corrupt last block count"),
        (Field.nextName, 0, "corrupt next name"),
        (Field.nextKey, 1 << 30, "corrupt next key"),
        (Field.footerCount, 0, "corrupt footer count"),
        (Field.footerCount, 6, "corrupt footer count"),
        (Field.missingCount, 5, "corrupt missing count"),
        (Field.rowCount, 0, "corrupt max timestamp"),
        (Field.minTimestamp, UInt64(Int64.max), "corrupt max timestamp"),
        (Field.keyDayCount, UInt64.max, "corrupt key day count"),
        (Field.pageCount, 5, "corrupt page count"),
        (Field.pageIndexOffset, 100, "corrupt page index offset"),
        (Field.pageIndexOffset, UInt64.max, "corrupt page index offset"),
        (Field.fileByteCount, 5, "corrupt file byte count"),
        (Field.pageIndexChecksum, 5, "corrupt page index checksum"),
        (Field.ledgerEntryCount, UInt64(UInt32.max), "corrupt ledger entry count"),
        (Field.ledgerByteCount, UInt64(UInt32.max), "corrupt ledger byte count"),
        (Field.ledgerRawByteCount, 5, "corrupt ledger raw byte count"),
        (Field.ledgerChecksum, 5, "corrupt ledger checksum"),
        (Field.reserved, 1, "corrupt reserved"),
    ])
    func `a header field that cannot be is refused although the checksum fits`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let bytes = Self.file(Self.sums(3...7, missing: 2)).bytes
        let damaged = bytes.with(field, value).sealed(ExpiredHeader.byteCount)
        let error = Damage.error {
            _ = try ExpiredHeader.decode(
                damaged + bytes[ExpiredHeader.byteCount...], directory: SegmentExample.directory,
                fileNumber: FileNumber(rawValue: 30))
            try Self.read(damaged)
        }
        #expect(error?.summary == expected)
    }

    @Test func `random damage under a right checksum never traps`() {
        var random = SeededRandom(seed: 5)
        let bytes = Self.file(Self.sums(3...7, missing: 2)).bytes
        for _ in 0..<5_000 {
            var damaged = bytes
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: 0..<ExpiredHeader.byteCount, using: &random)
                damaged[place] = UInt8.random(in: 0...255, using: &random)
            }
            let sealed = damaged.sealed(ExpiredHeader.byteCount)
            _ = Damage.error { try Self.read(sealed) }
        }
    }

    @Test func `two stretches are one where they touch`() throws {
        let (first, second) = (Self.sums(1...3, missing: 1), Self.sums(4...9, missing: 3, rows: 0))
        let joined = try #require(first.joined(with: second))
        #expect(joined.span == ManifestExample.span(1, 9))
        #expect(joined.footerCount == 2 && joined.missingCount == 4 && joined.segmentCount == 6)
        #expect(joined.logByteCount == 140_000 && joined.rowCount == 5)
        #expect(joined.minTimestamp == first.minTimestamp)
        #expect(joined.maxTimestamp == first.maxTimestamp)
        #expect(joined.nextName == second.nextName)
        #expect(second.joined(with: first) == nil)
        #expect(first.joined(with: Self.sums(5...5)) == nil)
        var huge = second
        huge.logByteCount = .max
        #expect(first.joined(with: huge) == nil)
    }

    // MARK: Ledger

    /// - Parameter epoch: the sender's number too.
    private static func sender(_ epoch: UInt64, ranges: Int = 1) -> LedgerEntry {
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: epoch),
                epoch: SenderEpoch(rawValue: epoch)))
        entry.packets[0] = epoch
        entry.events[0] = 2 * epoch
        entry.sequences = (0..<UInt64(ranges)).map { 3 * $0...3 * $0 }
        return entry
    }

    private static func sum(_ entries: [LedgerEntry]) -> LedgerSum {
        var sum = LedgerSum()
        sum.add(entries)
        return sum
    }

    @Test func `a ledger has as many senders as fit, and the sums of all`() throws {
        let all = (1...25).map { Self.sender($0) } + [LedgerEntry(key: .plain)]
        #expect(Self.sum(all).entries(countMax: 26, rangeCountMax: 25).count == 26)
        let found = Self.sum(all).entries(countMax: 20, rangeCountMax: 25)
        #expect(found.count == 20)
        // Those of the oldest epochs make room for `plain` and for what they are folded into.
        let others = try #require(found.first { $0.key == .others })
        #expect(others.events[0] == 2 * (1...7).reduce(0, +) && others.sequences.isEmpty)
        #expect(!found.contains { $0.key == Self.sender(7).key })
        #expect(found.contains(Self.sender(8)))
        let more = found + [Self.sender(1), Self.sender(26)]
        let later = Self.sum(more).entries(countMax: 20, rangeCountMax: 25)
        #expect(later.count == 20)
        #expect(later.reduce(0) { $0 + $1.packets[0] } == (1...26).reduce(0, +) + 1)
        #expect(later == later.sorted { $0.key < $1.key })
    }

    @Test func `a ledger has as many ranges of sequences as fit, of the newest epochs`() {
        let all = [Self.sender(1), Self.sender(2, ranges: 11), Self.sender(3, ranges: 10)]
        #expect(Self.sum(all).entries(countMax: 20, rangeCountMax: 22).count == 3)
        let found = Self.sum(all).entries(countMax: 20, rangeCountMax: 20)
        #expect(found.map(\.key) == [.others, Self.sender(3).key])
        #expect(found[0].packets[0] == 3 && found[1].sequences.count == 10)
    }
}
