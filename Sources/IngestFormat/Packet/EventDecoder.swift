// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// Decodes the payload of a batch packet, an `ingest.v1.EventBatch`, in one pass and without a copy.
///
/// It takes whatever protobuf allows: fields in any order, unknown fields of every wire type (groups
/// too), a known field with another wire type (an unknown one, then), repeated scalars (the last wins),
/// repeated submessages (merged), varints longer than they need be. Broken wire format anywhere refuses
/// the packet; an event that breaks a rule of the schema is refused by itself. Nothing traps.
///
/// Owned by the receive queue.
///
/// **Cost** No allocation; see `decodeBenchmark`.
/// **Source** `proto/ingest/v1/events.proto`; docs/format/packet.md.
package struct EventDecoder: Sendable {
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
        guard payloadOffset >= 0, payloadByteCount >= 0,
            payloadOffset <= Limits.packetByteCountMax,
            payloadByteCount <= Limits.packetByteCountMax - payloadOffset
        else { return .malformed }
        let base = unsafe packet.assumingMemoryBound(to: UInt8.self)
        // SAFETY: the cursor covers exactly the payload, which the caller vouches for.
        var wire = unsafe WireCursor(at: base + payloadOffset, byteCount: payloadByteCount)
        return unsafe completion.withKey { key in
            unsafe decodeBatch(&wire, base, key, descriptors)
        }
    }

    /// As above, for a payload that fills the scratch.
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
    static let event: UInt32 = 1 << 3 | 2
}

private enum EventTag {
    static let type: UInt32 = 1 << 3
    static let reward: UInt32 = 2 << 3 | 2
    static let business: UInt32 = 3 << 3 | 2
    static let timestamp: UInt32 = 4 << 3
    static let eventID: UInt32 = 5 << 3 | 2
    static let session: UInt32 = 6 << 3 | 2
    static let consent: UInt32 = 7 << 3
    static let viewability: UInt32 = 8 << 3 | 2
    static let platform: UInt32 = 9 << 3 | 2
    static let revenue: UInt32 = 10 << 3
    static let spend: UInt32 = 11 << 3
    static let campaign: UInt32 = 12 << 3 | 2
    static let source: UInt32 = 13 << 3 | 2
    static let invalidTraffic: UInt32 = 14 << 3
}

private enum ViewabilityTag {
    static let visible: UInt32 = 1 << 3
    static let duration: UInt32 = 2 << 3
    static let format: UInt32 = 3 << 3
}

/// Where a field of bytes lies in the packet. A count over 255 is stored as 255: it is over every
/// limit, and `EventCompletion` refuses or drops it.
private struct Place {
    let offset: UInt16
    let byteCount: UInt8

    @inline(__always)
    init?(_ wire: inout WireCursor, _ base: UnsafePointer<UInt8>) {
        guard let count = wire.length() else { return nil }
        // SAFETY: `length` has checked that `count` bytes follow; offsets fit by the packet's limit.
        unsafe offset = UInt16(truncatingIfNeeded: wire.at - base)
        byteCount = UInt8(truncatingIfNeeded: min(count, 255))
        unsafe wire.at += count
    }
}

extension EventDecoder {
    @inline(__always)
    private func decodeBatch(
        _ wire: inout WireCursor, _ base: UnsafePointer<UInt8>, _ key: EventCompletion.Key,
        _ descriptors: UnsafeMutablePointer<EventDescriptor>
    ) -> DecodeOutcome {
        var count = 0
        var malformed = 0
        let batchEnd = unsafe wire.end
        while !wire.isAtEnd {
            guard let tag = wire.tag() else { return .malformed }
            if tag != BatchTag.event {
                guard wire.skipField(tag) else { return .malformed }
                continue
            }
            guard let byteCount = wire.length() else { return .malformed }
            // SAFETY: the event lies inside the batch, by `length`; each takes two bytes or more of the
            // payload, so `count` stays below the room that the caller vouches for.
            unsafe wire.end = wire.at + byteCount
            let event = unsafe descriptors + count
            guard unsafe decodeEvent(&wire, base, event) else { return .malformed }
            unsafe wire.end = batchEnd
            if unsafe completion.complete(event, UnsafeRawPointer(base), key) {
                count &+= 1
            } else {
                malformed &+= 1
            }
        }
        return .events(count: count, malformed: malformed)
    }

