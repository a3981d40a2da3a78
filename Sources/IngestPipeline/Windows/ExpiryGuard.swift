// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// Whether a window may be closed for good without refusing senders that begin now. Owned by the commit queue.
///
/// Its epoch goes into the table of expired epochs, and that, when it is full, folds its oldest eighth into one epoch
/// for all senders it does not know. Epochs may be a day ahead of the clock: the fold has to wait until that eighth has
/// passed. How many have passed is counted now and then; what is known of them between is a lower bound, since time
/// does not go back.
///
/// **Cost** A look-up a window. A pass over the table, some 300 µs, only where it is full and does not know the sender:
/// once after a fold, and once a second as long as the answer is no.
struct ExpiryGuard {
    /// Epochs of the table that had passed at that time, at least.
    private var passedCount = 0
    private var timeMilliseconds: UInt64 = 0
    private var countedNanoseconds: UInt64?
    /// Passes over the table so far.
    private(set) var passCount = 0

    private static let intervalNanoseconds: UInt64 = 1_000_000_000

    /// Whether the sender's window may be closed now.
    mutating func mayAdd(
        _ key: SenderKey, to expired: ExpiredEpochs, _ now: StageTime
    ) -> Bool {
        guard expired.folds(adding: key) else { return true }
        if passedCount < expired.foldedCount, isDue(now) { count(expired, now) }
        return passedCount >= expired.foldedCount
    }

    /// Adds the epoch of a window that is closed.
    mutating func add(_ key: SenderKey, to expired: inout ExpiredEpochs) {
        let countBefore = expired.epochs.count
        let before = expired.epochs[key.sender.rawValue]
        expired.add(key)
        guard expired.epochs.count >= countBefore else {
            // The fold took those that have passed; the next one is a pass of its own.
            passedCount = 0
            countedNanoseconds = nil
            return
        }
        let after = expired.epochs[key.sender.rawValue]
        passedCount += (after.map(hasPassed) == true ? 1 : 0)
        passedCount -= (before.map(hasPassed) == true ? 1 : 0)
    }

    private func hasPassed(_ epoch: UInt64) -> Bool { epoch >> 20 <= timeMilliseconds }

    private func isDue(_ now: StageTime) -> Bool {
        guard let countedNanoseconds else { return true }
        return now.monotonicNanoseconds &- countedNanoseconds >= Self.intervalNanoseconds
    }

    private mutating func count(_ expired: ExpiredEpochs, _ now: StageTime) {
        timeMilliseconds = UInt64(clamping: now.wallMicroseconds / 1_000)
        passedCount = expired.epochs.values.count { hasPassed($0) }
        countedNanoseconds = now.monotonicNanoseconds
        passCount += 1
    }
}
