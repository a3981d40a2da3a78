import IngestRing

/// A record, copied out of the ring.
struct Message: Equatable {
    var sequence: UInt64
    var packet: [UInt8]
}

extension RingProducer {
    /// Claims, writes and commits one record; `false` when the ring is full.
    mutating func append(_ message: Message) -> Bool {
        guard let packet = claim(message) else { return false }
        packet.copyBytes(from: message.packet)
        commit()
        return true
    }

    /// Claims room for a message and returns the place of its packet bytes.
    mutating func claim(_ message: Message) -> UnsafeMutableRawBufferPointer? {
        var header = RingRecordHeader(kind: RingRecordKind.framed)
        header.sequence = message.sequence
        header.packetByteCount = UInt32(message.packet.count)
        let byteCount = RingLayout.recordHeaderByteCount + message.packet.count
        guard let record = claim(header, byteCount: byteCount) else { return nil }
        return UnsafeMutableRawBufferPointer(
            start: record + RingLayout.recordHeaderByteCount, count: message.packet.count)
    }
}

extension RingConsumer {
    /// Reads the next record.
    mutating func nextMessage() -> Message? {
        guard let record = next() else { return nil }
        return Message(
            sequence: record.header.sequence,
            packet: Array(
                UnsafeRawBufferPointer(
                    start: record.packet, count: Int(record.header.packetByteCount))))
    }
}

/// Both ends of one ring in one place: `#expect` cannot look into values that cannot be copied.
final class TestRing {
    var producer: RingProducer
    var consumer: RingConsumer

    init(byteCount: Int) {
        let ends = EventRing.make(byteCount: byteCount)!
        producer = ends.producer
        consumer = ends.consumer
    }

    func append(_ message: Message) -> Bool { producer.append(message) }
    func next() -> Message? { consumer.nextMessage() }
}
