import CIngestLinux
import TestSupport
import Testing

@testable import IngestFormat

struct KeyedHashTests {
    private static let key = [UInt8](0..<32)
    private let hash = KeyedHash(key: Self.key)!

    private func derived(_ key: [UInt8]) -> ingest_hash_key {
        var out = ingest_hash_key()
        key.withUnsafeBufferPointer { ingest_hash_key_derive(&out, $0.baseAddress!) }
        return out
    }

    private func event(_ business: UInt64, _ id: [UInt8]) -> UInt64 {
        id.withUnsafeBytes { hash.event(businessHash: business, id: $0.baseAddress!, $0.count) }
    }

    @Test func `The software AES gives the AES-256 vector of FIPS 197`() {
        let plain: [UInt8] = (0..<16).map { $0 << 4 | $0 }
        var cipher = [UInt8](repeating: 0, count: 16)
        ingest_aes256_encrypt(&cipher, plain, Self.key)
        #expect(
            cipher == [
                0x8e, 0xa2, 0xb7, 0xca, 0x51, 0x67, 0x45, 0xbf,
                0xea, 0xfc, 0x49, 0x90, 0x4b, 0x49, 0x60, 0x89,
            ])
    }

    @Test func `The hash with AES instructions equals the one in software at every length`() {
        var random = SeededRandom(seed: 4)
        for round in 0..<20 {
            let key = derived(random.bytes(count: 32))
            for count in 0...Limits.nameByteCountMax {
                let bytes = random.bytes(count: count)
                let domain = UInt32(round % 3)
                let context = random.next()
                let (fast, slow) = withUnsafePointer(to: key) { key in
                    (
                        ingest_hash(key, domain, context, bytes, count),
                        ingest_hash_portable(key, domain, context, bytes, count)
                    )
                }
                #expect(fast == slow, "\(count) bytes")
            }
        }
    }

    /// The values are those of a second implementation, in Python, that shares no line with this one.
    @Test func `Algorithm 1 never changes its values`() {
        #expect(hash.name([]) == 0xea68_bb24_5edb_dfc8)
        #expect(hash.name(Array("reward-1".utf8)) == 0xb46a_a2e3_b4f3_cc25)
        #expect(hash.name(Array("a name of more than sixteen bytes".utf8)) == 0xacb3_ac60_6326_3f11)
        #expect(hash.name([UInt8](0..<128)) == 0xcce0_a661_93ef_cc06)
        #expect(event(7, [1, 2, 3]) == 0xcb53_671f_f1ae_7138)
    }

    /// The values are those of a second implementation, in Python, that shares no line with this one.
    @Test
    func `The hash of a pair with AES instructions equals the one in software, and never changes`()
    {
        var random = SeededRandom(seed: 5)
        let key = derived(Self.key)
        for _ in 0..<4_000 {
            let reward = random.bytes(count: 1 + Int(random.next() % 128))
            let business = random.bytes(count: 1 + Int(random.next() % 128))
            let slow = withUnsafePointer(to: key) {
                ingest_hash_pair_portable($0, reward, reward.count, business, business.count)
            }
            #expect(
                hash.pair(reward: reward, business: business)
                    == PairHash(low: slow.low, tag: slow.tag))
        }
        #expect(
            hash.pair(reward: Array("reward-1".utf8), business: Array("business-1".utf8))
                == PairHash(low: 0xe25e_4821_b9de_e7d3, tag: 0xab40_f572))
    }

    @Test
    func `Pairs that share bytes, lengths or names the other way round have different hashes`() {
        let texts = (1...40).map { [UInt8](repeating: 65, count: $0) } + [[66], [67], [66, 65]]
        var low: Set<UInt64> = []
        var tags: Set<UInt32> = []
        for reward in texts {
            for business in texts {
                let pair = hash.pair(reward: reward, business: business)
                low.insert(pair.low)
                tags.insert(pair.tag)
            }
        }
        #expect(low.count == texts.count * texts.count && tags.count == low.count)
    }

    @Test func `Inputs that differ in length, domain, context or any bit have different hashes`() {
        var seen: Set<UInt64> = []
        var count = 0
        func add(_ value: UInt64) {
            seen.insert(value)
            count += 1
        }
        for length in 0...64 {
            add(hash.name([UInt8](repeating: 0, count: length)))
            for business in 0..<4 as Range<UInt64> {
                add(event(business, [UInt8](repeating: 0, count: length)))
            }
        }
        for bit in 0..<(128 * 8) {
            var bytes = [UInt8](repeating: 0xA5, count: 128)
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            add(hash.name(bytes))
        }
        #expect(seen.count == count)
    }

    @Test func `Two keys give unrelated hashes`() {
        let other = KeyedHash(key: [UInt8](1...32))!
        let name = Array("reward-1".utf8)
        #expect(other.name(name) != hash.name(name))
        #expect(KeyedHash(key: [UInt8](0..<31)) == nil)
    }

    @Test func `An event id that is a UUID in text has the hash of its 16 bytes`() {
        let bytes: [UInt8] = [
            0x42, 0x4d, 0xc7, 0xf0, 0x7a, 0x1c, 0x55, 0x02,
            0xbf, 0xd1, 0x56, 0x2d, 0x5e, 0x27, 0xf8, 0x31,
        ]
        let lower = Array("424dc7f0-7a1c-5502-bfd1-562d5e27f831".utf8)
        let upper = Array("424DC7F0-7A1C-5502-BFD1-562D5E27F831".utf8)
        #expect(event(9, lower) == event(9, bytes))
        #expect(event(9, upper) == event(9, bytes))
        for at in 0..<36 {
            var broken = lower
            broken[at] = UInt8(ascii: "g")
            #expect(event(9, broken) != event(9, bytes), "byte \(at)")
        }
    }
}
