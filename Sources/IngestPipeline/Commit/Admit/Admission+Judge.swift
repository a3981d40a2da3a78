// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestRing
import IngestRules

// The rules that compare an event with others: rates and repeats.

extension Admission {
    /// The verdict on an event that is stored.
    struct Judged {
        var verdict: Verdict
        /// As in `RowAttributes`.
        var detail: UInt16 = 0
        /// Of its session; `nil` where none is kept.
        var pseudonym: UInt64?
    }

    /// Judges an event to which the rules that look at it alone give `first`.
    @inline(__always)
    mutating func judge(
        _ index: Int, _ first: Verdict, _ key: KeyOrdinal, _ packet: PacketEvents, revenue: Int64,
        spend: Int64
    ) -> Judged {
        let event = unsafe packet.rows + index
        if unsafe sessions.isOn && event.pointee.sessionByteCount != 0,
            SessionRule.concerns(first)
        {
            return judgeInSession(index, first, key, packet, revenue: revenue, spend: spend)
        }
        guard case .counted = first else { return Judged(verdict: first) }
        let hasSession = unsafe event.pointee.sessionByteCount != 0
        let isImpression = unsafe event.pointee.type == EventType.impression.rawValue
        guard unsafe event.pointee.flags & EventDescriptor.Flags.hasEventID != 0 else {
            return Judged(verdict: first, detail: RowAttributes.unchecked)
        }
        let check = RepeatRule.check(key: key.rawValue, revenue: revenue, spend: spend)
        let answer = unsafe repeats.judge(
            event.pointee.eventHash, check: check, timestamp: event.pointee.timestampMicroseconds)
        let isUnchecked =
            answer.isOutsideWindow
            || sessions.lacksKey && hasSession && isImpression && answer.verdict == .counted
        return Judged(
            verdict: answer.verdict, detail: isUnchecked ? RowAttributes.unchecked : 0)
    }

    /// The same of an event of a session. A repeat of an id that was counted is one whatever the rates are, since a resent
    /// event is no further click; what breaks a rule claims neither its id nor its reward in the session.
    private mutating func judgeInSession(
        _ index: Int, _ first: Verdict, _ key: KeyOrdinal, _ packet: PacketEvents, revenue: Int64,
        spend: Int64
    ) -> Judged {
        let event = unsafe packet.rows + index
        // SAFETY: the id lies in the packet, and `prepareSessions` was called for it.
        let visit = unsafe sessions.visit(
            packet.preparedIndex + index, event.pointee.session(in: packet.bytes),
            key: key.rawValue, type: event.pointee.type)
        let (type, timestamp) = unsafe (event.pointee.type, event.pointee.timestampMicroseconds)
        let broken = sessions.broken(by: visit, type: type, timestamp: timestamp)
        let isImpression = type == EventType.impression.rawValue
        let isRepeat = visit.isRepeat(type)
        let hasID = unsafe event.pointee.flags & EventDescriptor.Flags.hasEventID != 0
        var judged = Judged(
            verdict: broken != nil ? .invalidTraffic : first, pseudonym: visit.pseudonym)
        var isOutsideWindow = false
        if case .counted = first {
            let hash = unsafe event.pointee.eventHash
            let check = RepeatRule.check(key: key.rawValue, revenue: revenue, spend: spend)
            if broken != nil || isRepeat {
                judged.verdict = broken != nil ? .invalidTraffic : .sessionRepeat
                if hasID, let known = repeats.verdict(onRepeat: hash, check: check) {
                    judged.verdict = known
                }
            } else if hasID {
                let answer = repeats.judge(hash, check: check, timestamp: timestamp)
                (judged.verdict, isOutsideWindow) = (answer.verdict, answer.isOutsideWindow)
            }
        }
        let hadRoom = sessions.note(
            visit, judged.verdict, key: key.rawValue, type: type, timestamp: timestamp)
        switch judged.verdict {
        case .invalidTraffic: judged.detail = RowAttributes.detail(broken ?? .sender)
        case .counted, .outsideWindow:
            // What a session had counted matters to impressions; the others have at least their id to be told by.
            let isUncheckedInSession = !(hadRoom && visit.isKnown) && (isImpression || !hasID)
            if isOutsideWindow || isUncheckedInSession { judged.detail = RowAttributes.unchecked }
            if case .counted = judged.verdict, !isImpression, !visit.followsImpression {
                judged.detail |= RowAttributes.orphan
            }
        default: break
        }
        return judged
    }

