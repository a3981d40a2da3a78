// packet → decode → ring → admit → block → [segment → compaction → snapshot] → query
import IngestCounting
import IngestFormat
import IngestStorage

/// The blocks of the live segment that are durable and folded, as the next generation will cover them. The
/// counters are the segment's own and go on after the generation: one is made, published and dropped
/// between two blocks. Owned by the compact queue.
package struct LiveCut {
    package let position: LogPosition
    /// Where the next block begins in the segment file.
    let offset: UInt64
    let next: LogAnchor
    let totals: LogTotals
    /// Of the blocks since the last cut.
    let names: [NamesOfBlock]
    let counters: SegmentCounters

    /// The segment as it stands. It keeps the names that it has gathered until somebody takes them.
    /// - Returns: `nil` for a segment without blocks.
    package init?(of segment: borrowing SegmentAccumulator) {
        guard let last = segment.lastSummary else { return nil }
        position = segment.position
        offset = segment.endOffset
        next = LogAnchor(
            commitEpoch: last.commitEpoch &+ 1, previousChecksum: last.headerChecksum,
            nextName: segment.nextName, nextKey: segment.nextKey)
        totals = segment.totals
        names = segment.names
        counters = segment.counters
    }
}
