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
