// packet → decode → ring → admit → block → [segment → compaction → snapshot] → query
import IngestCounting
import IngestFormat
import IngestStorage

/// Folds durable blocks into the counters of the live segment, the memtable of the log-structured merge; seals
/// segments and publishes them as snapshots. Readers fold what comes after. Owned by the compact queue; `step` is
/// one turn of its loop.
///
/// `@unchecked Sendable`: it is moved whole to its queue and shares nothing but its links, which are.
///
/// It sees a block only after its `fdatasync`, so that nothing it writes can be ahead of the log. Sealing
/// and publishing are off the write path: the sync stage has long gone on to the next segment.
package struct CompactStage<Files: FileSystem, Clock: IngestClock>: ~Copyable, @unchecked Sendable {
    var publisher: SnapshotPublisher<Files, Clock>
    var retention: Retention<Files, Clock>
    private let files: Files
    let clock: Clock
    let links: StageLinks
    let reserve: DiskReserve<Files>
    let counters: PipelineCounters
    private let configuration: PipelineConfiguration
    private let liveCounters = SegmentCounters()
    private var live: SegmentAccumulator?
    /// The first block of a segment, while the one before cannot be sealed.
    var waiting: BlockSlot?
    /// Of all senders, behind the last sealed segment.
    private var windows: SenderWindows
    var sealed: [SealedSegmentFile] = []
    /// Of the footers of `sealed`, and of their names.
    private var sealedByteCount: UInt64 = 0
    private var nextPublishNanoseconds: UInt64
    var phase = Phase.running
    var waits: CompactWaits<Clock>
    /// Whether what is refused may be tried again later; not once the daemon ends.
    var mayRetry = true

    enum Phase {
        case running
        /// The sync stage is done and the last segment sealed; what is sealed is to be published.
        case publishingLast
        /// All is published; the merge stage is to end.
        case endingMerge
    }

    package init(
        publisher: consuming SnapshotPublisher<Files, Clock>, windows: SenderWindows,
        files: Files, clock: Clock, reserve: DiskReserve<Files>,
        configuration: PipelineConfiguration, links: StageLinks, counters: PipelineCounters,
        say: @escaping @Sendable (String) -> Void, warn: @escaping @Sendable (String) -> Void
    ) {
        self.reserve = reserve
        waits = CompactWaits(clock, warn: warn)
        self.publisher = publisher
        self.windows = windows
        retention = Retention(
            configuration, files: files, clock: clock, counters: counters, say: say)
        self.files = files
        self.clock = clock
        self.links = links
        self.counters = counters
        self.configuration = configuration
        nextPublishNanoseconds =
            clock.monotonicNanoseconds() &+ configuration.compactIntervalNanoseconds
    }

    /// One turn: folds the next block, publishes if it is time, has runs merged if that is due.
    ///
    /// What the disk does not take for a `Shortage` is kept and tried again; until then blocks are folded as long as
    /// there is memory for what waits, and rows expire. So it is while a table is full and its merge is refused.
    ///
    /// - Parameters:
    ///   - mayWait: whether to wait for a block; a simulation never waits.
    ///   - mayRetry: whether a `Shortage` may be waited out; without it ends the stage, as any other error.
    /// - Returns: `.finished` once the sync stage is done, the last segment sealed and published, and the merge
    ///   stage done.
    package mutating func step(
        mayWait: Bool, mayRetry: Bool = true
    ) throws(PipelineError) -> StageOutcome {
        self.mayRetry = mayRetry
        let mustNotWait = retention.isWorking && !waits.isBackingOff(.rows)
        let wait: UInt64 = mayWait && !mustNotWait ? 100_000_000 : 0
        let outcome: StageOutcome
        switch phase {
        case .running: outcome = try goOn(waitNanoseconds: wait)
        case .publishingLast: outcome = try publishLast(waitNanoseconds: wait)
        case .endingMerge: outcome = try endMerge(waitNanoseconds: wait)
        }
        endWait()
        links.state.compactShortage = isHeldUp ? waits.shortage : nil
        return outcome
    }

    private mutating func goOn(waitNanoseconds wait: UInt64) throws(PipelineError) -> StageOutcome {
        var hasWorked = try takeMerged(waitNanoseconds: 0)
        if isHeldUp {
            // No more is taken on before what waits is written.
            hasWorked = try takeMerged(waitNanoseconds: wait) || hasWorked
            if !hasWorked { rest(waitNanoseconds: wait) }
        } else if let slot = waiting.take() ?? links.toCompact.pop(waitNanoseconds: wait) {
            hasWorked = try takeOn(slot)
        } else if links.toCompact.isFinished {
            return try sealLast(waitNanoseconds: wait)
        }
        try publishIfDue()
        try retain()
        orderMerge()
        return hasWorked || (retention.isWorking && !waits.isBackingOff(.rows)) ? .worked : .idle
    }

    /// - Returns: `false` if it has to wait for the segment before it to be sealed.
    private mutating func takeOn(_ slot: BlockSlot) throws(PipelineError) -> Bool {
        if slot.startsSegment && !slot.isAcksOnly && live != nil {
            let isSealed = try attempt(.counters) { (stage) throws(PipelineError) in
                try stage.sealLive()
            }
            guard isSealed else {
                waiting = slot
                return false
            }
        }
        try take(slot)
        links.free.push(slot)
        return true
    }

    private mutating func take(_ slot: BlockSlot) throws(PipelineError) {
        if slot.isAcksOnly { return }
        guard let summary = slot.summary else { throw .inconsistent("a block without a summary") }
        if slot.startsSegment {
            live = SegmentAccumulator(
                header: slot.segmentHeader, counters: liveCounters, windows: windows)
            windows = SenderWindows()
        }
        // `live` is taken out and put back: a struct that cannot be copied is not reached through an
        // optional without it.
        guard var segment = live.take() else { throw .inconsistent("a block without a segment") }
        publisher.noteForgottenIDs(slot.idsCompleteSince)
        let start = clock.threadNanoseconds()
        let outcome = segment.add(
            summary, ordinal: slot.context.blockOrdinal, offset: segment.endOffset, rows: slot.rows,
            names: slot.names, keys: slot.keys, ledger: slot.ledger)
        counters.compact.add(.foldNanoseconds, clock.threadNanoseconds() &- start)
        guard outcome == .folded else {
            throw .inconsistent("block \(slot.context.blockOrdinal) was not folded: \(outcome)")
        }
        live = consume segment
    }

    // MARK: Sealing

    mutating func sealLive() throws(PipelineError) {
        guard let segment = live.take() else { return }
        let start = clock.threadNanoseconds()
        let footer = segment.footer(sealedAt: clock.wallMicroseconds())
        let (offset, names) = (segment.endOffset, segment.names)
        let nameByteCount = UInt64(segment.nameByteCount)
        live = consume segment
        let trailer: SegmentTrailer
        do {
            // Another descriptor than the blocks' own will do: they are durable already.
            let file = try files.open(FileName.segment(footer.segment).text, .readWrite)
            trailer = try SegmentSealer.seal(file, footer: footer, at: offset)
        } catch {
            throw .storage(error)
        }
        live = nil
        sealed.append(
            SealedSegmentFile(footer: footer, entry: footer.entry(trailer: trailer), names: names))
        sealedByteCount &+= UInt64(trailer.footerByteCount) &+ nameByteCount
        counters.compact.add(.footerBytes, UInt64(trailer.footerByteCount))
        windows = footer.windows
        liveCounters.removeAll()
        counters.compact.add(.segmentsSealed)
        counters.compact.add(.sealNanoseconds, clock.threadNanoseconds() &- start)
    }

    // MARK: Generations

    private mutating func publishIfDue() throws(PipelineError) {
        let start = clock.monotonicNanoseconds()
        publisher.unlinkRetired(at: start)
        guard !sealed.isEmpty, start >= nextPublishNanoseconds || mustPublish,
            publisher.canPublish(), !waits.isBackingOff(.counters)
        else { return }
        let isPublished = try attempt(.counters) { (stage) throws(PipelineError) in
            try stage.publish()
        }
        guard isPublished else { return }
        nextPublishNanoseconds = start &+ configuration.compactIntervalNanoseconds
    }

    /// Whether what waits for a generation takes too much memory to wait on.
    var mustPublish: Bool {
        sealed.count >= configuration.unpublishedSegmentCountMax
            || sealedByteCount >= configuration.unpublishedByteCountMax
    }

    /// Publishes what is sealed, if anything is.
    mutating func publish(isLast: Bool = false) throws(PipelineError) {
        if sealed.isEmpty { return }
        try publisher.publish(sealed, isLast: isLast)
        sealed.removeAll()
        sealedByteCount = 0
    }
}

extension CompactStage: PipelineStage {
    /// Runs until the sync stage is done.
    package mutating func run(stop: StopFlag) throws(PipelineError) {
        while true {
            if case .finished = try step(mayWait: true, mayRetry: !stop.isSet) { return }
        }
    }
}
