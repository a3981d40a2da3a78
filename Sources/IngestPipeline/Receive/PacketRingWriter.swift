// packet → [decode → ring] → admit → block → segment → compaction → snapshot → query
import IngestFormat
import IngestRing

/// Checks and decodes one datagram at a time and writes it to the ring as a record. Owned by the receive
/// queue, as part of the `UDPReceiver`.
///
/// The order of checks is that of PROTOCOL.md §2.2: a datagram that fails one leaves no record and no state
/// but its count. What passed identity gets a record even if its payload could not be decoded: its
/// sequence is consumed.
struct PacketRingWriter: ~Copyable {
    private var producer: RingProducer
    private let decoder: EventDecoder
    private let jsonDecoder: JSONEventDecoder
    private let scratch = EventScratch()
    /// Counts of refused packets that are not in the ring yet, by raw value of `PacketResult`.
    private var refusals = InlineArray<16, UInt64>(repeating: 0)
    private var hasRefusals = false
    private var eventCount: UInt64 = 0

    init(producer: consuming RingProducer, hash: KeyedHash) {
        self.producer = producer
        decoder = EventDecoder(hash: hash)
        jsonDecoder = JSONEventDecoder(hash: hash)
    }

    mutating func publish() { producer.publish() }

    mutating func refuse(_ result: PacketResult) {
        refusals[Int(result.rawValue)] &+= 1
        hasRefusals = true
    }

    /// Events written since the last call.
    mutating func takeEventCount() -> UInt64 {
        defer { eventCount = 0 }
        return eventCount
    }

    /// Takes one datagram; its bytes may be changed.
    /// - Returns: `accepted` if it is in the ring, else why it is not.
    mutating func take(_ bytes: UnsafeMutableRawBufferPointer) -> PacketResult {
        let readOnly = UnsafeRawBufferPointer(bytes)
        if unsafe PacketHeader.isPlain(readOnly) { return unsafe takePlain(bytes) }
        let parsed = unsafe PacketHeader.parse(readOnly)
        switch parsed {
        case .refused(let result): return result
        case .packet(let header): return unsafe takeFramed(readOnly, header)
        }
    }

    private mutating func takePlain(_ bytes: UnsafeMutableRawBufferPointer) -> PacketResult {
        let outcome = unsafe jsonDecoder.decode(bytes, into: scratch)
        guard case .events(let count, let malformed) = outcome else { return .malformed }
        var record = RingRecordHeader(kind: RingRecordKind.plain)
        record.malformedCount = UInt32(malformed)
        return unsafe write(&record, UnsafeRawBufferPointer(bytes), eventCount: count)
    }

    private mutating func takeFramed(
        _ bytes: UnsafeRawBufferPointer, _ header: PacketHeader
    ) -> PacketResult {
        let isBatch = header.kind == .batch
        var record = RingRecordHeader(
            kind: isBatch ? RingRecordKind.framed : RingRecordKind.heartbeat)
        record.sender = header.sender.rawValue
        record.epoch = header.epoch.rawValue
        record.sequence = header.sequence.rawValue
        record.keyID = header.keyID
        if header.isAckWanted { record.flags |= RingRecordHeader.Flags.wantsAck }
        guard isBatch else { return unsafe write(&record, bytes, eventCount: 0) }
        let outcome = unsafe decoder.decode(
            bytes, payloadOffset: PacketHeader.byteCount, payloadByteCount: header.payloadByteCount,
            into: scratch)
        guard case .events(let count, let malformed) = outcome else {
            record.flags |= RingRecordHeader.Flags.isMalformed
            return unsafe write(
                &record, UnsafeRawBufferPointer(rebasing: bytes[..<0]), eventCount: 0)
        }
        record.malformedCount = UInt32(malformed)
        return unsafe write(&record, bytes, eventCount: count)
    }

    /// Writes a record of the packet's bytes and the scratch's first `count` descriptors.
    private mutating func write(
        _ record: inout RingRecordHeader, _ bytes: UnsafeRawBufferPointer, eventCount count: Int
    ) -> PacketResult {
        record.packetByteCount = UInt32(bytes.count)
        record.eventCount = UInt32(count)
        let place = RingLayout.descriptorOffset(packetByteCount: bytes.count)
        let descriptorsByteCount = count &* MemoryLayout<EventDescriptor>.stride
        guard let target = unsafe producer.claim(record, byteCount: place &+ descriptorsByteCount)
        else { return .shed }
        // SAFETY: the record holds header, packet bytes and descriptors, by the byte count claimed.
        if let base = bytes.baseAddress {
            unsafe (target + RingLayout.recordHeaderByteCount).copyMemory(
                from: base, byteCount: bytes.count)
        }
        unsafe (target + place).copyMemory(
            from: scratch.descriptors, byteCount: descriptorsByteCount)
        producer.commit()
        eventCount &+= UInt64(count)
        return .accepted
    }

    /// Puts the counts of refused packets into the ring; if it is full, they wait for the next time.
    mutating func flushRefusals() {
        guard hasRefusals else { return }
        let byteCount = PacketResult.allCases.count &* MemoryLayout<UInt64>.size
        var record = RingRecordHeader(kind: RingRecordKind.refusals)
        record.packetByteCount = UInt32(byteCount)
        let total = RingLayout.recordHeaderByteCount &+ byteCount
        guard let target = unsafe producer.claim(record, byteCount: total) else { return }
        for index in 0..<PacketResult.allCases.count {
            // SAFETY: `byteCount` bytes follow the header; the place is 8-aligned.
            unsafe (target + RingLayout.recordHeaderByteCount).storeBytes(
                of: refusals[index], toByteOffset: index &* MemoryLayout<UInt64>.size,
                as: UInt64.self)
            refusals[index] = 0
        }
        producer.commit()
        hasRefusals = false
    }
}
