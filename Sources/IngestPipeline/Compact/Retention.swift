// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat
import IngestStorage

/// Decides which sealed segments are to expire. Owned by the compact queue.
///
/// Whole segments go, the oldest first: their counters are in the runs and their names in names runs, so no answer
/// changes. Order (docs/durability.md): what is left of them is merged into an expired run, which is durable → a
/// manifest that names that file and no longer the segments → a minute later they are unlinked. A crash anywhere leaves
/// the one or the other.
///
/// **Cost** Nothing while nothing is due, but a look at the sealed segments once a minute, or once a generation
/// where their bytes are bounded.
struct Retention<Clock: IngestClock> {
    private let policy: RetentionPolicy
    /// Of the zone that is no business's own, as it was at the start.
    private let calendar: BusinessCalendar
    private let clock: Clock
    private var wallClock: RetentionClock<Clock>
    /// When the clock is looked at next.
    private var nextLookNanoseconds: UInt64
    /// By the last look, until the segments have been held against it.
    private var age: RetentionAge?
    /// The generation whose bytes were added up last.
    private var measured: Generation?
    private var backoff = Backoff(milliseconds: 500, most: 60_000)
    /// Nothing is looked at before.
    private var restsUntilNanoseconds: UInt64 = 0
    /// Whether segments that are due are being merged.
    private(set) var isOrdered = false

    /// Ages change by the day, and a file that cannot be read now may be there again in a minute.
    private static var lookNanoseconds: UInt64 { 60_000_000_000 }

    /// - Parameter sealed: all that the log has.
    init(_ configuration: PipelineConfiguration, after sealed: [SealedSegment], clock: Clock) {
        policy = configuration.retention
        calendar = configuration.zones.calendars[0]
        self.clock = clock
        wallClock = RetentionClock(clock, after: policy.acceptsClock ? [] : sealed)
        nextLookNanoseconds = clock.monotonicNanoseconds() &+ Self.lookNanoseconds
    }

    /// What an operator has to know of the clock at a start.
    var warning: String? {
        guard policy.dayCountMax > 0, wallClock.doubtedDayCount > 0 else { return nil }
        return
            "clock skew: the clock is \(wallClock.doubtedDayCount) days past the log's last commit: retention by "
            + "age waits until it has been so for 24 h of running time, or, if it is correct, for a restart "
            + "with --accept-clock"
    }

    /// Looks at the clock, once a minute: also while nothing can expire, for a step is one since the look before.
    mutating func look() {
        let now = clock.monotonicNanoseconds()
        guard policy.dayCountMax > 0, now >= nextLookNanoseconds else { return }
        age = RetentionAge(policy, now: wallClock.wallMicroseconds(), calendar: calendar)
        nextLookNanoseconds = now &+ Self.lookNanoseconds
    }

    /// The oldest segments that are to expire. The last sealed segment stays, whatever its
    /// age: its footer has the windows of the senders.
    mutating func due(in manifest: Manifest) -> ArraySlice<SealedSegment> {
        let now = clock.monotonicNanoseconds()
        guard manifest.sealed.count > 1, backoff.nanosecondsLeft(at: now) == 0,
            now >= restsUntilNanoseconds
        else { return [] }
        var excess: UInt64 = 0
        if policy.byteCountMax > 0, manifest.generation != measured {
            excess = policy.excessByteCount(of: manifest)
            measured = manifest.generation
        }
        defer { age = nil }
        guard excess > 0 || age != nil else { return [] }
        let segments = manifest.sealed.dropLast()
        var (byteCount, end): (UInt64, Int) = (0, segments.startIndex)
        // Events say of themselves when they were, and history may be loaded: what counts is how long the rows have
        // been here. A segment that is dated ahead was written by a wrong clock, and goes with those behind it.
        for (index, segment) in zip(segments.indices, segments) {
            let isDue = byteCount < excess || age?.isOld(segment.lastCommitTime) == true
            guard isDue || age?.isAhead(segment.lastCommitTime) == true else { break }
            byteCount &+= segment.byteCount
            if isDue { end = index + 1 }
        }
        return segments[..<end]
    }

