import IngestCounting
import TestSupport
import Testing

@testable import IngestFormat

private let layout = SegmentFooter.layout

struct SegmentFooterTests {
    private static let example = SegmentExample.footer

    /// The bytes of a footer without its trailer, and the trailer.
    private static func encode(_ footer: SegmentFooter) -> (bytes: [UInt8], trailer: SegmentTrailer)
    {
        let (bytes, trailer) = footer.encode(at: SegmentExample.footerOffset)
        return (Array(bytes.dropLast(SegmentTrailer.byteCount)), trailer)
    }

    private static func error(_ footer: SegmentFooter) -> String? {
        let (bytes, trailer) = encode(footer)
        return Damage.error { _ = try SegmentFooter.decode(bytes, trailer: trailer) }?.summary
    }

    @Test func `a footer comes back as it was written`() throws {
        let (bytes, trailer) = Self.example.encode(at: SegmentExample.footerOffset)
        let found = try SegmentTrailer.decode(
            Array(bytes.suffix(64)),
            fileByteCount: SegmentExample.footerOffset + UInt64(bytes.count),
            directory: SegmentExample.directory, segment: SegmentExample.header.segment)
        #expect(found == trailer)
        let footer = try SegmentFooter.decode(Array(bytes.dropLast(64)), trailer: found)
        #expect(footer == Self.example)
        var model = CounterModel()
        model.add(SegmentExample.rows)
        #expect(try CounterModel(footer.rewardDays.makeCursor()) == model)
    }

