// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// What a block holds beside its rows.
package struct DecodedBlock: Sendable {
    package var header: BlockHeader
    package var names: NewNames
    package var keys: [RewardKey]
    package var ledger: [LedgerEntry]
}

/// The bytes of one block → rows, names, keys, ledger. Owned by one reader; reused for every block.
package final class BlockDecoder {
    package init() {}

    /// How many bytes must be at hand to read a block's length: `blockByteCount(prefix:)`.
    package static let prefixByteCount = 128

    /// Checks the header and the section table (which must be wholly there; the sections need not be).
    /// - Parameter bytes: from the block's first byte; may go on beyond the block.
    package func header(
        _ bytes: RawSpan, at place: BlockPlace = .anywhere
    ) throws(FormatError) -> BlockHeader {
        fatalError("being written")
    }

    /// Checks the header and the checksum of every section, and decodes nothing.
    package func check(
        _ bytes: RawSpan, at place: BlockPlace = .anywhere
    ) throws(FormatError) -> BlockHeader {
        fatalError("being written")
    }

    /// Decodes the wanted parts.
    /// - Parameter rows: filled with the wanted columns; the others are left as they are.
    package func decode(
        _ bytes: RawSpan, at place: BlockPlace = .anywhere, wanted: BlockSections = .all,
        into rows: BlockRows
    ) throws(FormatError) -> DecodedBlock {
        fatalError("being written")
    }
}
