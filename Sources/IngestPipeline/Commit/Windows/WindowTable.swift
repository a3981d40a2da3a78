// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// The open windows, and what they take together. Owned by the commit queue; it knows no rules.
///
/// A window's place is its index in `entries`; it holds until a window is removed.
///
/// **Cost** A compare for a packet of the sender of the one before, else a dictionary look-up.
struct WindowTable {
    var entries: [AdmittedWindow] = []
    /// Bytes of memory, about; and places for checks of packets, which have a bound of their own.
    private var memory = KeyShares(countMax: Limits.windowByteCountMax)
    private var checkPlaces = KeyShares(countMax: Limits.checkPlaceCountMax)
    private var indexes: [SenderKey: Int] = [:]
    /// Of the window that was found last.
    private var lastIndex = 0
    /// A sender, and the key under whose tag its window was opened.
    private struct SenderOfKey: Hashable {
        let sender: SenderID
        let keyID: UInt16
    }

    /// The newest open epoch of each.
    private var newestEpochs: [SenderOfKey: UInt64] = [:]

    var byteCount: Int { memory.count }

    /// Whether there is no room for one more window, whoever's.
    var isFull: Bool {
        entries.count >= Limits.windowCountMax
            || memory.room(of: 0) < AdmittedWindow.byteCountAtFirst
    }

    /// Whether the windows of a key have all the memory that they may.
    func isFull(of keyID: UInt16) -> Bool {
        keyID != 0 && memory.room(of: keyID) < AdmittedWindow.byteCountAtFirst
    }

    func index(of key: SenderKey) -> Int? { indexes[key] }

    /// As `index`, for packets, many of which come from one sender.
    mutating func find(_ key: SenderKey) -> Int? {
        if lastIndex < entries.count, entries[lastIndex].key == key { return lastIndex }
        guard let index = indexes[key] else { return nil }
        lastIndex = index
        return index
    }

    func newestEpoch(of sender: SenderID, _ keyID: UInt16) -> UInt64? {
        newestEpochs[SenderOfKey(sender: sender, keyID: keyID)]
    }

    /// - Returns: its index.
    mutating func add(_ entry: AdmittedWindow) -> Int {
        let sender = SenderOfKey(sender: entry.key.sender, keyID: entry.window.keyID)
        newestEpochs[sender] = max(newestEpochs[sender] ?? 0, entry.key.epoch.rawValue)
        lastIndex = entries.count
        indexes[entry.key] = lastIndex
        memory.add(entry.byteCount, of: entry.window.keyID)
        checkPlaces.add(entry.window.checkPlaceCount, of: entry.window.keyID)
        entries.append(entry)
        return lastIndex
    }

    /// Removes a window; the last one takes its place.
    mutating func remove(at index: Int) {
        let key = entries[index].key
        let keyID = entries[index].window.keyID
        memory.add(-entries[index].byteCount, of: keyID)
        checkPlaces.add(-entries[index].window.checkPlaceCount, of: keyID)
        indexes[key] = nil
        let sender = SenderOfKey(sender: key.sender, keyID: keyID)
        if newestEpochs[sender] == key.epoch.rawValue { newestEpochs[sender] = nil }
        let last = entries.removeLast()
        guard index < entries.count else { return }
        entries[index] = last
        indexes[last.key] = index
    }

    /// Notes that a window's open sequence was consumed, in a commit.
    /// - Returns: whether an ack is due now that was not.
    @inline(__always)
    mutating func accept(
        _ packet: SequencedPacket, at index: Int, commit epoch: UInt64
    ) -> Bool {
        let (hasCheck, beginsAck) = changeSize(of: index) { $0.accept(packet, commit: epoch) }
        if !hasCheck { keepCheck(of: packet, at: index) }
        return beginsAck
    }

    /// Takes places for checks, if there are any left.
    @inline(never)
    private mutating func keepCheck(of packet: SequencedPacket, at index: Int) {
        let (keyID, before) = (
            entries[index].window.keyID, entries[index].window.checkPlaceCount
        )
        entries[index].window.keep(
            check: packet.check, of: packet.sequence, room: checkPlaces.room(of: keyID))
        checkPlaces.add(entries[index].window.checkPlaceCount - before, of: keyID)
    }

    /// Changes a window, and with it what all of them take.
    @inline(__always)
    mutating func changeSize<Result>(
        of index: Int, _ change: (inout AdmittedWindow) -> Result
    ) -> Result {
        let (result, growth) = entries[index].measuring(change)
        if growth != 0 { memory.add(growth, of: entries[index].window.keyID) }
        return result
    }

