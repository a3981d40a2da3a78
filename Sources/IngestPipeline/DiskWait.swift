// packet → decode → ring → admit → block → [segment → compaction] → snapshot → query

/// Since when something waits for a disk that takes nothing, when it is tried again, and when the log is told once
/// more. A plain value of the stage that waits.
struct DiskWait {
    private let sinceNanoseconds: UInt64
    private let intervalNanoseconds: UInt64
    private var nextNanoseconds: UInt64
    private var tellNanoseconds: UInt64 = 0

    private static let tellIntervalNanoseconds: UInt64 = 60_000_000_000

    /// - Parameter interval: between two tries; the first may be made at once.
    init(now: UInt64, everyNanoseconds interval: UInt64) {
        sinceNanoseconds = now
        intervalNanoseconds = interval
        nextNanoseconds = now
    }

    func nanosecondsLeft(at now: UInt64) -> UInt64 {
        nextNanoseconds > now ? nextNanoseconds - now : 0
    }

    func milliseconds(at now: UInt64) -> UInt64 { nanoseconds(at: now) / 1_000_000 }
    func nanoseconds(at now: UInt64) -> UInt64 { now &- sinceNanoseconds }

    /// Waits on, after a try for nothing.
    /// - Returns: whether the log should be told once more: at first, and each minute.
    mutating func goOn(at now: UInt64) -> Bool {
        nextNanoseconds = now &+ intervalNanoseconds
        guard now >= tellNanoseconds else { return false }
        tellNanoseconds = now &+ Self.tellIntervalNanoseconds
        return true
    }
}
