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
    private let calendar: BusinessCalendar
    private let clock: Clock
    private var wallClock: RetentionClock<Clock>
    /// When ages are looked at next.
    private var nextLookNanoseconds: UInt64
    /// The generation whose bytes were added up last.
    private var measured: Generation?
    private var backoff = Backoff(milliseconds: 500, most: 60_000)
    /// Nothing is looked at before.
    private var restsUntilNanoseconds: UInt64 = 0
    /// Whether segments that are due are being merged.
    private(set) var isOrdered = false

    /// Ages change by the day, and a file that cannot be read now may be there again in a minute.
    private static var lookNanoseconds: UInt64 { 60_000_000_000 }

    init(_ configuration: PipelineConfiguration, clock: Clock) {
        policy = configuration.retention
        calendar = configuration.calendar
        self.clock = clock
        wallClock = RetentionClock(clock)
        nextLookNanoseconds = clock.monotonicNanoseconds() &+ Self.lookNanoseconds
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
        var age: RetentionAge?
        if policy.dayCountMax > 0, now >= nextLookNanoseconds {
            age = RetentionAge(policy, now: wallClock.wallMicroseconds(), calendar: calendar)
            nextLookNanoseconds = now &+ Self.lookNanoseconds
        }
        guard excess > 0 || age != nil else { return [] }
        var byteCount: UInt64 = 0
        // Events say of themselves when they were, and history may be loaded: what counts is how long the rows have
        // been here.
        return manifest.sealed.dropLast().prefix { segment in
            let isDue = byteCount < excess || age?.isOld(segment.lastCommitTime) == true
            byteCount &+= segment.byteCount
            return isDue
        }
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

    package init(dayCountMax: Int = 0, byteCountMax: UInt64 = 0) {
        self.dayCountMax = dayCountMax
        self.byteCountMax = byteCountMax
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

    /// Files and clocks may say anything.
    private static func clamped(_ timestamp: Int64) -> Int64 {
        min(max(timestamp, 0), Limits.timestampMicrosecondsMax)
    }
}

/// The wall clock as far as rows may be removed by it: what is removed because a clock went wrong for a moment
/// does not come back. A step forward is believed once it has lasted for a day; a step back at once.
struct RetentionClock<Clock: IngestClock>: Sendable {
    private let clock: Clock
    private var wall: Int64
    private var monotonic: UInt64

    private static var stepMicrosecondsMax: Int64 { 3_600_000_000 }
    private static var doubtNanoseconds: UInt64 { 86_400_000_000_000 }

    init(_ clock: Clock) {
        self.clock = clock
        wall = clock.wallMicroseconds()
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
/// comes too late.
package struct RetiredFiles {
    private struct Batch {
        let names: [FileName]
        let atNanoseconds: UInt64
    }

    private var batches: [Batch] = []

    package static let keptNanoseconds: UInt64 = 60_000_000_000

    package init() {}

    /// Takes on what a generation has dropped.
    package mutating func add(_ names: [FileName], at now: UInt64) {
        if !names.isEmpty { batches.append(Batch(names: names, atNanoseconds: now)) }
    }

    /// The next files that no reader needs any more; they are forgotten here.
    package mutating func takeDue(at now: UInt64) -> [FileName]? {
        guard let first = batches.first, now &- first.atNanoseconds >= Self.keptNanoseconds else {
            return nil
        }
        return batches.removeFirst().names
    }
}
