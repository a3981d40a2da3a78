// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query

/// A block's line in the footer of its segment.
package struct BlockIndexEntry: Hashable, Sendable {
    /// Place of the block's (first) commit in its segment, from 0; ordinals of lost blocks are missing.
    package var ordinal: UInt32
    /// Of the commit behind the block's.
    package var endOrdinal: UInt32 { ordinal &+ summary.commitCount }
    /// Of the block's first byte in the segment file.
    package var offset: UInt64
    package var summary: BlockSummary
    package init(ordinal: UInt32, offset: UInt64, summary: BlockSummary) {
        self.ordinal = ordinal
        self.offset = offset
        self.summary = summary
    }
    /// Of the first byte after the block.
    package var end: UInt64 { offset + UInt64(summary.byteCount) }
}

/// What ends a sealed segment: where its blocks are, what they add up to. It outlives the rows.
///
/// **Layout** docs/format/segment.md: head, section table, checksum, sections; then the trailer at the
/// file's end.
package struct SegmentFooter: Hashable, Sendable {
    package var directory: DirectoryID
    package var segment: SegmentNumber
    /// The checksum in the segment's header, so that the footer's covers that too.
    package var headerChecksum: UInt32
    /// Microseconds since 1970 UTC.
    package var sealedAt: Int64
    /// Commits of this segment, each a block or a part of a rewritten one, lost ones included.
    package var blockCount: UInt32
    /// Header checksum, as it was committed, and commit epoch of the last commit that is there; those before the
    /// segment if none is.
    package var lastBlockChecksum: UInt32
    package var commitEpoch: UInt64
    /// Ordinals given in this segment, lost ones included.
    package var names: Range<UInt32>
    package var keys: Range<UInt32>
    package var rowCount: UInt64 = 0
    /// Event times of its rows; both 0 without rows.
    package var minTimestamp: Int64 = 0
    package var maxTimestamp: Int64 = 0
    /// As in `Manifest`, when the segment was sealed; `unknownCompleteSince` where a start sealed it.
    package var idsCompleteSince: Int64 = 0
    /// What the daemon that wrote the rows had forgotten is not in them.
    package static let unknownCompleteSince: Int64 = -1
    /// By ordinal.
    package var blocks: [BlockIndexEntry] = []
    /// Counters by (key, day), and the same by (business, day): level 0 of the tables, as they stand.
    package var rewardDays = CounterTable(hasDay: true)
    package var days = CounterTable(hasDay: true)
    /// Of the attributed rows of `rewardDays`.
    package var attributions = AttributionList()
    /// Sums over the blocks, by sender key.
    package var ledger: [LedgerEntry] = []
    /// By block ordinal.
    package var lost: [LostRange] = []
    /// The windows of all senders behind its last block.
    package var windows = SenderWindows()

    /// The footer of a segment without blocks; the caller adds to it what the segment holds.
    /// - Parameter headerChecksum: the last four bytes of the header.
    package init(header: SegmentHeader, headerChecksum: UInt32, sealedAt: Int64) {
        directory = header.directory
        segment = header.segment
        self.headerChecksum = headerChecksum
        self.sealedAt = sealedAt
        blockCount = 0
        lastBlockChecksum = header.previousChecksum
        commitEpoch = header.commitEpoch
        names = header.firstName.rawValue..<header.firstName.rawValue
        keys = header.firstKey.rawValue..<header.firstKey.rawValue
    }

    /// The end of the segment in the log.
    package var end: LogPosition { LogPosition(segment: segment, blockCount: blockCount) }

    /// What the manifest keeps of the segment.
    package func entry(trailer: SegmentTrailer) -> SealedSegment {
        SealedSegment(
            number: segment, byteCount: trailer.fileByteCount,
            footerChecksum: trailer.footerChecksum, blockCount: blockCount, rowCount: rowCount,
            minTimestamp: minTimestamp, maxTimestamp: maxTimestamp,
            lastCommitTime: blocks.last?.summary.lastAdmissionTime ?? sealedAt)
    }

    /// The sections of a footer, in the order in which they lie. Kinds of 0x8000 and more may be added by
    /// later releases and are skipped by this one; any other unknown kind is of a newer format.
    package enum Section: UInt16, CaseIterable, Sendable {
        case blocks = 1
        case rewardDayPages = 2
        case rewardDayIndex = 3
        case dayPages = 4
        case dayIndex = 5
        case ledger = 6
        case lost = 7
        case windows = 8
        case attributions = 9

        package static let firstOptionalKind: UInt16 = 0x8000
    }
}

