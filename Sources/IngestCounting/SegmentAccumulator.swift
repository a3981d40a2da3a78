// packet → decode → ring → admit → block → [segment → compaction] → snapshot → query
import IngestFormat

/// Everything that a segment's footer will say, gathered block by block: by the compact stage from blocks
/// that have become durable, by recovery from the blocks that it finds. One home, so that a segment sealed
/// in time and one sealed after a crash get the same footer.
///
/// **Cost** That of `SegmentCounters.fold`, and a few hundred bytes a block.
package struct SegmentAccumulator: ~Copyable {
    package let header: SegmentHeader
    package let counters: SegmentCounters
    private var blocks: [BlockIndexEntry] = []
    private var ledger = LedgerSum()
    /// Of all senders, behind the last block that was added.
    package private(set) var windows: SenderWindows
    private var lost: [LostRange] = []
    /// The names and keys that the segment introduced, block by block; blocks without any have none.
    package private(set) var names: [NamesOfBlock] = []
    /// Of `names`.
    package private(set) var nameByteCount = 0
    /// The end of the last block: where the next one, or the footer, begins.
    package private(set) var endOffset = SegmentLayout.blocksOffset
    /// The ordinals that the next block gives first.
    package private(set) var nextName: UInt32
    package private(set) var nextKey: UInt32
    /// Of the last block that was added; `nil` before the first.
    package private(set) var lastSummary: BlockSummary?
    private var minTimestamp = Int64.max
    private var maxTimestamp = Int64.min
    private var blockCount: UInt32 = 0

    /// - Parameters:
    ///   - counters: empty; given so that its memory can serve one segment after the other.
    ///   - windows: as the segment before left them.
    package init(header: SegmentHeader, counters: SegmentCounters, windows: SenderWindows) {
        self.header = header
        self.windows = windows
        self.counters = counters
        nextName = header.firstName.rawValue
        nextKey = header.firstKey.rawValue
    }

    /// Adds one block that lies at `offset`: its rows, ledger, names and keys.
    ///
    /// - Returns: what the fold said; with anything but `.folded` nothing was added.
    package mutating func add(
        _ summary: BlockSummary, ordinal: UInt32, offset: UInt64, rows: BlockRows,
        names: NewNames, keys: [RewardKey], ledger: [LedgerEntry]
    ) -> SegmentCounters.FoldOutcome {
        let outcome = counters.fold(rows)
        guard outcome == .folded else { return outcome }
        blocks.append(BlockIndexEntry(ordinal: ordinal, offset: offset, summary: summary))
        self.ledger.add(ledger, at: summary.ledgerTime)
        windows.apply(ledger, at: summary.ledgerTime)
        if names.count > 0 || !keys.isEmpty {
            nameByteCount += names.byteCount + keys.count * MemoryLayout<RewardKey>.stride
            // Copies: what the block's own arrays have room for is more, and they are used again.
            self.names.append(
                NamesOfBlock(
                    firstName: summary.firstName, names: names.copy(), firstKey: summary.firstKey,
                    keys: keys.map { $0 }))
        }
        endOffset = offset + UInt64(summary.byteCount)
        nextName = summary.firstName.rawValue + UInt32(summary.nameCount)
        nextKey = summary.firstKey.rawValue + UInt32(summary.keyCount)
        if summary.rowCount > 0 {
            minTimestamp = min(minTimestamp, summary.minTimestamp)
            maxTimestamp = max(maxTimestamp, summary.maxTimestamp)
        }
        lastSummary = summary
        blockCount = ordinal + summary.commitCount
        return .folded
    }

    /// The footer of the segment as it stands.
    /// - Parameter keys: the names of every key up to `nextKey`, by ordinal.
    /// **Errors** `overflow` for a business and a day with more money than fits 64 bits.
    package func footer(
        sealedAt: Int64, keys: [RewardKey]
    ) throws(CounterMergeError<Never>) -> SegmentFooter {
        var footer = SegmentFooter(
            header: header, headerChecksum: header.checksum, sealedAt: sealedAt)
        footer.blockCount = blockCount
        if let lastSummary {
            footer.lastBlockChecksum = lastSummary.chainChecksum
            footer.commitEpoch = lastSummary.lastCommitEpoch
        }
        footer.names = header.firstName.rawValue..<nextName
        footer.keys = header.firstKey.rawValue..<nextKey
        footer.rowCount = counters.rowCount
        if counters.rowCount > 0 {
            footer.minTimestamp = minTimestamp
            footer.maxTimestamp = maxTimestamp
        }
        footer.blocks = blocks
        let days = DaySums(keys: keys)
        (footer.rewardDays, footer.attributions) = try counters.encodeTableAndAttributions(
            DaySumming(counters.makeCursor(), into: days))
        footer.days = .encode(days.makeCursor())
        footer.ledger = ledger.entries
        footer.lost = lost
        footer.windows = windows
        return footer
    }

    /// Notes a stretch of the segment that could not be read.
    package mutating func add(_ range: LostRange) {
        lost.append(range)
        blockCount = max(blockCount, range.firstBlock + range.blockCount)
        nextName = max(nextName, range.names.upperBound)
        nextKey = max(nextKey, range.keys.upperBound)
        endOffset = max(endOffset, range.offset + range.byteCount)
    }
}
