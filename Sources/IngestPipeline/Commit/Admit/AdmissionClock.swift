// packet → decode → ring → [admit → block] → segment → compaction → snapshot → query
import IngestFormat

/// What admission takes for now: the wall clock, for as long as that and the monotonic clock go on together.
/// Owned by the commit queue.
///
/// Since the last look both must have moved by the same, but for 5 s: a clock that is slewed is followed. One that
/// steps by more is not: from then on now is the last good wall time and the monotonic time since, so that no
/// verdict and no business day changes because a clock was set. That ends when the wall clock comes back to
/// within 5 s of it, or with the process. The wall time that is given never goes back. As long as they are apart the log
/// is told each minute, with what was refused for its time meanwhile, and at once of a further step.
///
/// **Cost** One reading of each clock; the second of both when they part.
struct AdmissionClock<Clock: IngestClock>: Sendable {
    private let clock: Clock
    private let counters: PipelineCounters
    private let state: StageLinks.SharedState
    private let warn: @Sendable (String) -> Void
    /// Both clocks when they agreed last.
    private var agreed: StageTime
    /// What was given last.
    private var givenMicroseconds: Int64
    private var isApart = false
    /// The difference that the log was told last, microseconds; 0 while they agree.
    private var toldDifference: Int64 = 0
    /// When the log is told once more, and how many events had been refused for their time when they parted.
    private var tellNanoseconds: UInt64 = 0
    private var refusedBefore: UInt64 = 0

    private static var tellIntervalNanoseconds: UInt64 { 60_000_000_000 }

    /// - Parameters:
    ///   - state: where it is said that they are apart.
    ///   - warn: takes a line for the log, and never blocks.
    init(
        _ clock: Clock, counters: PipelineCounters, state: StageLinks.SharedState,
        warn: @escaping @Sendable (String) -> Void
    ) {
        self.clock = clock
        self.counters = counters
        self.state = state
        self.warn = warn
        agreed = Self.read(clock)
        givenMicroseconds = agreed.wallMicroseconds
    }

    /// Now, by both clocks.
    mutating func now() -> StageTime {
        var found = Self.read(clock)
        // A thread that was held up between the two readings has seen no step.
        if hasStepped(difference(of: found)) { found = Self.read(clock) }
        let difference = difference(of: found)
        let isStep = isStep(difference)
        if hasStepped(difference) {
            part(isStep: isStep, difference, found)
        } else if isApart && found.monotonicNanoseconds >= tellNanoseconds {
            tellAgain(difference, found)
        }
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

    /// Whether they begin or end to be apart, or are apart by something else than was told.
    private func hasStepped(_ difference: Int64) -> Bool {
        isStep(difference) != isApart || isApart && isStep(difference &- toldDifference)
    }

    private mutating func part(isStep: Bool, _ difference: Int64, _ now: StageTime) {
        let step = difference &- toldDifference
        if !isApart { refusedBefore = refusedCount }
        (isApart, toldDifference) = (isStep, isStep ? difference : 0)
        state.clockStepSeconds = isStep ? difference / 1_000_000 : 0
        guard isStep else {
            return warn(
                "the wall clock agrees with the admission clock again"
                    + refusedMeanwhile)
        }
        counters.commit.add(.clockSteps)
        tellNanoseconds = now.monotonicNanoseconds &+ Self.tellIntervalNanoseconds
        warn(
            "the wall clock stepped \(step > 0 ? "forward" : "back") by "
                + "\(step.magnitude / 1_000_000) s: the step is ignored, events are admitted by the "
                + "monotonic clock; \(Self.remedy(difference))")
    }

    private mutating func tellAgain(_ difference: Int64, _ now: StageTime) {
        // One that is moved slowly has not stepped.
        toldDifference = difference
        state.clockStepSeconds = difference / 1_000_000
        tellNanoseconds = now.monotonicNanoseconds &+ Self.tellIntervalNanoseconds
        warn(
            "the wall clock is still \(difference.magnitude / 1_000_000) s "
                + "\(difference > 0 ? "ahead of" : "behind") the admission clock"
                + "\(refusedMeanwhile); \(Self.remedy(difference))")
    }

    /// Of all events: those that the one time takes and the other does not.
    private var refusedCount: UInt64 {
        counters.events[.tooOld] &+ counters.events[.tooEarly]
    }

    private var refusedMeanwhile: String {
        let count = refusedCount &- refusedBefore
        return count == 0
            ? "" : ", \(count) event\(count == 1 ? "" : "s") refused as too_old or too_early since"
    }

    static func remedy(_ difference: Int64) -> String {
        let start =
            difference > 0 ? "restart the daemon" : "restart the daemon with --accept-clock"
        return "correct the clock, or \(start) if it is correct now"
    }

    private static func read(_ clock: Clock) -> StageTime {
        StageTime(
            wallMicroseconds: clock.wallMicroseconds(),
            monotonicNanoseconds: clock.monotonicNanoseconds())
    }
}
