// packet → decode → ring → [admit → block → segment → compaction] → snapshot → query
import IngestFormat

/// One block on its way: filled by the commit stage, written and synced by the sync stage, folded by the
/// compact stage, then filled again. A pipeline owns a fixed number of them; they are its only large
/// memory after the ring.
///
/// **Sendable** Exactly one stage holds a slot at a time, and it changes hands only through a
/// `StageLink`, whose lock orders the stages' accesses. Nothing in here is ever touched by two.
package final class BlockSlot: @unchecked Sendable {
    package let rows = BlockRows()
    package var names = NewNames()
    /// The pairs behind the keys given in this block, in the order of their ordinals.
    package var keys: [RewardKey] = []
    package var ledger: [LedgerEntry] = []
    /// The encoded block; empty until it is closed.
    package let buffer = BlockBuffer()
    package var summary: BlockSummary?
    /// What may be said to senders once the block is durable.
    package var acks = AckList()
    /// Whether it is no block of the log: it only takes acks past all blocks before it.
    package var isAcksOnly = false
    package var context: BlockContext
    /// As in `Manifest`, when the block was closed.
    package var idsCompleteSince: Int64 = 0
    /// Whether this is the first block of its segment.
    package var startsSegment = false

    /// Wall clock of the moment the block was opened, µs since 1970 UTC: stands for "now" in every
    /// verdict over its events.
    package var admissionTime: Int64 { context.admissionTime }

    /// An empty slot; `open` says for which block.
    package init(log start: LogStart) {
        context = BlockContext(
            directory: start.directory, shard: start.shard, segment: start.lastSegment,
            blockOrdinal: 0, commitEpoch: start.commitEpoch,
            previousChecksum: start.previousChecksum, admissionTime: 0,
            policyVersion: AdmissionPolicy.version, firstName: NameOrdinal(rawValue: 1),
            firstKey: KeyOrdinal(rawValue: 0))
    }

    /// Makes the slot empty for the block that `context` describes.
    package func open(_ context: BlockContext, startsSegment: Bool) {
        rows.removeAll()
        names.removeAll()
        keys.removeAll(keepingCapacity: true)
        ledger.removeAll(keepingCapacity: true)
        summary = nil
        acks.removeAll()
        isAcksOnly = false
        self.context = context
        self.startsSegment = startsSegment
    }
}

extension BlockSlot {
    /// The header of the segment that this block starts.
    var segmentHeader: SegmentHeader {
        SegmentHeader(
            directory: context.directory, shard: context.shard, segment: context.segment,
            createdAt: context.admissionTime, previousChecksum: context.previousChecksum,
            firstName: context.firstName, firstKey: context.firstKey,
            commitEpoch: context.commitEpoch)
    }
}
