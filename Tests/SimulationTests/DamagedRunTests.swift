import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Runs of which a page cannot be believed: headers are looked at by a start, pages by who needs them.
@Suite("A damaged page of a run is made again from the log")
struct DamagedRunTests {
    private let clock = SimulatedClock.afterEvents()

    /// A directory with runs of each table, and with names of several runs.
    private func filled(byteCountMax: UInt64 = 0) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
            $0.retention = RetentionPolicy(byteCountMax: byteCountMax)
        }
        try pipeline.take(0..<250)
        try pipeline.rest(turns: 70)
        try pipeline.stop()
        return files.disk.kill()
    }

    @Test(
        "a flipped bit in any run of a running daemon: once a merge meets it, all is made again",
        arguments: [0, 9_000] as [UInt64])
    func running(byteCountMax: UInt64) throws {
        let base = try filled(byteCountMax: byteCountMax)
        let manifest = try newest(base)
        var met: Set<TableKind> = []
        let runs =
            manifest.runs.map { ($0.table, $0.fileName.text) }
            + manifest.namesRuns.map { (TableKind.names, $0.fileName.text) }
        for (table, name) in runs {
            let left = base.disk.copy()
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
            // The first page lies behind a header of 128 bytes.
            left.disk.damage(name) { $0[140] ^= 1 }
            try pipeline.take(250..<800)
            try pipeline.rest(turns: 130)
            let failedCount = pipeline.told.count("merge failed, making derived files again")
            #expect(failedCount <= 1, "\(name)")
            #expect(pipeline.told.count("derived files rebuilt") == failedCount, "\(name)")
            if failedCount > 0 { met.insert(table) }
            try pipeline.stop()
            let isLeft = try left.names().contains(name)
            #expect(failedCount == 0 || !isLeft, "\(name)")
            if !isLeft { try expectWhole(left, packetCount: 800, name) }
        }
        // Rewards are made of reward-days, and never read.
        #expect(met == [.rewardDays, .days, .names], "\(met)")
    }

    @Test(
        "a damaged footer, or a segment that is gone, ends a running daemon once a merge meets it",
        arguments: [false, true])
    func footer(isRemoved: Bool) throws {
        let base = try filled()
        let manifest = try newest(base)
        let segment = try #require(manifest.sealed.last)
        let reader = try SegmentReader(segment.number, directory: manifest.directory, in: base)
        let blocks = try reader.readFooter(of: segment).blocks
        var pipeline = try SteppedPipeline.open(base, clock: clock, seed: 5)
        let name = FileName.segment(segment.number).text
        if isRemoved {
            try base.unlink(name)
        } else {
            // A page of its counters lies in the middle.
            let start = Int(try #require(blocks.last).end)
            base.disk.damage(name) { $0[(start + $0.count) / 2] ^= 1 }
        }
        let error = try #require(throws: PipelineError.self) {
            try pipeline.take(250..<800)
            try pipeline.rest(turns: 130)
        }
        #expect(error.exitCode == (isRemoved ? 65 : 74), "\(error)")
        #expect("\(error)".contains(isRemoved ? "was removed" : "start again"), "\(error)")
        let left = base.disk.kill()
        var again = try SteppedPipeline.open(left, clock: clock, seed: 6)
        try again.take(800..<810)
        try again.stop()
        if !isRemoved { #expect(try Verifier.run(left).exitCode == 0) }
    }

    @Test("a start that cannot read a page of names makes them again, also without a block of them")
    func start() throws {
        let base = try filled()
        let manifest = try newest(base)
        let first = try #require(manifest.namesRuns.first)
        do {
            let left = base.disk.copy()
            left.disk.damage(first.fileName.text) { $0[140] ^= 1 }
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
            #expect(pipeline.directory.warnings.contains { $0.hasPrefix("derived files rebuilt") })
            try expectWhole(left, packetCount: 250, "after the start")
            try pipeline.take(250..<260)
            try pipeline.stop()
            try expectWhole(left, packetCount: 260, "after its stop")
        }
        // The blocks of a segment are gone as well: its names are taken from pages that can be read.
        let left = base.disk.copy()
        try left.unlink(FileName.segment(manifest.sealed[1].number).text)
        left.disk.damage(first.fileName.text) { $0[Int(first.byteCount) * 9 / 10] ^= 1 }
        let before = try DirectoryReading(left).counts
        _ = try SteppedPipeline.open(left, clock: clock, seed: 5)
        #expect(try DirectoryReading(left).counts == before)
    }

    @Test(
        "runs that are replaced go aside where the log has lost blocks: they may have had their counters"
    )
    func lostBlocks() throws {
        let base = try filled()
        var first = try SteppedPipeline.open(base, clock: clock, seed: 5)
        try first.take(250..<300)
        let left = base.disk.kill()
        let names = try left.names()
        let segment = try #require(names.filter { $0.hasSuffix(".segment") }.max())
        left.disk.damage(segment) { $0[4096 + 200] ^= 1 }
        var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 6)
        let manifest = try newest(left)
        #expect(!manifest.lost.isEmpty)
        let bad = try #require(manifest.runs(of: .rewardDays).first)
        left.disk.damage(bad.fileName.text) { $0[140] ^= 1 }
        try pipeline.take(300..<800)
        try pipeline.rest(turns: 130)
        #expect(pipeline.told.count("derived files rebuilt") == 1)
        let aside = try left.subdirectory(FileName.aside.text, create: false).names()
        for run in manifest.runs {
            #expect(aside.contains(run.fileName.text), "\(run.fileName.text)")
        }
    }

    @Test("where the log cannot make it again, the daemon stays up and says so each minute")
    func withoutFooter() throws {
        let left = try filled()
        var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
        let manifest = try newest(left)
        let run = try #require(manifest.runs(of: .rewardDays).last)
        left.disk.damage(run.fileName.text) { $0[140] ^= 1 }
        let segment = manifest.sealed[0].number
        left.disk.damage(FileName.segment(segment).text) { $0[$0.count - 300] ^= 1 }
        try pipeline.take(250..<800)
        try pipeline.rest(turns: 150)
        #expect(pipeline.told.count("merge failed") == 1)
        let failedCount = pipeline.told.count("rebuild failed, retrying in a minute")
        #expect((2...6).contains(failedCount), "\(failedCount)")
        #expect(pipeline.told.count("derived files rebuilt") == 0)
    }
}
