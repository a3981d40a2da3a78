import CIngestLinux
import Testing

struct UnpackTests {
    /// Values of `width` bits as one string of bits, lowest first, written bit by bit.
    private static func packed(_ values: [UInt64], width: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: (values.count * width + 7) / 8)
        for (i, value) in values.enumerated() {
            for bit in 0..<width where value >> UInt64(bit) & 1 != 0 {
                bytes[(i * width + bit) / 8] |= 1 << UInt8((i * width + bit) % 8)
            }
        }
        return bytes
    }

    @Test(arguments: 1...57)
    func `vectors unpack what was packed bit by bit, and write nothing beyond`(width: Int) {
        var random = SeededRandom(seed: UInt64(width))
        let mask = UInt64.max >> UInt64(64 - width)
        for count in Array(1...40) + [63, 64, 65, 127, 128, 129, 1_023, 1_024] {
            let values = (0..<count).map { _ in random.next() & mask }
            let base = random.next()
            var out = [UInt64](repeating: 77, count: count + 8)
            // Exactly the bytes there are: a sanitizer sees a read past them.
            let bytes = Self.packed(values, width: width)
            guard ingest_unpack(&out, bytes, count, UInt32(width), base) else { return }
            #expect(out == values.map { $0 &+ base } + Array(repeating: 77, count: 8), "\(count)")
        }
    }

    @Test(arguments: [0, 58, 64, 65, UInt32.max] as [UInt32])
    func `a width that vectors do not unpack is left to the caller`(width: UInt32) {
        var out: [UInt64] = [77]
        #expect(!ingest_unpack(&out, [0, 0, 0, 0, 0, 0, 0, 0], 1, width, 0))
        #expect(out == [77])
    }
}
