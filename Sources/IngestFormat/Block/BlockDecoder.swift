// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// What a block holds beside its rows; parts that were not asked for are empty.
package struct DecodedBlock: Sendable {
    package var header: BlockHeader
    package var names: NewNames
    package var keys: [RewardKey]
    package var ledger: [LedgerEntry]
    package var commits: BlockCommits
}

/// The bytes of one block → rows, names, keys, ledger, whatever the bytes are. Owned by one reader and
/// used on its queue; one for all blocks.
///
/// **Errors** `torn` where the bytes end before the block does, or where a header's place holds zeros;
/// `newerFormat` where the checksum is right and the version higher; `notThisFile` where a sound block
/// is not the one expected here; `corrupt` for all else. Offsets count from the block's first byte, also
/// of what was compressed: then it is the section's.
/// **Cost** 1.5 ns an event for what counters need; allocates for names, keys, ledger and the section
/// table, once a block, never for a row.
@safe package final class BlockDecoder {
    /// How many bytes have to be at hand for `header`: the fixed part and the largest section table.
    package static let headerByteCountMax =
        BlockLayout.headerByteCountMin
        + BlockLayout.sectionEntryByteCount * BlockSectionKind.allCases.count

    let columns = ColumnDecoder()
    private var inflated = unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0)

    package init() {}
    deinit { unsafe inflated.deallocate() }

    /// Checks the header and the section table (which must be wholly there; the sections need not be).
    /// - Parameter bytes: from the block's first byte; may go on beyond the block.
    package func header(
        _ bytes: RawSpan, at place: BlockPlace = .anywhere
    ) throws(FormatError) -> BlockHeader {
        try unsafe bytes.withUnsafeBytes { bytes throws(FormatError) in
            try unsafe BlockView(bytes, at: place, isWhole: false).header
        }
    }

    /// Checks the header and says what sections there are.
    package func sections(
        _ bytes: RawSpan, at place: BlockPlace = .anywhere
    ) throws(FormatError) -> [BlockSectionEntry] {
        try unsafe bytes.withUnsafeBytes { bytes throws(FormatError) in
            try unsafe BlockView(bytes, at: place, isWhole: false).table.entries
        }
    }

    /// Checks the header, the checksum of every section and the padding, and decodes nothing: every
    /// flipped bit is found, but not a block that was made wrong.
    package func check(
        _ bytes: RawSpan, at place: BlockPlace = .anywhere
    ) throws(FormatError) -> BlockHeader {
        try unsafe bytes.withUnsafeBytes { bytes throws(FormatError) in
            let block = try unsafe BlockView(bytes, at: place, isWhole: true)
            for entry in unsafe block.table.entries { try unsafe block.checkChecksum(entry) }
            return unsafe block.header
        }
    }

    /// Decodes the parts that are wanted, and checks of the others only what the header says of them.
    /// - Parameters:
    ///   - isWhole: whether all bytes of the block are there, and not only the head and the parts that are wanted, each at its
    ///     place, the attributes with every column that not all rows have.
    ///   - checksRest: whether to check the checksums of the other parts too.
    ///   - rows: emptied; then, if any column is wanted, its counts are the block's and the
    ///     wanted columns are filled. After an error it is empty.
    package func decode(
        _ bytes: RawSpan, at place: BlockPlace = .anywhere, wanted: BlockSections = .all,
        isWhole: Bool = true, checksRest: Bool = false, into rows: BlockRows
    ) throws(FormatError) -> DecodedBlock {
        rows.removeAll()
        return try unsafe bytes.withUnsafeBytes { bytes throws(FormatError) in
            let block = try unsafe BlockView(bytes, at: place, isWhole: isWhole)
            for entry in unsafe block.table.entries
            where checksRest && wanted.isDisjoint(with: entry.kind.part) {
                try unsafe block.checkChecksum(entry)
            }
            var decoded = unsafe DecodedBlock(
                header: block.header, names: NewNames(), keys: [], ledger: [],
                commits: BlockCommits())
            if wanted.contains(.dictionary) {
                decoded.names = try unsafe names(block)
                decoded.keys = try unsafe keys(block)
            }
            if wanted.contains(.ledger) { decoded.ledger = try unsafe ledger(block) }
            if wanted.contains(.commits) { decoded.commits = try unsafe commits(block) }
            if !wanted.isDisjoint(with: .rows) {
                try unsafe decodeRows(block, wanted: wanted, into: rows)
            }
            return decoded
        }
    }

    /// Decodes the column of keys from its section alone.
    /// - Parameters:
    ///   - stored: the bytes of the section.
    ///   - header: of its block, checked, as `entry`.
    ///   - rows: as in `decode`, of which only the keys are filled.
    package func decodeKeys(
        _ stored: RawSpan, _ entry: BlockSectionEntry, of header: BlockHeader, into rows: BlockRows
    ) throws(FormatError) {
        rows.removeAll()
        _ = try unsafe stored.withUnsafeBytes { (stored) throws(FormatError) in
            try unsafe column(
                entry, content(entry, stored: stored), header.rowCount,
                max: Int64(header.nextKey.rawValue) - 1, into: rows.key)
        }
        rows.mark.row = header.rowCount
    }

    /// The section's bytes as encoded: checked, and out of LZ4 if they are in it. Valid until the next
    /// call.
    func content(
        _ entry: BlockSectionEntry, of block: BlockView
    ) throws(FormatError) -> UnsafeRawBufferPointer {
        try unsafe content(entry, block.checkChecksum(entry))
    }

    /// - Parameter stored: the bytes of the section as they are in the file.
    func content(
        _ entry: BlockSectionEntry, stored: UnsafeRawBufferPointer
    ) throws(FormatError) -> UnsafeRawBufferPointer {
        try unsafe content(entry, entry.check(stored))
    }

    /// - Parameter stored: the bytes in the block, checked.
    private func content(
        _ entry: BlockSectionEntry, _ stored: UnsafeRawBufferPointer
    ) throws(FormatError) -> UnsafeRawBufferPointer {
        guard entry.encoding.isCompressed else { return unsafe stored }
        let target = unsafe memory(byteCount: entry.rawByteCount)
        // SAFETY: both counts are the buffers' own; the section table bounded them.
        let isWhole = unsafe LZ4Decompressor.decompress(
            stored.baseAddress!, byteCount: stored.count, to: target,
            exactByteCount: entry.rawByteCount)
        guard isWhole else {
            throw .corrupt(
                "\(entry.kind.name): LZ4", at: entry.offset, got: entry.byteCount,
                expected: .exactly(entry.rawByteCount))
        }
        return unsafe UnsafeRawBufferPointer(start: target, count: entry.rawByteCount)
    }

    /// Memory for decompressed bytes; grows to the largest section seen, at most
    /// `Limits.blockByteCountMax`.
    private func memory(byteCount: Int) -> UnsafeMutableRawPointer {
        if unsafe inflated.count < byteCount {
            unsafe inflated.deallocate()
            unsafe inflated = .allocate(byteCount: byteCount, alignment: 64)
        }
        return unsafe inflated.baseAddress!
    }
}

