// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
// What the compact stage waits for: merges, a disk that takes nothing, and its own end. There are two waits and one
// merge, each with its state in a value of its own (`CompactWaits`, `MergeProgress`); nothing else in the stage
// remembers what was refused.
import IngestFormat
import IngestStorage

extension CompactStage {
    // MARK: Merges

    mutating func orderMerge() {
        // One that was refused is not waited for once the daemon ends, but where that cannot end without it.
        guard let order = publisher.orderMerge(mayRetry: mayRetry || !needsMerge) else { return }
        links.toMerge.push(order)
    }

    /// Whether the daemon cannot end before a merge has made room for what is sealed.
    private var needsMerge: Bool {
        switch phase {
        case .running: false
        case .publishingLast: !sealed.isEmpty && !publisher.canPublish(isLast: true)
        case .endingMerge: false
        }
    }

    /// Takes back what the merge queue was given, and publishes what it has written.
    /// - Returns: whether there was any.
    /// **Errors** Why a merge was refused, if there is no time to wait for it and nothing can be published without it.
    mutating func takeMerged(waitNanoseconds: UInt64) throws(PipelineError) -> Bool {
        var refusal: PipelineError?
        if publisher.merge.isOrdered,
            let result = links.merged.pop(waitNanoseconds: waitNanoseconds)
        {
            publisher.take(result)
            refusal = result.refusal
        }
        var isPublished = false
        if publisher.merge.written != nil, !waits.isBackingOff(.counters) {
            isPublished = try attempt(.counters) { (stage) throws(PipelineError) in
                try stage.publisher.publishMerged()
            }
        }
        if let refusal, isStuck, mayRetry || needsMerge { try wait(.counters, after: refusal) }
        return isPublished
    }

    // MARK: The end

    /// Seals what is left; the sync stage is done.
    mutating func sealLast(waitNanoseconds: UInt64) throws(PipelineError) -> StageOutcome {
        retention.stop()
        if waits.isBackingOff(.counters) {
            rest(waitNanoseconds: waitNanoseconds)
            return .idle
        }
        let isSealed = try attempt(.counters) { (stage) throws(PipelineError) in
            try stage.sealLive()
        }
        guard isSealed else { return .idle }
        phase = .publishingLast
        return .worked
    }

    /// Publishes what was sealed last, so that a clean stop leaves nothing to recover; then ends the merge stage.
    mutating func publishLast(
        waitNanoseconds: UInt64
    ) throws(PipelineError) -> StageOutcome {
        if needsMerge {
            orderMerge()
            if try takeMerged(waitNanoseconds: waitNanoseconds) { return .worked }
            rest(waitNanoseconds: waitNanoseconds)
            return .idle
        }
        if waits.isBackingOff(.counters) {
            rest(waitNanoseconds: waitNanoseconds)
            return .idle
        }
        let isPublished = try attempt(.counters) { (stage) throws(PipelineError) in
            try stage.publish(isLast: true)
        }
        guard isPublished else { return .idle }
        links.state.stopMerging()
        links.toMerge.close()
        phase = .endingMerge
        return .worked
    }

    mutating func endMerge(waitNanoseconds: UInt64) throws(PipelineError) -> StageOutcome {
        guard publisher.merge.isUnderWay else { return .finished }
        if try !takeMerged(waitNanoseconds: waitNanoseconds) {
            rest(waitNanoseconds: waitNanoseconds)
        }
        return .worked
    }

    // MARK: Shortage

    /// Whether a table is full, so that only a merge can make room for the next generation.
    private var isStuck: Bool { !publisher.canPublish(isLast: phase != .running) }

    /// Whether a block that was taken on now would find something before it that could not be written. Once the daemon
    /// ends, what is still to come is bounded: for that no merge is waited for.
    var isHeldUp: Bool {
        let isBackingOff = waits.isBackingOff(.counters)
        return (mustPublish && (isBackingOff || mayRetry && !publisher.canPublish()))
            || (isBackingOff && waiting != nil)
    }

