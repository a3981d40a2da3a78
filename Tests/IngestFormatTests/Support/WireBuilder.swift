import TestSupport

/// Writes the protobuf wire format by hand, well or badly: what no encoder of a schema would write.
struct WireBuilder {
    var bytes: [UInt8] = []

    /// `value` in at least `byteCount` bytes, longer than need be if that is more.
    static func varint(_ value: UInt64, byteCount: Int = 1) -> [UInt8] {
        var out: [UInt8] = []
        var rest = value
        repeat {
            out.append(UInt8(truncatingIfNeeded: rest) & 0x7F)
            rest >>= 7
        } while rest != 0 || out.count < byteCount
        for i in 0..<out.count - 1 { out[i] |= 0x80 }
        return out
    }

    static func field(_ number: UInt64, varint value: UInt64, byteCount: Int = 1) -> [UInt8] {
        varint(number << 3) + varint(value, byteCount: byteCount)
    }

    static func field(_ number: UInt64, bytes: [UInt8]) -> [UInt8] {
        varint(number << 3 | 2) + varint(UInt64(bytes.count)) + bytes
    }

    static func field(_ number: UInt64, fixed64: [UInt8]) -> [UInt8] {
        varint(number << 3 | 1) + fixed64
    }

    static func field(_ number: UInt64, fixed32: [UInt8]) -> [UInt8] {
        varint(number << 3 | 5) + fixed32
    }

    static func group(_ number: UInt64, _ content: [UInt8]) -> [UInt8] {
        varint(number << 3 | 3) + content + varint(number << 3 | 4)
    }

    /// A field that the schema does not know, of any wire type.
    static func unknownField(_ random: inout SeededRandom, depth: Int = 0) -> [UInt8] {
        let number = UInt64(16 + random.below(random.oneIn(2) ? 10 : (1 << 29) - 17))
        switch random.below(depth < 4 ? 5 : 4) {
        case 0: return field(number, varint: random.next() >> UInt64(random.below(64)))
        case 1: return field(number, fixed64: random.bytes(count: 8))
        case 2: return field(number, fixed32: random.bytes(count: 4))
        case 3: return field(number, bytes: random.bytes(count: random.below(200)))
        default:
            let content = (0..<random.below(3)).flatMap { _ in
                unknownField(&random, depth: depth + 1)
            }
            return group(number, content)
        }
    }
}
