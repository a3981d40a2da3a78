import TestSupport
import Testing

@testable import IngestFormat

/// Windows of sequences against a set of what arrived and a set of what was given up.
@Suite struct SequenceWindowTests {
    private struct Model {
        var floor: UInt64 = 0
        var arrived: Set<UInt64> = []
        var missing: Set<UInt64> = []

        mutating func insert(_ sequence: UInt64) {
            arrived.insert(sequence)
            while arrived.contains(floor) { floor += 1 }
        }

        mutating func raise(to floor: UInt64) {
            while self.floor < floor || arrived.contains(self.floor) {
                if !arrived.contains(self.floor) { missing.insert(self.floor) }
                self.floor += 1
            }
        }

        func state(of sequence: UInt64) -> SequenceWindow.State {
            if arrived.contains(sequence) { return .arrived }
            if missing.contains(sequence) { return .missing }
            return sequence - floor < 1 << 16 ? .open : .beyond
        }
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func agreesWithSets(seed: UInt64) {
        var window = SequenceWindow()
        var model = Model()
        var random = SeededRandom(seed: seed)
        for _ in 0..<4_000 {
            let spread: UInt64 = random.next() % 50 == 0 ? 6_000 : 100
            let sequence = model.floor + random.next() % spread
            if window.state(of: sequence) != model.state(of: sequence) {
                Issue.record("state of \(sequence) with floor \(model.floor)")
            }
            if case .open = model.state(of: sequence) {
                window.insert(sequence)
                model.insert(sequence)
            }
            if random.next() % 40 == 0 {
                let floor = model.floor + random.next() % 60
                let before = model.missing.count
                model.raise(to: floor)
                #expect(window.raise(to: floor) == UInt64(model.missing.count - before))
            }
            let asked = model.floor + random.next() % 2_000
            if window.word(from: asked) != Self.word(asked, model) { Issue.record("word \(asked)") }
        }
        #expect(window.floor == model.floor)
        #expect(window.arrivedCount == UInt64(model.arrived.count))
        #expect(window.missingCount == UInt64(model.missing.count))
        #expect((0..<window.end).allSatisfy { window.state(of: $0) == model.state(of: $0) })
    }

    private static func word(_ first: UInt64, _ model: Model) -> UInt64 {
        var word: UInt64 = 0
        for bit: UInt64 in 0..<64 where model.arrived.contains(first + bit) { word |= 1 << bit }
        return word
    }

    /// The ring is full to its last bit, with the floor in the middle of a word, and grows so.
    @Test(arguments: [1_024, 1_025, 2_048, 65_536] as [UInt64])
    func holdsAWindowWhoseLastWordIsItsFirst(count: UInt64) {
        var window = SequenceWindow(floor: 37)
        for sequence in 38..<37 + count where sequence % 3 != 0 { window.insert(sequence) }
        #expect(window.floor == 37)
        let wrong = (37..<37 + count).filter { sequence in
            let arrived = sequence > 37 && sequence % 3 != 0
            return window.state(of: sequence) != (arrived ? .arrived : .open)
        }
        #expect(wrong.isEmpty)
        #expect(window.state(of: 37 + 65_536) == .beyond)
        #expect(window.bitCount == max(1_024, Int(count).nextPowerOfTwo))
        for sequence in stride(from: 39, to: 37 + count, by: 3) { window.insert(sequence) }
        window.insert(37)
        #expect(window.floor == 37 + count)
    }

    /// What the log says of a block gives the same window as the packets did.
    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func replaysBlocks(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var window = SequenceWindow()
        var replayed = SequenceWindow()
        var highest: UInt64 = 0
        for block in 0..<60 {
            var arrived = SequenceSet()
            for _ in 0..<random.next() % 300 {
                // A sender without acks, whose floor slides after it, loses packets and jumps now and then.
                let jump: UInt64 = random.next() % 200 == 0 ? 70_000 : 4
                let sequence = highest - min(highest, 30) + random.next() % 60 + jump - 4
                if sequence >= window.floor + 65_536 { window.raise(to: sequence - 65_535) }
                guard case .open = window.state(of: sequence) else { continue }
                window.insert(sequence)
                arrived.insert(sequence...sequence)
                highest = max(highest, sequence)
            }
            replayed.replay(arrived.ranges, floor: window.floor)
            #expect(replayed.floor == window.floor, "block \(block)")
            #expect(replayed.missing == window.missing)
            #expect(replayed.arrivedCount == window.arrivedCount)
            let wrong = (window.floor..<window.end).filter {
                replayed.state(of: $0) != window.state(of: $0)
            }
            #expect(wrong.isEmpty)
        }
    }

    @Test func replaysABillionSequencesAtOnce() {
        var window = SequenceWindow()
        window.insert(3)
        window.insert(70)
        window.replay([0...999_999_999], floor: 0)
        #expect(window.floor == 1_000_000_000)
        #expect(window.arrivedCount == 1_000_000_000)
        #expect(window.missing.isEmpty)
    }

    @Test func forgetsTheLowestMissingRangesButNotTheirNumber() {
        var window = SequenceWindow()
        let count = UInt64(Limits.windowMissingRangeCountMax) * 2
        for place in 0..<count {
            window.insert(place * 2 + 1)
            window.raise(to: place * 2 + 2)
        }
        #expect(window.missingCount == count)
        #expect(window.missing.count <= Limits.windowMissingRangeCountMax)
        #expect(window.state(of: 2 * count - 2) == .missing)
        #expect(window.state(of: 0) == .arrived)
    }

    @Test func theHighestSequenceTrapsNothing() {
        var window = SequenceWindow(floor: Limits.sequenceMax - 1)
        #expect(window.state(of: UInt64.max) == .beyond)
        #expect(window.state(of: Limits.sequenceMax + 1) == .beyond)
        window.insert(Limits.sequenceMax)
        #expect(window.raise(to: UInt64.max) == 1)
        #expect(window.floor == Limits.sequenceMax + 1)
        window.replay([0...UInt64.max], floor: UInt64.max)
        #expect(window.state(of: UInt64.max) == .beyond)
    }
}

extension Int {
    fileprivate var nextPowerOfTwo: Int {
        1 << (Int.bitWidth - (self - 1).leadingZeroBitCount)
    }
}
