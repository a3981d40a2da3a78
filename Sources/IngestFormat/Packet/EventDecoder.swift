// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// Decodes the payload of a batch packet, an `ingest.v1.EventBatch`, in one pass and without a copy.
///
/// Into rows it decodes what encoders usually write by `ingest_decode_rows`, and any other packet by way of
/// descriptors. That way takes whatever protobuf allows: fields in any order, unknown fields of every wire type (groups
/// too), a known field with another wire type (an unknown one, then), repeated scalars (the last wins),
/// repeated submessages (merged), varints longer than they need be. Broken wire format anywhere refuses
/// the packet; an event that breaks a rule of the schema is refused by itself. Nothing traps.
///
/// Owned by the receive queue.
///
/// **Cost** No allocation; see `ingest-bench micro path`.
/// **Source** `proto/ingest/v1/events.proto`; docs/format/packet.md.
package struct EventDecoder: ~Copyable, Sendable {
    private let completion: EventCompletion

    package init(hash: KeyedHash) { completion = EventCompletion(hash: hash) }

    /// Decodes `payloadByteCount` bytes at `payloadOffset` of `packet` into `descriptors`.
    ///
    /// The caller vouches for the bytes and for room for `payloadByteCount / 2` descriptors
    /// (`EventScratch` has it for any packet). Offsets in the descriptors count from `packet`; payloads
    /// that end beyond `Limits.packetByteCountMax` are malformed.
    @unsafe package func decode(
        packet: UnsafeRawPointer, payloadOffset: Int, payloadByteCount: Int,
        into descriptors: UnsafeMutablePointer<EventDescriptor>
    ) -> DecodeOutcome {
        guard Limits.holdsPayload(at: payloadOffset, byteCount: payloadByteCount) else {
            return .malformed
        }
        let base = unsafe packet.assumingMemoryBound(to: UInt8.self)
        return unsafe decodeBatch(base, payloadOffset, payloadByteCount, descriptors)
    }

    /// As above, into `rows`; those of another business than `businessHash`, if it is given, are marked.
    ///
    /// **Cost** 26 ns an event in the usual form, with its hashes, and about 80 in any other.
    @unsafe package func decode(
        packet: UnsafeRawPointer, payloadOffset: Int, payloadByteCount: Int,
        onlyOf businessHash: UInt64?, into rows: inout PacketRows,
        by scratch: borrowing EventScratch
    ) -> DecodeOutcome {
        let isUsual = unsafe decodeUsual(
            packet: packet, payloadOffset: payloadOffset, payloadByteCount: payloadByteCount,
            onlyOf: businessHash, into: &rows)
        if isUsual { return .events(count: rows.count, malformed: 0) }
        // SAFETY: the scratch has room for any packet.
        let outcome = unsafe decode(
            packet: packet, payloadOffset: payloadOffset, payloadByteCount: payloadByteCount,
            into: scratch.descriptors)
        rows.set(to: scratch, outcome, onlyOf: businessHash)
        return outcome
    }

    /// As above, if the batch is of the usual form.
    /// - Returns: whether it is; if not, there are no rows.
    @unsafe package func decodeUsual(
        packet: UnsafeRawPointer, payloadOffset: Int, payloadByteCount: Int,
        onlyOf businessHash: UInt64?, into rows: inout PacketRows
    ) -> Bool {
        unsafe rows.decode(
            packet: packet, payloadOffset: payloadOffset, payloadByteCount: payloadByteCount,
            onlyOf: businessHash, completion.key)
    }

    /// As the first, for a payload that fills the scratch.
    package func decode(
        _ packet: UnsafeRawBufferPointer, payloadOffset: Int, payloadByteCount: Int,
        into scratch: borrowing EventScratch
    ) -> DecodeOutcome {
        guard payloadOffset >= 0, payloadByteCount >= 0, payloadOffset <= packet.count,
            payloadByteCount <= packet.count - payloadOffset
        else { return .malformed }
        guard let base = packet.baseAddress else { return .events(count: 0, malformed: 0) }
        // SAFETY: the payload lies inside the buffer, checked above; the scratch has room for any packet.
        return unsafe decode(
            packet: base, payloadOffset: payloadOffset, payloadByteCount: payloadByteCount,
            into: scratch.descriptors)
    }
}