    /// What was due is being merged; it comes back by one of the calls below.
    mutating func begin() { isOrdered = true }

    /// Some segments have expired, and there may be more.
    /// - Returns: how long that was refused before, nanoseconds; `nil` if it was not.
    mutating func succeed() -> UInt64? {
        lookAgain()
        return backoff.succeed(at: clock.monotonicNanoseconds())
    }

    /// Nothing has expired, for want of room or of a file that could be read.
    /// - Returns: whether it is the first time since something has.
    mutating func fail() -> Bool {
        lookAgain()
        return backoff.fail(at: clock.monotonicNanoseconds())
    }

    /// As if nothing had been tried.
    mutating func lookAgain() {
        isOrdered = false
        (nextLookNanoseconds, measured) = (0, nil)
    }

    /// Nothing of what is due can be read: perhaps it can be in a minute.
    mutating func rest() {
        lookAgain()
        restsUntilNanoseconds = clock.monotonicNanoseconds() &+ Self.lookNanoseconds
    }
}

/// For how long, and up to how many bytes, rows are kept. Their counters are kept for ever.
package struct RetentionPolicy: Sendable, Hashable {
    /// Days; 0 = rows of any age.
    package var dayCountMax = 0
    /// Bytes of segments; 0 = any number.
    package var byteCountMax: UInt64 = 0
    /// Whether the clock is believed however far it is past the log.
    package var acceptsClock = false

    package init(dayCountMax: Int = 0, byteCountMax: UInt64 = 0, acceptsClock: Bool = false) {
        self.dayCountMax = dayCountMax
        self.byteCountMax = byteCountMax
        self.acceptsClock = acceptsClock
    }

    /// By how many bytes the segments of a generation are too many.
    ///
    /// **Cost** A pass over the sealed segments, where there is a bound.
    func excessByteCount(of manifest: Manifest) -> UInt64 {
        if byteCountMax == 0 { return 0 }
        var sum: UInt64 = 0
        for segment in manifest.sealed {
            let (whole, overflow) = sum.addingReportingOverflow(segment.byteCount)
            sum = overflow ? .max : whole
        }
        return sum > byteCountMax ? sum - byteCountMax : 0
    }
}

/// Which commits are too old on one day.
struct RetentionAge: Sendable {
    private let today: Int32
    private let dayCountMax: Int
    private var calendar: BusinessCalendar

    /// - Parameters:
    ///   - now: microseconds since 1970.
    ///   - calendar: of the zone in force: a day is old in whole days.
    /// - Returns: `nil` where no age is.
    init?(_ policy: RetentionPolicy, now: Int64, calendar: BusinessCalendar) {
        if policy.dayCountMax == 0 { return nil }
        dayCountMax = policy.dayCountMax
        self.calendar = calendar
        today = self.calendar.day(of: Self.clamped(now))
    }

    /// Whether the day of an instant lies further back than the days that are kept.
    mutating func isOld(_ timestamp: Int64) -> Bool {
        Int(today) - Int(calendar.day(of: Self.clamped(timestamp))) > dayCountMax
    }

    /// Whether an instant lies more than a day ahead.
    mutating func isAhead(_ timestamp: Int64) -> Bool {
        Int(calendar.day(of: Self.clamped(timestamp))) > Int(today) + 1
    }

    /// Files and clocks may say anything.
    private static func clamped(_ timestamp: Int64) -> Int64 {
        min(max(timestamp, 0), Limits.timestampMicrosecondsMax)
    }
}

/// The wall clock as far as rows may be removed by it: what is removed because a clock went wrong for a moment
/// does not come back. A step forward is believed once it has lasted for a day; a step back at once. A start more than a
/// day past the log's last commit has stepped from that, and so has one behind it, until the log has been going on for a
/// day.
struct RetentionClock<Clock: IngestClock>: Sendable {
    private let clock: Clock
    private var wall: Int64
    private var monotonic: UInt64

