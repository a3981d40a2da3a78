import Foundation
import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify
import TestSupport
import Testing

@Suite struct ReadingExampleTests {
    /// A directory on the real disk, with a reward of the name that the examples ask for.
    private static func write(to path: String) throws {
        let fixture = try LogFixture(seed: 1)
        try fixture.beginSegment()
        var event = FixtureEvent()
        event.reward = "reward-17"
        event.business = "shop"
        event.day = CivilDay("2026-11-20")!.dayNumber
        var refused = event
        refused.verdict = .tooOld
        try fixture.append([event, event, refused])
        let files = try LinuxFileSystem(path: path, create: true)
        for name in try fixture.fileNames {
            try files.create(name).write(fixture.files.disk.contents(name) ?? [], at: 0)
        }
    }

    @Test("The examples of the pages do what they say")
    func examples() throws {
        let folder = try TemporaryFolder()
        let path = folder.data
        try Self.write(to: path)
        #expect(try ReadingExamples.first(directory: path) == 2)
        let reader = try IngestReader.open(directory: path)
        let (reward, day) = try ReadingExamples.points(reader)
        #expect(reward?.businessID == "shop" && day?.counters.impressions == 2)
        let listed = try ReadingExamples.listings(reader)
        #expect(listed.top == ["reward-17"] && listed.refusedCount == 1)
        #expect(try ReadingExamples.page(directory: path) == 3)
        let report = try ReadingExamples.verify(directory: path)
        #expect(report.rowCount == 3 && report.isSound)
        ReadingExamples.errors(directory: path)
        ReadingExamples.errors(directory: "/nowhere/at/all")
        let stopped = #expect(throws: VerifyError.self) {
            try ReadingExamples.verify(directory: path, isCancelled: true)
        }
        #expect(stopped?.isCancelled == true)
    }
}