// The sections of a checked block, one function a kind of content.

extension BlockDecoder {
    func decodeRows(
        _ block: BlockView, wanted: BlockSections, into rows: BlockRows
    ) throws(FormatError) {
        let header = unsafe block.header
        let count = header.rowCount
        if !wanted.isDisjoint(with: [.attributes, .sparse]) {
            try unsafe attributes(block, into: rows)
        }
        if wanted.contains(.key) {
            let last = Int64(header.nextKey.rawValue) - 1
            try unsafe column(.key, block, count, max: last, into: rows.key)
        }
        if wanted.contains(.timestamp) { try unsafe timestamps(block, into: rows) }
        if wanted.contains(.day) {
            try unsafe column(
                .day, block, count, min: Int64(Limits.businessDays.lowerBound),
                max: Int64(Limits.businessDays.upperBound), into: rows.day)
        }
        if wanted.contains(.platform) { try unsafe names(.platform, block, into: rows.platform) }
        if wanted.contains(.attribution) {
            let hasCampaigns = try unsafe names(.campaign, block, into: rows.campaign)
            let hasSources = try unsafe names(.source, block, into: rows.source)
            rows.mark.isAttributed = hasCampaigns || hasSources
        }
        try unsafe decodeSparse(block, wanted: wanted, into: rows)
        rows.mark.row = count
        rows.mark.eventHash = header.eventHashCount
        rows.mark.session = header.sessionCount
        rows.mark.rewardHash = header.rewardHashCount
        rows.mark.measured = header.measuredCount
        rows.mark.money = header.moneyCount
    }

