// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestRules
import IngestStorage
import Synchronization

/// A session that is going on, or has ended and was not taken out yet.
///
/// **Layout** 48 bytes; plain old data, of all zeros where there is none.
struct OpenSession: TableEntry {
    /// The pseudonym in the upper 48 bits; bit 0 is set.
    let spread: UInt64
    /// When its last event was admitted, µs since 1970.
    var seenAt: Int64
    var rates = SessionRates()
    /// `SessionTable.missCount` when it began: rows were missed since where that is another one now.
    var knownSince: UInt32
    /// Its rewards of which an impression was counted.
    var impressions = KeySet()
    /// Its rewards of which a click was.
    var clicks = KeySet()

    static var belongsToLine: Bool { false }
    var isFree: Bool {
        @inline(__always) get { spread == 0 }
    }

    @inline(__always)
    static func spread(_ pseudonym: UInt64) -> UInt64 { pseudonym &<< 16 | 1 }
}

/// A reward of which an impression was counted in a session: its key plus 1.
typealias SeenReward = BareKey

/// A reward of which a click was counted in a session.
///
/// **Layout** 16 bytes; plain old data.
struct ClickedReward: KeySetElement {
    /// Event time of the last of them, µs since 1970.
    var clickedAt: Int64 = 0
    /// The reward's key plus 1.
    var key: UInt32 = 0
}

/// The sessions that are going on, and what was counted in each. Owned by the commit queue.
///
/// A session ends when it was not seen for the time-out: its next event begins a new one. Ended sessions are taken out by a
/// sweep, which looks at some places for each session that begins and for each block; until then they take room. At
/// `keyCountMax` sessions and rewards in them no more are taken in, where a reward with impression and click is two; nor more
/// than 65,536 of either in one session.
///
/// **Cost** 64 to 192 bytes a session (`GrowingTable`), and 64 for its first 16 rewards with impressions, as for its first 4
/// with clicks (`KeySets`). What an event needs is near to what others of its session need: 2 misses, which loads ahead
/// make overlap.
@safe struct SessionTable: ~Copyable {
    /// An entry of the table.
    ///
    /// SAFETY, of all uses: it is one that `find` or `begin` gave, and no other session has begun since, nor has a block or
    /// packet.
    typealias Session = UnsafeMutablePointer<OpenSession>

    private var sessions = GrowingTable<OpenSession>()
    private var impressions: KeySets<SeenReward>
    private var clicks: KeySets<ClickedReward>
    /// Rewards in sessions.
    private var rewardCount = 0
    private let timeoutMicroseconds: Int64
    private let keyCountMax: Int
    /// The place that the sweep looks at next.
    private var swept = 0
    /// How often rows were missed that may be of sessions that were going on; 0 is before any session.
    private var missCount: UInt32 = 1

    /// Places that are looked at with a session that begins and with a block, and where there is no room.
    private static var sweepCount: (ofSession: Int, ofBlock: Int) { (8, 1_024) }
    private static var sweepCountOfFull: (ofSession: Int, ofBlock: Int) { (16, 4_096) }

    init(_ policy: SessionPolicy) {
        timeoutMicroseconds = Int64(policy.timeoutSeconds) * 1_000_000
        keyCountMax = policy.keyCountMax
        // More than all keys take, however they are spread over sessions: sets are full where the table is.
        impressions = KeySets(leafCountMax: policy.keyCountMax + 32)
        clicks = KeySets(leafCountMax: policy.keyCountMax + 32)
    }

    // MARK: Ahead of an event

    /// Has the lines of a session loaded.
    @inline(__always)
    func addLines(of pseudonym: UInt64, to batch: inout LineBatch) {
        let spread = OpenSession.spread(pseudonym)
        // SAFETY: `SessionRule.load` loads them before a session begins.
        unsafe batch.add(sessions.line(of: spread))
        unsafe batch.add(sessions.line(of: spread, isEnd: true))
    }

    /// The line of the impressions that were counted in a session, to be loaded ahead; `nil` where none was.
    @inline(__always)
    func impressionLine(of pseudonym: UInt64) -> CacheLine? {
        unsafe entry(pseudonym).flatMap {
            unsafe impressions.firstLine(of: $0.pointee.impressions)
        }
    }

    // MARK: Sessions

    @inline(__always)
    private func entry(_ pseudonym: UInt64) -> Session? {
        let spread = OpenSession.spread(pseudonym)
        return unsafe sessions.find(spread) { unsafe $0.pointee.spread == spread }
    }

    @inline(__always)
    private func hasEnded(_ session: Session, now: Int64) -> Bool {
        unsafe now &- session.pointee.seenAt > timeoutMicroseconds
    }

