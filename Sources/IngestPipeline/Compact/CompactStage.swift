// packet → decode → ring → admit → block → [segment → compaction → snapshot] → query
import IngestFormat
import IngestStorage

/// Folds durable blocks into the counters of the live segment, seals segments, and publishes snapshots: once
/// a second, of all that is durable then, also in the middle of a segment. Owned by the compact queue; `step` is one turn of its loop.
///
/// `@unchecked Sendable`: it is moved whole to its queue and shares nothing but its links, which are.
///
/// It sees a block only after its `fdatasync`, so that nothing it writes can be ahead of the log. Sealing
/// and publishing are off the write path: the sync stage has long gone on to the next segment.
package struct CompactStage<Files: FileSystem, Clock: IngestClock>: ~Copyable, @unchecked Sendable {
    private var publisher: SnapshotPublisher<Files, Clock>
    private var retention: Retention<Files, Clock>
    private let files: Files
    private let clock: Clock
    private let links: StageLinks
    private let counters: PipelineCounters
    private let configuration: PipelineConfiguration
    private let liveCounters = SegmentCounters()
    private var live: SegmentAccumulator?
    private var sealed: [SealedSegmentFile] = []
    /// Of the footers of `sealed`.
    private var sealedByteCount: UInt64 = 0
    private var nextPublishNanoseconds: UInt64

    /// Publishing may take a tenth of the time: after one that took t, the next comes no earlier than 10 t
    /// after it began.
    private static var periodPerPublish: UInt64 { 10 }

    package init(
        publisher: consuming SnapshotPublisher<Files, Clock>, files: Files, clock: Clock,
        configuration: PipelineConfiguration, links: StageLinks, counters: PipelineCounters,
        say: @escaping @Sendable (String) -> Void
    ) {
        self.publisher = publisher
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

    /// One turn: folds the next block, publishes if it is time.
    ///
    /// - Parameter mayWait: whether to wait for a block; a simulation never waits.
    /// - Returns: `.finished` once the sync stage is done, the last segment sealed and published.
    package mutating func step(mayWait: Bool) throws(PipelineError) -> StageOutcome {
        let wait = mayWait && !retention.isWorking ? 100_000_000 : 0
        let slot = links.toCompact.pop(waitNanoseconds: UInt64(wait))
        if let slot {
            try take(slot)
            links.free.push(slot)
        } else if links.toCompact.isFinished {
            try finish()
            return .finished
        }
        try publishIfDue()
        try retention.step(&publisher)
        return slot == nil && !retention.isWorking ? .idle : .worked
    }

    private mutating func take(_ slot: BlockSlot) throws(PipelineError) {
        guard let summary = slot.summary else { throw .inconsistent("a block without a summary") }
        if slot.startsSegment {
            try sealLive()
            live = SegmentAccumulator(header: slot.segmentHeader, counters: liveCounters)
        }
        // `live` is taken out and put back: a struct that cannot be copied is not reached through an
        // optional without it.
        guard var segment = live.take() else { throw .inconsistent("a block without a segment") }
        let outcome = segment.add(
            summary, ordinal: slot.context.blockOrdinal, offset: segment.endOffset, rows: slot.rows,
            names: slot.names, keys: slot.keys, ledger: slot.ledger)
        live = consume segment
        guard outcome == .folded else {
            throw .inconsistent("block \(slot.context.blockOrdinal) was not folded: \(outcome)")
        }
        links.state.liveKeyDayCount = liveCounters.keyDayCount
    }

    private mutating func sealLive() throws(PipelineError) {
        guard let segment = live.take() else { return }
        let footer = segment.footer(sealedAt: clock.wallMicroseconds())
        do {
            // Another descriptor than the blocks' own will do: they are durable already.
            let file = try files.open(FileName.segment(footer.segment).text, .readWrite)
            let trailer = try SegmentSealer.seal(file, footer: footer, at: segment.endOffset)
            sealed.append(
                SealedSegmentFile(
                    footer: footer, entry: footer.entry(trailer: trailer), names: segment.names))
            sealedByteCount &+= UInt64(trailer.footerByteCount)
        } catch {
            throw .storage(error)
        }
        liveCounters.removeAll()
        links.state.liveKeyDayCount = 0
        counters.compact.add(.segmentsSealed)
    }

    private mutating func publishIfDue() throws(PipelineError) {
        let start = clock.monotonicNanoseconds()
        let isDue = start >= nextPublishNanoseconds
        guard isDue || mustPublish else { return }
        try publisher.unlinkRetired(at: start)
        // Segments that only take too much memory are published without the live one.
        try publish(isDue ? takeLiveCut() : nil)
        let spent = clock.monotonicNanoseconds() &- start
        nextPublishNanoseconds =
            start
            &+ max(configuration.compactIntervalNanoseconds, spent &* Self.periodPerPublish)
    }

    /// Whether what waits for a generation takes too much memory to wait on.
    private var mustPublish: Bool {
        sealed.count >= configuration.unpublishedSegmentCountMax
            || sealedByteCount >= configuration.unpublishedByteCountMax
    }

    /// The live segment as far as it is folded; `nil` if the newest generation covers that already.
    private mutating func takeLiveCut() -> LiveCut? {
        guard var segment = live.take() else { return nil }
        let hasMore = segment.position > publisher.manifest.cut
        let cut = hasMore ? LiveCut(of: &segment) : nil
        live = consume segment
        return cut
    }

    /// Publishes what is new, if anything is.
    private mutating func publish(_ cut: LiveCut? = nil) throws(PipelineError) {
        if sealed.isEmpty && cut == nil { return }
        try publisher.publish(sealed, live: cut)
        sealed.removeAll()
        sealedByteCount = 0
        counters.compact.add(.manifests)
    }

    /// Seals what is open and publishes it, so that a clean stop leaves nothing to recover.
    private mutating func finish() throws(PipelineError) {
        retention.stop()
        try sealLive()
        try publish()
    }
}

extension CompactStage: PipelineStage {
    /// Runs until the sync stage is done.
    package mutating func run(stop: StopFlag) throws(PipelineError) {
        while true {
            if case .finished = try step(mayWait: true) { return }
        }
    }
}