    private func decodeSparse(
        _ block: BlockView, wanted: BlockSections, into rows: BlockRows
    ) throws(FormatError) {
        let header = unsafe block.header
        if wanted.contains(.eventHash) { try unsafe hashes(.eventHash, block, to: rows.eventHash) }
        if wanted.contains(.rewardHash) {
            try unsafe hashes(.rewardHash, block, to: rows.rewardHash)
        }
        if wanted.contains(.session), let entry = unsafe block.table.entry(.session) {
            let bytes = try unsafe content(entry, of: block)
            // SAFETY: the table holds exactly 6 × sessionCount bytes, at most one a row.
            unsafe SessionPseudonym.unpack(bytes, to: rows.session)
        }
        if wanted.contains(.viewability) {
            let count = header.measuredCount
            try unsafe column(
                .visible, block, count, max: Int64(Limits.visiblePartsPerMillionMax),
                into: rows.visible)
            try unsafe column(
                .duration, block, count, max: Int64(UInt32.max), into: rows.duration)
        }
        if wanted.contains(.money) {
            let (count, max) = (header.moneyCount, Limits.moneyMicrosMax)
            try unsafe column(.revenue, block, count, max: max, into: rows.revenue)
            try unsafe column(.spend, block, count, max: max, into: rows.spend)
        }
    }

    private func hashes(
        _ kind: BlockSectionKind, _ block: BlockView, to target: UnsafeMutablePointer<UInt64>
    ) throws(FormatError) {
        guard let entry = unsafe block.table.entry(kind) else { return }
        let bytes = try unsafe content(entry, of: block)
        // SAFETY: the table holds exactly 8 bytes for each hash, of which a row has at most one.
        unsafe UnsafeMutableRawPointer(target).copyMemory(
            from: bytes.baseAddress!, byteCount: bytes.count)
    }

    /// The attributes, and with them that the header's counts of sparse values are right.
    private func attributes(_ block: BlockView, into rows: BlockRows) throws(FormatError) {
        let header = unsafe block.header
        let count = header.rowCount
        guard let entry = unsafe block.table.entry(.attributes) else { return }
        try unsafe column(.attributes, block, count, max: Int64(UInt16.max), into: rows.attributes)
        let tally = unsafe AttributeTally(rows.attributes, count: count)
        if !tally.areAllValid {
            throw .corrupt("attributes: value", at: entry.offset, got: 1, expected: .exactly(0))
        }
        typealias Field = BlockLayout.Header
        try require(Field.eventHashCount, header.eventHashCount, is: tally.eventHashCount)
        try require(Field.sessionCount, header.sessionCount, is: tally.sessionCount)
        try require(Field.rewardHashCount, header.rewardHashCount, is: tally.overflowCount)
        try require(Field.measuredCount, header.measuredCount, is: tally.measuredCount)
        try require(Field.moneyCount, header.moneyCount, is: tally.moneyCount)
    }

    func require(
        _ field: FormatField, _ got: Int, is expected: Int
    ) throws(FormatError) {
        if got != expected { throw .corrupt(field, got: got, expected: .exactly(expected)) }
    }

    /// The times, and with them that the header's are their least and greatest.
    private func timestamps(_ block: BlockView, into rows: BlockRows) throws(FormatError) {
        let header = unsafe block.header
        guard header.rowCount > 0 else { return }
        let range = try unsafe column(
            .timestamp, block, header.rowCount, min: header.minTimestamp,
            max: header.maxTimestamp, into: rows.timestamp)
        if range.lowerBound != header.minTimestamp {
            throw .corrupt(
                BlockLayout.Header.minTimestamp, got: header.minTimestamp,
                expected: .exactly(range.lowerBound))
        }
        if range.upperBound != header.maxTimestamp {
            throw .corrupt(
                BlockLayout.Header.maxTimestamp, got: header.maxTimestamp,
                expected: .exactly(range.upperBound))
        }
    }