    /// The session of a pseudonym; `nil` if there is none, or if it has ended.
    @inline(__always)
    func find(_ pseudonym: UInt64, now: Int64) -> Session? {
        guard let session = unsafe entry(pseudonym), unsafe !hasEnded(session, now: now)
        else { return nil }
        return unsafe session
    }

    /// Begins a session that `find` did not find; `nil` if there is no room.
    mutating func begin(_ pseudonym: UInt64, now: Int64, isPartial: Bool) -> Session? {
        sweep((isFull ? Self.sweepCountOfFull : Self.sweepCount).ofSession, now: now)
        let begun = OpenSession(
            spread: OpenSession.spread(pseudonym), seenAt: now,
            knownSince: isPartial ? 0 : missCount)
        if let ended = unsafe entry(pseudonym) {
            unsafe removeRewards(of: ended)
            unsafe ended.pointee = begun
            return unsafe ended
        }
        return isFull ? nil : unsafe sessions.insert(begun)
    }

    private var isFull: Bool { sessions.count + rewardCount >= keyCountMax }

    /// Whether all events of a session are known: there were no rows of it that a start could not read, nor any for which
    /// there was no room.
    @inline(__always)
    func isKnown(_ session: Session) -> Bool { unsafe session.pointee.knownSince == missCount }

    /// Makes all sessions that are going on unknown: not all of their events are known.
    mutating func missRows() { missCount &+= 1 }

    /// To be called for each block.
    mutating func open(now: Int64) {
        goOnGrowing()
        sweep((isFull ? Self.sweepCountOfFull : Self.sweepCount).ofBlock, now: now)
    }

    /// To be called between packets, now and then.
    mutating func goOnGrowing() { sessions.goOnGrowing() }

    // MARK: Their rewards

    /// Whether an impression of a reward was counted.
    ///
    /// - Parameter key: below `UInt32.max`, as that of the others.
    @inline(__always)
    func hasImpression(_ session: Session, _ key: UInt32) -> Bool {
        unsafe impressions.find(key &+ 1, in: session.pointee.impressions) != nil
    }

    /// The event time of the last click on a reward that was counted, µs since 1970.
    @inline(__always)
    func lastClick(_ session: Session, _ key: UInt32) -> Int64? {
        unsafe clicks.find(key &+ 1, in: session.pointee.clicks)?.pointee.clickedAt
    }

    /// Notes an impression that was counted, of a reward that had none.
    /// - Returns: whether there was room; else not all of the session is known from then on.
    @inline(__always)
    mutating func noteImpression(_ session: Session, _ key: UInt32) -> Bool {
        let seen = SeenReward(key: key &+ 1)
        let hadRoom =
            unsafe !isFull && impressions.insert(seen, into: &session.pointee.impressions)
        return unsafe note(hadRoom, session)
    }

    /// The same of a click.
    mutating func noteClick(_ session: Session, _ key: UInt32, at timestamp: Int64) -> Bool {
        if let known = unsafe clicks.find(key &+ 1, in: session.pointee.clicks) {
            unsafe known.pointee.clickedAt = timestamp
            return true
        }
        let click = ClickedReward(clickedAt: timestamp, key: key &+ 1)
        let hadRoom = unsafe !isFull && clicks.insert(click, into: &session.pointee.clicks)
        return unsafe note(hadRoom, session)
    }

    @inline(__always)
    private mutating func note(_ hadRoom: Bool, _ session: Session) -> Bool {
        if hadRoom { rewardCount += 1 } else { unsafe session.pointee.knownSince = 0 }
        return hadRoom
    }

    // MARK: Their end

    /// Takes out the ended sessions at the next places.
    private mutating func sweep(_ count: Int, now: Int64) {
        if sessions.isGrowing || sessions.count == 0 { return }
        var left = min(count, sessions.capacity)
        while left > 0 {
            left -= 1
            if swept >= sessions.capacity { swept = 0 }
            let session = unsafe sessions.entry(at: swept)
            if unsafe !session.pointee.isFree && hasEnded(session, now: now) {
                // Giving back the nodes of a large set takes its time too.
                left -= unsafe rewardCount(of: session)
                unsafe removeRewards(of: session)
                // Another one may lie there then.
                sessions.remove(at: swept)
            } else {
                swept += 1
            }
        }
    }

    private func rewardCount(of session: Session) -> Int {
        unsafe Int(session.pointee.impressions.count) + Int(session.pointee.clicks.count)
    }

