// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat
import IngestRing
import IngestStorage

/// Writes each block with one write, makes it durable with one `fdatasync`, then moves the durable mark and acks.
/// Owned by the sync queue; `step` is one turn of its loop.
///
/// Blocks are written strictly in order, and the next one only after the one before is durable, so that
/// at most the last block of the log can be torn. Encoding goes on meanwhile in the commit stage.
///
/// A block that the disk does not take for a `Shortage` is kept, with all behind it, and written again at the same
/// place four times a second; until it is durable the receive stage sheds. Nothing that was admitted is taken back.
package struct SyncStage<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    private let files: Files
    private let clock: Clock
    private let links: StageLinks
    private let counters: PipelineCounters
    /// Tells the commit stage, which may be asleep at the ring, that the disk is free again.
    private let waker: RingWaker
    private let segmentByteCountMax: UInt64
    private let reserve: DiskReserve<Files>
    private let warn: @Sendable (String) -> Void
    private var mark: DurableMarkFile<Files>
    private var writer: SegmentWriter<Files>?
    /// Of the writer's segment, the bytes that are durable.
    private var segmentByteCount = SegmentLayout.blocksOffset
    /// Of this life's first segment.
    private let firstHeader: SegmentHeader
    /// The segment that is open, and the one that was begun last, successfully or not.
    private var open: SegmentNumber?
    private var begun: SegmentNumber?
    private var acks: AckSender
    /// The block whose write was refused.
    private var kept: BlockSlot?
    private var backoff = Backoff(milliseconds: 250)

    /// - Parameters:
    ///   - first: what `beginFirst` gave, of the segment with this header.
    init(
        files: Files, mark: consuming DurableMarkFile<Files>,
        first: consuming SegmentWriter<Files>?, of header: SegmentHeader, segmentByteCountMax: Int,
        reserve: DiskReserve<Files>, clock: Clock,
        waker: RingWaker, acks: consuming AckSender, links: StageLinks,
        counters: PipelineCounters, warn: @escaping @Sendable (String) -> Void
    ) {
        self.files = files
        self.mark = mark
        self.segmentByteCountMax = UInt64(segmentByteCountMax)
        self.reserve = reserve
        self.clock = clock
        self.waker = waker
        self.acks = acks
        self.links = links
        self.counters = counters
        self.warn = warn
        firstHeader = header
        begun = header.segment
        open = first == nil ? nil : header.segment
        writer = first
        guard links.state.shortage != nil else { return }
        backoff.begin(at: clock.monotonicNanoseconds())
        counters.sync.add(.waits)
    }

    /// Holds the reserve as a log needs it that is about to begin a segment: also what a start has spent of it has to be
    /// there again before anything is received.
    ///
    /// - Returns: what it cannot be held for; `init` begins to wait for that.
    static func holdFirst(
        _ reserve: DiskReserve<Files>, segmentByteCountMax: Int
    ) throws(PipelineError) -> Shortage? {
        do throws(StorageError) {
            try reserve.hold(
                forSegmentOf: SegmentWriter<Files>.allocation(
                    upTo: SegmentLayout.blocksOffset,
                    byteCountMax: UInt64(segmentByteCountMax)))
            return nil
        } catch {
            guard let shortage = error.shortage else { throw .storage(error) }
            return shortage
        }
    }

    /// Begins the first segment of this life, before there is a block for it: the log then says that a life was begun, and
    /// a start that finds the file knows that it was not ended.
    ///
    /// - Parameter shortage: what the disk lacks; set where it is found now.
    /// - Returns: `nil` where there is a shortage: it is begun once that ends.
    static func beginFirst(
        _ header: SegmentHeader, segmentByteCountMax: Int, in files: Files,
        _ shortage: inout Shortage?
    ) throws(PipelineError) -> SegmentWriter<Files>? {
        if shortage != nil { return nil }
        do throws(StorageError) {
            return try SegmentWriter.create(header, byteCountMax: segmentByteCountMax, in: files)
        } catch {
            guard let found = error.shortage else { throw .storage(error) }
            shortage = found
            return nil
        }
    }

    private mutating func create(_ header: SegmentHeader) throws(StorageError) {
        writer = nil
        let isAgain = begun == header.segment
        begun = header.segment
        writer = try SegmentWriter.create(
            header, byteCountMax: Int(clamping: segmentByteCountMax), in: files, isAgain: isAgain)
        open = header.segment
    }

    /// Ends a life without a block: no file says that it was begun.
    private mutating func removeEmpty() {
        guard let segment = writer.take(), segment.blockCount == 0 else { return }
        // If it stays, the next start takes this life for one that was not ended.
        try? files.unlink(FileName.segment(segment.header.segment).text)
        try? files.syncDirectory()
    }

    /// One turn: the next block, or the one that was kept.
    ///
    /// - Parameter mayKeep: whether a `Shortage` may be waited out. Without it the reserve is used, and what still
    ///   cannot be written ends the stage.
    /// **Errors** A failed `fdatasync` is `durabilityLost` and ends the pipeline: it is never tried again,
    /// and nothing of the block is ever acked.
    package mutating func step(
        mayWait: Bool, mayKeep: Bool = true
    ) throws(PipelineError) -> StageOutcome {
        let left = backoff.nanosecondsLeft(at: clock.monotonicNanoseconds())
        if left > 0 && mayKeep {
            if mayWait { clock.pause(nanoseconds: min(left, 50_000_000)) }
            return .idle
        }
        if let slot = kept.take() { return try take(slot, mayKeep: mayKeep) }
        if backoff.isWaiting && mayKeep {
            // A start has found no room for the reserve, and nothing is to be written yet.
            do throws(StorageError) {
                try holdReserve(for: SegmentLayout.blocksOffset)
                if open == nil { try create(firstHeader) }
            } catch {
                try beginToWait(after: error, mayKeep: true)
                return .idle
            }
            endWait()
        }
        guard let slot = links.toSync.pop(waitNanoseconds: mayWait ? 100_000_000 : 0) else {
            guard links.toSync.isFinished else { return .idle }
            removeEmpty()
            links.toCompact.close()
            return .finished
        }
        return try take(slot, mayKeep: mayKeep)
    }

    private mutating func take(
        _ slot: BlockSlot, mayKeep: Bool
    ) throws(PipelineError) -> StageOutcome {
        if !slot.isAcksOnly {
            do throws(StorageError) {
                if mayKeep {
                    try holdReserve(for: slot)
                }
                try write(slot)
            } catch {
                try beginToWait(after: error, mayKeep: mayKeep)
                kept = slot
                return .idle
            }
            endWait()
            links.state.durableEpoch = slot.context.commitEpoch
        }
        // Everything that they say is durable now.
        let sent = acks.send(slot.acks)
        counters.sync.add(.acks, UInt64(sent))
        counters.sync.add(.acksLost, UInt64(slot.acks.acks.count - sent))
        links.toCompact.push(slot)
        links.state.didSync()
        waker.wake()
        return .worked
    }

    private mutating func write(_ slot: BlockSlot) throws(StorageError) {
        if slot.startsSegment && open != slot.context.segment {
            try create(slot.segmentHeader)
        }
        guard var segment = writer.take() else {
            throw .overLimit(path: files.path, detail: "a block without a segment to write it to")
        }
        let start = clock.monotonicNanoseconds()
        do throws(StorageError) {
            try segment.append(slot.buffer)
            try segment.sync()
        } catch {
            writer = consume segment
            throw error
        }
        counters.sync.add(.syncNanoseconds, clock.monotonicNanoseconds() &- start)
        segmentByteCount = segment.byteCount
        writer = consume segment
        counters.sync.add(.commits)
        counters.sync.add(.bytes, UInt64(slot.buffer.byteCount))
        counters.sync.add(.durableRows, UInt64(slot.summary?.rowCount ?? 0))
        try move(
            to: LogPosition(
                segment: slot.context.segment, blockCount: slot.context.blockOrdinal + 1))
    }

    /// The mark is a lower bound wherever it stands: one that cannot be written now moves with the next block.
    private mutating func move(to position: LogPosition) throws(StorageError) {
        do { try mark.set(position) } catch {
            guard error.shortage != nil else { throw error }
        }
    }
}

