// packet → decode → ring → [admit → block] → segment → compaction → snapshot → query

/// When the open block is due to be closed, and how long the commit stage may sleep until then. Times are monotonic, in
/// nanoseconds.
struct BlockPace {
    /// A block with rows or acks is no older than this when it is closed, unless the disk holds it up.
    let intervalNanoseconds: UInt64
    /// When the open block got its first row, or was opened.
    var openedAt: UInt64 = 0
    var closedAt: UInt64 = 0
    /// When the oldest entry of the ledger came.
    var ledgerAt: UInt64 = 0

    /// How long a block without rows may wait. Refusals are in the log within a second, of which the receive
    /// stage takes up to 200 ms before it hands them down.
    private static let ledgerIntervalNanoseconds: UInt64 = 700_000_000
    /// How long the stage may sleep through what comes.
    private static let gatherNanosecondsMax: UInt64 = 1_000_000
    private static let sleepNanosecondsMax: UInt64 = 100_000_000

    init(intervalNanoseconds: UInt64) { self.intervalNanoseconds = intervalNanoseconds }

    func isLedgerDue(_ now: UInt64) -> Bool { now &- ledgerAt >= Self.ledgerIntervalNanoseconds }

    /// Whether a block is due that holds something that its senders wait for.
    ///
    /// - Parameter waiting: blocks that are not synced yet.
    func isDue(_ now: UInt64, ringIsEmpty: Bool, waiting: Int) -> Bool {
        let wasIdle = now &- closedAt >= intervalNanoseconds
        if ringIsEmpty && waiting == 0 && wasIdle { return true }
        return waiting < 2 && now &- openedAt >= intervalNanoseconds
    }

    /// How long the stage may sleep while there are ledger entries alone.
    func ledgerWait(_ now: UInt64, waiting: Int) -> UInt64 {
        let age = now &- ledgerAt
        let interval = Self.ledgerIntervalNanoseconds
        if age < interval { return min(interval - age, Self.sleepNanosecondsMax) }
        // Due, but blocks may still be being written: the sync stage wakes this one.
        return waiting < 2 ? 1 : Self.sleepNanosecondsMax
    }

    /// How long the stage may sleep while there is nothing at all.
    var idleWait: UInt64 { Self.sleepNanosecondsMax }

    /// How long rows may gather before the block is looked at again.
    func gatherWait(_ now: UInt64, waiting: Int) -> UInt64 {
        let age = now &- (waiting == 0 ? closedAt : openedAt)
        // Due, but two blocks are still being written: look again soon.
        if age >= intervalNanoseconds { return 200_000 }
        return min(intervalNanoseconds - age, Self.gatherNanosecondsMax)
    }
}
