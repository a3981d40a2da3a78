import IngestRing

/// A record's contents, outside the ring.
struct Message: Equatable {
    var sequence: UInt64
    var packet: [UInt8]

    /// Bytes that tell of their place and their message, so that a stray byte shows.
    init(sequence: UInt64, packetByteCount: Int) {
        self.sequence = sequence
        packet = (0..<packetByteCount).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ Int(sequence)) }
    }

    init(_ record: RingRecord) {
        sequence = record.header.sequence
        packet = record.packetBytes.map { $0 }
    }

    var header: RingRecordHeader {
        var header = RingRecordHeader(kind: RingRecordKind.framed)
        header.sequence = sequence
        header.packetByteCount = UInt16(packet.count)
        return header
    }

    /// What it takes in the ring, without padding.
    var recordByteCount: Int { RingLayout.recordByteCount(byteCount) }
    var byteCount: Int { RingLayout.recordHeaderByteCount + packet.count }
}

extension RingProducer {
    /// Claims and writes one record, without committing it; `false` when the ring is full.
    mutating func write(_ message: Message, leaving reserve: Int = 0) -> Bool {
        write(message.packet, message.header, leaving: reserve)
    }

    mutating func write(
        _ packet: [UInt8], _ header: RingRecordHeader, leaving reserve: Int = 0
    ) -> Bool {
        let byteCount = RingLayout.recordHeaderByteCount + packet.count
        guard let record = claim(header, byteCount: byteCount, leaving: reserve) else {
            return false
        }
        // Byte by byte, here and in `packetBytes`: ThreadSanitizer sees what is compiled with it, not what
        // the standard library does inside.
        let bytes = (record + RingLayout.recordHeaderByteCount).assumingMemoryBound(to: UInt8.self)
        for index in packet.indices { bytes[index] = packet[index] }
        return true
    }

    mutating func append(_ message: Message, leaving reserve: Int = 0) -> Bool {
        guard write(message, leaving: reserve) else { return false }
        commit()
        return true
    }
}

extension RingRecord {
    var packetBytes: some Sequence<UInt8> {
        let bytes = packet.assumingMemoryBound(to: UInt8.self)
        return (0..<Int(header.packetByteCount)).lazy.map { bytes[$0] }
    }
}

/// Both ends of one ring in one place: `#expect` cannot look into values that cannot be copied, and
/// closures that run on two threads cannot own them.
final class TestRing: @unchecked Sendable {
    var producer: RingProducer
    var consumer: RingConsumer

    init(byteCount: Int, slabByteCount: Int? = nil) {
        let ends = EventRing.make(byteCount: byteCount, slabByteCount: slabByteCount)!
        producer = ends.producer
        consumer = ends.consumer
    }

    func append(_ message: Message, leaving reserve: Int = 0) -> Bool {
        producer.append(message, leaving: reserve)
    }
    func write(_ message: Message) -> Bool { producer.write(message) }
    func claim(_ header: RingRecordHeader, byteCount: Int) -> UnsafeMutableRawPointer? {
        producer.claim(header, byteCount: byteCount)
    }
    var usedByteCount: Int { producer.usedByteCount() }

    func nextRecord() -> RingRecord? { consumer.next() }
    var nextSequence: UInt64? { consumer.peek()?.header.sequence }
    func next() -> Message? { consumer.next().map(Message.init) }
    func wait(timeoutNanoseconds: UInt64 = 0) -> RingWait {
        consumer.wait(timeoutNanoseconds: timeoutNanoseconds)
    }

    /// Moves the end of the records to `offset`, a multiple of 64, of an empty ring.
    func moveEnd(to offset: Int) {
        for _ in 0..<offset / 64 {
            precondition(append(Message(sequence: 0, packetByteCount: 0)))
            producer.publish()
            _ = next()
            consumer.release()
        }
    }
}
