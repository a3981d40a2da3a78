// packet → decode → ring → [admit → block → segment → compaction] → snapshot → query
import IngestFormat
import IngestStorage
import Synchronization

/// The way of the block slots, once round: free → commit → sync → compact → free; and that of an order to merge:
/// compact → merge → compact.
package struct StageLinks: Sendable {
    /// One block being filled, one encoded and waiting, one being synced, and room for a disk that stalls and
    /// for the compact stage to fall behind while it merges runs: a million events, half a second of
    /// 2,000,000/s. The newest free slot is taken first, so what is not needed is never touched.
    package static let slotCount = Limits.blockSlotCount

    package let free: StageLink<BlockSlot>
    package let toSync = StageLink<BlockSlot>()
    package let toCompact = StageLink<BlockSlot>()
    package let toMerge = StageLink<MergeOrder>()
    package let merged = StageLink<MergeResult>()
    package let state: SharedState

    /// What the stages in front must know of those behind them: statements of fact, each written by one
    /// stage. Relaxed but where it is said, because the blocks themselves are ordered by the links.
    package final class SharedState: Sendable {
        private let syncing = Atomic<Int>(0)
        private let durable = Atomic<UInt64>(0)
        private let mergeStopped = Atomic(false)
        private let missing = Atomic<UInt8>(0)
        private let missingToCompact = Atomic<UInt8>(0)
        private let clockStep = Atomic<Int64>(0)
        /// 16 bits for each `KeyQuota`.
        private let keysOverQuotas = Atomic<UInt64>(0)
        private let free: StageLink<BlockSlot>
        private let awaitsBlock = Atomic(false)
        private let waitedSince = Atomic<UInt64>(0)
        /// The shortest time after which a sender misses an answer.
        private static let stallNanoseconds: UInt64 = 100_000_000

        package init(free: StageLink<BlockSlot> = StageLink(newestFirst: true)) {
            self.free = free
        }

        /// Whether the commit stage has waited for a free block for so long that it is a stall, and there is still none: it
        /// takes nothing from the ring, heartbeats neither.
        package var lacksBlocks: Bool { awaitsBlock.load(ordering: .relaxed) && free.isEmpty }
        /// Said by the commit stage where it wants a block. **Units** Nanoseconds of its monotonic clock.
        package func foundNoBlock(at now: UInt64) {
            let since = waitedSince.load(ordering: .relaxed)
            if since == 0 {
                waitedSince.store(max(1, now), ordering: .relaxed)
            } else if now &- since >= Self.stallNanoseconds {
                awaitsBlock.store(true, ordering: .relaxed)
            }
        }
        /// Said by the commit stage when it has one.
        package func foundBlock() {
            if waitedSince.load(ordering: .relaxed) == 0 { return }
            waitedSince.store(0, ordering: .relaxed)
            awaitsBlock.store(false, ordering: .relaxed)
        }

        /// Blocks handed to the sync stage and not yet durable.
        package var syncingCount: Int { syncing.load(ordering: .relaxed) }
        /// Said by the commit stage before it hands a block over.
        package func willSync() { syncing.add(1, ordering: .relaxed) }
        /// Said by the sync stage once a block is durable.
        package func didSync() { syncing.subtract(1, ordering: .relaxed) }

        /// The last commit that is durable. Stored by the sync stage before it acks what is in it, so that no answer to
        /// a sender that has the ack says less. Releasing and acquiring, partners of each other: it tells of other blocks.
        package var durableEpoch: UInt64 {
            get { durable.load(ordering: .acquiring) }
            set { durable.store(newValue, ordering: .releasing) }
        }

        /// What the log waits for, or compaction so that no block can be folded; while one does, the receive stage
        /// sheds. Stored by the sync stage.
        package var shortage: Shortage? {
            get { Shortage(rawValue: missing.load(ordering: .relaxed)) ?? compactShortage }
            set { missing.store(newValue?.rawValue ?? 0, ordering: .relaxed) }
        }

        /// The part of it that is the compact stage's, and stored by that.
        package var compactShortage: Shortage? {
            get { Shortage(rawValue: missingToCompact.load(ordering: .relaxed)) }
            set { missingToCompact.store(newValue?.rawValue ?? 0, ordering: .relaxed) }
        }

        /// By how many seconds the wall clock has stepped, and is not followed; 0 while it is. Stored by the commit stage.
        package var clockStepSeconds: Int64 {
            get { clockStep.load(ordering: .relaxed) }
            set { clockStep.store(newValue, ordering: .relaxed) }
        }

        /// The key whose senders were over a quota last. Stored by the commit stage.
        package func lastKey(over quota: KeyQuota) -> UInt16 {
            UInt16(
                truncatingIfNeeded: keysOverQuotas.load(ordering: .relaxed) >> (16 * quota.rawValue)
            )
        }
        package func set(lastKey: UInt16, over quota: KeyQuota) {
            let others =
                keysOverQuotas.load(ordering: .relaxed) & ~(0xFFFF << (16 * quota.rawValue))
            keysOverQuotas.store(
                others | UInt64(lastKey) << (16 * quota.rawValue), ordering: .relaxed)
        }

        /// Whether what is being merged is no longer waited for.
        package var isMergeStopped: Bool { mergeStopped.load(ordering: .relaxed) }
        /// Said by the compact stage at a stop.
        package func stopMerging() { mergeStopped.store(true, ordering: .relaxed) }
    }

    package init() {
        free = StageLink(newestFirst: true)
        state = SharedState(free: free)
    }
}