    /// Reads the fields of one event up to `wire.end`; `false` if the wire format is broken.
    @inline(__always)
    private func decodeEvent(
        _ wire: inout WireCursor, _ base: UnsafePointer<UInt8>,
        _ event: UnsafeMutablePointer<EventDescriptor>
    ) -> Bool {
        unsafe event.initialize(to: EventDescriptor())
        while !wire.isAtEnd {
            guard let tag = wire.tag() else { return false }
            switch tag {
            case EventTag.type:
                guard let value = wire.varint() else { return false }
                unsafe event.pointee.type = Self.closed(value, below: 4)
            case EventTag.reward:
                guard let place = unsafe Place(&wire, base) else { return false }
                unsafe event.pointee.rewardOffset = place.offset
                unsafe event.pointee.rewardByteCount = place.byteCount
            case EventTag.business:
                guard let place = unsafe Place(&wire, base) else { return false }
                unsafe event.pointee.businessOffset = place.offset
                unsafe event.pointee.businessByteCount = place.byteCount
            case EventTag.timestamp:
                guard let value = wire.varint() else { return false }
                unsafe event.pointee.timestampMicroseconds = Int64(bitPattern: value)
            case EventTag.eventID:
                guard let place = unsafe Place(&wire, base) else { return false }
                unsafe event.pointee.eventIDOffset = place.offset
                unsafe event.pointee.eventIDByteCount = place.byteCount
            case EventTag.session:
                guard let place = unsafe Place(&wire, base) else { return false }
                unsafe event.pointee.sessionOffset = place.offset
                unsafe event.pointee.sessionByteCount = place.byteCount
            case EventTag.consent:
                guard let value = wire.varint() else { return false }
                unsafe event.pointee.consent = Self.closed(value, below: 3)
            case EventTag.viewability:
                guard unsafe decodeViewability(&wire, event) else { return false }
            case EventTag.platform:
                guard let place = unsafe Place(&wire, base) else { return false }
                unsafe event.pointee.platformOffset = place.offset
                unsafe event.pointee.platformByteCount = place.byteCount
            default:
                guard unsafe decodeRareField(tag, &wire, base, event) else { return false }
            }
        }
        return true
    }

    /// The fields that few events carry, kept out of the loop above.
    @inline(never)
    private func decodeRareField(
        _ tag: UInt32, _ wire: inout WireCursor, _ base: UnsafePointer<UInt8>,
        _ event: UnsafeMutablePointer<EventDescriptor>
    ) -> Bool {
        switch tag {
        case EventTag.revenue:
            guard let value = wire.varint() else { return false }
            unsafe event.pointee.revenueMicros = Int64(bitPattern: value)
        case EventTag.spend:
            guard let value = wire.varint() else { return false }
            unsafe event.pointee.spendMicros = Int64(bitPattern: value)
        case EventTag.campaign:
            guard let place = unsafe Place(&wire, base) else { return false }
            unsafe event.pointee.campaignOffset = place.offset
            unsafe event.pointee.campaignByteCount = place.byteCount
        case EventTag.source:
            guard let place = unsafe Place(&wire, base) else { return false }
            unsafe event.pointee.sourceOffset = place.offset
            unsafe event.pointee.sourceByteCount = place.byteCount
        case EventTag.invalidTraffic:
            guard let value = wire.varint() else { return false }
            let flag = EventDescriptor.Flags.isInvalidTraffic
            unsafe event.pointee.flags =
                value != 0 ? event.pointee.flags | flag : event.pointee.flags & ~flag
        default:
            return wire.skipField(tag)
        }
        return true
    }

    /// One occurrence of the submessage; several are merged, since each writes only what it carries.
    @inline(__always)
    private func decodeViewability(
        _ wire: inout WireCursor, _ event: UnsafeMutablePointer<EventDescriptor>
    ) -> Bool {
        guard let byteCount = wire.length() else { return false }
        let eventEnd = unsafe wire.end
        // SAFETY: the submessage lies inside the event, by `length`.
        unsafe wire.end = wire.at + byteCount
        unsafe event.pointee.flags |= EventDescriptor.Flags.isMeasured
        while !wire.isAtEnd {
            guard let tag = wire.tag() else { return false }
            switch tag {
            case ViewabilityTag.visible:
                guard let value = wire.varint() else { return false }
                unsafe event.pointee.visiblePartsPerMillion = UInt32(truncatingIfNeeded: value)
            case ViewabilityTag.duration:
                guard let value = wire.varint() else { return false }
                unsafe event.pointee.durationMilliseconds = UInt32(truncatingIfNeeded: value)
            case ViewabilityTag.format:
                guard let value = wire.varint() else { return false }
                unsafe event.pointee.format = Self.closed(value, below: 3)
            default:
                guard wire.skipField(tag) else { return false }
            }
        }
        unsafe wire.end = eventEnd
        return true
    }

    /// An enum value, 32 bits of its varint as protobuf says; 255 stands for every unknown one.
    @inline(__always)
    private static func closed(_ value: UInt64, below count: UInt32) -> UInt8 {
        let value = UInt32(truncatingIfNeeded: value)
        return value < count ? UInt8(truncatingIfNeeded: value) : 255
    }
}
