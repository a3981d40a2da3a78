// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// The section table of one block, checked against its header: which sections are there, how long they
/// may be, and that together they fill the block.
struct BlockSectionTable {
    private(set) var entries: [BlockSectionEntry] = []

    /// - Parameter base: a block whose header is there and checked; the sections need not be there.
    init(_ base: UnsafeRawPointer, header: BlockHeader) throws(FormatError) {
        entries.reserveCapacity(header.sectionCount)
        var offset = header.headerByteCount
        var rawByteCount = 0
        for index in 0..<header.sectionCount {
            let place =
                BlockLayout.headerByteCountMin + index * BlockLayout.sectionEntryByteCount
            // SAFETY: sectionCount entries lie before headerByteCount, which is there.
            let entry = try unsafe Self.entry(base + place, at: place, offset: offset)
            if let last = entries.last, last.kind.rawValue >= entry.kind.rawValue {
                throw .corrupt(
                    "order of sections", at: place, got: entry.kind.rawValue,
                    expected: .atLeast(last.kind.rawValue + 1))
            }
            try Self.check(entry, header: header, at: place)
            offset += entry.byteCount
            rawByteCount += entry.rawByteCount
            entries.append(entry)
        }
        guard rawByteCount <= Limits.blockByteCountMax else {
            throw .corrupt(
                "raw bytes of all sections", at: BlockLayout.headerByteCountMin,
                got: rawByteCount, expected: .atMost(Limits.blockByteCountMax))
        }
        try checkPresence(header)
        let alignment = BlockLayout.alignment(of: header.context)
        let aligned = (offset + alignment - 1) & ~(alignment - 1)
        guard aligned == header.byteCount else {
            throw .corrupt(
                BlockLayout.Header.byteCount, got: header.byteCount, expected: .exactly(aligned))
        }
    }

    func entry(_ kind: BlockSectionKind) -> BlockSectionEntry? {
        entries.first { $0.kind == kind }
    }

    /// The end of the last section, where the padding begins.
    func end(_ header: BlockHeader) -> Int {
        entries.last.map { $0.offset + $0.byteCount } ?? header.headerByteCount
    }

    private static func entry(
        _ base: UnsafeRawPointer, at place: Int, offset: Int
    ) throws(FormatError) -> BlockSectionEntry {
        typealias Field = BlockLayout.Section
        let rawKind = unsafe UInt16(Field.kind.load(base))
        guard let kind = BlockSectionKind(rawValue: rawKind) else {
            throw .corrupt(
                "section kind", at: place, got: rawKind,
                expected: .atMost(BlockSectionKind.rewardHash.rawValue))
        }
        return unsafe BlockSectionEntry(
            kind: kind, encoding: SectionEncoding(rawValue: UInt8(Field.encoding.load(base))),
            parameter: Int(Field.parameter.load(base)),
            rawByteCount: Int(Field.rawByteCount.load(base)),
            byteCount: Int(Field.byteCount.load(base)),
            checksum: UInt32(Field.checksum.load(base)), offset: offset)
    }

    /// Holds encoding and byte counts against what a section of this kind may have.
    private static func check(
        _ entry: BlockSectionEntry, header: BlockHeader, at place: Int
    ) throws(FormatError) {
        func fail(
            _ field: FormatField, _ got: Int, _ expected: FormatFault.Expectation
        ) -> FormatError {
            .corrupt(
                "\(entry.kind.name): \(field.name)", at: place + field.offset, got: got,
                expected: expected)
        }
        typealias Field = BlockLayout.Section
        let (shortest, longest) = bounds(entry.kind, header: header)
        if entry.rawByteCount < shortest {
            throw fail(Field.rawByteCount, entry.rawByteCount, .atLeast(shortest))
        }
        if entry.rawByteCount > longest {
            throw fail(Field.rawByteCount, entry.rawByteCount, .atMost(longest))
        }
        if entry.encoding.isCompressed {
            if entry.byteCount >= entry.rawByteCount || entry.byteCount == 0 {
                throw fail(Field.byteCount, entry.byteCount, .atMost(entry.rawByteCount - 1))
            }
        } else if entry.byteCount != entry.rawByteCount {
            throw fail(Field.byteCount, entry.byteCount, .exactly(entry.rawByteCount))
        }
        let isColumn =
            entry.kind.rawValue >= BlockSectionKind.attributes.rawValue
            && !entry.kind.isRaw
            || entry.kind.part == .commits
            || entry.kind == .keyRewards || entry.kind == .keyBusinesses
        if isColumn { return }
        let plain = SectionEncoding(.raw)
        guard
            entry.encoding == plain
                || entry.encoding == plain.compressed && !entry.kind.isRaw
        else { throw fail(Field.encoding, Int(entry.encoding.rawValue), .exactly(0)) }
        if entry.parameter != 0 { throw fail(Field.parameter, entry.parameter, .exactly(0)) }
    }

