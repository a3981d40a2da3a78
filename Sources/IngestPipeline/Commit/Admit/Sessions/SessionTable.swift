// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat

/// What the index of sessions has of one of them.
///
/// **Layout** 8 bytes; plain old data, of all zeros where there is none.
struct SessionSlot: TableEntry {
    /// The upper 32 of the pseudonym's 48 bits.
    let tag: UInt32
    /// Its number among the sessions' nodes, plus 1.
    let nodeEnd: UInt32

    static var belongsToLine: Bool { true }
    var spread: UInt64 {
        @inline(__always) get { Self.spread(tag) }
    }
    var isFree: Bool {
        @inline(__always) get { nodeEnd == 0 }
    }

    @inline(__always)
    static func spread(_ tag: UInt32) -> UInt64 { UInt64(tag) &<< 32 }
    @inline(__always)
    static func tag(_ pseudonym: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: pseudonym &>> 16) }

    /// Which of a line's slots have a tag, and which are free, as `findInLines` takes it.
    @inline(__always)
    static func scan(
        _ line: UnsafeMutablePointer<SessionSlot>, for tag: UInt32
    ) -> (matching: UInt32, free: UInt32) {
        let numbers = unsafe UnsafeRawPointer(line).assumingMemoryBound(to: UInt32.self)
        // SAFETY: a line is 16 numbers, of each slot two.
        let (tags, zeros) = unsafe (
            ingest_numbers_scan(numbers, tag), ingest_numbers_scan(numbers, 0)
        )
        // The tag of a free one is 0, as a pseudonym's may be.
        let free = zeros &>> 1 & 0x5555
        return (tags & 0x5555 & ~free, free)
    }
}

/// The sessions that are going on, and what was counted in each. Owned by the commit queue.
///
/// A session ends when it was not seen for the time-out: its next event begins a new one. Ended sessions are taken out by a
/// sweep, a few nodes at each session that begins and some at each block: at most as many as there are in a quarter of the
/// time-out, or, where seven eighths of the room are taken, in a 32nd of it, or 256 a block. Until then they take room.
///
/// At `keyCountMax` sessions and rewards in them no more are taken in, where a reward with impression and click is two; nor more
/// than 65,536 of either in one session, beside its first 16 rewards with impressions and its first one with a click.
///
/// **Layout** A node of two lines a session, in the order in which they begin, so that those that are going on lie near to each
/// other; an index of 8 bytes a place says which node is whose.
/// **Cost** 128 bytes a session and 11 to 32 of the index; 64 for its 17th to 32nd reward with impressions, as for its second
/// to fifth with clicks (`KeySets`). An event needs a line of the index and one or two of the node: 2 or 3 misses, which loads
/// ahead make overlap.
@safe struct SessionTable: ~Copyable {
    /// A session's node.
    ///
    /// SAFETY, of all uses: it is one that `find` or `begin` gave, and no other session has begun since, nor has a block or
    /// packet.
    typealias Session = UnsafeMutablePointer<OpenSession>

    private var index = GrowingTable<SessionSlot>()
    private var nodes = NodeMemory<OpenSession>(elementCount: 1)
    private var impressions: KeySets<SeenReward>
    private var clicks: KeySets<ClickedReward>
    /// Rewards in sessions.
    private var rewardCount = 0
    private let timeoutMicroseconds: Int64
    private let keyCountMax: Int
    /// The node that the sweep looks at next.
    private var swept = 0
    /// How many nodes the sweep may look at now; no more than there are.
    private var sweepDue = 0.0
    /// When that was reckoned, µs since 1970.
    private var sweepDueAt: Int64 = 0
    /// How often rows were missed that may be of sessions that were going on; 0 is before any session.
    private var missCount: UInt32 = 1

