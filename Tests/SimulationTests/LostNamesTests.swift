import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// A names run and the segment that introduced its names are both damaged: a start goes on, the names are lost, and nothing
/// else is.
@Suite("Names that are lost with their segment")
struct LostNamesTests: FilledDirectory {
    let clock = SimulatedClock.afterEvents()

    /// What is damaged of all names runs, and of the segment.
    enum Damage: CaseIterable {
        case heads, pages
        case blocks, blocksAndFooter

        static let pairs = [heads, pages].flatMap { run in
            [blocks, blocksAndFooter].map { (run, $0) }
        }
    }

    private func damage(_ files: SimulatedFileSystem, _ damage: Damage) throws {
        let manifest = try newest(files)
        let first = manifest.sealed[0]
        let runs = manifest.namesRuns.map(\.fileName.text)
        let segment = FileName.segment(first.number).text
        switch damage {
        case .heads: for name in runs { files.disk.damage(name) { $0[20] ^= 1 } }
        case .pages:
            for name in runs {
                files.disk.damage(name) { bytes in
                    for place in stride(from: 130, to: bytes.count - 400, by: 16) {
                        bytes[place] ^= 1
                    }
                }
            }
        case .blocks: try damageFirstBlocks(files)
        case .blocksAndFooter:
            files.disk.damage(segment) { bytes in
                for place in stride(from: 214, to: bytes.count, by: 64) { bytes[place] ^= 1 }
            }
        }
    }

    /// All events are counted, each name has one row, and `verify` says that names are lost, and no counter wrong.
    private func expectCounted(
        _ files: SimulatedFileSystem, packetCount: UInt64, _ place: String
    ) throws {
        let whole = ReferenceModel(packetCount: packetCount)
        let reading = try DirectoryReading(files)
        #expect(reading.eventCount == whole.eventCount, "\(place)")
        let lost = reading.counts.keys.filter {
            $0.reward.hasPrefix("(lost:") || $0.business.hasPrefix("(lost:")
        }
        #expect(!lost.isEmpty, "\(place)")
        for (key, counts) in reading.counts where !lost.contains(key) {
            #expect(whole.counts[key].map { counts.isWithin($0) } == true, "\(place): \(key)")
        }
        let report = try Verifier.run(files)
        #expect(
            report.exitCode == 65 && report.differenceCount == 0, "\(place): \(report.findings)")
        #expect(
            report.findings.contains {
                $0.kind == .evidenceLost && $0.file.hasSuffix(".names.run")
                    && $0.what.contains("(lost:N)")
            }, "\(place): \(report.findings)")
    }

    @Test("a start goes on and says so; totals stay, and who comes again gets one new row")
    func both() throws {
        let base = try filled()
        for (run, segment) in Damage.pairs {
            let place = "\(run) \(segment)"
            let left = base.disk.kill()
            try damage(left, segment)
            try damage(left, run)
            // Also where all is made again.
            if segment == .blocks {
                for name in try left.names() where name.hasSuffix(".manifest") {
                    try left.unlink(name)
                }
            }
            do {
                let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
                #expect(pipeline.found.contains { $0.hasPrefix("derived files rebuilt") })
                #expect(pipeline.found.contains { $0.contains("keys are lost") }, "\(place)")
            }
            // The damaged runs may have names that are nowhere else.
            #expect(
                try left.subdirectory("aside", create: false).names()
                    .contains { $0.hasSuffix(".names.run") }, "\(place)")
            try expectCounted(left, packetCount: 250, place)
            let next = left.disk.kill()
            do {
                var pipeline = try SteppedPipeline.open(next, clock: clock, seed: 6)
                #expect(!pipeline.found.contains { $0.contains("keys are lost") }, "\(place)")
                try pipeline.take(250..<500)
                try pipeline.rest(turns: 70)
                try pipeline.stop()
            }
            try expectCounted(next, packetCount: 500, "\(place), a life later")
        }
    }

    @Test("a running daemon that meets such a run says so, and goes on")
    func running() throws {
        let left = try filled()
        var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
        try damage(left, .blocks)
        try damage(left, .pages)
        try pipeline.take(250..<800)
        try pipeline.rest(turns: 130)
        try pipeline.stop()
        #expect(pipeline.told.count("merge failed, making derived files again") == 1)
        #expect(pipeline.told.count("derived files rebuilt from the log; ") == 1)
        #expect(
            try left.subdirectory("aside", create: false).names()
                .contains { $0.hasSuffix(".names.run") })
        try expectCounted(left, packetCount: 800, "running")
    }

    @Test(
        "where the blocks come back from a copy, verify says so, and a rebuild takes the names of them"
    )
    func restored() throws {
        let left = try filled()
        let manifest = try newest(left)
        let segment = FileName.segment(manifest.sealed[0].number).text
        let good = try #require(left.disk.contents(segment))
        try damage(left, .blocks)
        try damage(left, .heads)
        do { _ = try SteppedPipeline.open(left, clock: clock, seed: 5) }
        try expectCounted(left, packetCount: 250, "before")
        let next = left.disk.kill()
        next.disk.damage(segment) { $0 = good }
        let report = try Verifier.run(next)
        #expect(report.differenceCount > 0)
        #expect(report.findings.contains { "\($0)".contains("ingest-reader rebuild") })
        let store = ManifestStore(files: next)
        _ = try LogRebuild.run(store, after: try store.readNewest(), names: .made)
        #expect(try DirectoryReading(next).counts == ReferenceModel(packetCount: 250).counts)
        let findings = try Verifier.run(next).findings.filter { $0.kind != .note }
        #expect(findings.isEmpty, "\(findings.prefix(3))")
    }

    @Test("of a run without its blocks, all names are taken whose pages can be read")
    func pages() throws {
        let left = try filled()
        let manifest = try newest(left)
        // The ranks of all: names and keys themselves can be read.
        for entry in manifest.namesRuns { try damagePage(.ranks, of: entry, left) }
        try damage(left, .blocks)
        let before = ReferenceModel(packetCount: 250).counts
        let store = ManifestStore(files: left)
        #expect(throws: ReaderError.self) { try DirectoryReading(left) }
        #expect(
            try store.damagedNames(of: manifest.namesRuns, manifest.directory)
                == manifest.namesRuns.map(\.fileName))
        let made = try LogRebuild.run(store, after: manifest, names: .made, bad: [])
        #expect(made.losses == [])
        #expect(try DirectoryReading(left).counts == before)
    }
}
