// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestFormat
import IngestStorage

/// Merges runs beside everything else: a merge of millions of rows never holds up the folding of a block. Owned by
/// the merge queue; `step` is one order of the compact stage's, of which there is at most one at a time
/// (docs/decisions/0031-merge-queue.md).
package struct MergeStage<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    private let files: Files
    private let clock: Clock
    private let links: StageLinks
    private let counters: CounterGroup<MergeCounter>
    private let spareByteCount: UInt64

    /// - Parameter spareByteCount: what a merge that can wait leaves free on the disk: what the log takes next.
    package init(
        files: Files, clock: Clock, links: StageLinks, counters: PipelineCounters,
        spareByteCount: UInt64
    ) {
        self.spareByteCount = spareByteCount
        self.files = files
        self.clock = clock
        self.links = links
        self.counters = counters.merge
    }

    /// One turn: the next order. At a stop it is not begun, or ends at its next page.
    package mutating func step(mayWait: Bool) throws(PipelineError) -> StageOutcome {
        guard let order = links.toMerge.pop(waitNanoseconds: mayWait ? 100_000_000 : 0) else {
            guard links.toMerge.isFinished else { return .idle }
            links.merged.close()
            return .finished
        }
        let start = clock.threadNanoseconds()
        let state = links.state
        let result = try RunMerge(
            files: files, order: order, counters: counters, spareByteCount: spareByteCount
        ) {
            state.isMergeStopped
        }.run()
        counters.add(.nanoseconds, clock.threadNanoseconds() &- start)
        links.merged.push(result)
        return .worked
    }
}

extension MergeStage: PipelineStage {
    /// Runs until the compact stage is done.
    package mutating func run(stop: StopFlag) throws(PipelineError) {
        while true {
            if case .finished = try step(mayWait: true) { return }
        }
    }
}

/// Where the one merge stands that there can be at a time, and when the next may be ordered. Owned by the publisher,
/// which alone changes it; whoever carries an order to the merge queue brings its result back, whatever that is.
///
///     none → ordered → written → none
///               ↓
///              none: it was stopped, or refused; after a refusal the next one waits
struct MergeProgress {
    private enum State {
        case none
        /// The merge queue has the order.
        case ordered
        /// Runs that no generation names yet.
        case written(MergedRuns)
    }

    private var state = State.none
    /// In a row.
    private var refusalCount = 0
    private var refusedNanoseconds: UInt64 = 0

    /// Whether an order has been given and what it wrote is in no generation yet.
    var isUnderWay: Bool { if case .none = state { false } else { true } }
    var isOrdered: Bool { if case .ordered = state { true } else { false } }
    var written: MergedRuns? { if case .written(let runs) = state { runs } else { nil } }

    /// Whether an order may be given.
    ///
    /// A large merge is not begun again and again on a full disk: after 10 s, 20 s, … 320 s. Where everything waits for
    /// it, after 1, 2 and 4 s, so that the log goes on in time once there is room.
    ///
    /// - Parameters:
    ///   - isNeeded: whether a table is full.
    ///   - mayRetry: `false` if there is no time to wait for the disk.
    func mayOrder(at now: UInt64, isNeeded: Bool, mayRetry: Bool) -> Bool {
        if isUnderWay { return false }
        guard mayRetry, refusalCount > 0 else { return true }
        let rest: UInt64 =
            isNeeded
            ? 1_000_000_000 << UInt64(min(refusalCount - 1, 2))
            : 10_000_000_000 << UInt64(min(refusalCount - 1, 5))
        return now &- refusedNanoseconds >= rest
    }

    mutating func order() { state = .ordered }

    /// Takes an order back.
    mutating func take(_ result: MergeResult, at now: UInt64) {
        state = result.runs.isEmpty ? .none : .written(result.runs)
        refusalCount = result.refusal == nil ? 0 : refusalCount + 1
        refusedNanoseconds = now
    }

    /// What was written is in a generation.
    mutating func publish() { state = .none }
}
