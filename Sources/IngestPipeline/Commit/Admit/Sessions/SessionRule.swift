// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestRules

/// The rules on sessions: rates, one impression of a reward a session, and whether a click or redemption follows an
/// impression. Owned by the commit queue; made at start from the rows of the log.
///
/// **Cost** 5 to 17 ns an event with a session for its pseudonym, and misses, which loads ahead of a turn's events make overlap
/// (docs/decisions/0045-sessions.md).
@safe package struct SessionRule: ~Copyable {
    /// An event of a session.
    @safe struct Visit {
        /// Of the table; `nil` where that had no room.
        let session: SessionTable.Session?
        let pseudonym: UInt64
        /// Whether an impression of the event's reward was counted before.
        let hasImpression: Bool
        /// Of a click: the event time of the last one on the reward that was counted.
        let lastClick: Int64?
        /// Whether all that was counted in the session is known.
        let isKnown: Bool

        /// Whether it follows an impression of its reward; `true` where nobody knows.
        var followsImpression: Bool { !isKnown || hasImpression }

        /// Whether it is a further impression of its reward.
        /// - Parameter type: of the event, raw value of `EventType`.
        func isRepeat(_ type: UInt8) -> Bool {
            type == EventType.impression.rawValue && hasImpression
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
    /// What was prepared of the turn's events.
    private let prepared: UnsafeMutablePointer<Prepared>
    private(set) var preparedCount = 0
    /// Of those of them that have a session: its id, which lies in the ring until the turn ends, its pseudonym, and which one
    /// it is.
    private let ids: UnsafeMutablePointer<ingest_text>
    private let pseudonyms: UnsafeMutablePointer<UInt64>
    private let events: UnsafeMutablePointer<UInt32>
    private var sessionCount = 0

    /// Of one event.
    private struct Prepared: BitwiseCopyable {
        /// Under the newest key; `none` of one without a session: pseudonyms have 48 bits.
        var pseudonym = Self.none
        /// Where its session was when it was loaded; `noNode` where there was none.
        var node = Self.noNode

        static var none: UInt64 { .max }
        static var noNode: UInt32 { .max }
    }

    /// - Parameter ring: `nil` where no session is looked at.
    package init(_ policy: SessionPolicy, _ ring: SessionKeyRing?) {
        self.policy = policy
        self.ring = policy.isOn ? ring : nil
        keys = self.ring?.current ?? SessionKeyRing.Keys()
        table = SessionTable(policy)
        unsafe prepared = .allocate(capacity: Self.preparedCountMax)
        unsafe ids = .allocate(capacity: Self.preparedCountMax)
        unsafe pseudonyms = .allocate(capacity: Self.preparedCountMax)
        unsafe events = .allocate(capacity: Self.preparedCountMax)
    }

    deinit {
        unsafe prepared.deallocate()
        unsafe ids.deallocate()
        unsafe pseudonyms.deallocate()
        unsafe events.deallocate()
    }

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
        beginTurn()
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
        missDestroyed(behind: time)
        table.missRows()
    }

    /// The same of sessions that the table does not have.
    private mutating func missBeginnings(upTo time: Int64) {
        partialUntil = max(partialUntil, time &+ timeoutMicroseconds)
    }

    // MARK: A turn's sessions, ahead of its events

    /// Events that may be prepared: those of some packets, and of one as large as there may be.
    static var preparedCountMax: Int { Admission.aheadCountMax + Limits.packetEventCountMax }

    /// Forgets what was prepared.
    mutating func beginTurn() { (preparedCount, sessionCount) = (0, 0) }

    /// Prepares the turn's next event, whose session is looked up with those of the turn.
    ///
    /// SAFETY (caller): there is room for one more, and the id lies in the packet.
    @inline(__always)
    @unsafe mutating func prepare(_ session: ingest_text) {
        unsafe prepared[preparedCount] = Prepared()
        if unsafe session.byteCount != 0 {
            // It was written on another core, and is not asked for before all of the turn are prepared: 12 in place of 24 ns.
            unsafe ingest_prefetch(session.bytes)
            unsafe ids[sessionCount] = session
            unsafe events[sessionCount] = UInt32(truncatingIfNeeded: preparedCount)
            sessionCount &+= 1
        }
        preparedCount &+= 1
    }

    /// Takes the pseudonyms of the events that were prepared, and loads where their sessions are, then the first line of each.
    mutating func load(with batch: inout LineBatch) {
        guard sessionCount > 0, let key = keys.newest else { return }
        // SAFETY, here and below: of so many sessions there is an id and an event, and no session begins here.
        unsafe key.pseudonyms(of: ids, sessionCount, into: pseudonyms)
        for index in 0..<sessionCount { unsafe batch.add(table.indexLine(of: pseudonyms[index])) }
        unsafe batch.load()
        for index in 0..<sessionCount {
            let event = unsafe prepared + Int(events[index])
            unsafe event.pointee.pseudonym = pseudonyms[index]
            guard let node = unsafe table.nodeNumber(of: pseudonyms[index]) else { continue }
            unsafe event.pointee.node = node
            unsafe batch.add(table.line(ofNode: node))
        }
        unsafe batch.load()
    }

    /// Starts the loads of what some events need of their sessions beside the first line, which was loaded: 7 ns an event.
    ///
    /// - Parameter events: that were prepared.
    @inline(__always)
    func prefetch(_ events: Range<Int>) {
        for index in events {
            let node = unsafe prepared[index].node
            if node != Prepared.noNode { table.prefetch(node: node) }
        }
    }

    /// To be called between packets, now and then.
    mutating func goOnGrowing() { table.goOnGrowing() }

    // MARK: An event

    /// Sees an event of a session, which begins with it if it was not going on.
    ///
    /// SAFETY (caller): it was prepared as the one with this index, and the id lies in the packet.
    @inline(__always)
    @unsafe mutating func visit(
        _ index: Int, _ id: ingest_text, key: UInt32, type: UInt8
    ) -> Visit {
        let event = unsafe prepared[index]
        var (session, pseudonym) = unsafe (findWhereLoaded(event), event.pseudonym)
        if unsafe session == nil {
            unsafe (session, pseudonym) = findOrBegin(pseudonym, id)
        }
        unsafe session?.pointee.seenAt = now
        return unsafe visit(session, pseudonym, key: key, type: type)
    }

    /// - Parameter key: `nil` where nothing was counted of the reward.
    @inline(__always)
    private mutating func visit(
        _ session: SessionTable.Session?, _ pseudonym: UInt64, key: UInt32?, type: UInt8
    ) -> Visit {
        guard let session = unsafe session, let key else {
            return unsafe Visit(
                session: session, pseudonym: pseudonym, hasImpression: false, lastClick: nil,
                isKnown: session.map { unsafe table.isKnown($0) } ?? false)
        }
        let isClick = type == EventType.click.rawValue
        return unsafe Visit(
            session: session, pseudonym: pseudonym,
            hasImpression: table.hasImpression(session, key),
            lastClick: isClick ? table.lastClick(session, key) : nil,
            isKnown: table.isKnown(session))
    }

    /// The session of an event that was prepared, if it is there where it was loaded.
    @inline(__always)
    private func findWhereLoaded(_ event: Prepared) -> SessionTable.Session? {
        event.node == Prepared.noNode
            ? nil : unsafe table.find(event.pseudonym, atNode: event.node, now: now)
    }

    /// A session that is going on, under an older key too, else one that begins; `nil` if there is no room.
    @inline(never)
    @unsafe private mutating func findOrBegin(
        _ pseudonym: UInt64, _ id: ingest_text
    ) -> (SessionTable.Session?, UInt64) {
        if let found = unsafe table.find(pseudonym, now: now) {
            return unsafe (found, pseudonym)
        }
        if let older = unsafe findOlder(id) {
            olderSeenAt = now
            return unsafe older
        }
        return unsafe (begin(pseudonym), pseudonym)
    }

    /// Begins a session; `nil` if there is no room.
    private mutating func begin(_ pseudonym: UInt64) -> SessionTable.Session? {
        let begun = unsafe table.begin(pseudonym, now: now, isPartial: now <= partialUntil)
        // It may begin once more, when there is room.
        if unsafe begun == nil { missBeginnings(upTo: now) }
        return unsafe begun
    }

    /// A session keeps the key under which it was seen first: one that is going on under an older key, and its pseudonym.
    /// `mutating`, since else a call were given a copy of all of this.
    @unsafe private mutating func findOlder(
        _ id: ingest_text
    ) -> (SessionTable.Session, UInt64)? {
        guard isOlderSeen else { return nil }
        for older in keys.older {
            let pseudonym = unsafe older.pseudonym(of: id)
            if let found = unsafe table.find(pseudonym, now: now) {
                return unsafe (found, pseudonym)
            }
        }
        return nil
    }

    /// Looks at an event of a session. Neither begins a session nor goes on with one.
    ///
    /// SAFETY (caller): as `visit`.
    /// - Parameter key: `nil` where nothing was counted of its reward.
    @unsafe mutating func look(
        _ index: Int, _ id: ingest_text, key: UInt32?, type: UInt8
    ) -> Visit {
        let event = unsafe prepared[index]
        let found =
            unsafe findWhereLoaded(event) ?? table.find(event.pseudonym, now: now)
            ?? findOlder(id)?.0
        return unsafe visit(found, event.pseudonym, key: key, type: type)
    }

    /// The rule of rates that an event breaks; `nil` if it breaks none.
    ///
    /// - Parameters:
    ///   - type: raw value of `EventType`.
    ///   - timestamp: of the event.
    @inline(__always)
    func broken(by visit: Visit, type: UInt8, timestamp: Int64) -> InvalidTrafficRule? {
        guard let session = unsafe visit.session else { return nil }
        if let last = visit.lastClick, policy.isTooSoon(timestamp, after: last) {
            return .clickInterval
        }
        return unsafe session.pointee.rates.broken(by: type, at: timestamp, policy)
    }

    /// Notes the verdict on an event.
    /// - Returns: whether there was room for it.
    @inline(__always)
    mutating func note(
        _ visit: Visit, _ verdict: Verdict, key: UInt32, type: UInt8, timestamp: Int64
    ) -> Bool {
        guard let session = unsafe visit.session else { return false }
        return unsafe note(session, verdict, key: key, type: type, timestamp: timestamp)
    }

    @inline(__always)
    private mutating func note(
        _ session: SessionTable.Session, _ verdict: Verdict, key: UInt32, type: UInt8,
        timestamp: Int64
    ) -> Bool {
        switch verdict {
        case .duplicate, .conflict, .invalidTraffic: return true
        default: break
        }
        unsafe session.pointee.rates.add(type, at: timestamp)
        guard case .counted = verdict else { return true }
        switch type {
        case EventType.impression.rawValue: return unsafe table.noteImpression(session, key)
        case EventType.click.rawValue: return unsafe table.noteClick(session, key, at: timestamp)
        default: return true
        }
    }

    // MARK: Rows of the log, at start

    /// Begins with rows before which there may be others that are not loaded.
    mutating func beginLoading(now: Int64) { olderSeenAt = now }

    /// To be called once all rows are entered. The keys may have been renewed at a later time than that of the start: of the log,
    /// where the clock is behind it.
    mutating func endLoading() { missDestroyed(behind: now) }

    /// Sessions that went on when keys were destroyed could not be told any more: they began anew.
    /// - Parameters:
    ///   - last: when a row was admitted.
    ///   - next: when the one behind it was.
    private mutating func missDestroyed(behind last: Int64, before next: Int64 = .max) {
        for time in keys.destroyedAt
        where last < time && time <= next && time &- last <= timeoutMicroseconds {
            missBeginnings(upTo: time)
        }
    }

    /// Enters a row of the log.
    ///
    /// - Parameter admissionTime: of its commit.
    mutating func load(
        _ pseudonym: UInt64, _ row: RowAttributes, key: UInt32, timestamp: Int64,
        admissionTime: Int64
    ) {
        guard let verdict = row.verdict, let type = row.type else { return }
        if admissionTime > now {
            missDestroyed(behind: now, before: admissionTime)
            now = admissionTime
            table.advance(to: now)
        }
        guard let session = unsafe table.find(pseudonym, now: now) ?? begin(pseudonym)
        else { return }
        unsafe session.pointee.seenAt = now
        var noted = verdict
        switch verdict {
        case .counted, .sessionRepeat:
            // The impression that counted may be in no row that was read, and where not all was known two may have counted.
            let hadImpression =
                unsafe type == .impression && table.hasImpression(session, key)
            noted = hadImpression ? .sessionRepeat : .counted
        default: break
        }
        _ = unsafe note(session, noted, key: key, type: type.rawValue, timestamp: timestamp)
    }
}
