import IngestFormat
import Testing

/// Which runs a manifest lists, and for which table they stand.
struct ManifestRunsTests {
    private typealias Example = ManifestExample

    @Test func `runs of rewards may end early, and those of reward-days stand for the rest`() throws
    {
        var manifest = Example.manifest
        manifest.runs[1].span = Example.span(5, 6)
        let found = try Manifest.decode(manifest.encode())
        #expect(found == manifest)
        #expect(found.runs(of: .rewards) == [0, 1, 4].map { found.runs[$0] })
        #expect(found.runs(of: .rewardDays) == Array(found.runs[3...4]))
        #expect(found.runs(of: .days) == Array(found.runs[2...2]))
        // Or there are none at all.
        manifest.runs.removeFirst(2)
        let without = try Manifest.decode(manifest.encode())
        #expect(without.runs(of: .rewards) == Array(without.runs[1...2]))
        #expect(Example.manifest.runs(of: .rewards) == Array(Example.manifest.runs[0...1]))
    }
}
