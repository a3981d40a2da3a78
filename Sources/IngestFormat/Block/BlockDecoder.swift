// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// What a block holds beside its rows; parts that were not asked for are empty.
package struct DecodedBlock: Sendable {
    package var header: BlockHeader
    package var names: NewNames
    package var keys: [RewardKey]
    package var ledger: [LedgerEntry]
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
    ///   - checksRest: whether to check the checksums of the other parts too.
    ///   - rows: emptied; then, if any column is wanted, its counts are the block's and the
    ///     wanted columns are filled. After an error it is empty.
    package func decode(
        _ bytes: RawSpan, at place: BlockPlace = .anywhere, wanted: BlockSections = .all,
        checksRest: Bool = false, into rows: BlockRows
    ) throws(FormatError) -> DecodedBlock {
        rows.removeAll()
        return try unsafe bytes.withUnsafeBytes { bytes throws(FormatError) in
            let block = try unsafe BlockView(bytes, at: place, isWhole: true)
            for entry in unsafe block.table.entries
            where checksRest && wanted.isDisjoint(with: entry.kind.part) {
                try unsafe block.checkChecksum(entry)
            }
            var decoded = unsafe DecodedBlock(
                header: block.header, names: NewNames(), keys: [], ledger: [])
            if wanted.contains(.dictionary) {
                decoded.names = try unsafe names(block)
                decoded.keys = try unsafe keys(block)
            }
            if wanted.contains(.ledger) { decoded.ledger = try unsafe ledger(block) }
            if !wanted.isDisjoint(with: .rows) {
                try unsafe decodeRows(block, wanted: wanted, into: rows)
            }
            return decoded
        }
    }

    /// The section's bytes as encoded: checked, and out of LZ4 if they are in it. Valid until the next
    /// call.
    func content(
        _ entry: BlockSectionEntry, of block: BlockView
    ) throws(FormatError) -> UnsafeRawBufferPointer {
        let stored = try unsafe block.checkChecksum(entry)
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

/// A block whose header and section table were checked, and whose bytes are all there if `isWhole`.
@unsafe struct BlockView {
    let header: BlockHeader
    let table: BlockSectionTable
    private let base: UnsafeRawPointer

    init(
        _ bytes: UnsafeRawBufferPointer, at place: BlockPlace, isWhole: Bool
    ) throws(FormatError) {
        unsafe header = try BlockHeader(parsing: bytes)
        try unsafe header.check(at: place)
        // SAFETY: the header was there, so there is a base, and the whole table behind it.
        unsafe base = bytes.baseAddress!
        unsafe table = try BlockSectionTable(base, header: header)
        guard isWhole else { return }
        guard unsafe bytes.count >= header.byteCount else {
            throw unsafe .torn(
                "sections", at: header.headerByteCount, available: bytes.count,
                needed: header.byteCount)
        }
        for offset in unsafe table.end(header)..<header.byteCount {
            // SAFETY: below byteCount, which is there.
            let byte = unsafe base.load(fromByteOffset: offset, as: UInt8.self)
            if byte != 0 {
                throw .corrupt("padding", at: offset, got: byte, expected: .exactly(0))
            }
        }
    }

    /// The section's stored bytes, if their checksum is right.
    @discardableResult
    func checkChecksum(
        _ entry: BlockSectionEntry
    ) throws(FormatError) -> UnsafeRawBufferPointer {
        // SAFETY: the table was checked against the block's byte count, which is there.
        let stored = unsafe UnsafeRawBufferPointer(
            start: base + entry.offset, count: entry.byteCount)
        let checksum = unsafe Checksum.crc32c(stored)
        guard checksum == entry.checksum else {
            throw .corrupt(
                "\(entry.kind.name): checksum", at: entry.offset, got: checksum,
                expected: .exactly(entry.checksum))
        }
        return unsafe stored
    }
}