    @Test func `without windows the rest of a footer is the same`() throws {
        var footer = Self.example
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 2)))
        (entry.window.start, entry.sequences) = (0, [0...9])
        footer.windows.apply([entry], at: 3)
        let (bytes, trailer) = footer.encode(at: SegmentExample.footerOffset)
        footer.windows = SenderWindows()
        for parts in [.ledger, []] as [SegmentFooter.Parts] {
            if parts.isEmpty { footer.ledger = [] }
            let read = try SegmentFooter.decode(
                Array(bytes.dropLast(64)), trailer: trailer, parts: parts)
            #expect(read == footer)
        }
    }

    @Test func `the footer of an empty segment comes back too`() throws {
        let empty = SegmentFooter(
            header: SegmentExample.header, headerChecksum: 5, sealedAt: 6)
        let (bytes, trailer) = empty.encode(at: 128)
        #expect(try SegmentFooter.decode(Array(bytes.dropLast(64)), trailer: trailer) == empty)
    }

    @Test func `a footer of many blocks, keys and senders comes back, smaller than its parts`()
        throws
    {
        var random = SeededRandom(seed: 3)
        var footer = SegmentFooter(header: SegmentExample.header, headerChecksum: 5, sealedAt: 6)
        footer.blocks = (0..<2_000).map {
            SegmentExample.block(
                $0, at: 4_096 + UInt64($0) * 512, rows: 10, names: 0, first: 11, keys: 0, key: 4)
        }
        footer.blockCount = 2_000
        footer.rowCount = 20_000
        footer.minTimestamp = SegmentExample.time
        footer.maxTimestamp = SegmentExample.time + 4_000
        footer.lastBlockChecksum = footer.blocks[1_999].summary.headerChecksum
        footer.commitEpoch = footer.blocks[1_999].summary.commitEpoch
        let counters = SegmentCounters()
        let rows = RowGenerator(keyCount: 9_000).rows(20_000, &random)
        #expect(counters.fold(BlockRows(rows)) == .folded)
        footer.rewardDays = counters.encodeTable()
        footer.ledger = (0..<500).map { sender in
            var entry = LedgerEntry(
                key: SenderKey(
                    kind: .framed, sender: SenderID(rawValue: UInt64(1 + sender)),
                    epoch: SenderEpoch(rawValue: 1)))
            entry.events[0] = 40
            entry.sequences = [0...UInt64(sender)]
            return entry
        }
        let (bytes, trailer) = footer.encode(at: 4_096 + 2_000 * 512)
        #expect(try SegmentFooter.decode(Array(bytes.dropLast(64)), trailer: trailer) == footer)
        #expect(bytes.count < 2_000 * 80 / 2 + footer.rewardDays.pages.count + 10_000)
    }

    @Test func `every flipped bit and every cut of a footer is seen`() {
        let (bytes, trailer) = Self.encode(Self.example)
        func decode(_ bytes: [UInt8]) throws {
            _ = try SegmentFooter.decode(bytes, trailer: trailer)
        }
        #expect(Damage.unseenFlips(bytes, decode) == [])
        #expect(Damage.unseenCuts(bytes, decode) == [])
    }

    /// Footers whose checksums are right and whose contents cannot be.
    private static let wrong: [(String, String, @Sendable (inout SegmentFooter) -> Void)] = [
        ("names end before they begin", "corrupt first name", { $0.names = 18..<18 }),
        ("a name too many", "corrupt first name", { $0.names = 11..<15 }),
        ("a key too many", "corrupt first key", { $0.keys = 4..<6 }),
        ("an ordinal beyond the blocks", "corrupt ordinal", { $0.blockCount = 3 }),
        (
            "commits beyond the blocks", "corrupt ordinal",
            { $0.blocks[2].summary.rewritten = Self.rewritten(3) }
        ),
        (
            "commits of two blocks", "corrupt ordinal",
            { $0.blocks[0].summary.rewritten = Self.rewritten(2) }
        ),
        (
            "another chain behind a rewritten block", "corrupt last block checksum",
            { $0.blocks[2].summary.rewritten = Self.rewritten(1) }
        ),
        ("blocks out of order", "corrupt ordinal", { $0.blocks.swapAt(0, 1) }),
        ("a block twice", "corrupt ordinal", { $0.blocks[1].ordinal = 0 }),
        ("a block in the header", "corrupt offset", { $0.blocks[0].offset = 120 }),
        ("blocks that overlap", "corrupt offset", { $0.blocks[1].offset = 4_607 }),
        ("a block in the footer", "corrupt block byte count", { $0.blocks[2].offset = 7_600 }),
        ("a block far away", "corrupt offset", { $0.blocks[2].offset = .max }),
        ("a block of no bytes", "corrupt block byte count", { $0.blocks[2].summary.byteCount = 0 }),
        (
            "a block of too many bytes", "corrupt block byte count",
            { $0.blocks[2].summary.byteCount = 1 << 30 }
        ),
        ("too many rows", "corrupt row count", { $0.blocks[0].summary.rowCount = 65_537 }),
        ("a row less", "corrupt row count", { $0.blocks[0].summary.rowCount = 2 }),
        ("rows in the head only", "corrupt row count", { $0.rowCount = 6 }),
        ("another first time", "corrupt min timestamp", { $0.minTimestamp += 1 }),
        ("another last time", "corrupt max timestamp", { $0.maxTimestamp += 1 }),
        (
            "times the wrong way round", "corrupt max timestamp",
            { $0.blocks[0].summary.minTimestamp = .max }
        ),
        ("names out of order", "corrupt first name", { $0.blocks[2].summary.firstName = .none }),
        ("another chain", "corrupt last block checksum", { $0.lastBlockChecksum = 1 }),
        ("another epoch", "corrupt commit epoch", { $0.commitEpoch = 1 }),
        ("lost blocks out of order", "corrupt first block", { $0.lost.swapAt(0, 1) }),
        ("a lost block beyond the last", "corrupt block count", { $0.lost[1].blockCount = 2 }),
        (
            "a lost block of another segment", "corrupt block count",
            { $0.lost[1].segment = SegmentNumber(rawValue: 8) }
        ),
        (
            "more rows lost than there can be", "corrupt row count",
            { $0.lost[0].rowCount = 1 << 40 }
        ),
        ("lost names that cannot be", "corrupt next name", { $0.lost[0].names = 1..<(.max) }),
        (
            "senders out of order", "corrupt ledger: order of senders",
            { $0.ledger = [$0.ledger[0], $0.ledger[0]] }
        ),
        ("a page cut off", "corrupt pages byte count", { $0.rewardDays.pages.removeLast() }),
        ("a page too many", "corrupt pages byte count", { $0.rewardDays.pages.append(0) }),
    ]

    private static func rewritten(_ count: UInt32) -> RewrittenCommits {
        RewrittenCommits(count: count, lastAdmissionTime: SegmentExample.time, lastChecksum: 7)
    }

    @Test func `a rewritten block stands for its commits`() throws {
        var footer = Self.example
        footer.blocks[0].summary.rewritten = Self.rewritten(1)
        // The one that was lost comes behind two more commits.
        footer.blocks[2].ordinal = 5
        footer.blocks[1].summary.rewritten = Self.rewritten(3)
        footer.blockCount = 9
        footer.lost[0].firstBlock = 4
        footer.lost[1].firstBlock = 8
        footer.blocks[2].summary.rewritten = Self.rewritten(3)
        footer.lastBlockChecksum = 7
        footer.commitEpoch += 2
        let (bytes, trailer) = footer.encode(at: SegmentExample.footerOffset)
        let found = try SegmentFooter.decode(Array(bytes.dropLast(64)), trailer: trailer)
        #expect(found == footer)
        #expect(found.blocks.map(\.endOrdinal) == [1, 4, 8])
        #expect(found.entry(trailer: trailer).lastCommitTime == SegmentExample.time)
    }

    @Test(arguments: Self.wrong.indices)
    func `a footer that contradicts itself is refused`(index: Int) {
        let (name, expected, damage) = Self.wrong[index]
        var footer = Self.example
        damage(&footer)
        #expect(Self.error(footer) == expected, "\(name)")
    }

    /// A field of the head changed, its checksum and the trailer's set right.
    @Test(
        arguments: [
            (layout.magic, 1, "notThisFile magic"),
            (layout.version, 2, "newerFormat version"),
            (layout.version, 0, "corrupt version"),
            (layout.segment, 8, "notThisFile segment"),
            (layout.directory, 8, "notThisFile directory"),
            (layout.attributionCount, 1, "corrupt attributions: attribution count"),
            (layout.blockCount, 1 << 20, "corrupt block count"),
            (layout.blockCount, 2, "corrupt block entry count"),
            (layout.rowCount, UInt64.max, "corrupt row count"),
            (layout.nextName, UInt64(UInt32.max), "corrupt next name"),
            (layout.nextKey, UInt64(UInt32.max), "corrupt next key"),
            (layout.keyDayCount, 1 << 25, "corrupt key day count"),
            (layout.keyDayCount, 2, "corrupt row count"),
            (layout.pageCount, 4, "corrupt page count"),
            (layout.pageCount, 2, "corrupt raw byte count"),
            (layout.dayRowCount, 1 << 25, "corrupt day row count"),
            (layout.dayRowCount, 1, "corrupt row count"),
            (layout.dayPageCount, 4, "corrupt day page count"),
            (layout.dayPageCount, 0, "corrupt raw byte count"),
            (layout.blockEntryCount, 2, "corrupt raw byte count"),
            (layout.ledgerEntryCount, 1, "corrupt ledger byte count"),
            (layout.ledgerEntryCount, 1 << 20, "corrupt ledger entry count"),
            (layout.lostRangeCount, 1, "corrupt raw byte count"),
            (layout.lostRangeCount, 1 << 20, "corrupt lost range count"),
        ] as [(FormatField, UInt64, String)])
    func `a head field that cannot be is refused although the checksums fit`(
        field: FormatField, value: UInt64, expected: String
    ) {
        #expect(Self.error(afterPutting: field, value, at: 0) == expected)
    }

    /// The same of the second entry of the section table.
    @Test(
        arguments: [
            (SegmentFooter.SectionTable.Entry.layout.kind, 1, "corrupt kind"),
            (SegmentFooter.SectionTable.Entry.layout.kind, 3, "corrupt kind"),
            (SegmentFooter.SectionTable.Entry.layout.kind, 0x7FFF, "newerFormat kind"),
            (SegmentFooter.SectionTable.Entry.layout.kind, 0xFFFF, "corrupt kind"),
            (SegmentFooter.SectionTable.Entry.layout.encoding, 2, "corrupt encoding"),
            (SegmentFooter.SectionTable.Entry.layout.encoding, 1, "corrupt LZ4 block"),
            (SegmentFooter.SectionTable.Entry.layout.reserved, 1, "corrupt reserved"),
            (SegmentFooter.SectionTable.Entry.layout.rawByteCount, 5, "corrupt raw byte count"),
            (
                SegmentFooter.SectionTable.Entry.layout.storedByteCount, 0xFFFF_FFFF,
                "corrupt stored byte count"
            ),
            (SegmentFooter.SectionTable.Entry.layout.storedByteCount, 5, "corrupt raw byte count"),
            (SegmentFooter.SectionTable.Entry.layout.checksum, 5, "corrupt checksum"),
        ] as [(FormatField, UInt64, String)])
    func `a section that cannot be is refused although the head's checksum fits`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let entry = layout.byteCount + SegmentFooter.SectionTable.Entry.layout.byteCount
        #expect(Self.error(afterPutting: field, value, at: entry) == expected)
    }

    private static let overLimits:
        [(name: String, change: @Sendable (inout SegmentFooter) -> Void)] =
            [
                ("block count", { $0.blockCount = 1 << 20 }),
                ("block entry count", { $0.blockCount = 2 }),
                ("next name", { $0.names = 1..<(1 << 24 + 2) }),
                ("next key", { $0.keys = 1..<(1 << 24 + 1) }),
                ("row count", { $0.rowCount = 1 << 31 + 1 }),
                (
                    "ledger entry count",
                    { $0.ledger = Array(repeating: $0.ledger[0], count: 65_537) }
                ),
                (
                    "sequence range count",
                    {
                        let ranges = (0...UInt64(1 << 16)).map { 2 * $0...2 * $0 }
                        $0.ledger = Array(repeating: $0.ledger[0], count: 64)
                        for i in 0..<64 { $0.ledger[i].sequences = ranges }
                    }
                ),
                ("lost range count", { $0.lost = Array(repeating: $0.lost[0], count: 65_537) }),
            ]

    /// What `decode` would refuse is not written: recovery asks first, `encode` insists.
    @Test(arguments: Self.overLimits.indices)
    func `a count that no footer holds is named before it is written`(index: Int) {
        var footer = Self.example
        #expect(footer.countOverLimit == nil)
        Self.overLimits[index].change(&footer)
        #expect(footer.countOverLimit?.name == Self.overLimits[index].name)
    }

    private static let sectionCount = SegmentFooter.Section.allCases.count

    private static func error(
        afterPutting field: FormatField, _ value: UInt64, at start: Int
    ) -> String? {
        var (bytes, trailer) = encode(example)
        let covered =
            layout.byteCount + sectionCount * SegmentFooter.SectionTable.Entry.layout.byteCount
        bytes = bytes.with(field, value, at: start).withChecksum(of: 0..<covered, at: covered)
        trailer.footerChecksum = Checksum.crc32c(bytes[0..<covered])
        return Damage.error { _ = try SegmentFooter.decode(bytes, trailer: trailer) }?.summary
    }

    @Test func `a section that a later release may add is passed over`() throws {
        let (bytes, old) = Self.encode(Self.example)
        let table =
            layout.byteCount + Self.sectionCount * SegmentFooter.SectionTable.Entry.layout.byteCount
        let more: [UInt8] = [1, 2, 3]
        var head = Array(bytes[..<table])
        head =
            head.with(layout.sectionCount, UInt64(Self.sectionCount + 1))
            + [UInt8](repeating: 0, count: 16)
        head = head.with(SegmentFooter.SectionTable.Entry.layout.kind, 0x8001, at: table)
            .with(SegmentFooter.SectionTable.Entry.layout.rawByteCount, 3, at: table)
            .with(SegmentFooter.SectionTable.Entry.layout.storedByteCount, 3, at: table)
            .with(
                SegmentFooter.SectionTable.Entry.layout.checksum, UInt64(Checksum.crc32c(more)),
                at: table)
        let checksum = Checksum.crc32c(head)
        let rest = bytes[(table + 4)...]
        let longer =
            (head + [0, 0, 0, 0]).withChecksum(of: 0..<head.count, at: head.count) + rest + more
        var trailer = old
        trailer.footerByteCount = UInt64(longer.count)
        trailer.footerChecksum = checksum
        #expect(try SegmentFooter.decode(longer, trailer: trailer) == Self.example)
    }

    @Test func `the manifest's entry is that of the file`() {
        let (bytes, trailer) = Self.example.encode(at: SegmentExample.footerOffset)
        let entry = Self.example.entry(trailer: trailer)
        #expect(entry.byteCount == SegmentExample.footerOffset + UInt64(bytes.count))
        #expect(entry.rowCount == 5)
        #expect(entry.footerChecksum == trailer.footerChecksum)
        #expect(entry.blockCount == 5)
    }
}
