import TestSupport
import Testing

@testable import IngestPipeline

/// Sets of keys that share memory against sets of the library.
struct KeySetsTests {
    private struct Element: KeySetElement {
        var key: UInt32 = 0
        var value: UInt64 = 0
    }

    @Test(
        "Each set has its own keys, however it grows and whatever the others do",
        arguments: [1, 2, 3])
    func model(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var sets = KeySets<Element>(lineCountMax: 1 << 20)
        var own = [KeySet](repeating: KeySet(), count: 50)
        var models = [[UInt32: UInt64]](repeating: [:], count: own.count)
        for _ in 0..<60_000 {
            // Some sets get many keys.
            let number = Int(random.next() % 50 * (random.next() % 50) / 50)
            // Small keys, the greatest, and ones between.
            let draw = random.next()
            let key = draw % 3 == 0 ? UInt32.max - UInt32(draw % 5_000) : 1 + UInt32(draw % 3_000)
            if random.next() % 400 == 0 {
                sets.removeAll(of: own[number])
                (own[number], models[number]) = (KeySet(), [:])
            } else if let value = models[number][key] {
                #expect(sets.find(key, in: own[number])?.pointee.value == value)
            } else {
                #expect(sets.find(key, in: own[number]) == nil)
                #expect(sets.insert(Element(key: key, value: draw), into: &own[number]) == true)
                models[number][key] = draw
            }
            #expect(Int(own[number].count) == models[number].count)
        }
        #expect(models.map(\.count).max()! > 500)
        for (set, model) in zip(own, models) {
            for (key, value) in model { #expect(sets.find(key, in: set)?.pointee.value == value) }
        }
    }

    @Test("There are no more lines than the limit, and those that were given back serve again")
    func bound() {
        var sets = KeySets<SeenReward>(lineCountMax: 4)
        var own = [KeySet](repeating: KeySet(), count: 4)
        for place in 0..<3 { #expect(sets.insert(SeenReward(key: 7), into: &own[place]) == true) }
        // Of twelve keys a set has one line, of thirteen two.
        for key in 1...12 as ClosedRange<UInt32> where key != 7 {
            #expect(sets.insert(SeenReward(key: key), into: &own[0]) == true)
        }
        #expect(sets.insert(SeenReward(key: 13), into: &own[0]) == false)
        #expect(own[0].count == 12)
        for key in 1...13 as ClosedRange<UInt32> {
            #expect((sets.find(key, in: own[0]) != nil) == (key < 13))
        }
        #expect(sets.insert(SeenReward(key: 1), into: &own[3]) == true)
        var further = KeySet()
        #expect(sets.insert(SeenReward(key: 2), into: &further) == false)
        sets.removeAll(of: own[1])
        #expect(sets.insert(SeenReward(key: 2), into: &further) == true)
        // What a set before had in the line is gone.
        #expect(sets.find(7, in: further) == nil)
        #expect(sets.find(2, in: further) != nil)
    }
}