    private mutating func removeRewards(of session: Session) {
        rewardCount -= unsafe rewardCount(of: session)
        unsafe impressions.removeAll(of: &session.pointee.impressions)
        unsafe clicks.removeAll(of: &session.pointee.clicks)
    }
}

/// The durable keys of the pseudonyms of sessions: renewed by the compact stage, used by the commit stage, which looks
/// once a block whether they are still the same.
package final class SessionKeyRing: Sendable {
    /// The keys at one time.
    struct Keys: Sendable {
        fileprivate var version = -1
        /// `nil` if there is none.
        fileprivate(set) var newest: SessionKey?
        /// The newest first.
        fileprivate(set) var older: [SessionKey] = []
    }

    private let keys = Mutex(Keys())
    private let version = Atomic<Int>(-1)

    package init() {}

    var current: Keys { keys.withLock { $0 } }

    package func replace(by keys: SessionKeys?) {
        let all = (keys?.keys ?? []).filter { $0.madeAt != 0 }
        self.keys.withLock {
            $0 = Keys(version: $0.version + 1, newest: all.first, older: Array(all.dropFirst()))
            // Relaxed, partner: `refresh`; the lock orders the keys.
            version.store($0.version, ordering: .relaxed)
        }
    }

    /// Brings a copy up to date.
    /// - Returns: whether it was not.
    /// **Cost** One load while nothing was replaced.
    func refresh(_ copy: inout Keys) -> Bool {
        guard version.load(ordering: .relaxed) != copy.version else { return false }
        copy = current
        return true
    }
}

/// The file of the keys of the pseudonyms of sessions. Owned by the compact stage.
///
/// What the disk does not take leaves the keys as they are; without a key sessions are not looked at, and their events are
/// shown as unchecked.
package struct SessionKeyFile<Files: FileSystem>: Sendable {
    private let store: SessionKeyStore<Files>
    /// In use; the file may still have others, where it could not be written.
    private var keys: SessionKeys
    private var durable: SessionKeys?
    package let ring = SessionKeyRing()
    private var nextLookNanoseconds: UInt64 = 0
    private static var lookIntervalNanoseconds: UInt64 { 60_000_000_000 }

    /// Reads the keys, and makes those that are due; destroys all where sessions are not looked at.
    ///
    /// - Parameter now: µs since 1970.
    /// - Returns: beside the keys what is to be told, if something went wrong: that is no reason not to start.
    static func open(
        _ policy: SessionPolicy = SessionPolicy(), in files: Files, directory: DirectoryID,
        now: Int64
    ) -> (file: SessionKeyFile?, warning: String?) {
        let store = SessionKeyStore(files: files, directory: directory)
        guard policy.isOn else {
            do { try store.remove() } catch {
                return (nil, "the keys of sessions could not be destroyed: \(error)")
            }
            return (nil, nil)
        }
        var warning: String?
        let found: SessionKeys?
        do { found = try store.read() } catch {
            warning = "\(error); new keys are made, sessions that were going on begin anew"
            found = nil
        }
        var file = SessionKeyFile(
            store: store, keys: found ?? SessionKeys(directory: directory), durable: found)
        file.ring.replace(by: file.keys)
        let refusal = file.renew(now: now)
        return (file, refusal ?? warning)
    }

    private init(store: SessionKeyStore<Files>, keys: SessionKeys, durable: SessionKeys?) {
        (self.store, self.keys, self.durable) = (store, keys, durable)
    }

    /// Makes and destroys keys as time goes on; looks once a minute.
    ///
    /// - Parameter stepSeconds: how far the wall clock is ahead of the time that events are admitted by.
    /// - Returns: what went wrong, if something did.
    mutating func goOn(_ clock: some IngestClock, stepSeconds: Int64 = 0) -> String? {
        let monotonic = clock.monotonicNanoseconds()
        guard monotonic >= nextLookNanoseconds else { return nil }
        nextLookNanoseconds = monotonic &+ Self.lookIntervalNanoseconds
        return renew(now: clock.wallMicroseconds() &- stepSeconds &* 1_000_000)
    }

    private mutating func renew(now: Int64) -> String? {
        var next = keys
        var random = SystemRandomNumberGenerator()
        next.renew(at: now, random: &random)
        if next == durable { return nil }
        do throws(StorageError) {
            try store.write(next)
        } catch {
            // Keys whose time is over are not used any more, whatever the disk still has.
            next.keepKnown(of: keys)
            keys = next
            ring.replace(by: keys)
            return
                "the keys of sessions could not be renewed: \(error); it is tried again in a minute"
        }
        (keys, durable) = (next, next)
        ring.replace(by: keys)
        return nil
    }
}
