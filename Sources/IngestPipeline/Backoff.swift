// [packet] → [decode] → [ring] → [admit] → block → segment → compaction → snapshot → [query]

/// Trying again what was refused for a `Shortage`: since when, when next, and when the log has a line about it. A
/// plain value of the stage that waits; times are those of its monotonic clock, ns.
struct Backoff {
    private let least: UInt64
    private let most: UInt64
    private var delay: UInt64
    private var since: UInt64?
    private var next: UInt64 = 0
    private var tell: UInt64 = 0

    private static let tellIntervalNanoseconds: UInt64 = 60_000_000_000

    /// - Parameters:
    ///   - milliseconds: until the first try.
    ///   - most: until any; doubled from try to try up to there. None = always the same.
    init(milliseconds least: UInt64, most: UInt64? = nil) {
        self.least = least * 1_000_000
        self.most = (most ?? least) * 1_000_000
        delay = self.least
    }

    /// Whether the last try failed.
    var isWaiting: Bool { since != nil }

    /// Until the next try; 0 = now.
    func nanosecondsLeft(at now: UInt64) -> UInt64 { isWaiting && next > now ? next - now : 0 }

    /// Waits from now on, and may try at once.
    mutating func begin(at now: UInt64) { (since, next) = (now, now) }

    /// A try was refused.
    /// - Returns: whether the log is to have a line: at first, and each minute.
    mutating func fail(at now: UInt64) -> Bool {
        if since == nil { (since, tell) = (now, now) }
        next = now &+ delay
        delay = min(delay * 2, most)
        guard now >= tell else { return false }
        tell = now &+ Self.tellIntervalNanoseconds
        return true
    }

    /// A try did not fail.
    /// - Returns: for how long there was a wait, ns; `nil` = there was none.
    mutating func succeed(at now: UInt64) -> UInt64? {
        guard let since else { return nil }
        self.since = nil
        delay = least
        return now &- since
    }
}
