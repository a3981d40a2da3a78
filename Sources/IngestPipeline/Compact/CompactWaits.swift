// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query

import IngestStorage

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
    func isResting(_ work: Work) -> Bool { nanosecondsLeft(of: work) > 0 }

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
