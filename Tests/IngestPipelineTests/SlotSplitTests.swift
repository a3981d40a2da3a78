import CIngestLinux
import TestSupport
import Testing

@testable import IngestPipeline

/// The split of a line of the dedup index against a plain loop.
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

    private static func moves(_ slot: UInt64, _ oldest: UInt8, _ span: UInt8) -> Bool {
        let generation = DedupSlot.generation(slot)
        let holds = generation != 0 && generation &- oldest <= span
        return holds && DedupSlot.displacement(slot) == 0 && slot & bit != 0
    }
}

extension UnsafeMutablePointer<UInt64> {
    fileprivate static func allocate(alignedCapacity count: Int) -> Self {
        UnsafeMutableRawPointer.allocate(byteCount: count * 8, alignment: 64)
            .bindMemory(to: UInt64.self, capacity: count)
    }
}