extension SegmentFooter {
    /// The footer's head; the section table follows, then the checksum of both, then the sections.
    package static let layout = Layout<Self>(
        .magic, .version,
        .derived("section count", 2) { _ in UInt64(Section.allCases.count) },
        .id("segment", \.segment), .int("header checksum", \.headerChecksum),
        .id("directory", \.directory), .int("sealed at", \.sealedAt),
        .int("row count", \.rowCount, in: 0...UInt64(Limits.segmentRowCountMax)),
        .int("min timestamp", \.minTimestamp), .int("max timestamp", \.maxTimestamp),
        .int("commit epoch", \.commitEpoch), .int("last block checksum", \.lastBlockChecksum),
        .int("block count", \.blockCount, in: 0...UInt64(Limits.segmentBlockCountMax)),
        .range("first name", "next name", \.names, max: Limits.nameCountMax + 1),
        .range("first key", "next key", \.keys, max: Limits.keyCountMax),
        .derived("block entry count", 4) { UInt64($0.blocks.count) },
        .derived("key day count", 4) { UInt64($0.rewardDays.rowCount) },
        .derived("page count", 4) { UInt64($0.rewardDays.index.entries.count) },
        .derived("ledger entry count", 4) { UInt64($0.ledger.count) },
        .derived("lost range count", 4) { UInt64($0.lost.count) },
        .derived("day row count", 4) { UInt64($0.days.rowCount) },
        .derived("day page count", 4) { UInt64($0.days.index.entries.count) },
        .derived("attribution count", 4) { UInt64($0.attributions.count) },
        .int("ids complete since", \.idsCompleteSince))
    /// `IGF1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3146_4749
}

/// The places of a line of the footer's section of blocks: docs/format/segment.md has the same table, and a test
/// compares them. There are too many of these lines for a `Layout`.
package enum SegmentLayout {
    /// Where the first block begins, so that no block is written to the header's sector of a disk.
    package static let blocksOffset = UInt64(BlockLayout.commitAlignment)

    /// One entry of the section of blocks.
    package enum Block {
        package static let byteCount = 96
        package static let offset = FormatField("offset", 0, 8)
        package static let ordinal = FormatField("ordinal", 8, 4)
        package static let blockByteCount = FormatField("block byte count", 12, 4)
        package static let headerChecksum = FormatField("header checksum", 16, 4)
        package static let rowCount = FormatField("row count", 20, 4)
        package static let minTimestamp = FormatField("min timestamp", 24, 8)
        package static let maxTimestamp = FormatField("max timestamp", 32, 8)
        package static let commitEpoch = FormatField("commit epoch", 40, 8)
        package static let admissionTime = FormatField("admission time", 48, 8)
        package static let firstName = FormatField("first name", 56, 4)
        package static let nameCount = FormatField("name count", 60, 4)
        package static let firstKey = FormatField("first key", 64, 4)
        package static let keyCount = FormatField("key count", 68, 4)
        package static let eventHashCount = FormatField("event hash count", 72, 4)
        package static let ledgerEntryCount = FormatField("ledger entry count", 76, 4)
        package static let commitCount = FormatField("commit count", 80, 4)
        package static let lastChecksum = FormatField("last checksum", 84, 4)
        package static let lastAdmissionTime = FormatField("last admission time", 88, 8)

        package static let fields = [
            offset, ordinal, blockByteCount, headerChecksum, rowCount, minTimestamp, maxTimestamp,
            commitEpoch, admissionTime, firstName, nameCount, firstKey, keyCount, eventHashCount,
            ledgerEntryCount, commitCount, lastChecksum, lastAdmissionTime,
        ]
    }
}

