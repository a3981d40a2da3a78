// packet → decode → ring → admit → block → segment → compaction → snapshot → query
// The sender's side, before the path begins: events into packets.

/// Builds batch packets from decoded events: what `EventDecoder` reads, in ascending order of fields.
///
/// A sender that has JSON decodes a line with `JSONEventDecoder` and appends the descriptor, so that both
/// ways to send an event go through the same rules.
///
/// Owned by one sender. **Cost** One copy of each event's bytes; one array a packet.
package struct EventBatchEncoder {
    /// The most bytes of a packet, header and payload, without tag.
    package let packetByteCountMax: Int
    /// Events in the packet that is being built.
    package private(set) var eventCount = 0
    private var packet = ByteWriter()
    private var event = ByteWriter(capacity: 1024)

    /// `packetByteCountMax` is up to `Limits.packetByteCountMax`; 1,472 is what fits an Ethernet frame.
    package init(packetByteCountMax: Int) {
        precondition(packetByteCountMax <= Limits.packetByteCountMax)
        self.packetByteCountMax = packetByteCountMax
        beginPacket()
    }

    private mutating func beginPacket() {
        packet = ByteWriter(capacity: packetByteCountMax)
        packet.append(zeroCount: PacketHeader.byteCount)
        eventCount = 0
    }

    /// Header and payload so far.
    package var packetByteCount: Int { packet.byteCount }

    /// Adds an event whose places lie in `source`; `false`, and nothing added, if the packet is full. An
    /// event that does not fit an empty packet never will.
    package mutating func append(
        _ descriptor: EventDescriptor, from source: UnsafeRawBufferPointer
    ) -> Bool {
        event.removeAll()
        unsafe encode(descriptor, source)
        let lengthByteCount = event.byteCount < 0x80 ? 1 : 2
        let total = packet.byteCount + 1 + lengthByteCount + event.byteCount
        // One byte of room could not be padded.
        guard total <= packetByteCountMax, total != packetByteCountMax - 1 else { return false }
        packet.append(u8: 1 << 3 | 2)
        packet.append(varint: UInt64(event.byteCount))
        packet.append(bytes: event.bytes)
        eventCount += 1
        return true
    }

    /// Ends the packet and begins the next: the packet's bytes, with `header` (whose payload byte count and
    /// checksum are set here) in front. A tag is the caller's to append.
    ///
    /// With `isPadded` the packet is filled up to `packetByteCountMax`, so that packets are equal in size
    /// and the kernel can send and receive many at once. Else it has `byteCountMin` at least.
    package mutating func seal(
        _ header: PacketHeader, isPadded: Bool = false, byteCountMin: Int = 0
    ) -> [UInt8] {
        let gap = (isPadded ? packetByteCountMax : byteCountMin) - packet.byteCount
        // One byte cannot be filled.
        pad(gap == 1 ? 2 : gap)
        var bytes = packet.bytes
        beginPacket()
        var header = header
        header.seal(&bytes)
        return bytes
    }

    /// Field 15, `padding`, of exactly `gap` bytes with its tag and length. The length's varint is longer
    /// than it need be, which protobuf allows: so any gap but 1 can be filled.
    private mutating func pad(_ gap: Int) {
        guard gap >= 2 else { return }
        packet.append(u8: 15 << 3 | 2)
        let lengthByteCount = min(3, gap - 1)
        let zeroCount = gap - 1 - lengthByteCount
        for i in 0..<lengthByteCount {
            let group = UInt8(truncatingIfNeeded: zeroCount >> (7 * i)) & 0x7F
            packet.append(u8: i < lengthByteCount - 1 ? group | 0x80 : group)
        }
        packet.append(zeroCount: zeroCount)
    }

    // MARK: One event

    private mutating func encode(_ e: EventDescriptor, _ source: UnsafeRawBufferPointer) {
        scalar(1, UInt64(e.type))
        unsafe bytes(2, source, e.rewardOffset, e.rewardByteCount)
        unsafe bytes(3, source, e.businessOffset, e.businessByteCount)
        scalar(4, UInt64(bitPattern: e.timestampMicroseconds))
        unsafe bytes(5, source, e.eventIDOffset, e.eventIDByteCount)
        unsafe bytes(6, source, e.sessionOffset, e.sessionByteCount)
        scalar(7, UInt64(e.consent))
        if e.flags & EventDescriptor.Flags.isMeasured != 0 { viewability(e) }
        unsafe bytes(9, source, e.platformOffset, e.platformByteCount)
        scalar(10, UInt64(bitPattern: e.revenueMicros))
        scalar(11, UInt64(bitPattern: e.spendMicros))
        unsafe bytes(12, source, e.campaignOffset, e.campaignByteCount)
        unsafe bytes(13, source, e.sourceOffset, e.sourceByteCount)
        scalar(14, e.flags & EventDescriptor.Flags.isInvalidTraffic != 0 ? 1 : 0)
    }

    /// A varint field; 0 is the default and is not sent.
    private mutating func scalar(_ field: UInt8, _ value: UInt64) {
        if value == 0 { return }
        event.append(u8: field << 3)
        event.append(varint: value)
    }

    private mutating func bytes(
        _ field: UInt8, _ source: UnsafeRawBufferPointer, _ offset: UInt16, _ byteCount: UInt8
    ) {
        if byteCount == 0 { return }
        event.append(u8: field << 3 | 2)
        event.append(varint: UInt64(byteCount))
        // SAFETY: a slice of the buffer traps outside it, here on a sender's own descriptor.
        unsafe event.append(
            bytes: UnsafeRawBufferPointer(
                rebasing: source[Int(offset)..<Int(offset) + Int(byteCount)]))
    }

    /// The submessage, sent even if all of it is default: its presence says "measured".
    private mutating func viewability(_ e: EventDescriptor) {
        event.append(u8: 8 << 3 | 2)
        let lengthAt = event.byteCount
        event.append(u8: 0)
        scalar(1, UInt64(e.visiblePartsPerMillion))
        scalar(2, UInt64(e.durationMilliseconds))
        scalar(3, UInt64(e.format))
        event.patch(u8: UInt8(event.byteCount - lengthAt - 1), at: lengthAt)
    }
}
