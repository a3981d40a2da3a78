import IngestFormat
import TestSupport
import Testing

@testable import IngestPipeline

/// The bound on campaigns, sources and platforms.
struct KnownAttributionsTests {
    private static let other = Attribution.other

    private static func bound(_ count: Int, names: Int, platforms: Int = 2) -> AttributionBound {
        var bound = AttributionBound()
        (bound.countMax, bound.nameCountMax) = (count, names)
        bound.platformCountMax = platforms
        return bound
    }

    /// What is asked in expectations, which copy what they ask.
    private final class Known {
        private var known: KnownAttributions

        init(_ bound: AttributionBound = AttributionBound()) { known = KnownAttributions(bound) }

        func admit(_ key: UInt32, _ campaign: UInt32, _ source: UInt32) -> [UInt32] {
            let found = known.admit(Attribution(key: key, campaign: campaign, source: source))
            return [found.campaign, found.source]
        }

        func admit(platform: UInt32?) -> UInt32 { known.admit(platform: platform) }
        func knows(_ key: UInt32, _ campaign: UInt32, _ source: UInt32) -> Bool {
            known.knows(Attribution(key: key, campaign: campaign, source: source))
        }

        func enter(name: UInt32) { known.enter(name: name) }
        var hasRoomForName: Bool { known.hasRoomForName }
        var hasRoomForPlatform: Bool { known.hasRoomForPlatform }
        func takeOverflowCount() -> Int { known.takeOverflowCount() }
        func load(_ entries: [Attribution]) { known.load(AttributionList(sorted: entries)) }
        func goOnGrowing() { known.goOnGrowing() }
    }

    @Test func `the last attribution within the bound is known, the next is other`() {
        let known = Known(Self.bound(3, names: 100))
        #expect(known.admit(0, 1, 0) == [1, 0])
        #expect(known.admit(0, 0, 1) == [0, 1])
        #expect(known.admit(1, 1, 0) == [1, 0])
        #expect(!known.hasRoomForName)
        #expect(known.admit(1, 1, 1) == [Self.other, Self.other])
        #expect(known.admit(2, 1, 0) == [Self.other, Self.other])
        #expect(known.takeOverflowCount() == 2)
        #expect(known.admit(0, 0, 1) == [0, 1])
        #expect(known.takeOverflowCount() == 0)
    }

    @Test func `the last name within the bound is known, the next is other`() {
        let known = Known(Self.bound(100, names: 3))
        #expect(known.admit(0, 1, 2) == [1, 2])
        // Two more are one too many, and one that is both is one.
        #expect(known.admit(0, 3, 4) == [Self.other, Self.other])
        #expect(known.hasRoomForName)
        #expect(known.admit(0, 5, 5) == [5, 5])
        #expect(!known.hasRoomForName)
        #expect(known.admit(7, 2, 1) == [2, 1])
        #expect(known.admit(7, 6, 0) == [Self.other, Self.other])
        #expect(known.admit(7, 0, 6) == [Self.other, Self.other])
    }

    @Test func `only what was admitted is known, and asking enters nothing`() {
        let known = Known(Self.bound(2, names: 3))
        #expect(known.admit(0, 1, 2) == [1, 2])
        #expect(known.knows(0, 1, 2))
        #expect(!known.knows(0, 2, 1) && !known.knows(1, 1, 2) && !known.knows(0, 1, 3))
        #expect(known.takeOverflowCount() == 0)
        #expect(known.admit(0, 3, 0) == [3, 0])
        #expect(known.admit(0, 4, 0) == [Self.other, Self.other])
        #expect(!known.knows(0, Self.other, Self.other))
    }

    @Test func `a name that was given an ordinal and no attribution takes its room`() {
        let known = Known(Self.bound(100, names: 2))
        #expect(known.admit(0, 1, 0) == [1, 0])
        #expect(known.hasRoomForName)
        known.enter(name: 2)
        #expect(!known.hasRoomForName)
        #expect(known.admit(0, 2, Self.other) == [Self.other, Self.other])
        #expect(known.admit(0, 2, 0) == [2, 0])
    }

    @Test func `what could not be given an ordinal takes the other name along`() {
        let known = Known(Self.bound(100, names: 100))
        #expect(known.admit(0, Self.other, 2) == [Self.other, Self.other])
        #expect(known.admit(0, 2, Self.other) == [Self.other, Self.other])
        #expect(known.takeOverflowCount() == 2)
    }

    @Test func `platforms have a bound of their own, and beyond it none`() {
        let known = Known(Self.bound(1, names: 1))
        #expect(known.admit(0, 9, 0) == [9, 0])
        #expect(known.admit(platform: 9) == 9)
        #expect(known.admit(platform: 10) == 10)
        #expect(!known.hasRoomForPlatform)
        #expect(known.admit(platform: 11) == 0)
        #expect(known.admit(platform: nil) == 0)
        #expect(known.admit(platform: 10) == 10)
        #expect(known.takeOverflowCount() == 2)
    }

    @Test func `what a directory has is known, and more of it than the bound stays so`() {
        let known = Known(Self.bound(2, names: 2))
        let list = (0..<5 as Range<UInt32>).map {
            Attribution(key: $0, campaign: 1 + $0, source: 0)
        }
        known.load(list)
        known.load([list[0], Attribution(key: 9, campaign: Self.other, source: Self.other)])
        for entry in list {
            #expect(known.admit(entry.key, entry.campaign, 0) == [entry.campaign, 0])
        }
        #expect(known.admit(9, 1, 0) == [Self.other, Self.other])
    }

    @Test func `many are found again while the table grows`() {
        let known = Known()
        var random = SeededRandom(seed: 4)
        var model: Set<Attribution> = []
        for round in 0..<60_000 {
            let attribution = Attribution(
                key: UInt32(random.below(300)), campaign: UInt32(random.below(60)),
                source: 1 + UInt32(random.below(9)))
            model.insert(attribution)
            let found = known.admit(
                attribution.key, attribution.campaign, attribution.source)
            #expect(found == [attribution.campaign, attribution.source])
            if round % 100 == 0 { known.goOnGrowing() }
        }
        #expect(model.count > 40_000)
        #expect(known.takeOverflowCount() == 0)
    }
}
