import IngestFormat
import TestSupport
import Testing

struct PacketHeaderTests {
    private static func packet(
        kind: PacketKind = .batch, flags: UInt8 = 1, payload: [UInt8] = [1, 2, 3], tag: [UInt8] = []
    ) -> [UInt8] {
        var header = PacketHeader(
            kind: kind, flags: flags, keyID: 0x0201,
            sender: SenderID(rawValue: 0x0807_0605_0403_0201),
            epoch: SenderEpoch(rawValue: 0x1817_1615_1413_1211),
            sequence: PacketSequence(rawValue: 0x2827_2625_2423_2221))
        var bytes = [UInt8](repeating: 0, count: PacketHeader.byteCount) + payload
        header.seal(&bytes)
        return bytes + tag
    }

    private static func parse(
        _ packet: [UInt8], for receiver: PacketHeader.Receiver = .daemon
    ) -> PacketHeader.Parsed {
        packet.withUnsafeBytes { PacketHeader.parse($0, for: receiver) }
    }

    @Test func `A header comes back, at the offsets of the contract`() throws {
        let packet = Self.packet()
        #expect(Array(packet[..<4]) == Array("IGD1".utf8))
        #expect(packet[4] == 1)
        #expect(packet[5] == 1)
        #expect(Array(packet[6..<8]) == [1, 2])
        #expect(Array(packet[8..<16]) == [1, 2, 3, 4, 5, 6, 7, 8])
        #expect(Array(packet[16..<24]) == [UInt8](0x11...0x18))
        #expect(Array(packet[24..<32]) == [UInt8](0x21...0x28))
        #expect(Array(packet[32..<36]) == [3, 0, 0, 0])
        guard case .packet(let header) = Self.parse(packet) else {
            Issue.record("refused")
            return
        }
        #expect(header.kind == .batch)
        #expect(header.isAckWanted)
        #expect(!header.hasTag)
        #expect(header.keyID == 0x0201)
        #expect(header.sender.rawValue == 0x0807_0605_0403_0201)
        #expect(header.epoch.rawValue == 0x1817_1615_1413_1211)
        #expect(header.sequence.rawValue == 0x2827_2625_2423_2221)
        #expect(header.payloadByteCount == 3)
        #expect(header.packetByteCount == packet.count)
        #expect(header.checksum == Checksum.crc32c(Array(packet[..<36]) + packet[40...]))
    }

    struct Damage: Sendable, CustomTestStringConvertible {
        var name: String
        var result: PacketResult
        var corrupt: @Sendable (inout [UInt8]) -> Void
        var testDescription: String { name }
        init(
            _ name: String, _ result: PacketResult,
            _ corrupt: @escaping @Sendable (inout [UInt8]) -> Void
        ) {
            self.name = name
            self.result = result
            self.corrupt = corrupt
        }
    }

    static let damages: [Damage] = [
        Damage("nothing at all", .badMagic) { $0 = [] },
        Damage("the first bytes of the magic", .badMagic) { $0 = Array($0[..<3]) },
        Damage("the magic alone", .badLength) { $0 = Array($0[..<4]) },
        Damage("one byte less than a header", .badLength) { $0 = Array($0[..<39]) },
        Damage("a short text", .badMagic) { $0 = Array("hello".utf8) },
        Damage("a short text that begins as the magic does", .badMagic) { $0 = Array("IGX".utf8) },
        Damage("another magic", .badMagic) { $0[0] = 0x69 },
        Damage("another version", .badMagic) { $0[3] = UInt8(ascii: "2") },
        Damage("another version, and the length wrong", .badMagic) {
            $0[3] = 0x32; $0.removeLast()
        },
        Damage("the last byte missing", .badLength) { $0.removeLast() },
        Damage("a byte too many", .badLength) { $0.append(0) },
        Damage("a payload count of 4 GiB", .badLength) {
            $0.replaceSubrange(32..<36, with: [255, 255, 255, 255])
        },
        Damage("the tag bit without a tag", .badLength) { $0[5] |= 2 },
        Damage("kind", .badCRC) {
            $0[4] = 2; $0 += [UInt8](repeating: 0, count: 61); $0[32] = 64
        },
        Damage("a flag bit", .badCRC) { $0[5] ^= 1 },
        Damage("key id", .badCRC) { $0[6] ^= 1 },
        Damage("sender", .badCRC) { $0[8] ^= 1 },
        Damage("epoch", .badCRC) { $0[16] ^= 1 },
        Damage("sequence", .badCRC) { $0[31] ^= 1 },
        Damage("checksum", .badCRC) { $0[36] ^= 1 },
        Damage("payload", .badCRC) { $0[42] ^= 0x80 },
        Damage("an unknown kind, sealed", .badKind) {
            $0[4] = 5; $0 = $0.sealedPacket()
        },
        Damage("kind 0, sealed", .badKind) {
            $0[4] = 0; $0 = $0.sealedPacket()
        },
        Damage("an ack sent to the daemon, sealed", .badKind) {
            $0[4] = 129; $0 = $0.sealedPacket()
        },
        Damage("a flag bit without meaning, sealed", .badKind) {
            $0[5] |= 4; $0 = $0.sealedPacket()
        },
        Damage("the highest flag bit, sealed", .badKind) {
            $0[5] |= 128; $0 = $0.sealedPacket()
        },
        Damage("sender 0, sealed", .badKind) {
            $0.replaceSubrange(8..<16, with: [UInt8](repeating: 0, count: 8))
            $0 = $0.sealedPacket()
        },
        Damage("a heartbeat of 3 bytes, sealed", .badLength) {
            $0[4] = 2; $0 = $0.sealedPacket()
        },
    ]

