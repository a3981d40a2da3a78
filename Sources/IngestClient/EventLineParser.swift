// JSON line → [parse] → encode → packet

import IngestFormat

/// Reads one JSON event from one line, with the parser that the daemon uses, so that what passes here
/// passes there.
struct EventLineParser: ~Copyable {
    /// A copy of the last line, in which the decoder has unescaped its texts in place.
    private(set) var bytes: [UInt8] = []
    private let scratch = EventScratch()
    /// The hashes mean nothing to a sender: the receiver takes them again, under its own key.
    private let decoder = JSONEventDecoder(hash: KeyedHash(key: InlineArray(repeating: 0)))

    init() { bytes.reserveCapacity(4096) }

    /// Gives the last event an id if it has none.
    mutating func complete(_ event: inout EventDescriptor, from ids: inout EventIDSource) {
        ids.complete(&event, &bytes)
    }

    /// The event of the last line that `parse` accepted; its offsets point into `bytes`.
    var event: EventDescriptor { scratch[0] }

    /// `nil` if the line is one valid event, which is then in `event` and `bytes`; else why not.
    mutating func parse(_ line: Span<UInt8>) -> EventRefusal? {
        guard line.count <= Limits.packetByteCountMax else {
            return .lineTooLong(byteCountMax: Limits.packetByteCountMax)
        }
        // SAFETY: the line's bytes are only copied.
        unsafe line.withUnsafeBufferPointer { unsafe bytes.replaceSubrange(0..., with: $0) }
        // SAFETY: the decoder stays within the copy.
        let outcome = unsafe bytes.withUnsafeMutableBytes {
            unsafe decoder.decode($0, into: scratch)
        }
        if outcome == .events(count: 1, malformed: 0) { return nil }
        // Asked of the line itself: the decoder may have unescaped texts in the copy.
        return .malformed(reason: JSONEventReason.why(line))
    }
}

/// Ids for events that come without one: 16 bytes, different for every event of every sender.
///
/// **Layout** Two numbers of 64 bits, each the scramble of a counter's; the counter starts anywhere in 128
/// bits, so that those of two senders meet with a chance of about one in 2^80.
/// **Cost** 4 ns; the system is asked for randomness once a sender.
struct EventIDSource: Sendable {
    private let high: UInt64
    private var low: UInt64

    /// - Parameter random: where the start comes from; a simulation brings its own.
    init(_ random: inout some RandomNumberGenerator) {
        high = random.next()
        low = random.next()
    }

    mutating func next() -> (UInt64, UInt64) {
        low &+= 1
        let back = SplitMix.finish(low)
        return (SplitMix.finish(high ^ back), back)
    }

    /// Gives an event without id one, behind its other texts.
    mutating func complete(_ event: inout EventDescriptor, _ texts: inout [UInt8]) {
        guard event.eventIDByteCount == 0 else { return }
        let (front, back) = next()
        event.eventIDOffset = UInt16(texts.count)
        event.eventIDByteCount = 16
        event.flags |= EventDescriptor.Flags.hasEventID
        for word in [front, back] {
            for i in 0..<8 { texts.append(UInt8(truncatingIfNeeded: word >> UInt64(8 * i))) }
        }
    }
}
