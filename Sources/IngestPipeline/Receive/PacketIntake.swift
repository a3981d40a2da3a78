// [packet] → [decode] → [ring] → admit → block → segment → compaction → snapshot → query

import CIngestLinux
import IngestFormat
import IngestRing

/// Takes received datagrams apart: checks and decodes each and puts it into the ring, or counts why not.
/// Owned by the receive queue.
///
/// This is the hot loop of receiving; it knows nothing of sockets and clocks, so that it stays concrete
/// whatever they are.
///
/// **Cost** No allocation and no reference counting a packet; see `receiveBenchmark`.
struct PacketIntake: ~Copyable {
    private var ring: RingProducer
    private let scratch = EventScratch()
    private let eventDecoder: EventDecoder
    private let jsonDecoder: JSONEventDecoder
    private let counters: PipelineCounters
    private var tally = IntakeTally()
    private(set) var refusals = RefusalSamples()

    /// Kept free in the ring, so that the last refusals record finds room however full it is: the record
    /// is 184 bytes and needs up to as much padding before it.
    private static var reserveByteCount: Int { 512 }

    init(ring: consuming RingProducer, hash: KeyedHash, counters: PipelineCounters) {
        self.ring = ring
        eventDecoder = EventDecoder(hash: hash)
        jsonDecoder = JSONEventDecoder(hash: hash)
        self.counters = counters
    }

    /// Takes every datagram of the batch and shows the consumer what came of them.
    mutating func take(_ batch: borrowing PacketBatch) {
        for index in 0..<batch.count {
            // SAFETY: `count` datagrams have been filled, and their bytes stay until the next receive.
            unsafe take(batch.datagrams + index)
        }
        ring.publish()
        tally.flush(into: counters, bufferCount: batch.count)
    }

    /// Hands the refusals since the last such record down the ring. What does not fit stays for later;
    /// `isLast` uses the room that was kept free.
    mutating func handDownRefusals(isLast: Bool) {
        guard tally.hasUnrecorded else { return }
        var header = RingRecordHeader(kind: RingRecordKind.refusals)
        let byteCount = IntakeTally.resultCount * MemoryLayout<UInt64>.size
        header.packetByteCount = UInt32(truncatingIfNeeded: byteCount)
        // SAFETY: the claim is for the header and `byteCount` bytes from the 8-aligned place after it.
        guard
            let record = unsafe ring.claim(
                header, byteCount: RingLayout.recordHeaderByteCount + byteCount,
                leaving: isLast ? 0 : Self.reserveByteCount)
        else { return }
        for index in 0..<IntakeTally.resultCount {
            unsafe record.storeBytes(
                of: tally.unrecorded[index],
                toByteOffset: RingLayout.recordHeaderByteCount + index * MemoryLayout<UInt64>.size,
                as: UInt64.self)
        }
        ring.commit()
        ring.publish()
        tally.unrecorded = InlineArray(repeating: 0)
    }

    /// Says that nothing more will come.
    mutating func close() { ring.close() }

    /// The refusals that no line has told of yet, for the log.
    mutating func withRefusals(_ body: (inout RefusalSamples) -> Void) { body(&refusals) }
}

// MARK: One datagram

extension PacketIntake {
    /// A buffer: one datagram, or several of one size of which the last may be shorter.
    @unsafe private mutating func take(_ buffer: UnsafeMutablePointer<ingest_datagram>) {
        let byteCount = unsafe Int(buffer.pointee.byte_count)
        let segmentByteCount = unsafe max(1, Int(buffer.pointee.segment_byte_count))
        let bytes = unsafe UnsafeMutableRawPointer(buffer.pointee.bytes!)
        tally.byteCount &+= UInt64(byteCount)
        if unsafe buffer.pointee.is_truncated {
            tally.datagramCount &+= 1
            return unsafe refuse(.truncated, bytes, byteCount, buffer)
        }
        var offset = 0
        // Once for an empty datagram too: it is refused, not overlooked.
        repeat {
            let count = min(segmentByteCount, byteCount &- offset)
            // SAFETY: offset + count ≤ byteCount, and the buffer holds so many bytes.
            let packet = unsafe UnsafeMutableRawBufferPointer(start: bytes + offset, count: count)
            if let refusal = unsafe take(packet, from: buffer) {
                unsafe refuse(refusal, bytes + offset, count, buffer)
            }
            tally.datagramCount &+= 1
            offset &+= count
        } while offset < byteCount
    }

    /// One datagram. `nil` once it is in the ring, else why it is not.
    @unsafe private mutating func take(
        _ packet: UnsafeMutableRawBufferPointer, from buffer: UnsafeMutablePointer<ingest_datagram>
    ) -> PacketResult? {
        guard packet.count <= Limits.packetByteCountMax else { return .badLength }
        let bytes = UnsafeRawBufferPointer(packet)
        if unsafe PacketHeader.isPlain(bytes) { return unsafe takePlain(packet, from: buffer) }
        let parsed = unsafe PacketHeader.parse(bytes)
        switch parsed {
        case .refused(let result): return result
        case .packet(let header) where header.kind == .heartbeat:
            return unsafe takeHeartbeat(header, bytes)
        case .packet(let header): return unsafe takeBatch(header, bytes, from: buffer)
        }
    }

