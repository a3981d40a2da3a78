import CIngestLinux
import TestSupport
import Testing

@testable import IngestPipeline

/// The split and the sweep of a line of the dedup index, and the scan of a line of pairs, against plain loops.
@Suite struct SlotSplitTests {
    private static let bit: UInt64 = 1 << 40

    @Test(arguments: 0..<8 as Range<UInt64>)
    func movesWhatHoldsAndHasTheBitAndNothingElse(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let lines = UnsafeMutablePointer<UInt64>.allocate(alignedCapacity: 16)
        defer { lines.deallocate() }
        var movedCounts: Set<Int> = []
        for _ in 0..<5_000 {
            let oldest = UInt8(truncatingIfNeeded: random.next())
            let span = UInt8(truncatingIfNeeded: random.next(upperBound: UInt64(192)))
            let isEmpty = random.next(upperBound: UInt64(8)) != 0
            for i in 0..<8 {
                lines[i] = Self.slot(oldest, span, &random)
                lines[8 + i] = 0
            }
            if !isEmpty { lines[8 + Int(random.next(upperBound: UInt64(8)))] = 1 << 27 }
            let before = (0..<16).map { lines[$0] }
            let isSplit = ingest_slots_split(lines, lines + 8, Self.bit, oldest, span)
            #expect(isSplit == isEmpty)
            let moved = isSplit ? before.prefix(8).filter { Self.moves($0, oldest, span) } : []
            movedCounts.insert(moved.count)
            for i in 0..<8 {
                let isMoved = isSplit && Self.moves(before[i], oldest, span)
                #expect(lines[i] == (isMoved ? before[i] & 1 << 27 : before[i]))
                if isSplit {
                    #expect(lines[8 + i] == (i < moved.count ? moved[i] & ~(1 << 27) : 0))
                } else {
                    #expect(lines[8 + i] == before[8 + i])
                }
            }
        }
        #expect(movedCounts.count > 5)
    }

    @Test(arguments: 0..<8 as Range<UInt64>)
    func freesWhatDoesNotHoldAndLeavesTheMarks(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let line = UnsafeMutablePointer<UInt64>.allocate(alignedCapacity: 8)
        defer { line.deallocate() }
        var freedCounts: Set<Int> = []
        for _ in 0..<5_000 {
            let oldest = UInt8(truncatingIfNeeded: random.next())
            let span = UInt8(truncatingIfNeeded: random.next(upperBound: UInt64(192)))
            for i in 0..<8 { line[i] = Self.slot(oldest, span, &random) }
            let before = (0..<8).map { line[$0] }
            let marks = ingest_slots_sweep(line, oldest, span)
            for i in 0..<8 {
                let isKept = Self.holds(before[i], oldest, span)
                #expect(line[i] == (isKept ? before[i] : before[i] & 1 << 27))
                #expect(marks >> UInt32(i) & 1 == UInt32(before[i] >> 27 & 1))
            }
            freedCounts.insert(before.count { !Self.holds($0, oldest, span) })
        }
        #expect(freedCounts.count > 5)
    }

    @Test(arguments: 0..<8 as Range<UInt64>)
    func findsThePairsThatAreEqualAndTheEntriesThatAreFree(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let line = UnsafeMutablePointer<UInt64>.allocate(alignedCapacity: 8)
        defer { line.deallocate() }
        var seen: Set<UInt32> = []
        for _ in 0..<5_000 {
            let (low, tag) = (random.next(), UInt32(truncatingIfNeeded: random.next()))
            for i in 0..<4 {
                let kind = random.next(upperBound: UInt64(6))
                // Equal in all but one of the three parts that are compared, or in none, or in all.
                line[2 * i] = kind == 0 ? low ^ 1 : kind == 1 ? low ^ 1 << 63 : low
                let isFree = random.next(upperBound: UInt64(3)) == 0
                let key = isFree ? 0 : random.next() | 1
                line[2 * i + 1] = UInt64(kind == 2 ? tag ^ 1 << 31 : tag) | key << 32
            }
            var expected: UInt32 = 0
            for i in 0..<4 {
                let isEqual =
                    line[2 * i] == low && UInt32(truncatingIfNeeded: line[2 * i + 1]) == tag
                let isFree = line[2 * i + 1] >> 32 == 0
                expected |= (isEqual ? 1 : 0) << UInt32(4 * i)
                expected |= (isFree ? 1 : 0) << UInt32(16 + 4 * i)
            }
            #expect(ingest_pairs_scan(line, low, tag) == expected)
            seen.insert(expected)
        }
        #expect(seen.count > 100)
    }

    @Test(arguments: 0..<4 as Range<UInt64>)
    func findsTheNumbersThatAreEqual(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let line = UnsafeMutablePointer<UInt64>.allocate(alignedCapacity: 8)
        defer { line.deallocate() }
        let numbers = UnsafeMutableRawPointer(line).assumingMemoryBound(to: UInt32.self)
        for _ in 0..<5_000 {
            let number =
                random.next(upperBound: UInt64(3)) == 0
                ? 0 : UInt32(truncatingIfNeeded: random.next())
            var expected: UInt32 = 0
            for i in 0..<16 {
                let kind = random.next(upperBound: UInt64(4))
                numbers[i] =
                    kind == 0 ? number ^ 1 << 31 : kind == 1 ? number ^ 1 : kind == 2 ? 0 : number
                if numbers[i] == number { expected |= 1 << UInt32(i) }
            }
            #expect(ingest_numbers_scan(numbers, number) == expected)
            #expect(ingest_eight_numbers_scan(numbers, number) == expected & 0xFF)
            #expect(ingest_eight_numbers_scan(numbers + 8, number) == expected >> 8)
        }
    }

    /// Live, dead or free; one in four displaced, one in eight marked.
    private static func slot(
        _ oldest: UInt8, _ span: UInt8, _ random: inout SeededRandom
    ) -> UInt64 {
        let kind = random.next(upperBound: UInt64(8))
        if kind == 0 { return 0 }
        let age = UInt8(truncatingIfNeeded: random.next(upperBound: UInt64(span) + 1))
        let generation =
            kind == 1 ? UInt8(truncatingIfNeeded: random.next()) : oldest &+ age
        let displacement = random.next(upperBound: UInt64(4)) == 0 ? random.next() & 7 : 0
        let mark: UInt64 = random.next(upperBound: UInt64(8)) == 0 ? 1 << 27 : 0
        return random.next() << 28 | mark | displacement << 24
            | (random.next() & 0xFFFF) << 8 | UInt64(generation)
    }

    private static func holds(_ slot: UInt64, _ oldest: UInt8, _ span: UInt8) -> Bool {
        let generation = DedupSlot.generation(slot)
        return generation != 0 && generation &- oldest <= span
    }

    private static func moves(_ slot: UInt64, _ oldest: UInt8, _ span: UInt8) -> Bool {
        holds(slot, oldest, span) && DedupSlot.displacement(slot) == 0 && slot & bit != 0
    }
}

extension UnsafeMutablePointer<UInt64> {
    fileprivate static func allocate(alignedCapacity count: Int) -> Self {
        UnsafeMutableRawPointer.allocate(byteCount: count * 8, alignment: 64)
            .bindMemory(to: UInt64.self, capacity: count)
    }
}