// Tags of the schema: field number << 3 | wire type (0 varint, 2 length-delimited).
private enum BatchTag {
    static let event: UInt8 = 1 << 3 | 2
}

private enum EventTag {
    static let type: UInt8 = 1 << 3
    static let reward: UInt8 = 2 << 3 | 2
    static let business: UInt8 = 3 << 3 | 2
    static let timestamp: UInt8 = 4 << 3
    static let eventID: UInt8 = 5 << 3 | 2
    static let session: UInt8 = 6 << 3 | 2
    static let consent: UInt8 = 7 << 3
    static let viewability: UInt8 = 8 << 3 | 2
    static let platform: UInt8 = 9 << 3 | 2
    static let revenue: UInt32 = 10 << 3
    static let spend: UInt32 = 11 << 3
    static let campaign: UInt32 = 12 << 3 | 2
    static let source: UInt32 = 13 << 3 | 2
    static let invalidTraffic: UInt32 = 14 << 3
}

private enum ViewabilityTag {
    static let visible: UInt8 = 1 << 3
    static let duration: UInt8 = 2 << 3
    static let format: UInt8 = 3 << 3
}

extension EventDecoder {
    private func decodeBatch(
        _ base: UnsafePointer<UInt8>, _ offset: Int, _ byteCount: Int,
        _ descriptors: UnsafeMutablePointer<EventDescriptor>
    ) -> DecodeOutcome {
        // SAFETY: the cursor covers exactly the payload, for which the caller of `decode` vouches.
        var wire = unsafe WireCursor(at: base + offset, byteCount: byteCount)
        var count = 0
        var malformed = 0
        while wire.step() {
            guard let tag = wire.wholeTag() else { return .malformed }
            guard tag == UInt32(BatchTag.event) else {
                guard wire.skipField(tag) else { return .malformed }
                continue
            }
            guard let message = wire.message() else { return .malformed }
            // SAFETY: each event takes two bytes or more of the payload, so `count` stays below the room
            // for which the caller of `decode` vouches.
            let event = unsafe descriptors + count
            guard unsafe decodeEvent(message, base, event) else { return .malformed }
            if unsafe EventCompletion.accepts(event) {
                count &+= 1
            } else {
                malformed &+= 1
            }
        }
        let (live, dropped) = unsafe completion.complete(descriptors, count, base)
        return .events(
            count: live, malformed: malformed &+ count &- live, dropped: dropped)
    }

    /// Reads the fields of one event; `false` if the wire format is broken.
    ///
    /// Fields are tried in the order in which encoders write them, each by a branch of its own: a CPU
    /// foresees these, where the one jump of a `switch` it would often guess wrong. Other orders take
    /// several rounds.
    @inline(__always)
    private func decodeEvent(
        _ message: WireCursor, _ base: UnsafePointer<UInt8>,
        _ event: UnsafeMutablePointer<EventDescriptor>
    ) -> Bool {
        var wire = message
        unsafe event.initialize(to: EventDescriptor())
        guard wire.step() else { return true }
        while true {
            let roundStart = unsafe wire.at
            if wire.tag == EventTag.type {
                guard let value = wire.smallVarint() else { return false }
                unsafe event.pointee.type = Self.closed(value, below: 4)
                guard wire.step() else { break }
            }
            if wire.tag == EventTag.reward {
                guard let place = unsafe wire.place(base) else { return false }
                unsafe (event.pointee.rewardOffset, event.pointee.rewardByteCount) = place
                guard wire.step() else { break }
            }
            if wire.tag == EventTag.business {
                guard let place = unsafe wire.place(base) else { return false }
                unsafe (event.pointee.businessOffset, event.pointee.businessByteCount) = place
                guard wire.step() else { break }
            }
            if wire.tag == EventTag.timestamp {
                guard let value = wire.varint() else { return false }
                unsafe event.pointee.timestampMicroseconds = Int64(bitPattern: value)
                guard wire.step() else { break }
            }
            if wire.tag == EventTag.eventID {
                guard let place = unsafe wire.place(base) else { return false }
                unsafe (event.pointee.eventIDOffset, event.pointee.eventIDByteCount) = place
                guard wire.step() else { break }
            }
            if wire.tag == EventTag.session {
                guard let place = unsafe wire.place(base) else { return false }
                unsafe (event.pointee.sessionOffset, event.pointee.sessionByteCount) = place
                guard wire.step() else { break }
            }
            if wire.tag == EventTag.consent {
                guard let value = wire.smallVarint() else { return false }
                unsafe event.pointee.consent = Self.closed(value, below: 3)
                guard wire.step() else { break }
            }
            if wire.tag == EventTag.viewability {
                guard let message = wire.message(), unsafe decodeViewability(message, event) else {
                    return false
                }
                guard wire.step() else { break }
            }
            if wire.tag == EventTag.platform {
                guard let place = unsafe wire.place(base) else { return false }
                unsafe (event.pointee.platformOffset, event.pointee.platformByteCount) = place
                guard wire.step() else { break }
            }
            if unsafe wire.at != roundStart { continue }
            // Nothing above has taken it: a tag longer than it need be, a rare field, an unknown one.
            guard let tag = wire.wholeTag() else { return false }
            if tag < 0x80 && wire.tag >= 0x80 {
                wire.shortenTag(tag)
                continue
            }
            guard let next = unsafe decodeRareField(tag, wire, base, event) else { return false }
            unsafe wire.move(to: next)
            guard wire.step() else { break }
        }
        return wire.isAtEnd
    }

