import IngestCounting
import IngestFormat
import TestSupport
import Testing

struct LedgerSumTests {
    private static func entry(
        _ sender: UInt64, epoch: UInt64 = 1, _ ranges: [ClosedRange<UInt64>] = []
    ) -> LedgerEntry {
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: sender),
                epoch: SenderEpoch(rawValue: epoch)))
        entry.sequences = ranges
        return entry
    }

    @Test func `counts are summed by sender and epoch, and come in their order`() {
        var sum = LedgerSum()
        var plain = LedgerEntry(key: .plain)
        plain.packets[0] = 3
        plain.events[2] = 5
        var framed = Self.entry(9)
        framed.events[0] = 1
        sum.add([plain, framed, Self.entry(9, epoch: 2)])
        sum.add([plain, framed, Self.entry(2)])
        #expect(sum.entries.count == 4)
        #expect(sum.entries.map(\.key) == sum.entries.map(\.key).sorted())
        let found = sum.entries.first { $0.key == .plain }
        #expect(found?.packets[0] == 6)
        #expect(found?.events[2] == 10)
        #expect(sum.entries.first { $0.key == framed.key }?.events[0] == 2)
    }

    @Test func `a sum stays at the largest value`() {
        var sum = LedgerSum()
        var entry = LedgerEntry(key: .plain)
        entry.packets[1] = .max - 1
        sum.add([entry])
        sum.add([entry])
        #expect(sum.entries[0].packets[1] == .max)
    }

    private typealias Ranges = [ClosedRange<UInt64>]

    private static let joins: [(blocks: [Ranges], expected: Ranges)] = [
        ([[0...4], [5...9]], [0...9]),
        ([[5...9], [0...4]], [0...9]),
        ([[0...4], [6...9]], [0...4, 6...9]),
        ([[0...4, 6...9], [5...5]], [0...9]),
        ([[0...1, 3...4, 6...7, 9...9], [1...8]], [0...9]),
        ([[10...20], [12...14]], [10...20]),
        ([[12...14], [10...20]], [10...20]),
        ([[last...last], [0...0]], [0...0, last...last]),
        ([[0...last], [7...7]], [0...last]),
        ([[last - 1...last - 1], [last...last]], [last - 1...last]),
    ]
    private static let last = UInt64.max

    @Test(arguments: Self.joins.indices)
    func `ranges are joined where they meet`(index: Int) {
        let (blocks, expected) = Self.joins[index]
        var sum = LedgerSum()
        for ranges in blocks { sum.add([Self.entry(1, ranges)]) }
        #expect(sum.entries[0].sequences == expected)
    }

    @Test func `ranges in any order are the set of their sequences`() {
        var random = SeededRandom(seed: 1)
        for round in 0..<200 {
            var sum = LedgerSum()
            var model: Set<UInt64> = []
            for _ in 0..<40 + round {
                let first = UInt64.random(in: 0..<3000, using: &random)
                let last = first + UInt64.random(in: 0..<12, using: &random)
                sum.add([Self.entry(1, [first...last])])
                model.formUnion(first...last)
            }
            let ranges = sum.entries[0].sequences
            let apart = zip(ranges, ranges.dropFirst()).allSatisfy {
                $0.upperBound + 1 < $1.lowerBound
            }
            #expect(apart)
            #expect(Set(ranges.joined()) == model)
        }
    }

    private static let rangeCount: UInt64 = 1 << 18
    private static let orders: [(name: String, sequence: @Sendable (UInt64) -> UInt64)] = [
        ("descending", { 2 * (rangeCount - $0) }),
        ("from both ends", { $0 % 2 == 0 ? $0 : 4 * rangeCount - $0 }),
        ("in jumps", { 2 * ($0 &* 0x9E37_79B1 % rangeCount) }),
    ]

    /// A sender may send its sequences in any order. With a search or a shift for each of them, this would
    /// take hours.
    @Test(.timeLimit(.minutes(60)), arguments: orders.indices)
    func `ranges that never meet are gathered in any order without a pass for each`(index: Int) {
        let sequence = Self.orders[index].sequence
        var sum = LedgerSum()
        for i in 0..<Self.rangeCount {
            let one = sequence(i)
            sum.add([Self.entry(1, [one...one])])
        }
        let ranges = sum.entries[0].sequences
        #expect(ranges.count == Int(Self.rangeCount), "\(Self.orders[index].name)")
        let apart = zip(ranges, ranges.dropFirst()).allSatisfy {
            $0.upperBound + 1 < $1.lowerBound
        }
        #expect(apart)
    }
}