    /// The refusal of an event to which the rules that look at it alone give `first`, and some of whose names are not known;
    /// `nil` where `judge` will not refuse it. Changes nothing, since what is no row is not known to a start.
    ///
    /// - Parameter key: `nil` where it is not known either, so that nothing was counted of its reward.
    @inline(never)
    mutating func refusal(
        ofUnnamed index: Int, _ first: Verdict, _ key: KeyOrdinal?, _ packet: PacketEvents
    ) -> Verdict? {
        guard SessionRule.concerns(first) else { return first }
        let event = unsafe packet.rows + index
        let (type, timestamp) = unsafe (event.pointee.type, event.pointee.timestampMicroseconds)
        let hash = unsafe event.pointee.eventHash
        let hasID = unsafe event.pointee.flags & EventDescriptor.Flags.hasEventID != 0
        if unsafe sessions.isOn && event.pointee.sessionByteCount != 0 {
            // SAFETY: as in `judgeInSession`.
            let visit = unsafe sessions.look(
                packet.preparedIndex + index, event.pointee.session(in: packet.bytes),
                key: key?.rawValue, type: type)
            if sessions.broken(by: visit, type: type, timestamp: timestamp) != nil {
                // Rates come before viewability.
                guard hasID, case .counted = first else { return .invalidTraffic }
                return repeats.verdict(onRepeat: hash, check: 0) != nil ? nil : .invalidTraffic
            }
            if case .counted = first, visit.isRepeat(type) { return nil }
        }
        guard case .counted = first else { return first }
        return hasID && repeats.refusesNew(hash, timestamp: timestamp) ? .outsideWindow : nil
    }

    /// Whether an event that `refusal` does not refuse, of a reward without a key, has an id that was counted.
    mutating func isRepeat(_ index: Int, _ packet: PacketEvents) -> Bool {
        // SAFETY: there are `count` rows.
        let event = unsafe packet.rows + index
        return unsafe event.pointee.flags & EventDescriptor.Flags.hasEventID != 0
            && repeats.verdict(onRepeat: event.pointee.eventHash, check: 0) != nil
    }

    /// Prepares the sessions of a packet's events, which are the next of the turn.
    @inline(never)
    mutating func prepareSessions(_ packet: PacketEvents) {
        precondition(sessions.preparedCount + packet.count <= SessionRule.preparedCountMax)
        for index in 0..<packet.count {
            // SAFETY: there are `count` rows, and a session's id lies in the packet. There is room, by the line above.
            unsafe sessions.prepare(packet.rows[index].session(in: packet.bytes))
        }
    }

    /// The same of a packet whose events were not prepared with their turn: of more than are prepared at once, or since there
    /// is another key.
    /// - Returns: the packet, as the only one that is prepared.
    @inline(never)
    mutating func prepareLate(_ packet: PacketEvents) -> PacketEvents {
        var packet = packet
        packet.preparedIndex = 0
        sessions.beginTurn()
        prepareSessions(packet)
        sessions.load(with: &lines)
        return packet
    }
}

/// The events of one ring record.
@safe struct PacketEvents {
    let rows: UnsafePointer<PacketRow>
    let count: Int
    private let sides: UnsafePointer<PacketSide>
    /// The packet's bytes, in which their names lie.
    let bytes: UnsafeRawPointer
    /// Whether the packet's key is bound to a business.
    let isBound: Bool
    /// Where its first event is among those whose sessions were prepared, if it was.
    var preparedIndex: Int

    /// SAFETY (caller): the record holds the `PacketRows` of its packet.
    @unsafe init(_ record: RingRecord, preparedIndex: Int = 0) {
        self.preparedIndex = preparedIndex
        count = Int(record.header.eventCount)
        isBound = record.header.flags & RingRecordHeader.Flags.isBound != 0
        let offset = PacketRows.sideOffset(eventCount: count)
        unsafe rows = record.rows.assumingMemoryBound(to: PacketRow.self)
        unsafe sides = (record.rows + offset).assumingMemoryBound(to: PacketSide.self)
        unsafe bytes = record.packet
    }

    /// The side record of an event of the packet; `nil` if it has none.
    @inline(__always)
    func side(of event: UnsafePointer<PacketRow>) -> UnsafePointer<PacketSide>? {
        let number = unsafe Int(event.pointee.side)
        // SAFETY: rows give only numbers of side records that are there.
        return unsafe number == 0 ? nil : sides + (number &- 1)
    }
}

extension RingRecord {
    /// Gives what a record of refusals has: how many packets were refused as what.
    func forEachRefusal(_ body: (PacketResult, UInt64) -> Void) {
        let byteCount = Int(header.packetByteCount)
        for (index, result) in PacketResult.allCases.prefix(byteCount / 8).enumerated() {
            // SAFETY: the record holds so many u64, from an 8-aligned place on.
            let count = unsafe packet.load(fromByteOffset: index * 8, as: UInt64.self)
            if count > 0 { body(result, count) }
        }
    }
}

extension PacketRow {
    /// SAFETY (caller): `packet` is the packet that the event was decoded from.
    @unsafe func reward(in packet: UnsafeRawPointer) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(
            start: packet + Int(rewardOffset), count: Int(rewardByteCount))
    }

    /// SAFETY (caller): as above.
    @unsafe func business(in packet: UnsafeRawPointer) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(
            start: packet + Int(businessOffset), count: Int(businessByteCount))
    }

    /// The id of its session; of no bytes where it has none.
    ///
    /// SAFETY (caller): as above.
    @inline(__always)
    @unsafe func session(in packet: UnsafeRawPointer) -> ingest_text {
        let bytes = unsafe (packet + Int(sessionOffset)).assumingMemoryBound(to: UInt8.self)
        return unsafe ingest_text(bytes: bytes, byteCount: Int(sessionByteCount))
    }
}

extension PacketRow.Name {
    /// SAFETY (caller): as above, of the event that has the name.
    @unsafe func bytes(in packet: UnsafeRawPointer) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: packet + Int(offset), count: Int(byteCount))
    }
}
