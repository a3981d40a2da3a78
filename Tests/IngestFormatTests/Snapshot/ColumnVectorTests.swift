import CIngestLinux
import TestSupport
import Testing

@testable import IngestFormat

/// The loops over columns that are compiled for newer CPUs, against plain ones. Where the CPU has no such
/// instructions they leave the work to their callers, whose own loops the other tests of tables go through.
struct ColumnVectorTests {
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
            // Exactly the bytes there are: a sanitizer sees a read past them.
            let bytes = Self.packed(values, width: width)
            for (base, factor) in [(random.next(), 1 as UInt64), (random.next(), 1_000_000)] {
                func expectValues<Value: FixedWidthInteger>(of type: Value.Type) {
                    var out = [Value](repeating: 77, count: count + 8)
                    var range: (UInt64, UInt64) = (7, 7)
                    let isDone = ingest_unpack(
                        &out, MemoryLayout<Value>.size, bytes, count, UInt32(width), base, factor,
                        &range.0, &range.1)
                    guard isDone else { return }
                    let expected = values.map { Value(truncatingIfNeeded: base &+ $0 &* factor) }
                    #expect(out == expected + Array(repeating: 77, count: 8), "\(count)")
                    #expect(range == (values.min()!, values.max()!), "\(count)")
                }
                expectValues(of: UInt64.self)
                expectValues(of: UInt32.self)
                if width <= 25 { expectValues(of: UInt16.self) }
                var range: (UInt64, UInt64) = (7, 7)
                if ingest_unpack(
                    nil, 0, bytes, count, UInt32(width), base, factor, &range.0, &range.1)
                {
                    #expect(range == (values.min()!, values.max()!), "\(count)")
                }
            }
        }
    }

    @Test(
        arguments: [(0, 8, 1), (58, 8, 1), (64, 8, 1), (65, 8, 1), (26, 2, 1), (5, 8, 1 << 32)]
            as [(UInt32, Int, UInt64)])
    func `what vectors do not unpack is left to the caller`(
        width: UInt32, size: Int, factor: UInt64
    ) {
        var out: [UInt64] = [77]
        var range: (UInt64, UInt64) = (7, 7)
        #expect(
            !ingest_unpack(
                &out, size, [UInt64](repeating: 0, count: 2), 1, width, 0, factor, &range.0,
                &range.1))
        #expect(out == [77] && range == (7, 7))
    }

    @Test(arguments: 1...16)
    func `what vectors pack is what is packed bit by bit, and ends with zeros`(width: Int) {
        var random = SeededRandom(seed: UInt64(width))
        let mask = UInt64.max >> UInt64(64 - width)
        for count in Array(1...40) + [63, 64, 65, 1_023, 1_024] {
            // Bits above the width are left out: they are patches.
            let values = (0..<count).map { _ in random.next() }
            let base = random.next()
            let expected = Self.packed(values.map { ($0 &- base) & mask }, width: width)
            var out = [UInt8](repeating: 0xEE, count: expected.count + 32)
            guard ingest_pack(&out, values, count, UInt32(width), base) else { return }
            #expect(Array(out[..<expected.count]) == expected, "\(count)")
            let beyond = out[(expected.count + 16)...]
            #expect(beyond.allSatisfy { $0 == 0xEE }, "\(count)")
        }
    }

    @Test(arguments: [0, 17, 64, UInt32.max] as [UInt32])
    func `a width that vectors do not pack is left to the caller`(width: UInt32) {
        var out = [UInt8](repeating: 7, count: 64)
        #expect(!ingest_pack(&out, [1], 1, width, 0))
        #expect(out == [UInt8](repeating: 7, count: 64))
    }

    @Test(arguments: [1, 2, 3, 4, 5, 7, 8, 9, 100, 1_024])
    func `the range of a column is that of its values, to the last bit`(count: Int) {
        var random = SeededRandom(seed: UInt64(count))
        for shift in [0, 1, 30, 63] as [UInt64] {
            let values = (0..<count).map { _ in random.next() >> shift }
            var (least, greatest): (UInt64, UInt64) = (1, 1)
            guard ingest_column_range(values, count, &least, &greatest) else { return }
            #expect(least == values.min())
            #expect(greatest == values.max())
        }
    }

    @Test(arguments: [1, 3, 4, 5, 1_023, 1_024])
    func `values are counted by the bits that they need`(count: Int) {
        var random = SeededRandom(seed: UInt64(count))
        let base = random.next() >> 1
        let above = (0..<count).map { _ in
            random.next() >> UInt64.random(in: 1...63, using: &random)
        }
        for width in 0...59 as ClosedRange<UInt32> {
            var counts: [UInt32] = [9, 9, 9, 9]
            guard ingest_column_counts(above.map { $0 &+ base }, count, base, width, &counts) else {
                return
            }
            let expected = (0..<4).map { more in
                UInt32(above.count { $0 >> UInt64(Int(width) + more) != 0 })
            }
            #expect(counts == expected, "\(width)")
        }
        var counts: [UInt32] = [9, 9, 9, 9]
        #expect(!ingest_column_counts([1], 1, 0, 60, &counts))
    }

    @Test(arguments: [1, 3, 4, 5, 1_023, 1_024])
    func `values are weighed in two halves, and none where one needs more than 29 bits`(
        count: Int
    ) {
        var random = SeededRandom(seed: UInt64(count))
        let before = (0..<count + 1).map { _ in random.next() >> 8 }
        var (least, greatest): (UInt64, UInt64) = (0, 0)
        guard ingest_column_range(before, 1, &least, &greatest) else { return }
        for shift in [35, 36, 63, 64] as [UInt64] {
            var values = (0..<count).map { _ in random.next() >> shift }
            values[count / 2] = ~0 >> shift
            let weight = random.next() >> 2
            var (low, high) = (before, before)
            #expect(ingest_column_weigh(values, count, weight, &low, &high))
            let (a, b) = (weight & (1 << 30 - 1), weight >> 30)
            #expect(low == zip(before, values + [0]).map { $0 &+ $1 * a }, "\(shift)")
            #expect(high == zip(before, values + [0]).map { $0 &+ $1 * b }, "\(shift)")
            for place in values.indices where shift == 35 {
                let value = values[place]
                values[place] = 1 << UInt64.random(in: 29...63, using: &random)
                let (lowBefore, highBefore) = (low, high)
                #expect(!ingest_column_weigh(values, count, weight, &low, &high), "\(place)")
                #expect(low == lowBefore && high == highBefore, "\(place)")
                values[place] = value
            }
        }
    }

    @Test(arguments: [1, 3, 4, 5, 1_023, 1_024])
    func `the places of values that need more bits are found, and nothing is written far beyond`(
        count: Int
    ) {
        var random = SeededRandom(seed: UInt64(count))
        let base = random.next() >> 1
        let above = (0..<count).map { _ in
            random.next() >> UInt64.random(in: 1...63, using: &random)
        }
        for width in 0...62 as ClosedRange<UInt32> {
            let expected = above.indices.filter { above[$0] >> UInt64(width) != 0 }
            var places = [UInt16](repeating: 9_999, count: count + 9)
            guard ingest_column_places(above.map { $0 &+ base }, count, base, width, &places) else {
                return
            }
            #expect(places[..<expected.count].map(Int.init) == expected, "\(width)")
            #expect(places[(expected.count + 4)...].allSatisfy { $0 == 9_999 }, "\(width)")
        }
        var places: [UInt16] = [9_999]
        #expect(!ingest_column_places([1], 1, 0, 63, &places))
    }

    /// With few values that are not the base, with all, and between; asked as the encoder does.
    @Test(arguments: [1, 2, 7, 8, 9, 16, 500], [3, 9, 30, 63, 64])
    func `values are counted at all widths, however many are the base`(step: Int, bits: Int) {
        var random = SeededRandom(seed: UInt64(step * bits))
        let base = bits == 64 ? 0 : random.next() >> UInt64(bits)
        let above = (0..<1_024).map { i -> UInt64 in
            if i == 5 { return 1 << UInt64(bits - 1) }
            return i % step == 0
                ? random.next() >> UInt64.random(in: UInt64(64 - bits)...63, using: &random) : 0
        }
        let values = above.map { $0 &+ base }
        var counts = ColumnWidthCounts(base: base, spanWidth: bits)
        for width in stride(from: bits - 1, through: 0, by: -1) {
            let expected = above.count { $0 >> UInt64(width) != 0 }
            let found = values.withUnsafeBufferPointer {
                counts.patchCount($0.baseAddress!, count: values.count, width: width)
            }
            #expect(found == expected, "\(width)")
        }
    }
}
