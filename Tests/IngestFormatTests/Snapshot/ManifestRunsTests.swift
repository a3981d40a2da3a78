import IngestFormat
import Testing

/// Which runs a manifest lists, and for which table they stand.
struct ManifestRunsTests {
    private typealias Example = ManifestExample

    @Test func `a manifest with a cut inside a segment comes back`() throws {
        let found = try Manifest.decode(Example.live.encode())
        #expect(found == Example.live)
        #expect(found.liveSegment == SegmentNumber(rawValue: 8))
        #expect(found.liveRuns == [3, 6].map { found.runs[$0] })
        #expect(Example.manifest.liveSegment == nil && Example.manifest.liveRuns == [])
        var sum = found.shard.sealedTotals
        sum.add(found.shard.liveTotals)
        #expect(found.shard.totals == sum && sum.rowCount == 1_234 + 77)
        // Without anything sealed, too.
        var first = Example.live
        first.expired = []
        first.sealed = []
        first.shard.cut = Example.position(1, 3)
        first.runs = [Example.entry(.days, 2, 1...1, 3), Example.entry(.rewardDays, 3, 1...1, 3)]
        #expect(try Manifest.decode(first.encode()) == first)
    }

    @Test func `runs of rewards may end early, and those of reward-days stand for the rest`() throws
    {
        var manifest = Example.live
        manifest.runs[1].span = Example.span(5, 6)
        let found = try Manifest.decode(manifest.encode())
        #expect(found == manifest)
        #expect(found.runs(of: .rewards) == [0, 1, 5, 6].map { found.runs[$0] })
        #expect(found.runs(of: .rewardDays) == Array(found.runs[4...6]))
        #expect(found.runs(of: .days) == Array(found.runs[2...3]))
        // Or there are none at all.
        manifest.runs.removeFirst(2)
        let without = try Manifest.decode(manifest.encode())
        #expect(without.runs(of: .rewards) == Array(without.runs[2...4]))
        #expect(Example.live.runs(of: .rewards) == [0, 1, 6].map { Example.live.runs[$0] })
    }
}
