import CIngestLinux
import IngestFormat
import TestSupport
import Testing

struct ChecksumTests {
    /// Bit by bit, straight from the definition; shares nothing with the code under test.
    private func reference(_ bytes: [UInt8]) -> UInt32 {
        var crc: UInt32 = 0xFFFF_FFFF
        for byte in bytes {
            crc ^= UInt32(byte)
            for _ in 0..<8 { crc = crc & 1 == 1 ? (crc >> 1) ^ 0x82F6_3B78 : crc >> 1 }
        }
        return ~crc
    }

    @Test(
        arguments: [
            (Array("123456789".utf8), 0xE306_9283),
            ([UInt8](repeating: 0, count: 32), 0x8A91_36AA),
            ([UInt8](repeating: 0xFF, count: 32), 0x62A8_AB43),
            ([UInt8](0..<32), 0x46DD_794E),
            ([UInt8]((0..<32).reversed()), 0x113F_DB5C),
            ([], 0),
        ] as [([UInt8], UInt32)])
    func `CRC-32C gives the values of RFC 3720`(bytes: [UInt8], expected: UInt32) {
        #expect(Checksum.crc32c(bytes) == expected)
        #expect(reference(bytes) == expected)
    }

    @Test func `CRC-32C agrees with the bitwise reference at every length and alignment`() {
        var random = SeededRandom(seed: 1)
        let bytes = random.bytes(count: 4200)
        for length in Array(0..<900) + [1400, 1472, 3071, 3072, 3073, 3168, 4095, 4096] {
            let start = length % 9
            let slice = bytes[start..<start + length]
            let expected = reference(Array(slice))
            #expect(Checksum.crc32c(slice) == expected, "length \(length)")
            let portable = slice.withUnsafeBytes {
                ingest_crc32c_portable(0, $0.baseAddress, $0.count)
            }
            #expect(portable == expected, "portable, length \(length)")
        }
    }

    @Test func `CRC-32C of a largest packet agrees with the bitwise reference`() {
        var random = SeededRandom(seed: 2)
        let bytes = random.bytes(count: Limits.packetByteCountMax)
        #expect(Checksum.crc32c(bytes) == reference(bytes))
    }

    @Test func `CRC-32C goes on from a seed at every cut`() {
        var random = SeededRandom(seed: 3)
        let bytes = random.bytes(count: 500)
        let whole = Checksum.crc32c(bytes)
        for cut in 0...bytes.count {
            let first = Checksum.crc32c(bytes[..<cut])
            #expect(Checksum.crc32c(bytes[cut...], seed: first) == whole)
        }
    }
}
