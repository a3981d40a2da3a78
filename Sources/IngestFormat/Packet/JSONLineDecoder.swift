// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// Reads one JSON event from one line, with the parser that the daemon uses, so that what passes here passes there.
///
/// **Cost** A copy of the line beside that of the parser; address space for the descriptors of a packet.
package struct JSONLineDecoder: ~Copyable {
    /// Why a line is not one event.
    package enum Refusal: Equatable, Sendable {
        /// Longer than the largest datagram.
        case tooLong(byteCountMax: Int)
        /// The reason names the key that is wrong.
        case malformed(reason: String)
    }

    /// A copy of the last line, in which the decoder has unescaped its texts in place.
    package private(set) var bytes: [UInt8] = []
    private let scratch = EventScratch()
    private let decoder: JSONEventDecoder

    /// - Parameter hash: what the event's hashes are taken with; `nil` = they are not asked for.
    package init(hash: KeyedHash?) {
        decoder = JSONEventDecoder(hash: hash)
        bytes.reserveCapacity(4096)
    }

    /// The event of the last line that `decode` accepted; its offsets point into `bytes`.
    package var event: EventDescriptor { scratch[0] }

    /// `nil` if the line is one valid event, which is then in `event` and `bytes`; else why not.
    package mutating func decode(_ line: Span<UInt8>) -> Refusal? {
        guard line.count <= Limits.packetByteCountMax else {
            return .tooLong(byteCountMax: Limits.packetByteCountMax)
        }
        // SAFETY: the line's bytes are only copied.
        unsafe line.withUnsafeBufferPointer { unsafe bytes.replaceSubrange(0..., with: $0) }
        // SAFETY: the decoder stays within the copy.
        let outcome = unsafe bytes.withUnsafeMutableBytes {
            unsafe decoder.decode($0, into: scratch)
        }
        if case .events(count: 1, malformed: 0, dropped: _) = outcome { return nil }
        // Asked of the line itself: the decoder may have unescaped texts in the copy.
        return .malformed(reason: JSONEventReason.why(line))
    }
}