    /// One field that few events carry; gives back where it ends.
    @inline(never)
    private func decodeRareField(
        _ tag: UInt32, _ cursor: WireCursor, _ base: UnsafePointer<UInt8>,
        _ event: UnsafeMutablePointer<EventDescriptor>
    ) -> UnsafePointer<UInt8>? {
        var wire = cursor
        switch tag {
        case EventTag.revenue:
            guard let value = wire.varint() else { return nil }
            unsafe event.pointee.revenueMicros = Int64(bitPattern: value)
        case EventTag.spend:
            guard let value = wire.varint() else { return nil }
            unsafe event.pointee.spendMicros = Int64(bitPattern: value)
        case EventTag.campaign:
            guard let place = unsafe wire.place(base) else { return nil }
            unsafe (event.pointee.campaignOffset, event.pointee.campaignByteCount) = place
        case EventTag.source:
            guard let place = unsafe wire.place(base) else { return nil }
            unsafe (event.pointee.sourceOffset, event.pointee.sourceByteCount) = place
        case EventTag.invalidTraffic:
            guard let value = wire.smallVarint() else { return nil }
            let flag = EventDescriptor.Flags.isInvalidTraffic
            unsafe event.pointee.flags =
                value != 0 ? event.pointee.flags | flag : event.pointee.flags & ~flag
        default:
            guard wire.skipField(tag) else { return nil }
        }
        return unsafe wire.at
    }

    /// One occurrence of the submessage; several are merged, since each writes only what it carries.
    @inline(never)
    private func decodeViewability(
        _ message: WireCursor, _ event: UnsafeMutablePointer<EventDescriptor>
    ) -> Bool {
        var wire = message
        unsafe event.pointee.flags |= EventDescriptor.Flags.isMeasured
        guard wire.step() else { return true }
        while true {
            let roundStart = unsafe wire.at
            if wire.tag == ViewabilityTag.visible {
                guard let value = wire.mediumVarint() else { return false }
                unsafe event.pointee.visiblePartsPerMillion = UInt32(truncatingIfNeeded: value)
                guard wire.step() else { break }
            }
            if wire.tag == ViewabilityTag.duration {
                guard let value = wire.mediumVarint() else { return false }
                unsafe event.pointee.durationMilliseconds = UInt32(truncatingIfNeeded: value)
                guard wire.step() else { break }
            }
            if wire.tag == ViewabilityTag.format {
                guard let value = wire.smallVarint() else { return false }
                unsafe event.pointee.format = Self.closed(value, below: 3)
                guard wire.step() else { break }
            }
            if unsafe wire.at != roundStart { continue }
            guard let tag = wire.wholeTag() else { return false }
            if tag < 0x80 && wire.tag >= 0x80 {
                wire.shortenTag(tag)
                continue
            }
            guard wire.skipField(tag) else { return false }
            guard wire.step() else { break }
        }
        return wire.isAtEnd
    }

    /// An enum value, 32 bits of its varint as protobuf says; 255 stands for every unknown one.
    @inline(__always)
    private static func closed(_ value: UInt64, below count: UInt32) -> UInt8 {
        let value = UInt32(truncatingIfNeeded: value)
        return value < count ? UInt8(truncatingIfNeeded: value) : 255
    }
}
