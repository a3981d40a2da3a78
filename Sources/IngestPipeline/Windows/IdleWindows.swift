// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// Which windows may be closed.
struct IdleWindows {
    /// After a week of silence any.
    static let microsecondsMax: Int64 = 7 * 86_400_000_000
    /// Of it a window that the log tells of has at least so much left after a start: heartbeats without news are not in the
    /// log, and the clock may be wrong at first.
    private static let graceMicroseconds: Int64 = 86_400_000_000
    /// Where there is no room for another one, those that were silent for this long, since the start at the earliest: a
    /// sender that is there sends a heartbeat a second.
    private static let idleNanoseconds: Int64 = 600_000_000_000
    private static let lookIntervalNanoseconds: UInt64 = 1_000_000_000
    private static let expiryIntervalNanoseconds: UInt64 = 60_000_000_000

    /// Longest idle last.
    private var candidates: [SenderKey] = []
    private var lookedAtNanoseconds: UInt64?
    private var expiredAtNanoseconds: UInt64?
    private let startNanoseconds: Int64

    init(start: StageTime) { startNanoseconds = start.signedNanoseconds }

    /// How long a window that the log tells of counts as silent when the process starts, µs.
    static func silence(since lastSeen: Int64, atStart now: StageTime) -> Int64 {
        let (silent, isOverflow) = now.wallMicroseconds.subtractingReportingOverflow(lastSeen)
        let longest = microsecondsMax - graceMicroseconds
        return isOverflow ? longest : min(max(0, silent), longest)
    }

    /// Whether a minute has passed.
    mutating func isDue(_ now: StageTime) -> Bool {
        let time = now.monotonicNanoseconds
        if let last = expiredAtNanoseconds, time &- last < Self.expiryIntervalNanoseconds {
            return false
        }
        expiredAtNanoseconds = time
        return true
    }

    /// Looks for idle windows, once a second at most: a flood of new senders must not cost a pass each.
    mutating func look(at entries: [AdmittedWindow], _ now: StageTime) {
        let time = now.monotonicNanoseconds
        guard candidates.isEmpty else { return }
        if let last = lookedAtNanoseconds, time &- last < Self.lookIntervalNanoseconds { return }
        lookedAtNanoseconds = time
        candidates = entries.filter { isIdle($0, now) }
            .sorted { $0.seenNanoseconds > $1.seenNanoseconds }.map(\.key)
    }

    mutating func next() -> SenderKey? { candidates.popLast() }

    func isIdle(_ entry: AdmittedWindow, _ now: StageTime) -> Bool {
        !entry.isAnswerDue
            && now.signedNanoseconds
                - max(entry.seenNanoseconds, startNanoseconds) >= Self.idleNanoseconds
    }
}
