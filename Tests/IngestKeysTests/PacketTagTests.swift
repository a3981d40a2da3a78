import Crypto
import Foundation
import IngestFormat
import IngestKeys
import Testing

struct PacketTagTests {
    private static func hex(_ text: String) -> [UInt8] {
        let digits = text.compactMap { $0.hexDigitValue.map { UInt8($0) } }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    private static func tag(_ key: TagKey, _ bytes: [UInt8]) -> [UInt8] {
        var packet = bytes
        key.append(to: &packet)
        return Array(packet[bytes.count...])
    }

    private static func isTag(_ key: TagKey, _ packet: [UInt8]) -> Bool {
        packet.withUnsafeBytes { key.isTag(of: $0) }
    }

    struct Vector: Sendable {
        var key: [UInt8]
        var data: [UInt8]
        var front: String
    }

    /// RFC 4231, sections 4.2 to 4.8; of each the first 16 bytes of HMAC-SHA-256.
    static let vectors: [Vector] = [
        Vector(
            key: .init(repeating: 0x0B, count: 20), data: Array("Hi There".utf8),
            front: "b0344c61d8db38535ca8afceaf0bf12b"),
        Vector(
            key: Array("Jefe".utf8), data: Array("what do ya want for nothing?".utf8),
            front: "5bdcc146bf60754e6a042426089575c7"),
        Vector(
            key: .init(repeating: 0xAA, count: 20), data: .init(repeating: 0xDD, count: 50),
            front: "773ea91e36800e46854db8ebd09181a7"),
        Vector(
            key: [UInt8](1...25), data: .init(repeating: 0xCD, count: 50),
            front: "82558a389a443c0ea4cc819899f2083a"),
        Vector(
            key: .init(repeating: 0x0C, count: 20), data: Array("Test With Truncation".utf8),
            front: "a3b6167473100ee06e0c796c2955552b"),
        Vector(
            key: .init(repeating: 0xAA, count: 131),
            data: Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
            front: "60e431591ee0b67f0d8a26aacbf5b77f"),
        Vector(
            key: .init(repeating: 0xAA, count: 131),
            data: Array(
                ("This is a test using a larger than block-size key and a larger than "
                    + "block-size data. The key needs to be hashed before being used by the "
                    + "HMAC algorithm.").utf8),
            front: "9b09ffa71b942fcb27635fbcd5b0e944"),
    ]

    @Test(arguments: vectors)
    func `The vectors of RFC 4231`(vector: Vector) {
        let key = TagKey(vector.key)
        #expect(Self.tag(key, vector.data) == Self.hex(vector.front))
        // The prepared states are not used up.
        #expect(Self.tag(key, vector.data) == Self.hex(vector.front))
    }

    @Test func `The front of swift-crypto's own HMAC, for every length of key and packet`() {
        for keyByteCount in [1, 16, 31, 32, 63, 64, 65, 200] {
            let bytes = (0..<keyByteCount).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ 1) }
            let key = TagKey(bytes)
            for byteCount in 0..<200 {
                let data = (0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* 31) }
                let whole = HMAC<SHA256>.authenticationCode(
                    for: data, using: SymmetricKey(data: bytes))
                #expect(Self.tag(key, data) == Array(Array(whole)[..<16]))
            }
        }
    }

    @Test func `The golden tagged packet is whole, and no flipped bit of it is`() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent()
        let packet = try [UInt8](Data(contentsOf: root.appending(path: "Fixtures/v1/tagged.bin")))
        let key = TagKey([UInt8](0..<32))
        let parsed = packet.withUnsafeBytes { PacketHeader.parse($0) }
        guard case .packet(let header) = parsed else {
            Issue.record("\(parsed)")
            return
        }
        #expect(header.hasTag && header.keyID == 1)
        #expect(Self.isTag(key, packet))
        #expect(!Self.isTag(TagKey([UInt8](1..<33)), packet))
        for bit in 0..<packet.count * 8 {
            var flipped = packet
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(!Self.isTag(key, flipped), "bit \(bit)")
        }
        for byteCount in 0..<packet.count { #expect(!Self.isTag(key, Array(packet[..<byteCount]))) }
        var again = Array(packet[..<(packet.count - 16)])
        key.append(to: &again)
        #expect(again == packet)
    }
}
