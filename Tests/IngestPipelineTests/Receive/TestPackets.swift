import IngestFormat

/// Packets and datagrams as senders make them.
enum TestPackets {
    static let hash = KeyedHash(key: [UInt8](repeating: 7, count: 32))!
    static let sender = SenderID(rawValue: 0xABCD)
    static let epoch = SenderEpoch(rawValue: 1_763_600_000_000 << 20)

    static func header(
        _ sequence: UInt64, kind: PacketKind = .batch, flags: UInt8 = 0, keyID: UInt16 = 0,
        sender: SenderID = sender
    ) -> PacketHeader {
        PacketHeader(
            kind: kind, flags: flags, keyID: keyID, sender: sender, epoch: epoch,
            sequence: PacketSequence(rawValue: sequence))
    }

    /// A batch packet of `eventCount` clicks on `r-<sequence>-<index>`, padded to `byteCount` if given.
    static func batch(_ sequence: UInt64, eventCount: Int = 3, byteCount: Int? = nil) -> [UInt8] {
        var encoder = EventBatchEncoder(packetByteCountMax: byteCount ?? Limits.packetByteCountMax)
        for index in 0..<eventCount {
            let text = Array("r-\(sequence)-\(index)".utf8) + Array("b-1".utf8)
            var event = EventDescriptor()
            event.type = EventType.click.rawValue
            event.timestampMicroseconds = 1_763_600_000_000_000 + Int64(index)
            event.rewardByteCount = UInt8(text.count - 3)
            event.businessOffset = UInt16(text.count - 3)
            event.businessByteCount = 3
            let fits = text.withUnsafeBytes { encoder.append(event, from: $0) }
            precondition(fits)
        }
        return encoder.seal(header(sequence), isPadded: byteCount != nil)
    }

    /// A packet with this payload, whatever it is, and a good header and CRC.
    static func sealed(_ header: PacketHeader, payload: [UInt8]) -> [UInt8] {
        var packet = [UInt8](repeating: 0, count: PacketHeader.byteCount) + payload
        var header = header
        header.seal(&packet)
        return packet
    }

    static func heartbeat(_ sequence: UInt64, base: UInt64 = 0) -> [UInt8] {
        Heartbeat(base: base).packet(header(sequence, kind: .heartbeat))
    }

    /// A packet whose payload is no protobuf: a length that goes beyond the end.
    static func undecodable(_ sequence: UInt64) -> [UInt8] {
        sealed(header(sequence), payload: [0x0A, 0x7F, 0x00])
    }

    static func jsonLine(_ reward: String) -> String {
        #"{"eventType":"click","rewardId":"\#(reward)","businessId":"b-1","timestamp":1763600000000}"#
    }
}
