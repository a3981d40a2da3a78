import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Bounds that one life after the other comes to: no start fails for them.
@Suite struct BoundsTests {
    @Test("as many names runs as a manifest lists, and a life that left one more segment")
    func namesRuns() throws {
        let fixture = try LogFixture(seed: 31)
        // Lives that end before anything is merged.
        for number in 0..<Limits.manifestNamesRunCountMax {
            try fixture.beginSegment()
            var event = FixtureEvent()
            event.reward = "reward \(number)"
            try fixture.append([event])
            try fixture.seal()
            try fixture.publish(merges: false)
        }
        #expect(fixture.manifest.namesRuns.count == Limits.manifestNamesRunCountMax)
        try fixture.beginSegment()
        var event = FixtureEvent()
        event.reward = "one more"
        try fixture.append([event])
        let files = fixture.files.disk.kill()
        var random = SeededRandom(seed: 1)
        let start = try PipelineStart.open(
            files, clock: SimulatedClock(wallMicroseconds: 20_000 * 86_400_000_000),
            counters: PipelineCounters(), random: &random)
        #expect(start.manifest.namesRuns.count <= Limits.manifestNamesRunCountMax / 2 + 1)
        try SnapshotTests.expectAnswers(of: IngestReader.open(files), are: fixture.model)
    }

    @Test("however many files are in aside/, there is a name for the next")
    func aside() throws {
        let files = SimulatedFileSystem(seed: 1)
        let aside = try AsideDirectory(of: files)
        for number in 0..<1_100 {
            let file = try files.create("one")
            try file.write([UInt8(number % 256), UInt8(number / 256)], at: 0)
            let name = try aside.take("one")
            #expect(name == (number == 0 ? "aside/one" : "aside/one.\(number)"))
        }
    }
}
