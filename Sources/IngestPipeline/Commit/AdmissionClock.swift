// packet → decode → ring → [admit → block] → segment → compaction → snapshot → query

/// What admission takes for now: the wall clock, for as long as that and the monotonic clock go on together.
/// Owned by the commit queue.
///
/// Since the last look both must have moved by the same, but for 5 s: a clock that is slewed is followed. One that
/// steps by more is not: from then on now is the last good wall time and the monotonic time since, so that no
/// verdict and no business day changes because somebody set a clock. That ends when the wall clock comes back to
/// within 5 s of it, or with the process. The wall time that is given never goes back.
///
/// **Cost** One reading of each clock; the second of both when they part.
struct AdmissionClock<Clock: IngestClock>: Sendable {
    private let clock: Clock
    private let counters: PipelineCounters
    private let warn: @Sendable (String) -> Void
    /// Both clocks when they agreed last.
    private var agreed: StageTime
    /// What was given last.
    private var givenMicroseconds: Int64
    private var isApart = false

    /// - Parameter warn: takes a line for the log, and never blocks.
    init(
        _ clock: Clock, counters: PipelineCounters, warn: @escaping @Sendable (String) -> Void
    ) {
        self.clock = clock
        self.counters = counters
        self.warn = warn
        agreed = Self.read(clock)
        givenMicroseconds = agreed.wallMicroseconds
    }

    /// Now, by both clocks.
    mutating func now() -> StageTime {
        var found = Self.read(clock)
        // A thread that was held up between the two readings has seen no step.
        if isStep(difference(of: found)) != isApart { found = Self.read(clock) }
        let difference = difference(of: found)
        let isStep = isStep(difference)
        if isStep != isApart { tell(isStep: isStep, difference) }
        isApart = isStep
        if !isStep { agreed = found }
        let wall = found.wallMicroseconds &- (isStep ? difference : 0)
        givenMicroseconds = max(givenMicroseconds, wall)
        return StageTime(
            wallMicroseconds: givenMicroseconds,
            monotonicNanoseconds: found.monotonicNanoseconds)
    }

    /// How far the wall clock is ahead of where it should be.
    private func difference(of found: StageTime) -> Int64 {
        let elapsed = found.monotonicNanoseconds &- agreed.monotonicNanoseconds
        let expected = agreed.wallMicroseconds &+ Int64(elapsed / 1_000)
        return found.wallMicroseconds &- expected
    }

    private func isStep(_ difference: Int64) -> Bool {
        difference.magnitude > LogStart.stepMicrosecondsMax.magnitude
    }

    private func tell(isStep: Bool, _ difference: Int64) {
        guard isStep else {
            return warn("the wall clock agrees again with the time by which events are admitted")
        }
        counters.commit.add(.clockSteps)
        let isForward = difference > 0
        let start = isForward ? "start the daemon again" : "start the daemon with --accept-clock"
        warn(
            "the wall clock stepped \(isForward ? "forward" : "back") by "
                + "\(difference.magnitude / 1_000_000) s: events are admitted by the time from before and "
                + "what has passed since; set the clock back, or \(start) if it is right now")
    }

    private static func read(_ clock: Clock) -> StageTime {
        StageTime(
            wallMicroseconds: clock.wallMicroseconds(),
            monotonicNanoseconds: clock.monotonicNanoseconds())
    }
}