    /// Nodes that are looked at with a block, with a session that begins, and with one for which there is no room; fewer where
    /// no more are due.
    private static var sweepCount: (ofBlock: Int, ofSession: Int, ofNoRoom: Int) { (4_096, 8, 64) }
    /// Nodes that are due in any case where the table is nearly full: a small table has room as soon as a session has ended.
    private static var sweepDueMin: Double { 256 }
    /// How far ahead of the sweep nodes are loaded, and, of one that has ended, what else it stands on.
    private static var sweepAhead: (node: Int, ended: Int) { (16, 4) }

    /// Rewards with impressions, and as many with clicks, of one session outside its node: giving the 25,000 to 47,000 nodes of
    /// either back takes less than a millisecond.
    private static var furtherCountMax: UInt32 { 1 << 16 }

    init(_ policy: SessionPolicy) {
        precondition(OpenSession.hasLayout)
        timeoutMicroseconds = Int64(policy.timeoutSeconds) * 1_000_000
        keyCountMax = policy.keyCountMax
        // More than all keys take, however they are spread over sessions: sets are full where the table is.
        impressions = KeySets(leafCountMax: policy.keyCountMax + 32)
        clicks = KeySets(leafCountMax: policy.keyCountMax + 32)
    }

    // MARK: Ahead of an event

    /// The line of the index that says where a session is.
    @inline(__always)
    func indexLine(of pseudonym: UInt64) -> CacheLine {
        index.line(of: SessionSlot.spread(SessionSlot.tag(pseudonym)))
    }

    /// The number of a node that is likely to be that of a session; `nil` if there is none.
    @inline(__always)
    func nodeNumber(of pseudonym: UInt64) -> UInt32? {
        let tag = SessionSlot.tag(pseudonym)
        let spread = SessionSlot.spread(tag)
        let slot =
            index.isGrowing
            ? unsafe index.find(spread) { unsafe $0.pointee.tag == tag }
            : unsafe index.current.findInLines(spread) { unsafe SessionSlot.scan($0, for: tag) }
        return unsafe slot.map { unsafe $0.pointee.nodeEnd &- 1 }
    }

    /// The first line of a node that `nodeNumber` gave.
    @inline(__always)
    func line(ofNode number: UInt32) -> CacheLine {
        // SAFETY: a node stays readable.
        unsafe CacheLine(nodes.node(Int(number)))
    }

    /// Starts the load of its second line, if that is in use, and that of the impressions that stand outside the node. Waits
    /// for the first one.
    @inline(__always)
    func prefetch(node number: UInt32) {
        // SAFETY: as above; one that was given back has an empty set.
        let node = unsafe nodes.node(Int(number))
        unsafe ingest_prefetch(node.lastLine)
        if let further = unsafe impressions.firstLine(of: node.pointee.impressions) {
            further.prefetch()
        }
    }

    // MARK: Sessions

