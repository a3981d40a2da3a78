// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query
import CIngestLinux

/// Decodes plain datagrams and the payloads of JSON batches: events, a line each, by a parser of bytes made for this
/// schema.
///
/// A line is one event. A line that is not strictly JSON (RFC 8259: UTF-8 throughout, no lone
/// surrogate, nothing after the object) or breaks a rule of the schema is malformed by itself; the
/// others live. Blank lines are nothing. Of a key that comes twice the last counts, `null` is as if
/// absent, keys that the schema does not know may hold anything. The rules of each field are in
/// `JSONEventFields`.
///
/// Escapes are undone in the packet's own buffer, so that descriptors can point into it.
///
/// A line of the usual form is decoded by `ingest_decode_line`, any other from its first byte by `JSONEventFields`.
///
/// Owned by the receive queue. **Cost** No allocation; see `ingest-bench micro json`.
package struct JSONEventDecoder: ~Copyable, Sendable {
    private let completion: EventCompletion

    /// - Parameter hash: what hashes are taken with; `nil` = they are not asked for.
    package init(hash: KeyedHash?) { completion = EventCompletion(hash: hash) }

    /// Decodes `payloadByteCount` bytes at `payloadOffset` of `packet`, which it may overwrite, into `descriptors`.
    ///
    /// The caller vouches for the bytes and for room for `payloadByteCount / 2` descriptors. Offsets in them count from
    /// `packet`. The answer is `.malformed` only for what ends beyond `Limits.packetByteCountMax`.
    @unsafe package func decode(
        packet: UnsafeMutableRawPointer, payloadOffset: Int, payloadByteCount: Int,
        into descriptors: UnsafeMutablePointer<EventDescriptor>
    ) -> DecodeOutcome {
        guard Limits.holdsPayload(at: payloadOffset, byteCount: payloadByteCount) else {
            return .malformed
        }
        let base = unsafe packet.assumingMemoryBound(to: UInt8.self)
        let end = payloadOffset + payloadByteCount
        return unsafe decodeLines(base, payloadOffset..<end, descriptors)
    }

    /// As above, into `rows`; those of another business than `businessHash`, if it is given, are marked.
    @unsafe package func decode(
        packet: UnsafeMutableRawPointer, payloadOffset: Int, payloadByteCount: Int,
        onlyOf businessHash: UInt64?, into rows: inout PacketRows,
        by scratch: borrowing EventScratch
    ) -> DecodeOutcome {
        // SAFETY: the scratch has room for any packet.
        let outcome = unsafe decode(
            packet: packet, payloadOffset: payloadOffset, payloadByteCount: payloadByteCount,
            into: scratch.descriptors)
        rows.set(to: scratch, outcome, onlyOf: businessHash)
        return outcome
    }

    /// As the first, for a buffer of nothing but lines, into the scratch.
    package func decode(
        _ lines: UnsafeMutableRawBufferPointer, into scratch: borrowing EventScratch
    ) -> DecodeOutcome {
        guard let base = lines.baseAddress else { return .events(count: 0, malformed: 0) }
        // SAFETY: the buffer is the caller's and holds `count` bytes.
        return unsafe decode(
            packet: base, payloadOffset: 0, payloadByteCount: lines.count,
            into: scratch.descriptors)
    }

    private func decodeLines(
        _ base: UnsafeMutablePointer<UInt8>, _ payload: Range<Int>,
        _ descriptors: UnsafeMutablePointer<EventDescriptor>
    ) -> DecodeOutcome {
        var count = 0
        var malformed = 0
        var start = payload.lowerBound
        while start < payload.upperBound {
            // SAFETY: as below; C events have the layout of descriptors, by a test.
            let next = unsafe UnsafeMutableRawPointer(descriptors + count).withMemoryRebound(
                to: ingest_event.self, capacity: 1
            ) { unsafe ingest_decode_line(base, start, payload.upperBound, $0) }
            if next != 0 {
                start = next
                count &+= 1
                continue
            }
            let line = unsafe Self.line(base, start, payload.upperBound)
            start = line.offset + line.byteCount + 1
            if unsafe Self.isBlank(base, line) { continue }
            // SAFETY: a live event takes far more than two bytes of its line, so there is room.
            if unsafe decodeLine(base, line, descriptors + count) {
                count &+= 1
            } else {
                malformed &+= 1
            }
        }
        let (live, dropped) = unsafe completion.complete(descriptors, count, base)
        return .events(
            count: live, malformed: malformed &+ count &- live, dropped: dropped)
    }

    /// The line that begins at `start`, without its end of line.
    private static func line(
        _ base: UnsafeMutablePointer<UInt8>, _ start: Int, _ end: Int
    ) -> JSONPlace {
        var at = start
        // SAFETY: at < end.
        while at < end, unsafe base[at] != 0x0A { at &+= 1 }
        return JSONPlace(offset: start, byteCount: at - start)
    }

    private static func isBlank(_ base: UnsafeMutablePointer<UInt8>, _ line: JSONPlace) -> Bool {
        // SAFETY: the line lies inside the packet.
        var cursor = unsafe JSONCursor(base, line)
        return cursor.isAtEnd()
    }

    private func decodeLine(
        _ base: UnsafeMutablePointer<UInt8>, _ line: JSONPlace,
        _ event: UnsafeMutablePointer<EventDescriptor>
    ) -> Bool {
        // SAFETY: the line lies inside the packet, and so does every place that the fields name.
        guard unsafe UTF8Text.isValid(base + line.offset, line.byteCount) else { return false }
        var fields = JSONEventFields()
        guard unsafe fields.read(base, line) else { return false }
        unsafe event.initialize(to: EventDescriptor())
        return unsafe fields.fill(event, base) && EventCompletion.accepts(event)
    }
}
