// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → [query]

extension SegmentFooter {
    /// What grows with the number of senders, and is not always wanted.
    package struct Parts: OptionSet, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }
        package static let ledger = Parts(rawValue: 1)
        package static let windows = Parts(rawValue: 2)
        package static let all: Parts = [.ledger, .windows]
    }

    /// Checks and decodes the `trailer.footerByteCount` bytes at `trailer.footerOffset`. The counters'
    /// pages are under the footer's checksum, and decoded when they are read.
    ///
    /// **Errors** `torn` for fewer bytes; `notThisFile` for another segment or directory; `newerFormat` for
    /// a version or a section of a later release; else `corrupt`. Offsets are from the footer's first byte.
    /// - Parameter parts: those that it has; without the others. With as many senders as there may be windows are some hundred
    ///   MiB, and a ledger takes milliseconds.
    package static func decode(
        _ bytes: [UInt8], trailer: SegmentTrailer, parts: Parts = .all
    ) throws(FormatError) -> SegmentFooter {
        guard UInt64(bytes.count) == trailer.footerByteCount else {
            throw .torn(
                "footer byte count", at: 0, available: bytes.count,
                needed: Int(clamping: trailer.footerByteCount))
        }
        let (reader, sections) = try openHead(bytes, trailer: trailer)
        try sections.checkAll(bytes)
        var footer = try layout.load(reader, into: blank)
        footer.blocks = try footer.decodeBlocks(
            sections.raw(.blocks, of: bytes),
            count: reader.count(layout.blockEntryCount, max: Int(footer.blockCount)),
            end: trailer.footerOffset)
        footer.rewardDays = try FooterTables.decode(
            FooterTables.rewardDays, reader, sections, of: bytes)
        footer.days = try FooterTables.decode(FooterTables.days, reader, sections, of: bytes)
        if parts.contains(.ledger) {
            footer.ledger = try decodeLedger(reader, sections.raw(.ledger, of: bytes))
        }
        footer.lost = try decodeLost(reader, sections.raw(.lost, of: bytes))
        if parts.contains(.windows) {
            footer.windows = try SenderWindows.decode(sections.raw(.windows, of: bytes))
        }
        footer.attributions = try decodeAttributions(reader, sections.raw(.attributions, of: bytes))
        try footer.checkSums(reader)
        return footer
    }

    /// The head, under its checksum and the trailer's, and the sections.
    /// - Parameter bytes: the whole footer, or its first bytes.
    static func openHead(
        _ bytes: [UInt8], trailer: SegmentTrailer
    ) throws(FormatError) -> (FieldReader, SectionTable) {
        var reader = FieldReader(bytes)
        try reader.begin(layout.byteCount)
        try reader.identify(layout.magic, magic)
        let count = try reader.count(layout.sectionCount, max: SectionTable.countMax)
        var table = reader
        try table.begin(count * SectionTable.Entry.layout.byteCount)
        let covered = table.end
        try table.begin(checksumField.byteCount)
        try table.expect(checksumField, Checksum.crc32c(bytes[..<covered]))
        guard table.u32(checksumField) == trailer.footerChecksum else {
            throw table.corrupt(checksumField, .exactly(trailer.footerChecksum))
        }
        guard reader.u16(layout.version) <= FileEnvelope.version else {
            throw .newerFormat(
                "version", at: 4, got: reader.u16(layout.version),
                expected: .atMost(FileEnvelope.version))
        }
        try reader.expect(layout.version, FileEnvelope.version)
        try reader.identify(layout.directory, trailer.directory.rawValue)
        try reader.identify(layout.segment, trailer.segment.rawValue)
        try reader.expectZeros(layout.fields)
        let byteCount = Int(clamping: trailer.footerByteCount)
        return (reader, try SectionTable(bytes, count: count, footerByteCount: byteCount))
    }

    private static let blank = SegmentFooter(
        header: SegmentHeader(
            directory: DirectoryID(rawValue: 0), segment: SegmentNumber(rawValue: 1), createdAt: 0,
            previousChecksum: 0, firstName: NameOrdinal(rawValue: 1),
            firstKey: KeyOrdinal(rawValue: 0), commitEpoch: 0), headerChecksum: 0, sealedAt: 0)

    /// The blocks: each behind the one before, in ordinals, bytes, names and keys, and inside `end`.
    private func decodeBlocks(
        _ raw: [UInt8], count: Int, end: UInt64
    ) throws(FormatError) -> [BlockIndexEntry] {
        typealias Field = SegmentLayout.Block
        try SectionTable.expect(raw, byteCount: count * Field.byteCount)
        var reader = FieldReader(raw)
        var blocks: [BlockIndexEntry] = []
        blocks.reserveCapacity(count)
        var nextOrdinal: UInt64 = 0
        var nextOffset = SegmentLayout.blocksOffset
        var (nextName, nextKey) = (names.lowerBound, keys.lowerBound)
        for _ in 0..<count {
            try reader.begin(Field.byteCount)
            let ordinal = try reader.load(
                Field.ordinal, in: nextOrdinal...max(nextOrdinal, UInt64(blockCount)))
            let offset = try reader.load(Field.offset, in: nextOffset...max(nextOffset, end))
            let summary = try BlockSummary(reader)
            let endOrdinal = ordinal + UInt64(summary.commitCount)
            guard endOrdinal <= UInt64(blockCount) else {
                throw reader.corrupt(Field.ordinal, .atMost(blockCount))
            }
            guard end - min(end, offset) >= UInt64(summary.byteCount) else {
                throw reader.corrupt(Field.blockByteCount, .atMost(end - min(end, offset)))
            }
            let blockNames = try ordinals(
                reader, Field.firstName, summary.nameCount, in: nextName..<names.upperBound)
            let blockKeys = try ordinals(
                reader, Field.firstKey, summary.keyCount, in: nextKey..<keys.upperBound)
            let entry = BlockIndexEntry(
                ordinal: UInt32(ordinal), offset: offset, summary: summary)
            blocks.append(entry)
            (nextOrdinal, nextOffset) = (endOrdinal, entry.end)
            (nextName, nextKey) = (blockNames.upperBound, blockKeys.upperBound)
        }
        return blocks
    }

    /// A block's range of ordinals, which must be inside what is left of the segment's.
    private func ordinals(
        _ reader: FieldReader, _ field: FormatField, _ count: Int, in left: Range<UInt32>
    ) throws(FormatError) -> Range<UInt32> {
        let first = try reader.load(
            field, in: UInt64(left.lowerBound)...UInt64(left.upperBound))
        guard UInt64(count) <= UInt64(left.upperBound) - first else {
            throw reader.corrupt(field, .atMost(UInt64(left.upperBound)))
        }
        return UInt32(first)..<UInt32(first) + UInt32(count)
    }

    private static func decodeLedger(
        _ reader: FieldReader, _ raw: [UInt8]
    ) throws(FormatError) -> [LedgerEntry] {
        let count = try reader.count(
            layout.ledgerEntryCount, max: Limits.segmentSenderCountMax)
        return try LedgerCodec.decode(
            whole: raw, entryCount: count, rangeCountMax: Limits.segmentSequenceRangeCountMax)
    }

    static func decodeAttributions(
        _ reader: FieldReader, _ raw: [UInt8]
    ) throws(FormatError) -> AttributionList {
        try AttributionList.decode(
            whole: raw,
            count: reader.count(layout.attributionCount, max: AttributionList.countMax),
            nextKey: reader.u32(layout.nextKey), nextName: reader.u32(layout.nextName))
    }

    private static func decodeLost(
        _ reader: FieldReader, _ raw: [UInt8]
    ) throws(FormatError) -> [LostRange] {
        let count = try reader.count(
            layout.lostRangeCount, max: Limits.segmentLostRangeCountMax)
        try SectionTable.expect(raw, byteCount: count * LostRange.layout.byteCount)
        var source = FieldReader(raw)
        return try LostRange.decode(&source, count: count)
    }

    /// What the head says of the blocks must be what the blocks say.
    private func checkSums(_ reader: FieldReader) throws(FormatError) {
        let rows = blocks.reduce(UInt64(0)) { $0 + UInt64($1.summary.rowCount) }
        try reader.expect(Self.layout.rowCount, rows)
        let filled = blocks.lazy.map(\.summary).filter { $0.rowCount > 0 }
        try reader.expect(Self.layout.minTimestamp, filled.map(\.minTimestamp).min() ?? 0)
        try reader.expect(Self.layout.maxTimestamp, filled.map(\.maxTimestamp).max() ?? 0)
        if let last = blocks.last?.summary {
            try reader.expect(Self.layout.lastBlockChecksum, last.chainChecksum)
            try reader.expect(Self.layout.commitEpoch, last.lastCommitEpoch)
        }
        for range in lost {
            guard range.segment == segment, range.firstBlock + range.blockCount <= blockCount else {
                throw reader.corrupt(
                    Self.layout.blockCount, .atLeast(range.firstBlock + range.blockCount))
            }
        }
    }
}