    // Inlined, with a closure of plain data: a call, or a closure, that is given the table is given a copy of its 500 bytes.
    @inline(__always)
    private func entry(_ pseudonym: UInt64) -> Session? {
        let tag = SessionSlot.tag(pseudonym)
        // SAFETY: a place that is taken has the number of a node.
        let first = unsafe nodes.node(0)
        let slot = unsafe index.find(SessionSlot.spread(tag)) { slot in
            let number = unsafe Int(slot.pointee.nodeEnd) &- 1
            return unsafe slot.pointee.tag == tag && first[number].isOf(pseudonym)
        }
        return unsafe slot.map { unsafe first + (Int($0.pointee.nodeEnd) &- 1) }
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

    /// The same where `nodeNumber` gave this one a while ago; `nil` also where the node is of another session by now.
    @inline(__always)
    func find(_ pseudonym: UInt64, atNode number: UInt32, now: Int64) -> Session? {
        // SAFETY: a node that was given once stays readable, whoever has it.
        let session = unsafe nodes.node(Int(number))
        return unsafe session.pointee.isOf(pseudonym) && !hasEnded(session, now: now)
            ? session : nil
    }

    /// Begins a session that `find` did not find; `nil` if there is no room.
    mutating func begin(_ pseudonym: UInt64, now: Int64, isPartial: Bool) -> Session? {
        // While the index grows nothing is taken out of it.
        if isFull { index.goOnGrowing() }
        sweep(isFull ? Self.sweepCount.ofNoRoom : Self.sweepCount.ofSession, now: now)
        let session: Session
        if let ended = unsafe entry(pseudonym) {
            unsafe clear(ended)
            unsafe session = ended
        } else {
            if isFull { return nil }
            let number = nodes.take()
            _ = unsafe index.insert(
                SessionSlot(tag: SessionSlot.tag(pseudonym), nodeEnd: number + 1))
            unsafe session = nodes.node(Int(number))
        }
        unsafe session.pointee.begin(
            pseudonym, now: now, knownSince: isPartial ? 0 : missCount)
        return unsafe session
    }

    private var keyCount: Int { nodes.count + rewardCount }
    private var isFull: Bool { keyCount >= keyCountMax }

    /// Whether all events of a session are known: there were no rows of it that a start could not read, nor any for which
    /// there was no room.
    @inline(__always)
    func isKnown(_ session: Session) -> Bool { unsafe session.pointee.knownSince == missCount }

    /// Makes all sessions that are going on unknown: not all of their events are known.
    mutating func missRows() { missCount &+= 1 }

    /// To be called for each block.
    ///
    /// **Cost** Up to 4,096 nodes to look at, and to take out as many sessions, after a time without blocks.
    mutating func open(now: Int64) {
        goOnGrowing()
        advance(to: now)
        sweep(Self.sweepCount.ofBlock, now: now)
    }

    /// Lets time pass, so that more nodes are due to be looked at.
    ///
    /// - Parameter now: µs since 1970, not before that of the last call.
    mutating func advance(to now: Int64) {
        let isNearlyFull = keyCount >= keyCountMax - keyCountMax / 8
        let round = max(1, timeoutMicroseconds / (isNearlyFull ? 32 : 4))
        let share = Double(min(now - sweepDueAt, round)) / Double(round)
        let count = Double(nodes.endNumber)
        let due = max(sweepDue + share * count, isNearlyFull ? Self.sweepDueMin : 0)
        (sweepDue, sweepDueAt) = (min(due, count), now)
    }

    /// To be called between packets, now and then.
    mutating func goOnGrowing() { index.goOnGrowing() }

    // MARK: Their rewards

    /// Whether an impression of a reward was counted.
    ///
    /// - Parameter key: below `UInt32.max`, as that of the others.
    @inline(__always)
    mutating func hasImpression(_ session: Session, _ key: UInt32) -> Bool {
        let reward = SeenReward(key: key &+ 1)
        return unsafe session.hasSeen(reward, inSecondLine: false)
            || session.pointee.seenCount > 8 && hasFurtherImpression(session, reward)
    }

    // These are calls, so that what most events need is short; `mutating`, as a call is given a copy of the table else.

    @inline(never)
    private mutating func hasFurtherImpression(_ session: Session, _ reward: SeenReward) -> Bool {
        unsafe session.hasSeen(reward, inSecondLine: true)
            || impressions.find(reward.key, in: session.pointee.impressions) != nil
    }

    /// The event time of the last click on a reward that was counted, µs since 1970.
    @inline(never)
    mutating func lastClick(_ session: Session, _ key: UInt32) -> Int64? {
        unsafe click(session, key)?.pointee.clickedAt
    }

    @inline(__always)
    private func click(_ session: Session, _ key: UInt32) -> UnsafeMutablePointer<ClickedReward>? {
        if unsafe !session.pointee.hasFurther { return nil }
        if unsafe session.firstClick.pointee.key == key &+ 1 {
            return unsafe session.firstClick
        }
        return unsafe clicks.find(key &+ 1, in: session.pointee.further.clicks)
    }

    /// Notes an impression that was counted, of a reward that had none.
    /// - Returns: whether there was room; else not all of the session is known from then on.
    @inline(__always)
    mutating func noteImpression(_ session: Session, _ key: UInt32) -> Bool {
        if isFull { return unsafe note(false, session) }
        let (reward, count) = unsafe (SeenReward(key: key &+ 1), session.pointee.seenCount)
        if count >= 8 { unsafe session.pointee.useFurther() }
        if count < OpenSession.seenCountMax {
            unsafe session.add(reward)
            return unsafe note(true, session)
        }
        let hadRoom =
            unsafe session.pointee.further.impressionCount < Self.furtherCountMax
            && impressions.insert(reward, into: &session.pointee.impressions)
        unsafe session.pointee.further.impressionCount += hadRoom ? 1 : 0
        return unsafe note(hadRoom, session)
    }

    /// The same of a click.
    mutating func noteClick(_ session: Session, _ key: UInt32, at timestamp: Int64) -> Bool {
        if let known = unsafe click(session, key) {
            unsafe known.pointee.clickedAt = timestamp
            return true
        }
        if isFull { return unsafe note(false, session) }
        unsafe session.pointee.useFurther()
        let click = ClickedReward(clickedAt: timestamp, key: key &+ 1)
        if unsafe session.firstClick.pointee.key == 0 {
            unsafe session.firstClick.pointee = click
            return unsafe note(true, session)
        }
        let hadRoom =
            unsafe session.pointee.further.clickCount < Self.furtherCountMax
            && clicks.insert(click, into: &session.pointee.further.clicks)
        unsafe session.pointee.further.clickCount += hadRoom ? 1 : 0
        return unsafe note(hadRoom, session)
    }

    @inline(__always)
    private mutating func note(_ hadRoom: Bool, _ session: Session) -> Bool {
        if hadRoom { rewardCount += 1 } else { unsafe session.pointee.knownSince = 0 }
        return hadRoom
    }

    // MARK: Their end

    /// Takes out the ended sessions among the next nodes that are due.
    ///
    /// - Parameter count: nodes to look at, and rewards outside of nodes to give back, before it stops.
    private mutating func sweep(_ count: Int, now: Int64) {
        if index.isGrowing { return }
        var left = count
        while left > 0 && sweepDue >= 1 {
            left -= 1
            sweepDue -= 1
            if swept >= nodes.endNumber { swept = 0 }
            loadAheadOfSweep(now: now)
            let session = unsafe nodes.node(swept)
            if unsafe session.pointee.isThere && hasEnded(session, now: now) {
                // Giving back the nodes of a large set takes its time too.
                left -= unsafe session.furtherCount
                unsafe remove(session, UInt32(swept))
            }
            swept += 1
        }
    }

    /// Starts the loads of the nodes whose turn comes a while later, and of what else a session that has ended stands on.
    @inline(__always)
    private func loadAheadOfSweep(now: Int64) {
        // SAFETY, here and below: the numbers are those of nodes that were taken.
        unsafe ingest_prefetch(
            nodes.node(min(swept + Self.sweepAhead.node, nodes.endNumber - 1)))
        let ahead = swept + Self.sweepAhead.ended
        guard ahead < nodes.endNumber else { return }
        let session = unsafe nodes.node(ahead)
        let isThere = unsafe session.pointee.isThere
        if isThere, unsafe hasEnded(session, now: now) {
            unsafe index.prefetch(session.pointee.indexSpread)
            unsafe ingest_prefetch(session.lastLine)
        }
    }

    private mutating func remove(_ session: Session, _ number: UInt32) {
        unsafe index.remove(session.pointee.indexSpread) {
            unsafe $0.pointee.nodeEnd == number + 1
        }
        unsafe clear(session)
        nodes.giveBack(number)
    }

    /// Takes all out of a node.
    private mutating func clear(_ session: Session) {
        rewardCount -= unsafe session.rewardCount
        if unsafe session.pointee.hasFurther {
            unsafe impressions.removeAll(of: &session.pointee.impressions)
            unsafe clicks.removeAll(of: &session.pointee.further.clicks)
        }
        unsafe session.pointee.end()
    }
}
