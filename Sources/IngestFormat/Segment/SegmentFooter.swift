// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query

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
    /// Block ordinals given in this segment, lost ones included.
    package var blockCount: UInt32
    /// Header checksum and commit epoch of the last block; those before the segment if it has none.
    package var lastBlockChecksum: UInt32
    package var commitEpoch: UInt64
    /// Ordinals given in this segment, lost ones included.
    package var names: Range<UInt32>
    package var keys: Range<UInt32>
    package var rowCount: UInt64 = 0
    /// Event times of its rows; both 0 without rows.
    package var minTimestamp: Int64 = 0
    package var maxTimestamp: Int64 = 0
    /// As in `Manifest`, when the segment was sealed.
    package var idsCompleteSince: Int64 = 0
    /// By ordinal.
    package var blocks: [BlockIndexEntry] = []
    /// Counters by (key, day), and the same by (business, day): level 0 of the tables, as they stand.
    package var rewardDays = CounterTable(hasDay: true)
    package var days = CounterTable(hasDay: true)
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

    /// The parts of the file before the footer that neither header nor blocks fill: where blocks were
    /// lost. They must hold zeros only.
    package func gaps(footerOffset: UInt64) -> [Range<UInt64>] {
        var gaps: [Range<UInt64>] = []
        var end = UInt64(SegmentHeader.byteCount)
        for block in blocks {
            if block.offset > end { gaps.append(end..<block.offset) }
            end = max(end, block.end)
        }
        if footerOffset > end { gaps.append(end..<footerOffset) }
        return gaps
    }

    /// The end of the segment in the log.
    package var end: LogPosition { LogPosition(segment: segment, blockCount: blockCount) }

    /// What the manifest keeps of the segment.
    package func entry(trailer: SegmentTrailer) -> SealedSegment {
        SealedSegment(
            number: segment, byteCount: trailer.fileByteCount,
            footerChecksum: trailer.footerChecksum, blockCount: blockCount, rowCount: rowCount,
            minTimestamp: minTimestamp, maxTimestamp: maxTimestamp,
            lastCommitTime: blocks.last?.summary.admissionTime ?? sealedAt)
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

        package static let firstOptionalKind: UInt16 = 0x8000
    }
}