    /// The fewest and the most bytes before LZ4.
    private static func bounds(
        _ kind: BlockSectionKind, header: BlockHeader
    ) -> (Int, Int) {
        switch kind {
        case .names:
            (2 * header.nameCount, (1 + Limits.nameByteCountMax) * header.nameCount)
        case .ledger:
            (
                3 * header.ledgerEntryCount,
                LedgerCodec.entryByteCountMax * header.ledgerEntryCount
                    + LedgerCodec.rangeByteCountMax * Limits.blockSequenceRangeCountMax
                    + LedgerCodec.checkByteCount * Limits.blockCheckCountMax
            )
        case .keyRewards, .keyBusinesses: column(header.keyCount, valueByteCount: 4)
        case .commitRows: column(header.rewrittenCount, valueByteCount: 4)
        case .commitTimes: column(header.rewrittenCount, valueByteCount: 8)
        case .commitPolicies: column(header.rewrittenCount, valueByteCount: 2)
        case .commitZones: column(header.rewrittenCount, valueByteCount: 4)
        case .attributes: column(header.rowCount, valueByteCount: 2)
        case .key, .day, .platform, .campaign, .source:
            column(header.rowCount, valueByteCount: 4)
        case .timestamp: column(header.rowCount, valueByteCount: 8)
        case .eventHash: (8 * header.eventHashCount, 8 * header.eventHashCount)
        case .rewardHash: (8 * header.rewardHashCount, 8 * header.rewardHashCount)
        case .session:
            (
                SessionPseudonym.byteCount * header.sessionCount,
                SessionPseudonym.byteCount * header.sessionCount
            )
        case .visible, .duration: column(header.measuredCount, valueByteCount: 4)
        case .revenue, .spend: column(header.moneyCount, valueByteCount: 8)
        }
    }

    /// No form is longer than packing at the full width of the values.
    private static func column(_ count: Int, valueByteCount: Int) -> (Int, Int) {
        (ColumnLayout.baseByteCount, ColumnLayout.baseByteCount + valueByteCount * count)
    }

    /// A section is there if and only if there is something in it; attribution may always be left out.
    private func checkPresence(_ header: BlockHeader) throws(FormatError) {
        for kind in BlockSectionKind.allCases {
            let count =
                switch kind {
                case .names: header.nameCount
                case .keyRewards, .keyBusinesses: header.keyCount
                case .ledger: header.ledgerEntryCount
                case .commitRows, .commitTimes, .commitPolicies, .commitZones:
                    header.rewrittenCount
                case .attributes, .key, .timestamp, .day, .platform, .campaign, .source:
                    header.rowCount
                case .eventHash: header.eventHashCount
                case .session: header.sessionCount
                case .rewardHash: header.rewardHashCount
                case .visible, .duration: header.measuredCount
                case .revenue, .spend: header.moneyCount
                }
            let isThere = entry(kind) != nil
            let mayBeAbsent = count == 0 || [.platform, .attribution].contains(kind.part)
            if isThere && count == 0 || !isThere && !mayBeAbsent {
                throw .corrupt(
                    "\(kind.name): section", at: BlockLayout.headerByteCountMin,
                    got: isThere ? 1 : 0, expected: .exactly(isThere ? 0 : 1))
            }
        }
    }
}

extension BlockSectionKind {
    /// Whether its values lie there as they are, and are never compressed.
    fileprivate var isRaw: Bool { self == .eventHash || self == .session || self == .rewardHash }
}

extension BlockHeader {
    fileprivate var rewrittenCount: Int { Int(context.rewritten?.count ?? 0) }
}

/// A block whose header and section table were checked, and whose bytes are all there if `isWhole`.
@unsafe struct BlockView {
    let header: BlockHeader
    let table: BlockSectionTable
    private let bytes: UnsafeRawBufferPointer

    init(
        _ bytes: UnsafeRawBufferPointer, at place: BlockPlace, isWhole: Bool
    ) throws(FormatError) {
        unsafe header = try BlockHeader(parsing: bytes)
        try unsafe header.check(at: place)
        unsafe self.bytes = bytes
        // SAFETY: the header was there, so there is a base, and the whole table behind it.
        unsafe table = try BlockSectionTable(bytes.baseAddress!, header: header)
        guard isWhole else { return }
        guard unsafe bytes.count >= header.byteCount else {
            throw unsafe .torn(
                "sections", at: header.headerByteCount, available: bytes.count,
                needed: header.byteCount)
        }
        let end = unsafe table.end(header)
        // SAFETY: byteCount bytes are there.
        let padding = unsafe UnsafeRawBufferPointer(rebasing: bytes[end..<header.byteCount])
        if let last = unsafe padding.lastNonzero {
            throw unsafe .corrupt(
                "padding", at: end + last, got: padding[last], expected: .exactly(0))
        }
    }

    /// The section's stored bytes, if their checksum is right.
    @discardableResult
    func checkChecksum(
        _ entry: BlockSectionEntry
    ) throws(FormatError) -> UnsafeRawBufferPointer {
        // SAFETY: start ≤ bytes.count, and `check` holds the rest against the section's count: of a block that is not whole,
        // it may not be there.
        let start = unsafe min(entry.offset, bytes.count)
        return try unsafe entry.check(UnsafeRawBufferPointer(rebasing: bytes[start...]))
    }
}

extension BlockSectionEntry {
    /// The section's stored bytes, if they are all there and their checksum is right.
    func check(
        _ stored: UnsafeRawBufferPointer
    ) throws(FormatError) -> UnsafeRawBufferPointer {
        guard stored.count >= byteCount else {
            throw .torn("\(kind.name)", at: offset, available: stored.count, needed: byteCount)
        }
        let bytes = unsafe UnsafeRawBufferPointer(rebasing: stored[..<byteCount])
        let got = unsafe Checksum.crc32c(bytes)
        guard got == checksum else {
            throw .corrupt(
                "\(kind.name): checksum", at: offset, got: got, expected: .exactly(checksum))
        }
        return unsafe bytes
    }
}
