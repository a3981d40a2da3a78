// packet → decode → ring → admit → block → [segment → compaction → snapshot] → query
import IngestCounting
import IngestFormat
import IngestStorage

/// Folds durable blocks into the counters of the live segment, the memtable of the log-structured merge; seals segments and
/// publishes them as snapshots. Readers fold what comes after. Owned by the compact queue; `step` is one turn of its loop.
///
/// `@unchecked Sendable`: it is moved whole to its queue and shares nothing but its links, which are.
///
/// It sees a block only after its `fdatasync`, so that nothing it writes can be ahead of the log. Sealing
/// and publishing are off the write path: the sync stage has long gone on to the next segment.
package struct CompactStage<Files: FileSystem, Clock: IngestClock>: ~Copyable, @unchecked Sendable {
    private var publisher: SnapshotPublisher<Files, Clock>
    private var retention: Retention<Clock>
    private var sessionKeys: SessionKeyFile<Files>?
    private let files: Files
    private let clock: Clock
    private let links: StageLinks
    private let reserve: DiskReserve<Files>
    private let counters: PipelineCounters
    private let configuration: PipelineConfiguration
    private let liveCounters = SegmentCounters()
    private var live: SegmentAccumulator?
    /// The first block of a segment, while the one before cannot be sealed.
    private var waiting: BlockSlot?
    /// Of all senders, behind the last sealed segment.
    private var windows: SenderWindows
    private var sealed: [SealedSegmentFile] = []
    /// Of the footers of `sealed`, and of their names.
    private var sealedByteCount: UInt64 = 0
    private var nextPublishNanoseconds: UInt64
    private var phase = Phase.running
    /// Of seals and generations, and what they wait for.
    private var publishBackoff = Backoff(milliseconds: 500)
    private var shortage: Shortage?
    private let say: @Sendable (String) -> Void
    private let warn: @Sendable (String) -> Void
    /// Whether what is refused may be tried again later; not once the daemon ends.
    private var mayRetry = true

    private enum Phase {
        case running
        /// The sync stage is done and the last segment sealed; what is sealed is to be published.
        case publishingLast
        /// All is published; the merge stage is to end.
        case endingMerge
    }

    package init(
        publisher: consuming SnapshotPublisher<Files, Clock>, windows: SenderWindows,
        sessionKeys: SessionKeyFile<Files>?, files: Files, clock: Clock,
        reserve: DiskReserve<Files>,
        configuration: PipelineConfiguration, links: StageLinks, counters: PipelineCounters,
        say: @escaping @Sendable (String) -> Void, warn: @escaping @Sendable (String) -> Void
    ) {
        (self.reserve, self.sessionKeys) = (reserve, sessionKeys)
        (self.say, self.warn) = (say, warn)
        retention = Retention(configuration, after: publisher.whole.sealed, clock: clock)
        if let warning = retention.warning { warn(warning) }
        sealed = publisher.owed?.segments ?? []
        sealedByteCount = sealed.reduce(0) { $0 &+ $1.waitingByteCount }
        self.publisher = publisher
        self.windows = windows
        (self.files, self.clock, self.links) = (files, clock, links)
        (self.counters, self.configuration) = (counters, configuration)
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
        let wait: UInt64 = mayWait ? 100_000_000 : 0
        let outcome: StageOutcome
        switch phase {
        case .running: outcome = try goOn(waitNanoseconds: wait)
        case .publishingLast: outcome = try publishLast(waitNanoseconds: wait)
        case .endingMerge: outcome = try endMerge(waitNanoseconds: wait)
        }
        let step = links.state.clockStepSeconds
        if let warning = sessionKeys?.goOn(clock, stepSeconds: step) { warn(warning) }
        endWait()
        links.state.compactShortage = isHeldUp ? shortage : nil
        return outcome
    }

    private mutating func goOn(waitNanoseconds wait: UInt64) throws(PipelineError) -> StageOutcome {
        var hasWorked = try takeMerged(waitNanoseconds: 0)
        if isHeldUp {
            // No more is taken on before what waits is written.
            hasWorked = try takeMerged(waitNanoseconds: wait) || hasWorked
            if !hasWorked && !publisher.isMergeOrdered { rest(waitNanoseconds: wait) }
        } else if let slot = waiting.take() ?? links.toCompact.pop(waitNanoseconds: wait) {
            hasWorked = try takeOn(slot)
        } else if links.toCompact.isFinished {
            return try sealLast(waitNanoseconds: wait)
        }
        try publishIfDue()
        orderMerge()
        return hasWorked ? .worked : .idle
    }

    /// - Returns: `false` if it has to wait for the segment before it to be sealed.
    private mutating func takeOn(_ slot: BlockSlot) throws(PipelineError) -> Bool {
        if slot.startsSegment && !slot.isAcksOnly && live != nil {
            guard try publishing({ (stage) throws(PipelineError) in try stage.sealLive() }) else {
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

    private mutating func sealLive() throws(PipelineError) {
        guard let segment = live.take() else { return }
        let start = clock.threadNanoseconds()
        let (offset, names) = (segment.endOffset, segment.names)
        publisher.add(names, upTo: segment.nextKey)
        var footer: SegmentFooter
        do {
            footer = try segment.footer(
                sealedAt: clock.wallMicroseconds(), keys: publisher.keys)
        } catch {
            throw .inconsistent("segment \(segment.header.segment.rawValue): \(error)")
        }
        footer.idsCompleteSince = publisher.idsCompleteSince
        let nameByteCount = UInt64(segment.nameByteCount)
        live = consume segment
        let (unsealed, keys, isAgain) = (footer, publisher.keys, publishBackoff.isWaiting)
        let done = try publisher.storing { () throws(StorageError) in
            try SegmentSealer.seal(unsealed, keys: keys, at: offset, isAgain: isAgain, in: files)
        }
        live = nil
        if done.isRewritten { counters.compact.add(.segmentsRewritten) }
        // For want of space it is not said: sealing in place needs less.
        if let error = done.refusal, error.shortage == nil {
            warn("segment \(footer.segment.rawValue) keeps its small blocks: \(error)")
        }
        let entry = done.footer.entry(trailer: done.trailer)
        sealed.append(SealedSegmentFile(footer: done.footer, entry: entry, names: names))
        sealedByteCount &+= UInt64(done.trailer.footerByteCount) &+ nameByteCount
        counters.compact.add(.footerBytes, UInt64(done.trailer.footerByteCount))
        counters.compact.add(.footerRows, UInt64(footer.rewardDays.rowCount))
        windows = footer.windows
        liveCounters.removeAll()
        counters.compact.add(.segmentsSealed)
        counters.compact.add(.sealNanoseconds, clock.threadNanoseconds() &- start)
    }

    // MARK: Generations

    private mutating func publishIfDue() throws(PipelineError) {
        let start = clock.monotonicNanoseconds()
        publisher.unlinkRetired(at: start, needsSpace: links.state.shortage == .space)
        guard hasNews, start >= nextPublishNanoseconds || mustPublish,
            publisher.canPublish, !rests
        else { return }
        guard try publishing({ (stage) throws(PipelineError) in try stage.publish() }) else {
            return
        }
        nextPublishNanoseconds = start &+ configuration.compactIntervalNanoseconds
    }

    /// Whether what waits for a generation takes too much memory to wait on.
    private var mustPublish: Bool {
        sealed.count >= configuration.unpublishedSegmentCountMax
            || sealedByteCount >= configuration.unpublishedByteCountMax
    }
    private var hasNews: Bool { !sealed.isEmpty || publisher.owed != nil }

    /// Publishes what is sealed, if anything is.
    private mutating func publish() throws(PipelineError) {
        guard hasNews else { return }
        try publisher.publish(sealed)
        sealed.removeAll()
        sealedByteCount = 0
    }

    // MARK: Merges

    private mutating func orderMerge() {
        retention.look()
        guard publisher.mayOrderMerge else { return }
        // What expires makes room, and must have its turn while counters find none.
        let due = mayRetry ? retention.due(in: publisher.manifest) : []
        guard let order = publisher.orderMerge(expiring: due) else { return }
        // Where tables come first, what is due is looked for again behind them, whatever becomes of them.
        if order.expiry != nil { retention.begin() } else if !due.isEmpty { retention.lookAgain() }
        links.toMerge.push(order)
    }

    /// Takes back what the merge queue was given, and publishes what it has written.
    /// - Returns: whether there was any.
    private mutating func takeMerged(waitNanoseconds: UInt64) throws(PipelineError) -> Bool {
        var refusal: PipelineError?
        if publisher.isMergeOrdered,
            let result = links.merged.pop(waitNanoseconds: waitNanoseconds)
        {
            publisher.take(result)
            if let line = result.damageLine { warn(line) }
            refusal = result.refusal
            if !links.state.isMergeStopped { endExpiry(result) }
        }
        var isPublished = false
        if publisher.hasMerged, !rests {
            isPublished = try publishing { (stage) throws(PipelineError) in
                if let expired = try stage.publisher.publishMerged() { stage.tell(expired) }
            }
        }
        if let refusal, isStuck, mayRetry { try failPublish(refusal) }
        return isPublished
    }

    /// Where segments that were to expire have not: says why, and has them tried again.
    private mutating func endExpiry(_ result: MergeResult) {
        guard result.order.expiry != nil, result.runs.expired == nil else { return }
        guard let error = result.expiryFailure else {
            warn(
                "retention failed, retrying in a minute: no footer of the oldest segments is readable"
            )
            return retention.rest()
        }
        guard let shortage = error.shortage else {
            warn("retention failed, retrying in a minute: \(error)")
            return retention.rest()
        }
        counters.compact.add(.refusals)
        // Retention needs the reserve until it is done.
        if shortage == .space && reserve.lend() { return retention.lookAgain() }
        if retention.fail() { warn("retention failed, retrying: \(error)") }
    }

    private mutating func tell(_ expired: ExpiredOutput) {
        if let waited = retention.succeed() {
            warn("retention resumed after \(waited / 1_000_000) ms")
        }
        say("retention: \(expired.text)")
    }

    // MARK: The end

    /// Seals what is left; the sync stage is done.
    private mutating func sealLast(waitNanoseconds: UInt64) throws(PipelineError) -> StageOutcome {
        if rests {
            rest(waitNanoseconds: waitNanoseconds)
            return .idle
        }
        guard try publishing({ (stage) throws(PipelineError) in try stage.sealLive() }) else {
            return .idle
        }
        phase = .publishingLast
        return .worked
    }

    /// Publishes what was sealed last, so that a clean stop leaves nothing to recover; then ends the merge stage.
    private mutating func publishLast(
        waitNanoseconds: UInt64
    ) throws(PipelineError) -> StageOutcome {
        if rests {
            rest(waitNanoseconds: waitNanoseconds)
            return .idle
        }
        let isPublished = try publishing { (stage) throws(PipelineError) in
            try stage.publish()
        }
        guard isPublished else { return .idle }
        links.state.stopMerging()
        links.toMerge.close()
        phase = .endingMerge
        return .worked
    }

    private mutating func endMerge(waitNanoseconds: UInt64) throws(PipelineError) -> StageOutcome {
        guard publisher.isMergeUnderWay else { return .finished }
        if try !takeMerged(waitNanoseconds: waitNanoseconds) && publisher.hasMerged {
            rest(waitNanoseconds: waitNanoseconds)
        }
        return .worked
    }

    // MARK: Shortage

    /// Whether level 0 is full, so that only a merge can make room for the next generation; the last one needs none.
    private var isStuck: Bool { phase == .running && !publisher.canPublish }

    /// Whether a block that was taken on now would find something before it that could not be written. Once the daemon
    /// ends, what is still to come is bounded: for that no merge is waited for.
    private var isHeldUp: Bool {
        (mustPublish && (rests || mayRetry && !publisher.canPublish))
            || (rests && waiting != nil)
    }

    /// Whether seals and generations wait for the disk; once the daemon ends nothing does.
    private var rests: Bool {
        mayRetry && publishBackoff.nanosecondsLeft(at: clock.monotonicNanoseconds()) > 0
    }

    /// Lets time go by, where nothing else has.
    private func rest(waitNanoseconds: UInt64) {
        if waitNanoseconds == 0 { return }
        let left = publishBackoff.nanosecondsLeft(at: clock.monotonicNanoseconds())
        clock.pause(nanoseconds: left > 0 ? min(left, waitNanoseconds) : waitNanoseconds)
    }

    /// Nothing is waited for any more where a whole turn was refused nothing.
    private mutating func endWait() {
        if mayRetry && !retention.isOrdered && !publishBackoff.isWaiting { reserve.giveBack() }
        if isStuck || rests { return }
        guard let waited = publishBackoff.succeed(at: clock.monotonicNanoseconds()) else { return }
        shortage = nil
        warn("snapshot publish resumed after \(waited / 1_000_000) ms")
    }

    /// - Returns: if there is time to wait.
    private mutating func failPublish(_ error: PipelineError) throws(PipelineError) {
        guard mayRetry else { throw error }
        shortage = error.shortage
        // A merge that everybody waits for has the room of the reserve too, where that is enough.
        if shortage == .space { _ = reserve.lend(for: error.wantedByteCount) }
        if publishBackoff.fail(at: clock.monotonicNanoseconds()) {
            warn("snapshot publish failed, retrying: \(error)")
        }
    }

    /// Seals or publishes.
    /// - Returns: `false` if the disk did not take it: it is to be tried again after a rest.
    private mutating func publishing(
        _ body: (inout Self) throws(PipelineError) -> Void
    ) throws(PipelineError) -> Bool {
        guard let refusal = try attempt(body) else { return true }
        try failPublish(refusal)
        return false
    }

    /// Does something that can be done again, as long as it has not been done.
    ///
    /// - Returns: the `Shortage` for which the disk did not take it, also with the reserve.
    /// **Errors** As the body.
    private mutating func attempt(
        _ body: (inout Self) throws(PipelineError) -> Void
    ) throws(PipelineError) -> PipelineError? {
        while true {
            do {
                try body(&self)
                return nil
            } catch {
                guard let shortage = error.shortage else { throw error }
                counters.compact.add(.refusals)
                if shortage == .space && reserve.lend() { continue }
                return error
            }
        }
    }
}

extension CompactStage: PipelineStage {
    /// Runs until the sync stage is done.
    package mutating func run(stop: StopFlag) throws(PipelineError) {
        while try step(mayWait: true, mayRetry: !stop.isSet) != .finished {}
    }
}
