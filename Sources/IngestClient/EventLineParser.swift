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
