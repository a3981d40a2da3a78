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
        var sets = KeySets<Element>(leafCountMax: 1 << 20)
        var own = [KeySet](repeating: KeySet(), count: 50)
        var models = [[UInt32: UInt64]](repeating: [:], count: own.count)
        for _ in 0..<60_000 {
            // Some sets get many keys.
            let number = Int(random.next() % 50 * (random.next() % 50) / 50)
            // Small keys, the greatest, and ones between.
            let draw = random.next()
            let (high, low) = (UInt32(draw % 5_000), UInt32(draw % 3_000))
            let key: UInt32 = draw % 3 == 0 ? UInt32.max - high : 1 + low
            if random.next() % 400 == 0 {
                sets.removeAll(of: &own[number])
                models[number] = [:]
            } else if let value = models[number][key] {
                #expect(sets.find(key, in: own[number])?.pointee.value == value)
            } else {
                #expect(sets.find(key, in: own[number]) == nil)
                #expect(sets.insert(Element(key: key, value: draw), into: &own[number]) == true)
                models[number][key] = draw
            }
            #expect(own[number].isEmpty == models[number].isEmpty)
        }
        #expect(models.map(\.count).max()! > 500)
        for (set, model) in zip(own, models) {
            for (key, value) in model { #expect(sets.find(key, in: set)?.pointee.value == value) }
        }
    }

    @Test(
        "There are no more leaves than the limit, and those that were given back serve sets of any size"
    )
    func bound() {
        var sets = KeySets<SeenReward>(leafCountMax: 40)
        for _ in 0..<3 {
            // All as sets of one key, all as one set, and all as sets of one key again.
            var own = [KeySet](repeating: KeySet(), count: 40)
            for place in 0..<40 {
                #expect(sets.insert(SeenReward(key: 7), into: &own[place]) == true)
            }
            var further = KeySet()
            #expect(sets.insert(SeenReward(key: 2), into: &further) == false)
            #expect(further.isEmpty && sets.find(2, in: further) == nil)
            // A leaf that is there has room for more.
            #expect(sets.insert(SeenReward(key: 8), into: &own[0]) == true)
            for place in 0..<40 { sets.removeAll(of: &own[place]) }
            #expect(own[0].isEmpty && sets.find(7, in: own[0]) == nil)
            var key: UInt32 = 1
            while sets.insert(SeenReward(key: key), into: &further) { key += 1 }
            // A split needs 16 leaves at most, so that there were 24 of about 8 keys or more.
            #expect(key > 100)
            for known in 1..<key { #expect(sets.find(known, in: further) != nil) }
            #expect(sets.find(key, in: further) == nil)
            sets.removeAll(of: &further)
        }
    }

    @Test("A set of 65,536 keys gives all of its memory back")
    func largest() {
        var sets = KeySets<SeenReward>(leafCountMax: 40_000)
        for first in [1, 1 << 31] as [UInt32] {
            var set = KeySet()
            for key in first..<first + 65_536 {
                guard sets.insert(SeenReward(key: key), into: &set) else {
                    Issue.record("no room for \(key)")
                    return
                }
            }
            #expect(sets.find(first + 65_535, in: set)?.pointee.key == first + 65_535)
            #expect(sets.find(first + 65_536, in: set) == nil)
            #expect(sets.nodeCount > 65_536 / 16)
            sets.removeAll(of: &set)
            #expect(set.isEmpty && sets.nodeCount == 0)
        }
        // Of as many leaves as there may be none is lost.
        var sets2 = KeySets<SeenReward>(leafCountMax: 30)
        var last = KeySet()
        for _ in 0..<100 {
            for key in 1...17 as ClosedRange<UInt32> {
                #expect(sets2.insert(SeenReward(key: key), into: &last) == true)
            }
            sets2.removeAll(of: &last)
        }
    }
}
