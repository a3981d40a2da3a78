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

    /// The first to go last; of all, and of each key.
    private var candidates: [SenderKey] = []
    private var ofKeys: [UInt16: [SenderKey]] = [:]
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

    /// The window that is to go first, and was not given before: idle longest, of those that lack no packet.
    ///
    /// Looks for idle ones once a second at most: a flood of new senders must not cost a pass each.
    /// - Parameter keyID: of the windows of this key only.
    mutating func next(
        of keyID: UInt16?, among entries: [AdmittedWindow], _ now: StageTime
    ) -> SenderKey? {
        if let known = popLast(of: keyID) { return known }
        let time = now.monotonicNanoseconds
        if let last = lookedAtNanoseconds, time &- last < Self.lookIntervalNanoseconds {
            return nil
        }
        lookedAtNanoseconds = time
        var found: [(lacks: Bool, seen: Int64, keyID: UInt16, key: SenderKey)] = []
        for index in entries.indices where isIdle(entries[index], now) {
            let entry = entries[index]
            found.append(
                (entry.window.openCount > 0, entry.seenNanoseconds, entry.keyID, entry.key))
        }
        // Those of which nothing is missing go first: their senders are not away with packets to be sent again.
        found.sort { ($0.lacks ? 1 : 0, $0.seen) > ($1.lacks ? 1 : 0, $1.seen) }
        candidates = found.map(\.key)
        ofKeys = Dictionary(grouping: found, by: \.keyID).mapValues { $0.map(\.key) }
        return popLast(of: keyID)
    }

    private mutating func popLast(of keyID: UInt16?) -> SenderKey? {
        guard let keyID else { return candidates.popLast() }
        return ofKeys[keyID]?.popLast()
    }

    func isIdle(_ entry: AdmittedWindow, _ now: StageTime) -> Bool {
        !entry.isAckDue
            && now.signedNanoseconds
                - max(entry.seenNanoseconds, startNanoseconds) >= Self.idleNanoseconds
    }
}

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

extension AdmittedWindows {
    /// Closes windows that were silent for a week. To be called now and then.
    mutating func expire(_ now: StageTime, _ ledger: inout BlockLedger) {
        guard idle.isDue(now) else { return }
        let silent = now.signedNanoseconds - IdleWindows.microsecondsMax * 1_000
        let keys = table.entries.filter { $0.seenNanoseconds < silent && !$0.isAckDue }.map(\.key)
        // In the order in which the log will tell of them.
        for key in keys.sorted() where ledger.hasRoomForExpiry {
            if expiry.mayAdd(key, to: expired, now) { close(key, &ledger) }
        }
    }

    /// Makes room for one more window of a key; closes idle ones, if there must be, of all or of the key's.
    mutating func makeRoom(
        for keyID: UInt16, _ now: StageTime, _ ledger: inout BlockLedger
    ) -> Bool {
        while table.isFull || !quotas.mayOpen(keyID), ledger.hasRoom,
            let key = idle.next(of: quotas.mayOpen(keyID) ? nil : keyID, among: table.entries, now)
        {
            guard let index = table.index(of: key), idle.isIdle(table.entries[index], now) else {
                continue
            }
            if expiry.mayAdd(key, to: expired, now) { close(key, &ledger) }
        }
        return !table.isFull && quotas.mayOpen(keyID)
    }

    /// Closes a window for good: what was announced and has not come is missing.
    mutating func close(_ key: SenderKey, _ ledger: inout BlockLedger) {
        guard let index = table.index(of: key) else { return }
        quotas.close(table.entries[index].keyID)
        let announced = table.entries[index].window.announced
        var delta = WindowDelta()
        delta.missingCount = table.changeSize(of: index) {
            $0.window.sequences.raise(to: announced)
        }
        if delta.missingCount > 0 { delta.floor = announced }
        delta.isExpired = true
        ledger.add(delta, to: key)
        expiry.add(key, to: &expired)
        credit.giveBack(&table.entries[index])
        let isAckDue = table.entries[index].isAckDue || table.entries.last?.isAckDue == true
        table.remove(at: index)
        if isAckDue { acks.remove(index, andMove: table.entries.count) }
    }
}