    private static var stepMicrosecondsMax: Int64 { 3_600_000_000 }
    private static var dayMicroseconds: Int64 { 86_400_000_000 }
    private static var doubtNanoseconds: UInt64 { UInt64(dayMicroseconds) * 1_000 }

    /// By how much the clock is not believed at the start, days.
    private(set) var doubtedDayCount: Int64 = 0

    /// - Parameter sealed: what the log has; empty where the clock is to be believed as it is.
    init(_ clock: Clock, after sealed: [SealedSegment] = []) {
        self.clock = clock
        let now = clock.wallMicroseconds()
        wall = now
        var later = now
        for commit in sealed.reversed().map(\.lastCommitTime) where commit <= later {
            let gap = later.subtractingReportingOverflow(commit)
            if gap.overflow || gap.partialValue > Self.dayMicroseconds {
                wall = commit &+ (now &- later)
                doubtedDayCount = (now &- wall) / Self.dayMicroseconds
                break
            }
            if now &- commit > Self.dayMicroseconds { break }
            later = commit
        }
        monotonic = clock.monotonicNanoseconds()
    }

    /// Microseconds since 1970.
    mutating func wallMicroseconds() -> Int64 {
        let found = clock.wallMicroseconds()
        let now = clock.monotonicNanoseconds()
        let elapsed = now &- monotonic
        let expected = wall &+ Int64(elapsed / 1_000)
        let isStep = found > expected &+ Self.stepMicrosecondsMax
        if isStep && elapsed < Self.doubtNanoseconds { return expected }
        wall = found
        monotonic = now
        return found
    }
}

/// The files that the newest generation no longer names, until they may go: runs and expired segments. Owned by the
/// compact queue.
///
/// A file stays a minute: a reader may be about to open it, and opens the newest manifest instead where it
/// comes too late. A segment that a reader has a lease on stays for up to an hour.
package struct RetiredFiles {
    package struct Batch {
        package let names: [FileName]
        /// When a generation dropped them, on the monotonic clock; in a start, as far as the manifest says.
        fileprivate let droppedAt: UInt64
        fileprivate var dueAt: UInt64

        package func age(at now: UInt64) -> UInt64 { now &- droppedAt }
    }

    private var batches: [Batch] = []

    package static let keptNanoseconds: UInt64 = 60_000_000_000
    package static let leasedNanoseconds: UInt64 = 3_600_000_000_000

    package init() {}

    /// Takes on what a generation has dropped.
    /// - Parameter age: for how long it has been dropped.
    package mutating func add(_ names: [FileName], at now: UInt64, age: UInt64 = 0) {
        if names.isEmpty { return }
        let droppedAt = now &- age
        batches.append(
            Batch(names: names, droppedAt: droppedAt, dueAt: droppedAt &+ Self.keptNanoseconds))
    }

    /// Takes back what could not go: it is looked at again in a minute.
    package mutating func putBack(_ names: [FileName], of batch: Batch, at now: UInt64) {
        if names.isEmpty { return }
        batches.append(
            Batch(
                names: names, droppedAt: batch.droppedAt, dueAt: now &+ Self.keptNanoseconds))
    }

    /// The next files whose time is over; they are forgotten here.
    package mutating func takeDue(at now: UInt64) -> Batch? {
        // The clock may begin at 0, and what was dropped before has a time before that.
        batches.firstIndex { Int64(bitPattern: now &- $0.dueAt) >= 0 }.map {
            batches.remove(at: $0)
        }
    }

    /// Whether a segment up to `last` has still to go.
    package func holdsSegment(upTo last: SegmentNumber) -> Bool {
        batches.contains { batch in
            batch.names.contains {
                if case .segment(let number) = $0 { number <= last } else { false }
            }
        }
    }
}
