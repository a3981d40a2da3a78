// [packet] → [decode] → [ring] → [admit] → [block] → [segment] → [compaction] → snapshot → query
// What the stages count for operators: /metrics, status, log lines. Never the truth about events; that
// is the log. Lost at exit.

import IngestFormat
import Synchronization

/// The names of one group of counters.
package protocol CounterName: CaseIterable, Sendable {
    /// 0 ..< `allCases.count`.
    var counterIndex: Int { get }
}

extension RawRepresentable where Self: CounterName, RawValue: BinaryInteger {
    package var counterIndex: Int { Int(rawValue) }
}

extension PacketResult: CounterName {}
extension Verdict: CounterName {}

/// Counters of the receive queue.
package enum ReceiveCounter: Int, CounterName {
    /// Calls that brought at least one datagram.
    case batches
    /// Buffers filled: a run of datagrams that the kernel coalesced is one.
    case buffers
    /// Datagrams, each by itself.
    case datagrams
    case bytes
    /// Events decoded and handed down, malformed ones not among them.
    case events
    /// Platforms, campaigns and sources that events came without: longer than 64 bytes, with an `@`, or not UTF-8.
    case attributionsDropped
    /// Datagrams that the kernel dropped at the socket.
    case kernelDrops
    /// Answers to shed packets, because the ring or the disk is full, to unknown kinds and to probes.
    case answers
}

/// Counters of the commit queue.
package enum CommitCounter: Int, CounterName {
    case rows
    /// Events refused because no name or key could be given any more; they are among the malformed.
    case nameRefusals
    /// Events whose names were not those of the key that their hash led to: they are among the malformed.
    case pairMismatches
    /// Events with more revenue or spend than one may have: they are among the malformed.
    case moneyRefusals
    /// Events with `(other)` for campaign and source, or without their platform, because there are too many of these.
    case attributionOverflows
    /// How often the wall clock parted from the monotonic one.
    case clockSteps
    /// Heartbeats that were answered without waiting for a block.
    case answers
    /// Heartbeats whose senders have heard of more than this directory has: it was restored from a copy, or is another one.
    case rolledBackHeartbeats
    /// Packets that were shed because there is no room for windows, or because the senders of one key have all the windows that
    /// they may, gave all the names, began all the epochs, or have as many ended ones as are known one by one.
    case shedForRoom
    case shedForWindows
    case shedForNames
    case shedForEpochs
    case shedForEndedEpochs
}

/// Counters of the sync queue.
package enum SyncCounter: Int, CounterName {
    case commits
    case bytes
    /// Time spent in `fdatasync`.
    case syncNanoseconds
    case durableRows
    /// Acks sent, and those that the socket did not take.
    case acks
    case acksLost
    /// How often the log had to wait for the disk, and for how long in all.
    case waits
    case waitNanoseconds
}

/// Counters of the compact queue. Nanoseconds are those of its thread on a core, rows those of reward-days.
package enum CompactCounter: Int, CounterName {
    case foldNanoseconds
    case segmentsSealed
    /// Of these, segments of small blocks that were rewritten into full ones.
    case segmentsRewritten
    case footerBytes
    case footerRows
    case sealNanoseconds
    case manifests
    case manifestBytes
    /// All that a generation takes: the names below, and the manifest.
    case publishNanoseconds
    /// Segments whose rows have expired, those rows, and bytes written of expired runs.
    case segmentsExpired
    case rowsExpired
    case expiredBytes
    /// Names runs of new names.
    case namesBytes
    case namesNanoseconds
    /// Files that were to be removed and could not be.
    case unlinkFailures
    /// Seals, generations and retentions that the disk did not take, for want of space or the like; they are tried
    /// again.
    case refusals
}

/// Counters of the merge queue; the compact queue's where it merges by itself, while the other has nothing to do.
package enum MergeCounter: Int, CounterName {
    case merges
    /// Orders that the disk did not take, for want of space or the like; they are given again.
    case refusals
    /// Of the thread, on a core.
    case nanoseconds
    /// Rows of all tables.
    case rowsRead
    case rows
    case bytes
    case namesBytes
}

/// One group of 64-bit counters: written by one stage, read by anybody.
///
/// **Layout** The group has cache lines of its own, 128-aligned, so that stages do not slow each other.
/// **Cost** An add is a load and a store: with one writer there is nothing to lock. Add per batch or
/// block, not per event.
///
/// `@unchecked Sendable`: the memory is atomics only, and lives as long as the group.
@safe package final class CounterGroup<Name: CounterName>: @unchecked Sendable {
    private let cells: UnsafeMutablePointer<Atomic<UInt64>>

    package init() {
        // SAFETY: one cell for each name, initialised here and freed in deinit; atomics of integers need
        // no destruction.
        let bytes = UnsafeMutableRawPointer.allocate(
            byteCount: (Name.allCases.count * 8 + 127) & ~127, alignment: 128)
        unsafe cells = bytes.bindMemory(to: Atomic<UInt64>.self, capacity: Name.allCases.count)
        for i in 0..<Name.allCases.count { unsafe (cells + i).initialize(to: Atomic(0)) }
    }

    deinit { unsafe UnsafeMutableRawPointer(cells).deallocate() }

    /// Adds to a counter. Only the stage that owns the group may call it.
    package func add(_ name: Name, _ count: UInt64 = 1) {
        // Relaxed, both, partner: the subscript; a counter orders nothing.
        // SAFETY: counterIndex is below the number of cells.
        let cell = unsafe cells + name.counterIndex
        unsafe cell.pointee.store(
            cell.pointee.load(ordering: .relaxed) &+ count, ordering: .relaxed)
    }

    /// The counter's value now.
    package subscript(_ name: Name) -> UInt64 {
        // Relaxed, partner: `add`. SAFETY: as there.
        unsafe cells[name.counterIndex].load(ordering: .relaxed)
    }
}

/// All counters of one pipeline. May be copied: copies share the counters.
package struct PipelineCounters: Sendable {
    package let receive = CounterGroup<ReceiveCounter>()
    package let commit = CounterGroup<CommitCounter>()
    package let sync = CounterGroup<SyncCounter>()
    package let compact = CounterGroup<CompactCounter>()
    package let merge = CounterGroup<MergeCounter>()
    /// Events by verdict; written by the commit queue.
    package let events = CounterGroup<Verdict>()
    /// Packets by what became of them, by the queue that decided it.
    package let packetsOfReceive = CounterGroup<PacketResult>()
    package let packetsOfCommit = CounterGroup<PacketResult>()

    package init() {}

    /// Packets with this result, of all stages.
    package func packets(_ result: PacketResult) -> UInt64 {
        packetsOfReceive[result] &+ packetsOfCommit[result]
    }
}
