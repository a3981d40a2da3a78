import TestSupport
import Testing

@testable import IngestFormat

/// The codec of one column, without the block around it.
@Suite struct BlockColumnTests {
    /// Encodes and decodes; the values must come back, and nothing may be written past the end.
    func roundTrip<Value: FixedWidthInteger & BitwiseCopyable>(
        _ values: [Value], trials: ColumnTrials = [.scale, .dictionary, .patch],
        _ place: SourceLocation = #_sourceLocation
    ) throws -> EncodedColumn {
        let most = 8 + values.count * MemoryLayout<Value>.size
        let memory = UnsafeMutableRawBufferPointer.allocate(
            byteCount: most + BitPacking.slackByteCount, alignment: 8)
        memory.initializeMemory(as: UInt8.self, repeating: 0xa5)
        defer { memory.deallocate() }
        let column = values.withUnsafeBufferPointer {
            ColumnEncoder().encode(
                $0.baseAddress!, count: $0.count, trials: trials, to: memory.baseAddress!)
        }
        #expect(column.byteCount <= most, sourceLocation: place)
        let range = Int64(values.min()!)...Int64(values.max()!)
        #expect(column.range == range, sourceLocation: place)

        // An exact copy, so that a decoder's read past the end is one past an allocation.
        let exact = UnsafeMutableRawBufferPointer.allocate(
            byteCount: column.byteCount, alignment: 1)
        defer { exact.deallocate() }
        exact.copyMemory(from: .init(rebasing: memory[..<column.byteCount]))
        let source = ColumnSource(
            bytes: exact.baseAddress!, byteCount: column.byteCount, encoding: column.encoding,
            parameter: column.parameter, count: values.count, domain: range, name: "test",
            offset: 0)
        let target = UnsafeMutablePointer<Value>.allocate(capacity: values.count + 1)
        target.initialize(repeating: 42, count: values.count + 1)
        defer { target.deallocate() }
        let decodedRange = try ColumnDecoder().decode(source, into: target)
        #expect(decodedRange == range, sourceLocation: place)
        #expect(
            Array(UnsafeBufferPointer(start: target, count: values.count)) == values,
            sourceLocation: place)
        #expect(target[values.count] == 42, sourceLocation: place)
        return column
    }

    @Test(arguments: 1...64) func `Every width comes back, at every count`(width: Int) throws {
        var random = SeededRandom(seed: UInt64(width))
        for count in Array(2...70) + [1000] {
            var values = (0..<count).map { _ in
                Int64(bitPattern: random.next() & BitPacking.mask(width: width))
            }
            if width == 64 { values[0] = .min } else { values[0] = 0 }
            values[count - 1] =
                width == 64 ? .max : Int64(bitPattern: BitPacking.mask(width: width))
            let column = try roundTrip(values, trials: [])
            #expect(column.encoding.form == .packed)
            #expect(column.parameter == width)
            #expect(column.byteCount == 8 + (count * width + 7) / 8)
        }
    }

    @Test func `Equal values are one value`() throws {
        for value in [Int64.min, -1, 0, 1, .max] {
            let column = try roundTrip(Array(repeating: value, count: 300))
            #expect(column.encoding.form == .constant)
            #expect(column.byteCount == 8)
        }
        #expect(try roundTrip([UInt16(7)]).byteCount == 8)
        #expect(try roundTrip([Int32.min]).byteCount == 8)
    }

    @Test func `Both ends of Int64 in one column come back`() throws {
        let column = try roundTrip([Int64.min, 0, .max, -1, 1])
        #expect(column.parameter == 64)
    }

    @Test(arguments: 1...6) func `Powers of ten are taken out`(exponent: Int) throws {
        var random = SeededRandom(seed: 3)
        let power = Int64(PowerOfTen.value(exponent))
        let values =
            [0, 2046, 2047].map { -17 + $0 * power }
            + (0..<500).map { _ in -17 + Int64(random.below(2048)) * power }
        let column = try roundTrip(values)
        #expect(column.encoding.exponent == exponent)
        #expect(column.parameter == 11)
        // One value off takes it all back.
        #expect(try roundTrip(values + [-16]).encoding.exponent == 0)
    }

    @Test func `A difference of more than 63 bits is still a multiple`() throws {
        let values = [Int64.min, .min &+ Int64(bitPattern: 18_000_000_000_000_000_000)]
        let column = try roundTrip(values, trials: .scale)
        #expect(column.encoding.exponent == 6)
    }

    @Test func `Few distinct values are a dictionary`() throws {
        var random = SeededRandom(seed: 4)
        let names = (0..<5).map { _ in UInt32(truncatingIfNeeded: random.next()) }
        let column = try roundTrip((0..<5000).map { _ in names[random.below(5)] })
        #expect(column.encoding.form == .dictionary)
        #expect(column.parameter == 3)
        #expect(column.byteCount == 12 + (5 * 32 + 7) / 8 + 5000 * 3 / 8)
    }

    @Test func `A dictionary may have 4,096 entries and not one more`() throws {
        let distinct = ColumnLayout.dictionaryEntryCountMax
        for count in [distinct, distinct + 1] {
            // Each value some times in a row, or the first few hundred would end the trial.
            let column = try roundTrip(
                (0..<60_000).map { UInt32($0 * count / 60_000) &* 1_000_003 })
            #expect((column.encoding.form == .dictionary) == (count == distinct))
        }
    }

    @Test func `A few late times do not widen the others`() throws {
        var random = SeededRandom(seed: 5)
        let now: Int64 = 1_795_000_000_000_000
        var values = (0..<10_000).map { _ in now + Int64(random.below(1_000_000)) }
        let plain = try roundTrip(values, trials: [.scale, .patch])
        #expect(plain.encoding.form == .packed)
        for place in [0, 17, 4999, 9999] { values[place] = now - 86_400_000_000 * Int64(place + 1) }
        values[500] = now + 299_000_000
        let patched = try roundTrip(values, trials: [.scale, .patch])
        #expect(patched.encoding.form == .patched)
        #expect(patched.byteCount < plain.byteCount + 100)
    }

    @Test func `Generations of the dictionary's table wrap without mixing columns`() {
        let builder = DictionaryBuilder()
        for round in 0..<(65_536 + 10) {
            let values = [UInt32(round & 7), 100, UInt32(round & 7), 100]
            values.withUnsafeBufferPointer {
                let column = Quotients($0.baseAddress!, base: 0, exponent: 0)
                let count = builder.build(column, count: 4, width: 32, bitCountMax: 10_000)
                #expect(count == 2)
            }
        }
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func `Columns of every shape come back`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for _ in 0..<25 {
            let count = [1, 2, 3, 7, 8, 63, 64, 65, 255, 256, 257, 1000, 4097][random.below(13)]
            let values = ColumnShape.allCases[random.below(ColumnShape.allCases.count)]
                .values(count: count, from: &random)
            for trials in [[], .scale, .dictionary, .patch, [.scale, .dictionary, .patch]]
                as [ColumnTrials]
            {
                _ = try roundTrip(values, trials: trials)
                _ = try roundTrip(values.map { Int32(truncatingIfNeeded: $0) }, trials: trials)
                _ = try roundTrip(values.map { UInt32(truncatingIfNeeded: $0) }, trials: trials)
                _ = try roundTrip(values.map { UInt16(truncatingIfNeeded: $0) }, trials: trials)
            }
        }
    }
}

