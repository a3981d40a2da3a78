// event → [encode] → packet → socket

import Glibc
import IngestFormat

/// Writes events as the protobuf message `ingest.v1.EventBatch`, field by field in the order of their
/// numbers, into memory that the caller owns.
///
/// An event comes as its descriptor plus the bytes that the descriptor's offsets point into, so that a
/// decoded JSON line is encoded without a copy in between. Fields at their default are left out, but for
/// the two numbers of a measured viewability: both are written, 0 too, because "0 % visible" must not
/// become "not measured".
///
/// **Cost** No allocation; `byteCount` first, then one pass of stores.
package enum EventBatchEncoder {
    /// The most bytes that any valid event takes in a batch, its own tag and length included.
    package static let eventByteCountMax = 720

    /// Bytes that `encode` writes for this event: field 1 of the batch, its tag and length included.
    package static func byteCount(of event: EventDescriptor) -> Int {
        let body = bodyByteCount(of: event)
        return 1 + varintByteCount(UInt64(body)) + body
    }

    /// Writes the event as one field of the batch; returns the end of what was written.
    ///
    /// - Parameters:
    ///   - bytes: what the descriptor's offsets point into.
    ///   - place: where `byteCount(of: event)` bytes are free.
    package static func encode(
        _ event: EventDescriptor, from bytes: UnsafeRawPointer, to place: UnsafeMutableRawPointer
    ) -> UnsafeMutableRawPointer {
        var field = unsafe FieldCursor(place)
        unsafe field.message(1, byteCount: bodyByteCount(of: event))
        unsafe field.number(1, UInt64(event.type))
        unsafe field.bytes(2, bytes + Int(event.rewardOffset), event.rewardByteCount)
        unsafe field.bytes(3, bytes + Int(event.businessOffset), event.businessByteCount)
        unsafe field.number(4, UInt64(bitPattern: event.timestampMicroseconds))
        unsafe field.bytes(5, bytes + Int(event.eventIDOffset), event.eventIDByteCount)
        unsafe field.bytes(6, bytes + Int(event.sessionOffset), event.sessionByteCount)
        unsafe field.number(7, UInt64(event.consent))
        if event.isMeasured {
            unsafe field.message(8, byteCount: viewabilityByteCount(of: event))
            unsafe field.number(1, UInt64(event.visiblePartsPerMillion), evenZero: true)
            unsafe field.number(2, UInt64(event.durationMilliseconds), evenZero: true)
            unsafe field.number(3, UInt64(event.format))
        }
        unsafe field.bytes(9, bytes + Int(event.platformOffset), event.platformByteCount)
        unsafe field.number(10, UInt64(bitPattern: event.revenueMicros))
        unsafe field.number(11, UInt64(bitPattern: event.spendMicros))
        unsafe field.bytes(12, bytes + Int(event.campaignOffset), event.campaignByteCount)
        unsafe field.bytes(13, bytes + Int(event.sourceOffset), event.sourceByteCount)
        unsafe field.number(14, event.isMarkedInvalid ? 1 : 0)
        return unsafe field.place
    }

    /// Whether a batch that has `free` bytes left can be padded to its full size: one byte cannot hold
    /// a field, so the event that would leave one goes into the next packet.
    package static func canPad(_ free: Int) -> Bool { free == 0 || free >= 2 }

    /// Fills `byteCount` bytes with padding (field 15), zeros after tag and length.
    ///
    /// - Parameter byteCount: 0, or 2 … `Limits.payloadByteCountMax`.
    package static func pad(_ place: UnsafeMutableRawPointer, byteCount: Int) {
        precondition(canPad(byteCount))
        var field = unsafe FieldCursor(place)
        var left = byteCount
        while left > 0 {
            // Of the sizes that no single field has (130 and 16,387: the length would need one more
            // byte than is there for it), an empty field takes 2 first.
            let whole = paddingLength(left)
            let length = whole ?? 0
            unsafe field.padding(15, length)
            left -= 1 + varintByteCount(UInt64(length)) + length
        }
    }

    /// The length of the one field that takes exactly this many bytes, tag and length included.
    private static func paddingLength(_ byteCount: Int) -> Int? {
        for lengthByteCount in 1...3 {
            let length = byteCount - 1 - lengthByteCount
            if length >= 0, varintByteCount(UInt64(length)) == lengthByteCount { return length }
        }
        return nil
    }

    private static func bodyByteCount(of event: EventDescriptor) -> Int {
        var count = numberByteCount(UInt64(event.type))
        count += bytesByteCount(event.rewardByteCount)
        count += bytesByteCount(event.businessByteCount)
        count += numberByteCount(UInt64(bitPattern: event.timestampMicroseconds))
        count += bytesByteCount(event.eventIDByteCount)
        count += bytesByteCount(event.sessionByteCount)
        count += numberByteCount(UInt64(event.consent))
        if event.isMeasured { count += 2 + viewabilityByteCount(of: event) }
        count += bytesByteCount(event.platformByteCount)
        count += numberByteCount(UInt64(bitPattern: event.revenueMicros))
        count += numberByteCount(UInt64(bitPattern: event.spendMicros))
        count += bytesByteCount(event.campaignByteCount)
        count += bytesByteCount(event.sourceByteCount)
        count += event.isMarkedInvalid ? 2 : 0
        return count
    }

    private static func viewabilityByteCount(of event: EventDescriptor) -> Int {
        2 + varintByteCount(UInt64(event.visiblePartsPerMillion))
            + varintByteCount(UInt64(event.durationMilliseconds))
            + numberByteCount(UInt64(event.format))
    }

    /// A field of wire type 0 with a one-byte tag; 0 is left out.
    private static func numberByteCount(_ value: UInt64) -> Int {
        value == 0 ? 0 : 1 + varintByteCount(value)
    }

    /// A field of wire type 2 with a one-byte tag; empty is left out.
    private static func bytesByteCount(_ byteCount: UInt8) -> Int {
        byteCount == 0 ? 0 : 1 + (byteCount < 128 ? 1 : 2) + Int(byteCount)
    }
}

