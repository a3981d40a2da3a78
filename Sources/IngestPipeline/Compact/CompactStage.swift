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
    /// Of all senders, behind the last sealed segment.
    private var windows: SenderWindows
    private var sealed: [SealedSegmentFile] = []
    /// Of the footers of `sealed`, and of the names that these have in memory.
    private var sealedByteCount: UInt64 = 0
    private var sealedNameByteCount = 0
    private var nextPublishNanoseconds: UInt64
    /// When the last generation of this stage was begun.
    private var publishedNanoseconds: UInt64
    /// Whether the sync stage is done and the last segment sealed.
    private var isEnding = false

    /// A generation that took t is followed by the next no earlier than 10 t after it began; one whose live runs
    /// and manifest took t on a core, no earlier than 100 t: they are written again and again, and are not to cost
    /// more than that (docs/decisions/0032-share-of-publishing.md).
    private static var periodPerPublish: UInt64 { 10 }
    private static var periodPerLiveRuns: UInt64 { 100 }
    /// So many rows of live runs are written for a new row of the log, and more only once a minute.
    private static var liveRowsPerNewRow: UInt64 { 32 }
    private static var livePeriodMax: UInt64 { 60_000_000_000 }

    package init(
        publisher: consuming SnapshotPublisher<Files, Clock>, windows: SenderWindows,
        files: Files, clock: Clock,
        configuration: PipelineConfiguration, links: StageLinks, counters: PipelineCounters,
        say: @escaping @Sendable (String) -> Void
    ) {
        self.publisher = publisher
        self.windows = windows
        retention = Retention(
            configuration, files: files, clock: clock, counters: counters, say: say)
        self.files = files
        self.clock = clock
        self.links = links
        self.counters = counters
        self.configuration = configuration
        publishedNanoseconds = clock.monotonicNanoseconds()
        nextPublishNanoseconds =
            publishedNanoseconds &+ configuration.compactIntervalNanoseconds
    }

    /// One turn: folds the next block, publishes if it is time, has runs merged if that is due.
    ///
    /// - Parameter mayWait: whether to wait for a block; a simulation never waits.
    /// - Returns: `.finished` once the sync stage is done, the last segment sealed and published, and the merge
    ///   stage done.
    package mutating func step(mayWait: Bool) throws(PipelineError) -> StageOutcome {
        let wait: UInt64 = mayWait && !retention.isWorking ? 100_000_000 : 0
        if isEnding { return try finish(waitNanoseconds: wait) }
        var hasWorked = try takeMerged(waitNanoseconds: 0)
        if mustPublish && !publisher.canPublish {
            // No more is taken on before what waits for a generation can have one.
            hasWorked = try takeMerged(waitNanoseconds: wait) || hasWorked
        } else if let slot = links.toCompact.pop(waitNanoseconds: wait) {
            try take(slot)
            links.free.push(slot)
            hasWorked = true
        } else if links.toCompact.isFinished {
            retention.stop()
            try sealLive()
            isEnding = true
            return .worked
        }
        try publishIfDue()
        try retention.step(&publisher)
        if let order = publisher.orderMerge() { links.toMerge.push(order) }
        return hasWorked || retention.isWorking ? .worked : .idle
    }

    /// Publishes what a merge has written.
    /// - Returns: whether there was any.
    private mutating func takeMerged(waitNanoseconds: UInt64) throws(PipelineError) -> Bool {
        guard publisher.isMerging,
            let merged = links.merged.pop(waitNanoseconds: waitNanoseconds)
        else { return false }
        try publisher.take(merged)
        return true
    }

    private mutating func take(_ slot: BlockSlot) throws(PipelineError) {
        if slot.isAnswersOnly { return }
        guard let summary = slot.summary else { throw .inconsistent("a block without a summary") }
        if slot.startsSegment {
            try sealLive()
            live = SegmentAccumulator(
                header: slot.segmentHeader, counters: liveCounters, windows: windows)
            windows = SenderWindows()
        }
        // `live` is taken out and put back: a struct that cannot be copied is not reached through an
        // optional without it.
        guard var segment = live.take() else { throw .inconsistent("a block without a segment") }
        publisher.idsCompleteSince = slot.idsCompleteSince
        let start = clock.threadNanoseconds()
        let outcome = segment.add(
            summary, ordinal: slot.context.blockOrdinal, offset: segment.endOffset, rows: slot.rows,
            names: slot.names, keys: slot.keys, ledger: slot.ledger)
        counters.compact.add(.foldNanoseconds, clock.threadNanoseconds() &- start)
        guard outcome == .folded else {
            throw .inconsistent("block \(slot.context.blockOrdinal) was not folded: \(outcome)")
        }
        if sealedNameByteCount + segment.nameByteCount >= configuration.waitingNameByteCountMax {
            try writeNamesAhead(&segment)
        }
        live = consume segment
        links.state.liveKeyDayCount = liveCounters.keyDayCount
    }

    /// Writes the names that wait for a generation. A run has those of one segment, as a generation may cover the sealed
    /// ones alone.
    private mutating func writeNamesAhead(
        _ segment: inout SegmentAccumulator
    ) throws(PipelineError) {
        for place in sealed.indices {
            try publisher.writeNamesAhead(of: sealed[place].names)
            sealed[place].names = []
        }
        sealedNameByteCount = 0
        try publisher.writeNamesAhead(of: segment.takeNames())
    }

    private mutating func sealLive() throws(PipelineError) {
        guard let segment = live.take() else { return }
        let start = clock.threadNanoseconds()
        let footer = segment.footer(sealedAt: clock.wallMicroseconds())
        do {
            // Another descriptor than the blocks' own will do: they are durable already.
            let file = try files.open(FileName.segment(footer.segment).text, .readWrite)
            let trailer = try SegmentSealer.seal(file, footer: footer, at: segment.endOffset)
            sealed.append(
                SealedSegmentFile(
                    footer: footer, entry: footer.entry(trailer: trailer), names: segment.names))
            sealedByteCount &+= UInt64(trailer.footerByteCount)
            sealedNameByteCount += segment.nameByteCount
            counters.compact.add(.footerBytes, UInt64(trailer.footerByteCount))
        } catch {
            throw .storage(error)
        }
        windows = footer.windows
        liveCounters.removeAll()
        links.state.liveKeyDayCount = 0
        counters.compact.add(.segmentsSealed)
        counters.compact.add(.sealNanoseconds, clock.threadNanoseconds() &- start)
    }

    private mutating func publishIfDue() throws(PipelineError) {
        let start = clock.monotonicNanoseconds()
        let isDue = start >= nextPublishNanoseconds
        guard isDue || mustPublish, publisher.canPublish else { return }
        publisher.unlinkRetired(at: start)
        // Segments that only take too much memory are published without the live one.
        try publish(isDue ? takeLiveCut(at: start) : nil)
        let spent = clock.monotonicNanoseconds() &- start
        nextPublishNanoseconds =
            start
            &+ max(
                configuration.compactIntervalNanoseconds, spent &* Self.periodPerPublish,
                publisher.liveNanoseconds &* Self.periodPerLiveRuns)
    }

    /// Whether what waits for a generation takes too much memory to wait on.
    private var mustPublish: Bool {
        sealed.count >= configuration.unpublishedSegmentCountMax
            || sealedByteCount >= configuration.unpublishedByteCountMax
    }

    /// The live segment as far as it is folded; `nil` if the newest generation covers that already, or so nearly
    /// that a reader folds the rest in less than a hundredth of what its rows cost to write again. A minute later
    /// it is taken all the same.
    private mutating func takeLiveCut(at now: UInt64) -> LiveCut? {
        guard var segment = live.take() else { return nil }
        let shard = publisher.manifest.shard
        let hasMore = segment.position > shard.cut
        let isCovered = publisher.manifest.liveSegment == segment.position.segment
        let newRowCount =
            segment.totals.rowCount &- (isCovered ? shard.liveTotals.rowCount : 0)
        let isWorth =
            newRowCount &* Self.liveRowsPerNewRow >= UInt64(liveCounters.keyDayCount)
            || now &- publishedNanoseconds >= Self.livePeriodMax
        let cut = hasMore && isWorth ? LiveCut(of: &segment) : nil
        live = consume segment
        return cut
    }

    /// Publishes what is new, if anything is.
    private mutating func publish(
        _ cut: LiveCut? = nil, isLast: Bool = false
    ) throws(PipelineError) {
        if sealed.isEmpty && cut == nil { return }
        publishedNanoseconds = clock.monotonicNanoseconds()
        try publisher.publish(sealed, live: cut, isLast: isLast)
        sealed.removeAll()
        sealedByteCount = 0
        sealedNameByteCount = 0
    }

    /// Publishes what was sealed last, so that a clean stop leaves nothing to recover; then ends the merge stage.
    private mutating func finish(waitNanoseconds: UInt64) throws(PipelineError) -> StageOutcome {
        if links.state.isMergeStopped {
            _ = try takeMerged(waitNanoseconds: waitNanoseconds)
            return publisher.isMerging ? .idle : .finished
        }
        guard publisher.manifest.hasRoomForLastRuns else {
            return try takeMerged(waitNanoseconds: waitNanoseconds) ? .worked : .idle
        }
        try publish(isLast: true)
        links.state.stopMerging()
        links.toMerge.close()
        return .worked
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
