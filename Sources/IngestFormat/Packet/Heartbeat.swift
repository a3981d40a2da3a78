// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query

/// The payload of a heartbeat: how far back the sender still holds what it sent.
///
/// **Layout** 64 bytes or more: base u64, then zeros.
package enum Heartbeat {
    package static let payloadByteCountMin = 64

    /// The lowest sequence that the sender still holds; 0 = not given.
    ///
    /// **Errors** `nil` if there are fewer than 64 bytes or a reserved one is not zero: the packet is malformed.
    package static func base(_ payload: UnsafeRawBufferPointer) -> PacketSequence? {
        // SAFETY: the reader lives inside this call; the caller's buffer is valid for it.
        var reader = unsafe ByteReader(payload)
        guard payload.count >= payloadByteCountMin, let base = reader.readU64(),
            reader.skipZeros(reader.remainingByteCount)
        else { return nil }
        return PacketSequence(rawValue: base)
    }

    /// A whole heartbeat packet; `header.sequence` is the next to be sent.
    package static func packet(
        _ header: PacketHeader, base: PacketSequence, payloadByteCount: Int = payloadByteCountMin
    ) -> [UInt8] {
        var writer = ByteWriter(capacity: PacketHeader.byteCount + payloadByteCount)
        writer.append(zeroCount: PacketHeader.byteCount)
        writer.append(u64: base.rawValue)
        writer.append(zeroCount: max(payloadByteCount, payloadByteCountMin) - 8)
        var packet = writer.bytes
        var header = header
        header.seal(&packet)
        return packet
    }
}