package func varintByteCount(_ value: UInt64) -> Int {
    (70 - (value | 1).leadingZeroBitCount) / 7
}

extension EventDescriptor {
    /// Whether every text and id of the event lies in the first `byteCount` bytes.
    package func lies(within byteCount: Int) -> Bool {
        func end(_ offset: UInt16, _ count: UInt8) -> Int { Int(offset) + Int(count) }
        let ends = max(
            max(end(rewardOffset, rewardByteCount), end(businessOffset, businessByteCount)),
            max(end(eventIDOffset, eventIDByteCount), end(sessionOffset, sessionByteCount)),
            max(end(platformOffset, platformByteCount), end(campaignOffset, campaignByteCount)),
            end(sourceOffset, sourceByteCount))
        return ends <= byteCount
    }

    fileprivate var isMeasured: Bool { flags & Flags.isMeasured != 0 }
    fileprivate var isMarkedInvalid: Bool { flags & Flags.isInvalidTraffic != 0 }
}

/// Writes protobuf fields whose numbers fit a one-byte tag (1 … 15).
@unsafe private struct FieldCursor {
    // SAFETY: everything below stores at `place` and moves it on by what it stored. The caller has
    // made sure, by `byteCount(of:)` or the padding's size, that this many bytes are free.
    var place: UnsafeMutableRawPointer

    init(_ place: UnsafeMutableRawPointer) { unsafe self.place = place }

    mutating func number(_ number: UInt8, _ value: UInt64, evenZero: Bool = false) {
        if value == 0 && !evenZero { return }
        unsafe byte(number << 3)
        unsafe varint(value)
    }

    mutating func bytes(_ number: UInt8, _ source: UnsafeRawPointer, _ byteCount: UInt8) {
        if byteCount == 0 { return }
        unsafe message(number, byteCount: Int(byteCount))
        unsafe place.copyMemory(from: source, byteCount: Int(byteCount))
        unsafe place += Int(byteCount)
    }

    /// Tag and length of a field whose bytes follow.
    mutating func message(_ number: UInt8, byteCount: Int) {
        unsafe byte(number << 3 | 2)
        unsafe varint(UInt64(byteCount))
    }

    mutating func padding(_ number: UInt8, _ byteCount: Int) {
        unsafe message(number, byteCount: byteCount)
        unsafe memset(place, 0, byteCount)
        unsafe place += byteCount
    }

    private mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            unsafe byte(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        unsafe byte(UInt8(truncatingIfNeeded: rest))
    }

    private mutating func byte(_ value: UInt8) {
        unsafe place.storeBytes(of: value, as: UInt8.self)
        unsafe place += 1
    }
}