extension BlockSummary {
    private typealias Field = SegmentLayout.Block

    fileprivate init(_ reader: FieldReader) throws(FormatError) {
        let blockMax = UInt64(BlockBuffer.capacity)
        let minTimestamp = reader.i64(Field.minTimestamp)
        guard minTimestamp <= reader.i64(Field.maxTimestamp) else {
            throw reader.corrupt(Field.maxTimestamp, .atLeast(minTimestamp))
        }
        let rowMax = Limits.blockEventCountMax
        self.init(
            byteCount: Int(
                try reader.load(
                    Field.blockByteCount, in: UInt64(BlockLayout.headerByteCountMin)...blockMax)),
            headerChecksum: reader.u32(Field.headerChecksum),
            rowCount: try reader.count(Field.rowCount, max: rowMax),
            minTimestamp: minTimestamp, maxTimestamp: reader.i64(Field.maxTimestamp),
            firstName: NameOrdinal(rawValue: reader.u32(Field.firstName)),
            nameCount: try reader.count(Field.nameCount, max: Limits.blockNameCountMax),
            firstKey: KeyOrdinal(rawValue: reader.u32(Field.firstKey)),
            keyCount: try reader.count(Field.keyCount, max: Limits.blockKeyCountMax),
            eventHashCount: try reader.count(Field.eventHashCount, max: rowMax),
            ledgerEntryCount: try reader.count(
                Field.ledgerEntryCount, max: Limits.blockSenderCountMax),
            commitEpoch: reader.load(Field.commitEpoch),
            admissionTime: reader.i64(Field.admissionTime),
            rewritten: try RewrittenCommits(reader))
    }
}

extension RewrittenCommits {
    fileprivate init?(_ reader: FieldReader) throws(FormatError) {
        typealias Field = SegmentLayout.Block
        let count = try reader.count(Field.commitCount, max: Limits.blockCommitCountMax)
        if count == 0 {
            try reader.expect(Field.lastChecksum, UInt32(0))
            try reader.expect(Field.lastAdmissionTime, UInt64(0))
            return nil
        }
        self.init(
            count: UInt32(count), lastAdmissionTime: reader.i64(Field.lastAdmissionTime),
            lastChecksum: reader.u32(Field.lastChecksum))
    }
}