    func keys(_ block: BlockView) throws(FormatError) -> [RewardKey] {
        let header = unsafe block.header
        let count = header.keyCount
        guard count > 0 else { return [] }
        let last = Int64(header.nextName.rawValue) - 1
        let halves = UnsafeMutablePointer<UInt32>.allocate(capacity: 2 * count)
        defer { unsafe halves.deallocate() }
        try unsafe column(.keyRewards, block, count, min: 1, max: last, into: halves)
        // SAFETY: the second half of what was allocated.
        let businesses = unsafe halves + count
        try unsafe column(.keyBusinesses, block, count, min: 1, max: last, into: businesses)
        return (0..<count).map {
            // SAFETY: both halves were filled.
            unsafe RewardKey(
                reward: NameOrdinal(rawValue: halves[$0]),
                business: NameOrdinal(rawValue: businesses[$0]))
        }
    }

    func names(_ block: BlockView) throws(FormatError) -> NewNames {
        let count = unsafe block.header.nameCount
        guard let entry = unsafe block.table.entry(.names) else { return NewNames() }
        let (lengths, bytes) = try unsafe names(content(entry, of: block), entry, count)
        return unsafe NewNames(lengths: lengths, bytes: bytes)
    }

    /// The lengths of names, a byte each, and their bytes, to which the lengths add up.
    ///
    /// - Parameter content: of the section, out of LZ4.
    func names(
        _ content: UnsafeRawBufferPointer, _ entry: BlockSectionEntry, _ count: Int
    ) throws(FormatError) -> (
        lengths: Slice<UnsafeRawBufferPointer>, bytes: Slice<UnsafeRawBufferPointer>
    ) {
        var end = count
        for index in 0..<count {
            // SAFETY: the table holds at least two bytes a name.
            let length = unsafe Int(content[index])
            if length < 1 || length > Limits.nameByteCountMax {
                throw .corrupt(
                    "names: length", at: entry.offset, got: length,
                    expected: length < 1 ? .atLeast(1) : .atMost(Limits.nameByteCountMax))
            }
            end += length
        }
        guard end == entry.rawByteCount else {
            throw .corrupt(
                "names: sum of lengths", at: entry.offset, got: end,
                expected: .exactly(entry.rawByteCount))
        }
        // SAFETY: the lengths were checked to end where the bytes end.
        return unsafe (content[..<count], content[count...])
    }

    func ledger(_ block: BlockView) throws(FormatError) -> [LedgerEntry] {
        guard let entry = unsafe block.table.entry(.ledger) else { return [] }
        var reader = unsafe ByteReader(try content(entry, of: block))
        let entries = try LedgerCodec.decode(
            &reader, entryCount: unsafe block.header.ledgerEntryCount,
            rangeCountMax: Limits.blockSequenceRangeCountMax, at: entry.offset)
        guard reader.isAtEnd else {
            throw .corrupt(
                "ledger: bytes after the last entry", at: entry.offset,
                got: reader.remainingByteCount, expected: .exactly(0))
        }
        return entries
    }

    /// Decodes one column of `count` values, if it is there.
    /// - Returns: its least and greatest value; 0 … 0 if it is not there.
    @discardableResult
    func column<Value: FixedWidthInteger & BitwiseCopyable>(
        _ kind: BlockSectionKind, _ block: BlockView, _ count: Int, min: Int64 = 0, max: Int64,
        into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> ClosedRange<Int64> {
        guard let entry = unsafe block.table.entry(kind) else { return 0...0 }
        return try unsafe column(
            entry, content(entry, of: block), count, min: min, max: max, into: target)
    }

    /// - Parameter bytes: of the section, out of LZ4.
    @discardableResult
    func column<Value: FixedWidthInteger & BitwiseCopyable>(
        _ entry: BlockSectionEntry, _ bytes: UnsafeRawBufferPointer, _ count: Int, min: Int64 = 0,
        max: Int64, into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> ClosedRange<Int64> {
        guard min <= max else {
            throw .corrupt(
                "\(entry.kind.name): value", at: entry.offset, got: count, expected: .atMost(0))
        }
        let source = unsafe ColumnSource(
            bytes: bytes.baseAddress!, byteCount: bytes.count, encoding: entry.encoding,
            parameter: entry.parameter, count: count, domain: min...max, name: entry.kind.name,
            offset: entry.offset)
        return try unsafe columns.decode(source, into: target)
    }
}
