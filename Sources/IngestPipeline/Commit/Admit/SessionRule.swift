// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestRules

/// The rules on sessions: rates, one impression of a reward a session, and whether a click or redemption follows an
/// impression. Owned by the commit queue; made at start from the rows of the log.
///
/// **Cost** 14 ns an event with a session for its pseudonym, and misses: 700 ns where each event is of another reward
/// (docs/decisions/0045-sessions.md).
@safe package struct SessionRule: ~Copyable {
    /// An event of a session.
    struct Visit {
        /// Of the table; 0 where that had no room.
        let session: UInt32
        let pseudonym: UInt64
        /// What was counted of the event's reward before.
        let reward: RewardInSession?
        /// Whether all that was counted in the session is known.
        let isKnown: Bool

        /// Whether it follows an impression of its reward; `true` where nobody knows.
        var followsImpression: Bool { !isKnown || reward?.hasImpression ?? false }

        /// Whether it is a further impression of its reward.
        /// - Parameter type: of the event, raw value of `EventType`.
        func isRepeat(_ type: UInt8) -> Bool {
            type == EventType.impression.rawValue && reward?.hasImpression ?? false
        }
    }

    private let policy: SessionPolicy
    private let ring: SessionKeyRing?
    private var keys: SessionKeyRing.Keys
    private var table: SessionTable
    /// Of the open block, µs since 1970.
    private var now: Int64 = 0
    /// When a session was seen last whose pseudonym is of an older key.
    private var olderSeenAt = Int64.min
    /// Sessions that begin until then, µs since 1970, may have begun earlier, in events of which nobody knows.
    private var partialUntil = Int64.min
    /// Under the newest key, of the events of the packet.
    private let pseudonyms: UnsafeMutablePointer<UInt64>

    /// - Parameter ring: `nil` where no session is looked at.
    package init(_ policy: SessionPolicy, _ ring: SessionKeyRing?) {
        self.policy = policy
        self.ring = policy.isOn ? ring : nil
        keys = self.ring?.current ?? SessionKeyRing.Keys()
        table = SessionTable(policy)
        unsafe pseudonyms = .allocate(capacity: Limits.packetEventCountMax)
    }

    deinit { unsafe pseudonyms.deallocate() }

    /// Whether there is a key of pseudonyms: without one no session can be kept.
    var isOn: Bool {
        @inline(__always) get { keys.newest != nil }
    }

    /// Whether sessions would be looked at if there were a key.
    var lacksKey: Bool {
        @inline(__always) get { ring != nil && keys.newest == nil }
    }

    /// When the oldest of the keys was made, µs since 1970: sessions that were seen before cannot all be told.
    var keysSince: Int64 { (keys.older.last ?? keys.newest)?.madeAt ?? Int64.max }

    private var timeoutMicroseconds: Int64 { Int64(policy.timeoutSeconds) * 1_000_000 }

    /// Whether sessions take part in the verdict on an event that the rules before give this one: not on those that were
    /// refused before anything was compared.
    @inline(__always)
    static func concerns(_ verdict: Verdict) -> Bool {
        switch verdict {
        case .counted, .notViewable, .undetermined: true
        default: false
        }
    }

    /// To be called for each block, before its first row.
    mutating func open(admissionTime: Int64) {
        now = max(now, admissionTime)
        table.open(now: now)
        let known = keys
        guard let ring, ring.refresh(&keys) else { return }
        // Sessions that go on cannot be told by a key that is gone, or that was not there: they begin anew.
        let isNewestKept =
            known.newest.map { $0 == keys.newest || keys.older.contains($0) } ?? false
        let areOlderKept = known.older.allSatisfy(keys.older.contains)
        if !isNewestKept || !areOlderKept && isOlderSeen { missBeginnings(upTo: now) }
        olderSeenAt = now
    }

    /// Whether a session may be going on whose pseudonym is of an older key.
    private var isOlderSeen: Bool { now &- olderSeenAt <= timeoutMicroseconds }

    /// To be called where rows of sessions may be missing, of which the last has this admission time.
    mutating func missRows(upTo time: Int64) {
        missBeginnings(upTo: time)
        table.missRows()
    }

    /// The same of sessions that the table does not have.
    private mutating func missBeginnings(upTo time: Int64) {
        partialUntil = max(partialUntil, time &+ timeoutMicroseconds)
    }

    // MARK: A packet's sessions, ahead of its events

    /// Takes the pseudonym of an event of the packet, and starts the load of its session.
    ///
    /// SAFETY (caller): `index` is below `Limits.packetEventCountMax`, and the id lies in the packet.
    @inline(__always)
    @unsafe func prepare(_ index: Int, _ session: UnsafeRawPointer, _ byteCount: Int) {
        guard let key = keys.newest else { return }
        let pseudonym = unsafe key.pseudonym(session, byteCount)
        unsafe pseudonyms[index] = pseudonym
        table.prefetchHead(pseudonym)
    }

    /// Once that load is done: starts the next one.
    ///
    /// SAFETY (caller): `prepare` was called for the event.
    @inline(__always)
    @unsafe func prefetch(_ index: Int) { unsafe table.prefetchEntry(pseudonyms[index]) }

    // MARK: An event

    /// Sees an event of a session, which begins with it if it was not going on.
    ///
    /// SAFETY (caller): as `prepare`, which was called for it.
    @inline(__always)
    @unsafe mutating func visit(
        _ index: Int, _ session: UnsafeRawPointer, _ byteCount: Int, key: UInt32
    ) -> Visit {
        let pseudonym = unsafe pseudonyms[index]
        let number = table.find(pseudonym, now: now)
        if number == 0 { return unsafe begin(pseudonym, session, byteCount, key) }
        return seen(number, pseudonym, key)
    }

    @inline(__always)
    private mutating func seen(_ number: UInt32, _ pseudonym: UInt64, _ key: UInt32) -> Visit {
        unsafe table.session(number).pointee.seenAt = now
        return Visit(
            session: number, pseudonym: pseudonym, reward: table.reward(number, key),
            isKnown: table.isKnown(number))
    }

    @inline(never)
    private mutating func begin(
        _ pseudonym: UInt64, _ session: UnsafeRawPointer, _ byteCount: Int, _ key: UInt32
    ) -> Visit {
        if let (number, known) = unsafe findOlder(session, byteCount) {
            olderSeenAt = now
            return seen(number, known, key)
        }
        let number = begin(pseudonym)
        return Visit(
            session: number, pseudonym: pseudonym, reward: nil,
            isKnown: number != 0 && table.isKnown(number))
    }

    /// Begins a session; 0 if there is no room.
    private mutating func begin(_ pseudonym: UInt64) -> UInt32 {
        let number = table.begin(pseudonym, now: now, isPartial: now <= partialUntil)
        // It may begin once more, when there is room.
        if number == 0 { missBeginnings(upTo: now) }
        return number
    }

    /// A session keeps the key under which it was seen first: one that is going on under an older key, and its pseudonym.
    @unsafe private mutating func findOlder(
        _ session: UnsafeRawPointer, _ byteCount: Int
    ) -> (UInt32, UInt64)? {
        guard isOlderSeen else { return nil }
        for older in keys.older {
            let pseudonym = unsafe older.pseudonym(session, byteCount)
            let number = table.find(pseudonym, now: now)
            if number != 0 { return (number, pseudonym) }
        }
        return nil
    }

    /// Looks at an event of a session. Neither begins a session nor goes on with one.
    ///
    /// SAFETY (caller): as `visit`.
    /// - Parameter key: `nil` where nothing was counted of its reward.
    @unsafe mutating func look(
        _ index: Int, _ session: UnsafeRawPointer, _ byteCount: Int, key: UInt32?
    ) -> Visit {
        var number = unsafe table.find(pseudonyms[index], now: now)
        if number == 0 { number = unsafe findOlder(session, byteCount)?.0 ?? 0 }
        return unsafe Visit(
            session: number, pseudonym: pseudonyms[index],
            reward: number == 0 ? nil : key.flatMap { table.reward(number, $0) },
            isKnown: number != 0 && table.isKnown(number))
    }

    /// The rule of rates that an event breaks; `nil` if it breaks none.
    ///
    /// - Parameters:
    ///   - type: raw value of `EventType`.
    ///   - timestamp: of the event.
    @inline(__always)
    func broken(by visit: Visit, type: UInt8, timestamp: Int64) -> InvalidTrafficRule? {
        guard visit.session != 0 else { return nil }
        if type == EventType.click.rawValue, let reward = visit.reward,
            reward.isTooSoon(timestamp, policy)
        {
            return .clickInterval
        }
        return unsafe table.session(visit.session).pointee.rates.broken(
            by: type, at: timestamp, policy)
    }

    /// Notes the verdict on an event.
    /// - Returns: whether there was room for it.
    @inline(__always)
    mutating func note(
        _ visit: Visit, _ verdict: Verdict, key: UInt32, type: UInt8, timestamp: Int64
    ) -> Bool {
        guard visit.session != 0 else { return false }
        return note(visit.session, verdict, key: key, type: type, timestamp: timestamp)
    }

    @inline(__always)
    private mutating func note(
        _ session: UInt32, _ verdict: Verdict, key: UInt32, type: UInt8, timestamp: Int64
    ) -> Bool {
        switch verdict {
        case .duplicate, .conflict, .invalidTraffic: return true
        default: break
        }
        unsafe table.session(session).pointee.rates.add(type, at: timestamp)
        guard case .counted = verdict, type != EventType.redemption.rawValue else { return true }
        let hadRoom = table.note(session, key, type: type, at: timestamp)
        if !hadRoom { table.missRows(of: session) }
        return hadRoom
    }

    // MARK: Rows of the log, at start

    /// Begins with rows before which there may be others that are not loaded.
    mutating func beginLoading(now: Int64) { olderSeenAt = now }

    /// Enters a row of the log.
    ///
    /// - Parameter admissionTime: of its commit.
    mutating func load(
        _ pseudonym: UInt64, _ row: RowAttributes, key: UInt32, timestamp: Int64,
        admissionTime: Int64
    ) {
        guard let verdict = row.verdict, let type = row.type else { return }
        now = max(now, admissionTime)
        var session = table.find(pseudonym, now: now)
        if session == 0 { session = begin(pseudonym) }
        if session == 0 { return }
        unsafe table.session(session).pointee.seenAt = now
        let isRepeat = verdict == .sessionRepeat
        _ = note(
            session, isRepeat ? .counted : verdict, key: key, type: type.rawValue,
            timestamp: timestamp)
    }
}