extension SegmentFooter {
    /// Footer and trailer: the bytes from `offset` to the end of the segment file.
    /// - Parameter offset: where the footer begins: the end of the last block.
    /// - Precondition: `countOverLimit` is `nil`: a footer that no reader takes must not leave the process.
    ///
    /// **Cost** One copy of the counters, LZ4 of the rest; about 5 ms for a million keys.
    package func encode(at offset: UInt64) -> (bytes: [UInt8], trailer: SegmentTrailer) {
        precondition(countOverLimit == nil, "a footer that no reader would take")
        let compressor = LZ4Compressor()
        let sections = Section.allCases.map { section in
            StoredSection(
                raw(section), compressor: compressor, isCompressible: !section.hasPages)
        }
        var writer = FileEnvelope.begin(Self.magic, Self.layout.byteCount)
        Self.layout.put(self, to: &writer)
        for (kind, section) in zip(Section.allCases, sections) {
            let entry = SectionTable.Entry(kind: kind.rawValue, stored: section.place)
            SectionTable.Entry.layout.append(entry, to: &writer)
        }
        let checksum = Checksum.crc32c(writer.bytes)
        writer.begin(Self.checksumField.byteCount)
        writer.put(checksum, Self.checksumField)
        for section in sections { writer.append(section.bytes) }
        let trailer = SegmentTrailer(
            directory: directory, segment: segment, footerOffset: offset,
            footerByteCount: UInt64(writer.bytes.count), footerChecksum: checksum)
        writer.append(trailer.encode())
        return (writer.bytes, trailer)
    }

    /// The first count that `decode` would refuse. `Limits.roll…` keep the daemon's segments below all of
    /// them; what recovery gathers from files may pass one.
    package var countOverLimit: (name: String, count: Int, max: Int)? {
        let ranges = ledger.reduce(0) { $0 + $1.sequences.count }
        let counts = [
            ("block count", Int(blockCount), Limits.segmentBlockCountMax),
            ("block entry count", blocks.count, Int(blockCount)),
            ("next name", Int(names.upperBound), Limits.nameCountMax + 1),
            ("next key", Int(keys.upperBound), Limits.keyCountMax),
            ("row count", Int(clamping: rowCount), Limits.segmentRowCountMax),
            ("key-day count", rewardDays.rowCount, Limits.segmentKeyDayCountMax),
            ("day row count", days.rowCount, Limits.segmentKeyDayCountMax),
            ("ledger entry count", ledger.count, Limits.segmentSenderCountMax),
            ("sequence range count", ranges, Limits.segmentSequenceRangeCountMax),
            ("lost range count", lost.count, Limits.segmentLostRangeCountMax),
            ("window count", windows.open.count, Limits.windowCountMax),
        ]
        return counts.first { $0.1 > $0.2 }.map { (name: $0.0, count: $0.1, max: $0.2) }
    }

    /// The head's checksum, behind the section table.
    static let checksumField = FormatField("footer checksum", 0, 4)

    private func raw(_ section: Section) -> [UInt8] {
        switch section {
        case .blocks: encodedBlocks()
        case .rewardDayPages: rewardDays.pages
        case .rewardDayIndex: rewardDays.index.encode()
        case .dayPages: days.pages
        case .dayIndex: days.index.encode()
        case .ledger: encodedLedger()
        case .lost: LostRange.encode(lost)
        case .windows: encodedWindows()
        case .attributions: attributions.encode()
        }
    }

    private func encodedLedger() -> [UInt8] {
        var writer = ByteWriter()
        LedgerCodec.encode(ledger, into: &writer)
        return writer.bytes
    }

    private func encodedWindows() -> [UInt8] {
        var writer = ByteWriter()
        windows.encode(into: &writer)
        return writer.bytes
    }

