// event → [id] → packet

import IngestFormat

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
