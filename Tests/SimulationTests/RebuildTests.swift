import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Counter tables that are made again from footers: by a start that misses one, and when asked for.
@Suite("Counter tables are made again")
struct RebuildTests {
    private let clock = SimulatedClock.afterEvents()

    /// Directories with runs of each table and, by their bytes, expired segments: by the limit.
    private static let bases: [UInt64: FilledOnce] = [
        0: FilledOnce { try fill($0, byteCountMax: 0) },
        9_000: FilledOnce { try fill($0, byteCountMax: 9_000) },
    ]

    private static func fill(
        _ clock: SimulatedClock, byteCountMax: UInt64
    ) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
            $0.retention = RetentionPolicy(byteCountMax: byteCountMax)
        }
        try pipeline.take(0..<400)
        try pipeline.rest(turns: 70)
        try pipeline.stop()
        return files
    }

    private func filled(byteCountMax: UInt64 = 9_000) throws -> SimulatedFileSystem {
        try #require(Self.bases[byteCountMax]).copy(for: clock)
    }

    @Test(
        "a start makes again what it misses or cannot read, of reward-days, or else all, and says so"
    )
    func start() throws {
        let files = try filled()
        let manifest = try newest(files)
        #expect(!manifest.expired.isEmpty && manifest.sealed.count > 1)
        #expect(Set(manifest.runs.map(\.table)).count == 3)
        for (index, run) in manifest.runs.enumerated() {
            let left = files.disk.kill()
            if index % 2 == 0 {
                try left.unlink(run.fileName.text)
            } else {
                left.disk.damage(run.fileName.text) { $0[20] ^= 1 }
            }
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
            #expect(pipeline.directory.warnings.contains { $0.hasPrefix("derived files rebuilt") })
            let made = try newest(left).runs
            let beside = manifest.runs.filter { $0.span == run.span }
            #expect(made.map(\.span) == manifest.runs.map(\.span))
            #expect(
                Set(made).intersection(manifest.runs)
                    == Set(manifest.runs).subtracting(run.table == .rewardDays ? beside : [run]))
            try expectWhole(left, packetCount: 400, run.fileName.text)
            try pipeline.take(400..<410)
            try pipeline.stop()
            #expect(
                try DirectoryReading(left).counts == ReferenceModel(packetCount: 410).counts)
        }
    }

    @Test(
        "segments that no generation names yet, and files of one that never was, are in nobody's way"
    )
    func unpublished() throws {
        let base = try filled(byteCountMax: 0)
        let before = try newest(base)
        let run = try #require(before.runs(of: .rewardDays).first).fileName.text
        // Sealed, and not published.
        let sealed = base.disk.kill()
        do {
            var pipeline = try SteppedPipeline.open(sealed, clock: clock, seed: 5) {
                $0.compactIntervalNanoseconds = 1 << 60
            }
            try pipeline.take(400..<460)
        }
        #expect(try newest(sealed).cut == before.cut)
        // An expired run that no manifest names.
        let orphaned = base.disk.kill()
        var merge = ExpiredMerge(for: before, in: orphaned)
        let output = try merge.run(
            Array(before.sealed.prefix(2)), older: [], firstNumber: before.nextFileNumber)
        #expect(output != nil)
        for (files, packetCount) in [(sealed.disk.kill(), 460), (orphaned.disk.kill(), 400)] {
            try files.unlink(run)
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 6)
            #expect(pipeline.directory.warnings.contains { $0.hasPrefix("derived files rebuilt") })
            try pipeline.stop()
            try expectWhole(files, packetCount: UInt64(packetCount))
        }
    }

    @Test("two of them are the same byte for byte, whatever runs were there")
    func canonical() throws {
        let base = try filled()
        var images: [[String: [UInt8]]] = []
        for dropsAll in [false, true] {
            let left = base.disk.kill()
            let manifest = try newest(left)
            if dropsAll { for run in manifest.runs { try left.unlink(run.fileName.text) } }
            let made = try LogRebuild.run(ManifestStore(files: left), after: manifest).manifest
            var image: [String: [UInt8]] = [:]
            for run in made.runs {
                image[run.fileName.text] = left.disk.contents(run.fileName.text)
            }
            images.append(image)
            try expectWhole(left, packetCount: 400, "all dropped: \(dropsAll)")
        }
        #expect(images[0].count == 3 && images[0] == images[1])
    }

    @Test(
        "where a footer is damaged too, its segment is sealed again from its blocks, unless reward-days have all",
        arguments: [0, 9_000] as [UInt64])
    func damagedFooter(byteCountMax: UInt64) throws {
        let base = try filled(byteCountMax: byteCountMax)
        let manifest = try newest(base)
        let segment = FileName.segment(manifest.sealed[0].number).text
        #expect(manifest.sealed[0].number <= manifest.mergedEnd.segment)
        let blocks = try SegmentReader(
            manifest.sealed[0].number, directory: manifest.directory, in: base
        ).readFooter(of: manifest.sealed[0]).blocks
        for run in manifest.runs {
            for hasBadBlock in [false, true] {
                let left = base.disk.kill()
                left.disk.damage(run.fileName.text) { $0[20] ^= 1 }
                left.disk.damage(segment) { bytes in
                    bytes[bytes.count - 300] ^= 1
                    if hasBadBlock { bytes[Int(blocks[0].end) - 20] ^= 1 }
                }
                let place = "\(run.fileName.text), bad block \(hasBadBlock)"
                guard run.table == .rewardDays, run.span.contains(manifest.sealed[0].number) else {
                    do {
                        let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
                        #expect(!pipeline.found.contains { $0.contains("sealed again") })
                    }
                    let reading = try DirectoryReading(left)
                    #expect(reading.counts == ReferenceModel(packetCount: 400).counts, "\(place)")
                    // Of the segment alone.
                    let report = try Verifier.run(left)
                    #expect(report.exitCode == 65 && report.differenceCount == 0, "\(place)")
                    continue
                }
                do {
                    let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
                    #expect(pipeline.found.contains { $0.hasPrefix("derived files rebuilt") })
                    #expect(
                        pipeline.found.contains { $0.contains("sealed again from its blocks") },
                        "\(place)")
                    #expect(
                        pipeline.found.contains { $0.contains("lost in blocks 0 to") }
                            == hasBadBlock, "\(place)")
                }
                guard hasBadBlock else {
                    try expectWhole(left, packetCount: 400, place)
                    continue
                }
                let whole = ReferenceModel(packetCount: 400)
                let lost = try newest(left).lost
                let reading = try DirectoryReading(left)
                #expect(
                    reading.eventCount == whole.eventCount - UInt64(blocks[0].summary.rowCount),
                    "\(place)")
                // Names runs and sound runs of counters stay as they are.
                let known = Set(whole.counts.keys)
                #expect(known.isSuperset(of: reading.counts.keys), "\(place)")
                #expect(
                    try newest(left).namesRuns.first
                        == manifest.namesRuns.first, "\(place)")
                #expect(lost.map(\.rowCount) == [UInt64(blocks[0].summary.rowCount)], "\(place)")
                #expect(try Verifier.run(left).exitCode == 65, "\(place)")
            }
        }
    }

    @Test("a manifest that is left says how far the log went, where the newest cannot be read")
    func olderBound() throws {
        let left = try filled()
        let store = ManifestStore(files: left)
        var manifest = try store.readNewest()
        // The one before says as much.
        manifest.generation = manifest.generation.next
        try store.publish(manifest)
        left.disk.damage(FileName.manifest(manifest.generation).text) { $0[20] ^= 1 }
        try left.unlink(FileName.durableMark.text)
        let last = try #require(manifest.sealed.last)
        let block = try #require(
            try SegmentReader(last.number, directory: manifest.directory, in: left)
                .readFooter(of: last).blocks.last)
        left.disk.damage(FileName.segment(last.number).text) { bytes in
            bytes[Int(block.offset) + 60] ^= 1
            bytes[bytes.count - 300] ^= 1
        }
        _ = try SteppedPipeline.open(left, clock: clock, seed: 5)
        let lost = try store.readNewest().lost
        #expect(lost.map(\.firstBlock) == [block.ordinal], "\(lost)")
        #expect(try Verifier.run(left).exitCode == 65)
    }

    @Test("where a segment is missing too, nothing is made, and the start says what is wrong")
    func withoutFooter() throws {
        let left = try filled()
        let manifest = try newest(left)
        let run = try #require(
            manifest.runs.first { $0.span.contains(manifest.sealed[0].number) }
        ).fileName.text
        try left.unlink(run)
        // Nor can it be made of reward-days: of each a page is bad.
        for other in manifest.runs(of: .rewardDays) {
            left.disk.damage(other.fileName.text) { $0[140] ^= 1 }
        }
        try left.unlink(FileName.segment(manifest.sealed[0].number).text)
        var failure: PipelineError?
        do { _ = try SteppedPipeline.open(left, clock: clock, seed: 5) } catch { failure = error }
        #expect(failure?.exitCode == 65 && failure.map { "\($0)".contains(run) } == true)
        #expect(try newest(left) == manifest)
    }

    @Test(
        "without a manifest, names or tables the log says all of it, twice the same bytes",
        arguments: [0, 9_000] as [UInt64])
    func everything(byteCountMax: UInt64) throws {
        let base = try filled(byteCountMax: byteCountMax)
        let before = try newest(base)
        let hasExpired = !before.expired.isEmpty
        #expect(hasExpired == (byteCountMax > 0))
        var images: [[String: [UInt8]]] = []
        for seed in 5...6 as ClosedRange<UInt64> {
            let left = base.disk.kill()
            for name in try left.names()
            where name.hasSuffix(".manifest")
                || name.hasSuffix(".run") && !name.contains("expired")
            { try left.unlink(name) }
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: seed)
            #expect(pipeline.directory.warnings.contains { $0.hasPrefix("derived files rebuilt") })
            let made = try newest(left)
            #expect(made.directory == before.directory && made.origin == before.origin)
            #expect(made.sealed == before.sealed && made.expired == before.expired)
            #expect(made.shard == before.shard && made.lost == before.lost)
            #expect(made.idsCompleteSince == before.idsCompleteSince)
            #expect(made.runs.count == 3 && made.namesRuns.count == 1)
            try expectWhole(left, packetCount: 400, "expired: \(hasExpired)")
            var image: [String: [UInt8]] = [:]
            for name in made.runs.map(\.fileName.text) + made.namesRuns.map(\.fileName.text) {
                image[name] = left.disk.contents(name)
            }
            images.append(image)
            try pipeline.take(400..<410)
            try pipeline.stop()
            #expect(
                try DirectoryReading(left).counts == ReferenceModel(packetCount: 410).counts)
        }
        #expect(images[0].count == 4 && images[0] == images[1])
    }

    @Test("a names run that is gone is made again; a manifest that cannot be read too")
    func names() throws {
        let base = try filled(byteCountMax: 0)
        let before = try newest(base)
        let manifest = FileName.manifest(before.generation).text
        for name in before.namesRuns.map(\.fileName.text) + [manifest] {
            let left = base.disk.kill()
            left.disk.damage(name) { $0[20] ^= 1 }
            let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
            #expect(pipeline.directory.warnings.contains { $0.hasPrefix("derived files rebuilt") })
            _ = consume pipeline
            try expectWhole(left, packetCount: 400, name)
        }
    }

    @Test(
        "a footer of level 0 that cannot be read is made again from its blocks; without them, they are lost"
    )
    func levelZero() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4)
        try pipeline.take(0..<100)
        try pipeline.stop()
        let base = files.disk.kill()
        let manifest = try newest(base)
        #expect(manifest.runs.isEmpty && manifest.level0.count > 2)
        for entry in manifest.level0 {
            let name = FileName.segment(entry.number).text
            for fault in 0..<4 {
                let left = base.disk.kill()
                switch fault {
                case 0: left.disk.damage(name) { $0[$0.count - 20] ^= 1 }
                case 1: left.disk.damage(name) { $0[$0.count - 300] ^= 1 }
                case 2: try left.unlink(name)
                default: left.disk.damage(name) { $0[20] ^= 1 }
                }
                let damaged = left.disk.contents(name)
                var again = try SteppedPipeline.open(left, clock: clock, seed: 5)
                let lost = try newest(left).lost.reduce(UInt64(0)) { $0 + UInt64($1.blockCount) }
                #expect(lost == (fault == 2 ? UInt64(entry.blockCount) : 0))
                let reading = try DirectoryReading(left)
                #expect(
                    again.directory.warnings.contains { $0.contains("in no run yet") }
                        == (fault == 2))
                if let damaged {
                    #expect(reading.counts == ReferenceModel(packetCount: 100).counts)
                    #expect(try Verifier.run(left).findings.allSatisfy { $0.kind == .note })
                    #expect(
                        again.found.contains { $0.contains("footer was damaged, sealed again") })
                    let aside = try left.subdirectory("aside", create: false)
                    let kept = try aside.names().filter { $0.hasPrefix(name) }
                        .map {
                            try aside.open($0, .read).readArray(at: 0, byteCount: damaged.count)
                        }
                    #expect(
                        kept.contains { !$0.isEmpty && damaged.suffix($0.count).elementsEqual($0) })
                    #expect(
                        kept.contains { damaged.prefix($0.count).elementsEqual($0) } == (fault == 3)
                    )
                } else {
                    #expect(again.found.contains { $0.contains("the file is missing, and what") })
                    let rowCount = manifest.shard.totals.rowCount - entry.rowCount
                    #expect(reading.eventCount == rowCount)
                    let findings = try Verifier.run(left).findings
                    #expect(Set(findings.map(\.kind)) == [.evidenceLost], "\(findings)")
                }
                // Its counters are merged like any other's.
                try again.take(100..<400)
                try again.rest(turns: 20)
                #expect(try !newest(left).runs.isEmpty)
                try again.stop()
            }
        }
    }

    @Test(
        "without a manifest and the first expired run nothing is made, and nothing is removed")
    func withoutExpired() throws {
        let base = try filled()
        let before = try newest(base)
        let first = try #require(before.expired.first).run.fileName.text
        for name in try base.names() where name.hasSuffix(".manifest") { try base.unlink(name) }
        for damages in [false, true] {
            let left = base.disk.kill()
            if damages {
                left.disk.damage(first) { $0[20] ^= 1 }
            } else {
                try left.unlink(first)
            }
            let names = try left.names()
            var failure: PipelineError?
            do { _ = try SteppedPipeline.open(left, clock: clock, seed: 5) } catch {
                failure = error
            }
            #expect(failure?.exitCode == 65, "\(failure as Any)")
            #expect(try left.names() == names)
        }
    }

    @Test("a crash before any operation of it leaves a directory that opens, with the same sums")
    func crash() throws {
        let whole = try filled(byteCountMax: 0)
        #expect(try newest(whole).sealed.count > Limits.level0MergeCount)
        let name = try #require(
            try newest(whole).runs.first { $0.table == .days }
        )
        .fileName.text
        try whole.unlink(name)
        let base = whole.disk.kill()
        let start = base.disk.operationCount
        _ = try SteppedPipeline.open(base, clock: clock, seed: 5)
        let end = base.disk.operationCount
        for operation in stride(from: start, through: end, by: 3) {
            let files = whole.disk.kill()
            files.disk.crash(beforeOperation: operation)
            _ = try? SteppedPipeline.open(files, clock: clock, seed: 5)
            let left = files.disk.powerCut(seed: UInt64(operation))
            _ = try SteppedPipeline.open(left, clock: clock, seed: 6)
            try expectWhole(left, packetCount: 400, "operation \(operation - start)")
        }
    }
}