    @unsafe private mutating func takeBatch(
        _ header: PacketHeader, _ packet: UnsafeRawBufferPointer,
        from buffer: UnsafeMutablePointer<ingest_datagram>
    ) -> PacketResult? {
        // SAFETY: `parse` has checked that the payload lies inside the packet; the scratch has room for
        // the events of any packet.
        let outcome = unsafe eventDecoder.decode(
            packet: packet.baseAddress!, payloadOffset: PacketHeader.byteCount,
            payloadByteCount: header.payloadByteCount, into: scratch.descriptors)
        var record = RingRecordHeader(header, kind: RingRecordKind.framed)
        switch outcome {
        case .events(let count, let malformed):
            record.setCounts(events: count, malformed: malformed)
            let refusal = unsafe append(record, packet)
            if malformed > 0, refusal == nil {
                unsafe refusals.noteMalformedEvents(
                    malformed, byteCount: packet.count, from: buffer.pointee.source)
            }
            return refusal
        case .malformed:
            // The sequence is consumed all the same, so the record must go down; its bytes need not.
            record.flags |= RingRecordHeader.Flags.isMalformed
            let nothing = unsafe UnsafeRawBufferPointer(start: packet.baseAddress, count: 0)
            let refusal = unsafe append(record, nothing)
            if refusal == nil {
                tally.results[Int(PacketResult.malformed.rawValue)] &+= 1
                unsafe refusals.note(.malformed, packet, from: buffer.pointee.source)
            }
            return refusal
        }
    }

    @unsafe private mutating func takeHeartbeat(
        _ header: PacketHeader, _ packet: UnsafeRawBufferPointer
    ) -> PacketResult? {
        // SAFETY: `parse` has checked that the payload follows the header.
        let payload = unsafe UnsafeRawBufferPointer(
            start: packet.baseAddress! + PacketHeader.byteCount, count: header.payloadByteCount)
        guard unsafe Heartbeat.base(payload) != nil else { return .malformed }
        return unsafe append(RingRecordHeader(header, kind: RingRecordKind.heartbeat), packet)
    }

    @unsafe private mutating func takePlain(
        _ packet: UnsafeMutableRawBufferPointer, from buffer: UnsafeMutablePointer<ingest_datagram>
    ) -> PacketResult? {
        // SAFETY: as in `takeBatch`; the decoder overwrites nothing but this packet.
        let outcome = unsafe jsonDecoder.decode(
            packet: packet.baseAddress!, byteCount: packet.count, into: scratch.descriptors)
        guard case .events(let count, let malformed) = outcome else { return .malformed }
        var record = RingRecordHeader(kind: RingRecordKind.plain)
        record.setCounts(events: count, malformed: malformed)
        let refusal = unsafe append(record, UnsafeRawBufferPointer(packet))
        if malformed > 0, refusal == nil {
            unsafe refusals.noteMalformedEvents(
                malformed, byteCount: packet.count, from: buffer.pointee.source)
        }
        return refusal
    }

    /// Puts a record with the packet's bytes and the scratch's descriptors into the ring.
    @unsafe private mutating func append(
        _ record: RingRecordHeader, _ packet: UnsafeRawBufferPointer
    ) -> PacketResult? {
        var record = record
        record.packetByteCount = UInt32(truncatingIfNeeded: packet.count)
        let descriptorOffset = RingLayout.descriptorOffset(packetByteCount: packet.count)
        let descriptorByteCount = Int(record.eventCount) &* MemoryLayout<EventDescriptor>.stride
        // SAFETY: the claim is for the header, the packet's bytes after it, and the descriptors at their
        // offset; the scratch holds `eventCount` of them.
        guard
            let place = unsafe ring.claim(
                record, byteCount: descriptorOffset &+ descriptorByteCount,
                leaving: Self.reserveByteCount)
        else { return .shed }
        unsafe (place + RingLayout.recordHeaderByteCount).copyMemory(
            from: packet.baseAddress!, byteCount: packet.count)
        unsafe (place + descriptorOffset).copyMemory(
            from: scratch.descriptors, byteCount: descriptorByteCount)
        ring.commit()
        tally.eventCount &+= UInt64(record.eventCount)
        return nil
    }

    @unsafe private mutating func refuse(
        _ result: PacketResult, _ packet: UnsafeMutableRawPointer, _ byteCount: Int,
        _ buffer: UnsafeMutablePointer<ingest_datagram>
    ) {
        tally.results[Int(result.rawValue)] &+= 1
        tally.unrecorded[Int(result.rawValue)] &+= 1
        // SAFETY: byteCount bytes are there.
        let bytes = unsafe UnsafeRawBufferPointer(start: packet, count: byteCount)
        unsafe refusals.note(result, bytes, from: buffer.pointee.source)
    }
}

extension RingRecordHeader {
    /// A record of a framed packet.
    fileprivate init(_ header: PacketHeader, kind: UInt8) {
        self.init(kind: kind)
        if header.isAckWanted { flags = Flags.wantsAck }
        keyID = header.keyID
        sender = header.sender.rawValue
        epoch = header.epoch.rawValue
        sequence = header.sequence.rawValue
    }

    fileprivate mutating func setCounts(events: Int, malformed: Int) {
        eventCount = UInt32(truncatingIfNeeded: events)
        malformedCount = UInt32(truncatingIfNeeded: malformed)
    }
}
