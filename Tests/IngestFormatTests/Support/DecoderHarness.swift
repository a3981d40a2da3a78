import IngestFormat

/// Runs the decoders on bytes in a buffer of just their size, so that a sanitizer sees a read past it.
enum DecoderHarness {
    static let hash = KeyedHash(key: [UInt8](0..<32))!

    /// What a decoder made of a packet: `nil` if all of it is malformed.
    struct Result: Equatable {
        var events: [DecodedEvent] = []
        var malformed = 0
    }

    /// Decodes a protobuf payload that stands behind `headerByteCount` bytes.
    static func protobuf(_ payload: [UInt8], headerByteCount: Int = 40) -> Result? {
        let packet = [UInt8](repeating: 0xEE, count: headerByteCount) + payload
        let bounds = headerByteCount..<packet.count
        return withExactCopy(packet) { bytes in
            let scratch = EventScratch()
            let outcome = EventDecoder(hash: hash).decode(
                UnsafeRawBufferPointer(bytes), payloadOffset: headerByteCount,
                payloadByteCount: payload.count, into: scratch)
            return result(outcome, scratch, bytes, bounds)
        }
    }

    /// Decodes a datagram of JSON lines.
    static func json(_ datagram: [UInt8]) -> Result? {
        withExactCopy(datagram) { bytes in
            let scratch = EventScratch()
            let outcome = JSONEventDecoder(hash: hash).decode(bytes, into: scratch)
            return result(outcome, scratch, bytes, 0..<datagram.count)
        }
    }

    static func json(_ text: String) -> Result? { json(Array(text.utf8)) }

    private static func result(
        _ outcome: DecodeOutcome, _ scratch: borrowing EventScratch,
        _ bytes: UnsafeMutableRawBufferPointer, _ bounds: Range<Int>
    ) -> Result? {
        guard case .events(let count, let malformed) = outcome else { return nil }
        let packet = Array(bytes)
        var events: [DecodedEvent] = []
        for i in 0..<count {
            events.append(DecodedEvent(scratch[i], in: packet, bounds: bounds))
        }
        return Result(events: events, malformed: malformed)
    }

    private static func withExactCopy<Value>(
        _ bytes: [UInt8], _ body: (UnsafeMutableRawBufferPointer) -> Value
    ) -> Value {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        defer { copy.deallocate() }
        copy.copyBytes(from: bytes)
        return body(copy)
    }
}