/// What one turn of a stage did; the queue's loop goes by it.
package enum StageOutcome: Sendable {
    case worked
    /// There was nothing to do.
    case idle
    /// The stage before is done, and everything it handed over has been passed on.
    case finished
}

/// A hand-over between two stages, each on its own queue: first in, first out, or the other way round.
///
/// It never blocks the side that pushes: what travels is a fixed set of block slots, so the number of
/// slots bounds every link. The side that pops may wait.
///
/// **Cost** One short lock and one semaphore signal a block, never an event: under 1 µs.
package final class StageLink<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var isClosed = false
    }
    private let state = Mutex(State())
    private let available = WaitSemaphore()
    private let newestFirst: Bool

    /// - Parameter newestFirst: gives the element that was pushed last, whose memory is still in the caches.
    package init(newestFirst: Bool = false) { self.newestFirst = newestFirst }

    package func push(_ element: Element) {
        state.withLock { $0.elements.append(element) }
        available.signal()
    }

    /// Says that nothing more will be pushed.
    package func close() {
        state.withLock { $0.isClosed = true }
        available.signal()
    }

    /// The oldest element, or the newest.
    /// - Parameter waitNanoseconds: how long to wait for one; 0 does not wait.
    /// - Returns: `nil` when the wait ended without one, or the link is closed and empty.
    package func pop(waitNanoseconds: UInt64) -> Element? {
        guard available.wait(nanosecondsMax: waitNanoseconds) else { return nil }
        return state.withLock { state in
            if newestFirst, let newest = state.elements.popLast() { return newest }
            if !state.elements.isEmpty { return state.elements.removeFirst() }
            // The signal came from `close`; leave it for the next caller.
            if state.isClosed { available.signal() }
            return nil
        }
    }

    /// Whether there is no element.
    package var isEmpty: Bool { state.withLock { $0.elements.isEmpty } }

    /// Whether the link was closed and everything in it has been popped.
    package var isFinished: Bool { state.withLock { $0.isClosed && $0.elements.isEmpty } }
}

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

    /// For the headers of segments.
    fileprivate let origin: DirectoryOrigin
    fileprivate let firstHeader: SegmentHeader

    /// Wall clock of the moment the block was opened, µs since 1970 UTC: stands for "now" in every
    /// verdict over its events.
    package var admissionTime: Int64 { context.admissionTime }

    /// An empty slot; `open` says for which block.
    package init(log start: LogStart) {
        origin = start.origin
        firstHeader = start.segmentHeader
        context = BlockContext(
            directory: start.directory, shard: start.shard, segment: start.lastSegment,
            blockOrdinal: 0, commitEpoch: start.commitEpoch,
            previousChecksum: start.previousChecksum, admissionTime: 0,
            policyVersion: CountingPolicy.version, firstName: NameOrdinal(rawValue: 1),
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
        if context.segment == firstHeader.segment { return firstHeader }
        return SegmentHeader(
            directory: context.directory, shard: context.shard, segment: context.segment,
            createdAt: context.admissionTime, previousChecksum: context.previousChecksum,
            firstName: context.firstName, firstKey: context.firstKey,
            commitEpoch: context.commitEpoch, origin: origin, policy: firstHeader.policy)
    }
}