/// What columns look like: each shape is one for which an encoding was made, or a limit of one.
enum ColumnShape: CaseIterable {
    case constant, twoValues, fewValues, narrow, wide, extremes, rising, rare, outliers, multiples

    func values(count: Int, from random: inout SeededRandom) -> [Int64] {
        let base = Int64(bitPattern: random.next()) >> Int64(random.below(60))
        let width = random.below(40)
        let power = Int64(PowerOfTen.value(random.below(7)))
        let few = (0..<(2 + random.below(300))).map { _ in Int64(bitPattern: random.next()) >> 20 }
        return (0..<count).map { i in
            switch self {
            case .constant: base
            case .twoValues: base &+ Int64(random.below(2)) &* Int64(width)
            case .fewValues: few[random.below(few.count)]
            case .narrow: base &+ Int64(random.below(1 << width))
            case .wide: Int64(bitPattern: random.next())
            case .extremes: [.min, .max, 0, -1, 1][random.below(5)]
            case .rising: base &+ Int64(i) &* power
            case .rare: random.oneIn(50) ? Int64(random.below(1 << width)) : 0
            case .outliers:
                random.oneIn(40)
                    ? Int64(bitPattern: random.next()) >> 8 : base &+ Int64(random.below(1000))
            case .multiples: base &+ Int64(random.below(1 << 12)) &* power
            }
        }
    }
}
