// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat
import IngestRing
import IngestStorage

/// Writes each block with one write, makes it durable with one `fdatasync`, then moves the durable mark and acks.
/// Owned by the sync queue; `step` is one turn of its loop.
///
/// Blocks are written strictly in order, and the next one only after the one before is durable, so that
/// at most the last block of the log can be torn. Encoding goes on meanwhile in the commit stage.
package struct SyncStage<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    private let files: Files
    private let clock: Clock
    private let links: StageLinks
    private let counters: PipelineCounters
    /// Tells the commit stage, which may be asleep at the ring, that the disk is free again.
    private let waker: RingWaker
    private let segmentByteCountMax: Int
    private var mark: DurableMarkFile<Files>
    private var writer: SegmentWriter<Files>?
    private var answers: AnswerSender

    init(
        files: Files, mark: consuming DurableMarkFile<Files>, segmentByteCountMax: Int,
        clock: Clock,
        waker: RingWaker, answers: consuming AnswerSender, links: StageLinks,
        counters: PipelineCounters
    ) {
        self.files = files
        self.mark = mark
        self.segmentByteCountMax = segmentByteCountMax
        self.clock = clock
        self.waker = waker
        self.answers = answers
        self.links = links
        self.counters = counters
    }

    /// One turn: the next block.
    ///
    /// **Errors** A failed `fdatasync` is `durabilityLost` and ends the pipeline: it is never tried again,
    /// and nothing of the block is ever acked.
    package mutating func step(mayWait: Bool) throws(PipelineError) -> StageOutcome {
        guard let slot = links.toSync.pop(waitNanoseconds: mayWait ? 100_000_000 : 0) else {
            guard links.toSync.isFinished else { return .idle }
            links.toCompact.close()
            return .finished
        }
        if !slot.isAnswersOnly { try write(slot) }
        // Everything that they say is durable now.
        let sent = answers.send(slot.answers)
        counters.sync.add(.acks, UInt64(sent))
        counters.sync.add(.acksLost, UInt64(slot.answers.answers.count - sent))
        links.toCompact.push(slot)
        links.state.didSync()
        waker.wake()
        return .worked
    }

    private mutating func write(_ slot: BlockSlot) throws(PipelineError) {
        do throws(StorageError) {
            if slot.startsSegment {
                writer = nil
                writer = try SegmentWriter.create(
                    slot.segmentHeader, byteCountMax: segmentByteCountMax, in: files)
            }
            if try append(slot) { return }
        } catch {
            throw .storage(error)
        }
        throw .inconsistent("a block without a segment to write it to")
    }

    /// `false` without a segment.
    private mutating func append(_ slot: BlockSlot) throws(StorageError) -> Bool {
        guard var segment = writer.take() else { return false }
        try segment.append(slot.buffer)
        let start = clock.monotonicNanoseconds()
        try segment.sync()
        counters.sync.add(.syncNanoseconds, clock.monotonicNanoseconds() &- start)
        writer = consume segment
        try mark.set(
            LogPosition(
                segment: slot.context.segment, blockCount: slot.context.blockOrdinal + 1))
        counters.sync.add(.commits)
        counters.sync.add(.bytes, UInt64(slot.buffer.byteCount))
        counters.sync.add(.durableRows, UInt64(slot.summary?.rowCount ?? 0))
        return true
    }
}

extension SyncStage: PipelineStage {
    /// Runs until the commit stage is done.
    package mutating func run(stop: StopFlag) throws(PipelineError) {
        while true {
            if case .finished = try step(mayWait: true) { return }
        }
    }
}