    /// Whether there is memory for what a window takes with this sequence.
    func hasMemory(
        toInsert sequence: UInt64, _ standing: AdmittedWindow.Standing, at index: Int
    ) -> Bool {
        if sequence - standing.floor < standing.bitCount { return true }
        return memory.room(of: entries[index].window.keyID) >= Limits.windowSequenceCountMax / 8
    }
}

/// Which windows may be closed.
struct IdleWindows {
    /// After a week of silence any.
    static let microsecondsMax: Int64 = 7 * 86_400_000_000
    /// Of it a window that the log tells of has at least so much left after a start: heartbeats without news are not in the
    /// log, and the clock may be wrong at first.
    private static let graceMicroseconds: Int64 = 86_400_000_000
    /// Where there is no room for another one, those that were silent for this long, since the start or the end of a shortage
    /// at the earliest: a sender that is there sends a heartbeat a second.
    private static let idleNanoseconds: Int64 = 600_000_000_000
    private static let lookIntervalNanoseconds: UInt64 = 1_000_000_000
    private static let expiryIntervalNanoseconds: UInt64 = 60_000_000_000

    /// The first to go last; of all, and of each key.
    private var candidates: [SenderKey] = []
    private var ofKeys: [UInt16: [SenderKey]] = [:]
    private var lookedAtNanoseconds: UInt64?
    private var expiredAtNanoseconds: UInt64?
    private var startNanoseconds: Int64

    init(start: StageTime) { startNanoseconds = start.signedNanoseconds }

    /// From now on silence counts anew: nobody was listened to before.
    mutating func restart(at now: StageTime) { startNanoseconds = now.signedNanoseconds }

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
                (entry.window.openCount > 0, entry.seenNanoseconds, entry.window.keyID, entry.key))
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

extension AdmittedWindows {
    /// Closes windows that were silent for a week. To be called now and then.
    mutating func expire(_ now: StageTime, _ ledger: inout BlockLedger) {
        guard idle.isDue(now) else { return }
        let silent = now.signedNanoseconds - IdleWindows.microsecondsMax * 1_000
        let keys = table.entries.filter { $0.seenNanoseconds < silent && !$0.isAckDue }.map(\.key)
        // In the order in which the log will tell of them.
        for key in keys.sorted() where ledger.hasRoomForExpiry {
            if mayClose(key, now) { close(key, &ledger) }
        }
    }

    /// Makes room for one more window of a key; closes idle ones, if there must be, of all or of the key's.
    mutating func makeRoom(
        for keyID: UInt16, _ now: StageTime, _ ledger: inout BlockLedger
    ) -> Bool {
        while table.isFull || hasAllWindows(keyID), ledger.hasRoom,
            let key = idle.next(of: hasAllWindows(keyID) ? keyID : nil, among: table.entries, now)
        {
            guard let index = table.index(of: key), idle.isIdle(table.entries[index], now) else {
                continue
            }
            if mayClose(key, now) { close(key, &ledger) }
        }
        return !table.isFull && !hasAllWindows(keyID)
    }

    /// Whether a key has all the windows, or their memory, that it may.
    func hasAllWindows(_ keyID: UInt16) -> Bool {
        !quotas.mayOpen(keyID) || table.isFull(of: keyID)
    }

    /// Whether a window may be closed for good: then its epoch has to be known as closed for a week.
    func mayClose(_ key: SenderKey, _ now: StageTime) -> Bool {
        guard let index = table.index(of: key) else { return false }
        return expired.hasRoom(
            for: key, of: table.entries[index].window.keyID, at: now.wallMilliseconds)
    }

    /// Closes a window for good: what was announced and has not come is missing.
    mutating func close(_ key: SenderKey, _ ledger: inout BlockLedger) {
        guard let index = table.index(of: key) else { return }
        let (announced, keyID) = (
            table.entries[index].window.announced, table.entries[index].window.keyID
        )
        quotas.close(keyID)
        var delta = WindowDelta()
        delta.missingCount = table.changeSize(of: index) { $0.window.raise(to: announced) }
        if delta.missingCount > 0 { delta.floor = announced }
        delta.isExpired = true
        ledger.add(delta, to: key)
        expired.add(key, of: keyID)
        credit.giveBack(&table.entries[index])
        let isAckDue = table.entries[index].isAckDue || table.entries.last?.isAckDue == true
        table.remove(at: index)
        if isAckDue { acks.remove(index, andMove: table.entries.count) }
    }
}