    private func encodedBlocks() -> [UInt8] {
        typealias Field = SegmentLayout.Block
        var writer = FieldWriter(capacity: blocks.count * Field.byteCount)
        for block in blocks {
            let summary = block.summary
            writer.begin(Field.byteCount)
            writer.put(block.offset, Field.offset)
            writer.put(block.ordinal, Field.ordinal)
            writer.put(summary.byteCount, Field.blockByteCount)
            writer.put(summary.headerChecksum, Field.headerChecksum)
            writer.put(summary.rowCount, Field.rowCount)
            writer.put(summary.minTimestamp, Field.minTimestamp)
            writer.put(summary.maxTimestamp, Field.maxTimestamp)
            writer.put(summary.commitEpoch, Field.commitEpoch)
            writer.put(summary.admissionTime, Field.admissionTime)
            writer.put(summary.firstName.rawValue, Field.firstName)
            writer.put(summary.nameCount, Field.nameCount)
            writer.put(summary.firstKey.rawValue, Field.firstKey)
            writer.put(summary.keyCount, Field.keyCount)
            writer.put(summary.eventHashCount, Field.eventHashCount)
            writer.put(summary.ledgerEntryCount, Field.ledgerEntryCount)
            writer.put(summary.rewritten?.count ?? 0, Field.commitCount)
            writer.put(summary.rewritten?.lastChecksum ?? 0, Field.lastChecksum)
            writer.put(summary.rewritten?.lastAdmissionTime ?? 0, Field.lastAdmissionTime)
        }
        return writer.bytes
    }
}

extension LostRange {
    package static let layout = Layout<Self>(
        .id("segment", \.segment, in: 1...UInt64(UInt32.max)),
        .int("first block", \.firstBlock, in: 0...UInt64(Limits.segmentBlockCountMax)),
        .int("offset", \.offset, in: 0...UInt64(Limits.segmentFileByteCountMax)),
        .int("lost byte count", \.byteCount, in: 0...UInt64(Limits.segmentFileByteCountMax)),
        .int("row count", \.storedRowCount), .int("block count", \.blockCount),
        .range("first name", "next name", \.names, max: Limits.nameCountMax + 1),
        .range("first key", "next key", \.keys, max: Limits.keyCountMax), .reserved(4))

    private static let unknownRowCount = UInt64.max
    private var storedRowCount: UInt64 {
        get { rowCount ?? Self.unknownRowCount }
        set { rowCount = newValue == Self.unknownRowCount ? nil : newValue }
    }

    static func encode(_ ranges: some Collection<LostRange>) -> [UInt8] {
        var writer = FieldWriter(capacity: ranges.count * layout.byteCount)
        for range in ranges { layout.append(range, to: &writer) }
        return writer.bytes
    }

    /// Reads `count` ranges, in order and apart.
    /// **Errors** `torn`, `corrupt`; the caller has held `count` against a limit.
    static func decode(
        _ reader: inout FieldReader, count: Int
    ) throws(FormatError) -> [LostRange] {
        let blank = LostRange(
            segment: SegmentNumber(rawValue: 0), firstBlock: 0, blockCount: 0, offset: 0,
            byteCount: 0, rowCount: nil, names: 0..<0, keys: 0..<0)
        var ranges: [LostRange] = []
        ranges.reserveCapacity(min(count, (reader.bytes.count - reader.end) / layout.byteCount))
        for _ in 0..<count {
            let range = try layout.next(&reader, into: blank)
            let blockCountMax = Limits.segmentBlockCountMax - Int(range.firstBlock)
            _ = try reader.count(layout.blockCount, max: blockCountMax)
            if range.rowCount ?? 0 > UInt64(Limits.segmentRowCountMax) {
                throw reader.corrupt(layout.rowCount, .atMost(Limits.segmentRowCountMax))
            }
            if let last = ranges.last, last.endPlace > range.place {
                throw reader.corrupt(
                    layout.firstBlock, .atLeast(last.firstBlock + last.blockCount))
            }
            ranges.append(range)
        }
        return ranges
    }

    private var place: (UInt32, UInt32) { (segment.rawValue, firstBlock) }
    private var endPlace: (UInt32, UInt32) { (segment.rawValue, firstBlock + blockCount) }
}