    @Test(arguments: damages)
    func `A damaged packet is refused under the name of its first failure`(damage: Damage) {
        var packet = Self.packet()
        damage.corrupt(&packet)
        #expect(Self.parse(packet) == .refused(damage.result))
    }

    @Test
    func `Every flipped bit of a packet is refused, and only a bit of the tag is not seen here`() {
        let tag = [UInt8](repeating: 0xAA, count: 16)
        let packet = Self.packet(flags: 3, payload: [UInt8](0..<30), tag: tag)
        guard case .packet(let header) = Self.parse(packet) else {
            Issue.record("refused")
            return
        }
        #expect(header.hasTag)
        for bit in 0..<packet.count * 8 {
            var flipped = packet
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            let isInTag = bit / 8 >= packet.count - 16
            #expect((Self.parse(flipped) == .packet(header)) == isInTag, "bit \(bit)")
        }
    }

    @Test func `Any key id is taken where no keys are asked for`() {
        for keyID in [0, 1, 65_535] as [UInt16] {
            var packet = Self.packet()
            packet[6] = UInt8(truncatingIfNeeded: keyID)
            packet[7] = UInt8(truncatingIfNeeded: keyID >> 8)
            guard case .packet(let header) = Self.parse(packet.sealedPacket()) else {
                Issue.record("refused")
                return
            }
            #expect(header.keyID == keyID)
        }
    }

    @Test func `Pending and echo are flags of acks alone`() {
        for flag in [PacketHeader.Flags.isPending, PacketHeader.Flags.echoesNonce] {
            let ack = Self.packet(
                kind: .ack, flags: flag, payload: [UInt8](repeating: 0, count: 40))
            guard case .packet(let header) = Self.parse(ack, for: .sender) else {
                Issue.record("refused")
                return
            }
            #expect(header.isPending == (flag == 4) && header.echoesNonce == (flag == 8))
            #expect(Self.parse(Self.packet(flags: 1 | flag)) == .refused(.badKind))
        }
        let unknown = Self.packet(kind: .ack, flags: 16, payload: [UInt8](repeating: 0, count: 40))
        #expect(Self.parse(unknown, for: .sender) == .refused(.badKind))
    }

    @Test func `A sender takes acks, and nothing else`() {
        let ack = Self.packet(kind: .ack, payload: [UInt8](repeating: 0, count: 16))
        #expect(Self.parse(ack) == .refused(.badKind))
        guard case .packet(let header) = Self.parse(ack, for: .sender) else {
            Issue.record("refused")
            return
        }
        #expect(header.kind == .ack)
        #expect(Self.parse(Self.packet(), for: .sender) == .refused(.badKind))
    }

    @Test func `The largest packet is taken and one byte more is not`() {
        let payload = [UInt8](repeating: 7, count: Limits.payloadByteCountMax)
        let packet = Self.packet(payload: payload)
        #expect(packet.count == Limits.packetByteCountMax)
        guard case .packet = Self.parse(packet) else {
            Issue.record("refused")
            return
        }
        #expect(Self.parse(packet + [0]) == .refused(.badLength))
    }

    @Test func `Plain datagrams are told from framed ones by their first byte`() {
        func isPlain(_ bytes: [UInt8]) -> Bool {
            bytes.withUnsafeBytes { PacketHeader.isPlain($0) }
        }
        #expect(isPlain(Array("{}".utf8)))
        #expect(!isPlain(Array(" {}".utf8)))
        #expect(!isPlain(Self.packet()))
        #expect(!isPlain([]))
    }

    @Test func `A heartbeat carries base, seen and nonce, and nothing else but zeros`() {
        let header = PacketHeader(
            kind: .heartbeat, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 2),
            sequence: PacketSequence(rawValue: 10))
        let content = Heartbeat(base: 9, seen: 8, nonce: 1 << 63)
        let packet = content.packet(header, payloadByteCount: 70)
        guard case .packet(let parsed) = Self.parse(packet) else {
            Issue.record("refused")
            return
        }
        #expect(parsed.kind == .heartbeat)
        #expect(parsed.payloadByteCount == 70)
        func read(_ payload: [UInt8]) -> Heartbeat? {
            payload.withUnsafeBytes { Heartbeat($0) }
        }
        let payload = Array(packet[40...])
        #expect(read(payload) == content)
        #expect(packet.withUnsafeBytes { Heartbeat(ofPacket: $0) } == content)
        #expect((payload[0], payload[8], payload[23]) == (9, 8, 0x80))
        for at in 24..<70 {
            var changed = payload
            changed[at] = 1
            #expect(read(changed) == nil, "byte \(at)")
        }
        #expect(read(Array(payload[..<63])) == nil)
        #expect(Heartbeat(base: 0).packet(header).count == 104)
        #expect(Self.packet().withUnsafeBytes { Heartbeat(ofPacket: $0) } == nil)
    }
}