// MARK: Waiting for the disk

extension SyncStage {
    /// The reserve as it has to be once the block is written.
    private func holdReserve(for slot: BlockSlot) throws(StorageError) {
        let start = slot.startsSegment ? SegmentLayout.blocksOffset : segmentByteCount
        try holdReserve(for: start + UInt64(slot.buffer.byteCount))
    }

    private func holdReserve(for end: UInt64) throws(StorageError) {
        try reserve.hold(
            forSegmentOf: SegmentWriter<Files>.allocation(
                upTo: end, byteCountMax: segmentByteCountMax))
    }

    /// **Errors** What no waiting mends, or, without time to wait, no part of the reserve.
    private mutating func beginToWait(
        after error: StorageError, mayKeep: Bool
    ) throws(PipelineError) {
        guard let shortage = error.shortage, mayKeep || shortage == .space && reserve.lend() else {
            throw .storage(error)
        }
        if !backoff.isWaiting { counters.sync.add(.waits) }
        if backoff.fail(at: clock.monotonicNanoseconds()) {
            warn("ingestion paused, retrying: \(error)")
        }
        links.state.shortage = shortage
    }

    private mutating func endWait() {
        guard let waited = backoff.succeed(at: clock.monotonicNanoseconds()) else { return }
        counters.sync.add(.waitNanoseconds, waited)
        warn("ingestion resumed after \(waited / 1_000_000) ms")
        links.state.shortage = nil
    }
}

extension SyncStage: PipelineStage {
    /// Runs until the commit stage is done. Once the daemon ends, it waits for no disk any more.
    package mutating func run(stop: StopFlag) throws(PipelineError) {
        while true {
            let outcome = try step(mayWait: true, mayKeep: !stop.isSet)
            if case .finished = outcome { return }
        }
    }
}
