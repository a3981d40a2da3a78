// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestRules

/// A session that is going on.
///
/// **Layout** 48 bytes; plain old data.
struct OpenSession: ChainEntry {
    /// The pseudonym.
    let identity: UInt64
    /// When its last event was admitted, µs since 1970.
    var seenAt: Int64
    /// When it is looked at whether it has ended.
    var lookAt: Int64
    var rates = SessionRates()
    var link: UInt32 = 0
    /// Of the sessions in the order of `lookAt`.
    var next: UInt32 = 0
    /// The first of its rewards; 0 = none.
    var rewards: UInt32 = 0
    /// `SessionTable.missCount` when it began: rows were missed since where that is another one now.
    var knownSince: UInt32
}

/// A reward of which something was counted in a session.
///
/// **Layout** 24 bytes; plain old data.
struct OpenReward: ChainEntry {
    /// The number of the session in the upper half, the key in the lower.
    let identity: UInt64
    var counted = RewardInSession()
    var link: UInt32 = 0
    /// The next reward of the session; 0 = none.
    var next: UInt32 = 0

    @inline(__always)
    static func identity(_ session: UInt32, _ key: UInt32) -> UInt64 {
        UInt64(session) << 32 | UInt64(key)
    }
}

/// The sessions that are going on, and what was counted in each. Owned by the commit queue.
///
/// A session ends when it was not seen for the time-out: its next event begins a new one. Ended sessions are taken out
/// when their turn comes, within two time-outs; until then they take room. At `keyCountMax` sessions and rewards no more are
/// taken in.
///
/// **Cost** 52 bytes a session, 28 a reward in it; 4 misses an event, hidden by a prefetch ahead but for the reward's entry.
@safe struct SessionTable: ~Copyable {
    private var sessions = ChainTable<OpenSession>()
    private var rewards = ChainTable<OpenReward>()
    private let timeoutMicroseconds: Int64
    private let keyCountMax: Int
    /// Sessions in the order in which they are looked at; 0 = none.
    private var first: UInt32 = 0
    private var last: UInt32 = 0
    /// How often rows were missed that may be of sessions that were going on; 0 is before any session.
    private var missCount: UInt32 = 1

    /// Ended sessions that are looked for with one that begins, and with a block.
    private static var lookCount: Int { 2 }
    private static var lookCountOfBlock: Int { 1_024 }

    init(_ policy: SessionPolicy) {
        timeoutMicroseconds = Int64(policy.timeoutSeconds) * 1_000_000
        keyCountMax = policy.keyCountMax
    }

    /// Sessions and rewards in them.
    var count: Int { sessions.count + rewards.count }

    @inline(__always)
    func prefetchHead(_ pseudonym: UInt64) { sessions.prefetchHead(pseudonym) }
    @inline(__always)
    func prefetchEntry(_ pseudonym: UInt64) { sessions.prefetchEntry(pseudonym) }

    /// A session that `find` or `begin` gave. Valid until the next `begin`.
    ///
    /// SAFETY, of all uses: numbers are those of entries, and no entry is inserted while one is looked at.
    @inline(__always)
    func session(_ number: UInt32) -> UnsafeMutablePointer<OpenSession> {
        unsafe sessions.entry(number)
    }

    /// The session of a pseudonym; 0 if there is none, or if it has ended.
    @inline(__always)
    mutating func find(_ pseudonym: UInt64, now: Int64) -> UInt32 {
        let number = sessions.find(pseudonym)
        guard number != 0 else { return 0 }
        let hasEnded = unsafe now &- session(number).pointee.seenAt > timeoutMicroseconds
        if hasEnded { restart(number) }
        return hasEnded ? 0 : number
    }

    /// Begins a session, or lets one that has ended begin again; 0 if there is no room.
    mutating func begin(_ pseudonym: UInt64, now: Int64, isPartial: Bool) -> UInt32 {
        let known = sessions.find(pseudonym)
        let knownSince = isPartial ? 0 : missCount
        if known != 0 {
            unsafe session(known).pointee.seenAt = now
            unsafe session(known).pointee.knownSince = knownSince
            return known
        }
        takeOutEnded(now: now, Self.lookCount)
        guard count < keyCountMax else { return 0 }
        let number = sessions.insert(
            OpenSession(
                identity: pseudonym, seenAt: now, lookAt: now &+ timeoutMicroseconds,
                knownSince: knownSince))
        append(number)
        return number
    }

    /// What was counted of a reward; `nil` if nothing was.
    @inline(__always)
    func reward(_ session: UInt32, _ key: UInt32) -> RewardInSession? {
        let number = rewards.find(OpenReward.identity(session, key))
        return number == 0 ? nil : unsafe rewards.entry(number).pointee.counted
    }

    /// Notes an event that was counted.
    /// - Returns: whether there was room.
    mutating func note(_ session: UInt32, _ key: UInt32, type: UInt8, at timestamp: Int64) -> Bool {
        let identity = OpenReward.identity(session, key)
        var number = rewards.find(identity)
        if number == 0 {
            guard count < keyCountMax else { return false }
            let next = unsafe self.session(session).pointee.rewards
            number = rewards.insert(OpenReward(identity: identity, next: next))
            unsafe self.session(session).pointee.rewards = number
        }
        unsafe rewards.entry(number).pointee.counted.note(type, at: timestamp)
        return true
    }

    /// Whether all events of a session are known: there were no rows of it that a start could not read, nor any for which
    /// there was no room.
    @inline(__always)
    func isKnown(_ number: UInt32) -> Bool {
        unsafe session(number).pointee.knownSince == missCount
    }

    /// Makes a session one of which not all is known.
    mutating func missRows(of number: UInt32) { unsafe session(number).pointee.knownSince = 0 }

    /// The same of all that are going on.
    mutating func missRows() { missCount &+= 1 }

    /// To be called for each block.
    mutating func open(now: Int64) { takeOutEnded(now: now, Self.lookCountOfBlock) }

    // MARK: Their end

    /// Looks at the sessions whose turn has come, at most so many.
    private mutating func takeOutEnded(now: Int64, _ countMax: Int) {
        var left = countMax
        while first != 0, left > 0, unsafe session(first).pointee.lookAt < now {
            left -= 1
            let number = first
            first = unsafe session(number).pointee.next
            if first == 0 { last = 0 }
            if unsafe now &- session(number).pointee.seenAt > timeoutMicroseconds {
                restart(number)
                sessions.remove(number)
            } else {
                unsafe session(number).pointee.lookAt = now &+ timeoutMicroseconds
                append(number)
            }
        }
    }

    private mutating func append(_ number: UInt32) {
        unsafe session(number).pointee.next = 0
        if last == 0 { first = number } else { unsafe session(last).pointee.next = number }
        last = number
    }

    /// Forgets what was counted in a session.
    private mutating func restart(_ number: UInt32) {
        var reward = unsafe session(number).pointee.rewards
        while reward != 0 {
            let next = unsafe rewards.entry(reward).pointee.next
            rewards.remove(reward)
            reward = next
        }
        unsafe session(number).pointee.rewards = 0
        unsafe session(number).pointee.rates = SessionRates()
    }
}