    /// Lets time go by, where nothing else does: a merge that is on its way has been waited for.
    func rest(waitNanoseconds: UInt64) {
        if waitNanoseconds == 0 || publisher.merge.isOrdered { return }
        let left = waits.nanosecondsLeft(of: .counters)
        clock.pause(nanoseconds: left > 0 ? min(left, waitNanoseconds) : waitNanoseconds)
    }

    /// Retention, which needs the reserve over many turns, has it until it is done.
    mutating func retain() throws(PipelineError) {
        if !mayRetry || waits.isBackingOff(.rows) { return }
        let isDone = try attempt(.rows) { (stage) throws(PipelineError) in
            try stage.retention.step(&stage.publisher)
        }
        guard isDone else { return }
        if !retention.isRefused { waits.end(.rows) }
        if !retention.isWorking && !waits.isWaiting(.counters) { reserve.giveBack() }
    }

    /// Nothing is waited for any more where a whole turn has found nothing that is refused.
    mutating func endWait() {
        guard waits.isWaiting(.counters), !waits.isBackingOff(.counters), !isStuck else { return }
        waits.end(.counters)
    }

    /// - Returns: if there is time for it.
    private mutating func wait(
        _ work: CompactWaits<Clock>.Work, after error: PipelineError
    ) throws(PipelineError) {
        guard mayRetry else { throw error }
        waits.goOn(work, after: error)
    }

    /// Does something that can be done again, as long as it has not been done.
    ///
    /// - Returns: `false` if the disk did not take it, also with the reserve: it is to be tried again after a rest.
    /// **Errors** As the body; a `Shortage` too if there is no time to rest.
    mutating func attempt(
        _ work: CompactWaits<Clock>.Work, _ body: (inout Self) throws(PipelineError) -> Void
    ) throws(PipelineError) -> Bool {
        while true {
            do {
                try body(&self)
                return true
            } catch {
                guard let shortage = error.shortage else { throw error }
                counters.compact.add(.refusals)
                if shortage == .space && reserve.lend() { continue }
                try wait(work, after: error)
                return false
            }
        }
    }
}

/// What of the compact stage waits for a disk that takes nothing. Rows that expire wait by themselves: they make room,
/// and must have their turn while counters find none. Owned by the compact queue.
struct CompactWaits<Clock: IngestClock> {
    enum Work {
        /// Names, seals and generations.
        case counters
        /// The files of expired footers, and the generations that name them.
        case rows
    }

    private let clock: Clock
    private let warn: @Sendable (String) -> Void
    private var waits: [Work: DiskWait] = [:]
    /// What counters wait for.
    private(set) var shortage: Shortage?

    /// After which what the disk did not take is tried again.
    private static var restNanoseconds: UInt64 { 500_000_000 }

    init(_ clock: Clock, warn: @escaping @Sendable (String) -> Void) {
        self.clock = clock
        self.warn = warn
    }

    func isWaiting(_ work: Work) -> Bool { waits[work] != nil }

    /// Whether it is not to be tried now.
    func isBackingOff(_ work: Work) -> Bool { nanosecondsLeft(of: work) > 0 }

    /// How long not.
    func nanosecondsLeft(of work: Work) -> UInt64 {
        guard let wait = waits[work] else { return 0 }
        return wait.nanosecondsLeft(at: clock.monotonicNanoseconds())
    }

    /// Waits, or waits on. The log has a line at first, and each minute.
    mutating func goOn(_ work: Work, after error: PipelineError) {
        let now = clock.monotonicNanoseconds()
        var wait = waits[work] ?? DiskWait(now: now, everyNanoseconds: Self.restNanoseconds)
        if wait.goOn(at: now) {
            switch work {
            case .counters: warn("snapshot publish failed, retrying: \(error)")
            case .rows: warn("retention failed, retrying: \(error)")
            }
        }
        waits[work] = wait
        if work == .counters { shortage = error.shortage }
    }

    /// Nothing is waited for any more.
    mutating func end(_ work: Work) {
        guard let wait = waits.removeValue(forKey: work) else { return }
        if work == .counters { shortage = nil }
        let milliseconds = wait.milliseconds(at: clock.monotonicNanoseconds())
        switch work {
        case .counters: warn("snapshot publish resumed after \(milliseconds) ms")
        case .rows: warn("retention resumed after \(milliseconds) ms")
        }
    }
}
