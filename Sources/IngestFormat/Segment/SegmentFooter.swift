// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → [query]

/// A block's line in the footer of its segment.
package struct BlockIndexEntry: Hashable, Sendable {
    /// Place of the block in its segment, from 0; ordinals of lost blocks are missing.
    package var ordinal: UInt32
    /// Of the block's first byte in the segment file.
    package var offset: UInt64
    package var summary: BlockSummary
    package init(ordinal: UInt32, offset: UInt64, summary: BlockSummary) {
        self.ordinal = ordinal
        self.offset = offset
        self.summary = summary
    }
}

/// What ends a sealed segment: where its blocks are, what they add up to. It outlives the rows.
///
/// **Layout** docs/format/segment.md: head, section table, sections, then the trailer at the file's end.
package struct SegmentFooter: Hashable, Sendable {
    package static let magic: UInt32 = 0x3146_4749  // "IGF1"

    package var directory: DirectoryID
    package var segment: SegmentNumber
    /// The checksum in the segment's header, so that the footer's covers that too.
    package var headerChecksum: UInt32
    /// Microseconds since 1970.
    package var sealedAt: Int64
    /// Block ordinals given in this segment, lost ones included.
    package var blockCount: UInt32
    /// Header checksum and commit epoch of the last block; those before the segment if it has none.
    package var lastBlockChecksum: UInt32
    package var commitEpoch: UInt64
    /// Ordinals given in this segment, lost ones included.
    package var names: Range<UInt32>
    package var keys: Range<UInt32>
    package var rowCount: UInt64
    /// Event times; both 0 without rows.
    package var minTimestamp: Int64
    package var maxTimestamp: Int64
    /// By ordinal.
    package var blocks: [BlockIndexEntry]
    /// Counters by (key, day).
    package var counters: CounterTable
    /// Sums over the blocks, by sender.
    package var ledger: [LedgerEntry]
    /// By block ordinal.
    package var lost: [LostRange]

    /// The footer of a segment without blocks; the caller adds to it what the segment holds.
    package init(header: SegmentHeader, headerChecksum: UInt32, sealedAt: Int64) {
        fatalError("being written")
    }

    /// Footer and trailer: the bytes from `offset` to the end of the segment file.
    /// - Parameter offset: where the footer begins: the end of the last block.
    package func encode(at offset: UInt64) -> (bytes: [UInt8], trailer: SegmentTrailer) {
        fatalError("being written")
    }

    /// Checks and decodes the `trailer.footerByteCount` bytes at `trailer.footerOffset`.
    package static func decode(
        _ bytes: [UInt8], trailer: SegmentTrailer
    ) throws(FormatError) -> SegmentFooter {
        fatalError("being written")
    }

    /// The parts of the file before the footer that no block fills: must hold zeros only.
    package func gaps(footerOffset: UInt64) -> [Range<UInt64>] { fatalError("being written") }

    /// What the manifest keeps of the segment.
    package func entry(trailer: SegmentTrailer) -> SealedSegment {
        SealedSegment(
            number: segment, byteCount: trailer.fileByteCount,
            footerChecksum: trailer.footerChecksum, blockCount: blockCount, rowCount: rowCount,
            minTimestamp: minTimestamp, maxTimestamp: maxTimestamp)
    }
}
