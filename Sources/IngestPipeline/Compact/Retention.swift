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
