// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

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
