import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Some runs of counters are bad, and the log has not all that was in them: what sound ones have stays.
@Suite("Runs are made again beside sound ones")
struct PartialRebuildTests {
    private static let packetCount: UInt64 = 380
    private let clock = SimulatedClock.afterEvents()

    /// With several runs of each table.
    private static let base = FilledOnce { clock in
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4)
        for first in stride(from: 0, to: packetCount, by: 38) {
            try pipeline.take(first..<first + 38)
            try pipeline.rest(turns: 70)
        }
        try pipeline.stop()
        let runs = try newest(files).runs(of: .rewardDays)
        #expect(runs.map(\.span.lastSegment.rawValue) == [16, 24])
        return files
    }

    private func filled() throws -> SimulatedFileSystem { try Self.base.copy(for: clock) }

    /// Of which a segment in the first run has expired, without a footer.
    /// - Parameter isAcross: whether what has expired goes into the second run.
    private func expired(
        hasFooter: Bool = false, isAcross: Bool = false
    ) throws -> SimulatedFileSystem {
        let files = try filled()
        let segment = FileName.segment(try newest(files).sealed[1].number).text
        if !hasFooter { files.disk.damage(segment) { $0[$0.count - 300] ^= 1 } }
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 9) {
            $0.retention = RetentionPolicy(byteCountMax: isAcross ? 35_000 : 100_000)
        }
        try pipeline.rest(turns: 140)
        try pipeline.stop()
        let manifest = try newest(files)
        let end = manifest.lastExpired.rawValue
        #expect((isAcross ? 17..<24 : 2..<16).contains(end), "\(end)")
        #expect(!isAcross || manifest.expired.contains { $0.span.segmentCount > 16 })
        return files.disk.kill()
    }

    private func expectWhole(_ files: SimulatedFileSystem, _ packetCount: UInt64 = packetCount)
        throws
    {
        #expect(
            try DirectoryReading(files).counts == ReferenceModel(packetCount: packetCount).counts)
        #expect(try Verifier.run(files).differenceCount == 0)
    }

    @Test("a sound reward-days run keeps what no footer has any more, where the next one is bad")
    func besideSound() throws {
        let base = try expired()
        let runs = try newest(base).runs
        let bad = try #require(runs.last { $0.table == .rewardDays })
        do {
            let left = base.disk.kill()
            left.disk.damage(bad.fileName.text) { $0[20] ^= 1 }
            let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
            #expect(pipeline.found.contains { $0.hasPrefix("derived files rebuilt") })
            #expect(!pipeline.found.contains { $0.contains("expired without a footer") })
            try expectWhole(left)
            let kept = try newest(left).runs
            for run in runs where run.span != bad.span { #expect(kept.contains(run)) }
        }
        // A page, which a merge meets.
        let left = base.disk.kill()
        var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
        left.disk.damage(bad.fileName.text) { $0[140] ^= 1 }
        try pipeline.take(Self.packetCount..<600)
        try pipeline.rest(turns: 130)
        #expect(pipeline.told.count("merge failed") == 1)
        #expect(pipeline.told.count("derived files rebuilt") == 1)
        try pipeline.stop()
        try expectWhole(left, 600)
    }

    @Test("runs that share an expired run with a bad one are made with it")
    func sharedExpiry() throws {
        for hasFooter in [true, false] {
            let left = try expired(hasFooter: hasFooter, isAcross: true)
            let runs = try newest(left).runs
            let bad = try #require(runs.last { $0.table == .rewardDays })
            left.disk.damage(bad.fileName.text) { $0[20] ^= 1 }
            let sound = try #require(runs.first { $0.table == .rewardDays }).fileName.text
            let contents = left.disk.contents(sound)
            do {
                let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
                let isTold = pipeline.found.contains { $0.contains("expired without a footer") }
                #expect(isTold == !hasFooter)
            }
            #expect(try newest(left).runs.map(\.table) == TableKind.counterTables)
            if hasFooter {
                try expectWhole(left)
            } else {
                #expect(left.disk.contents("aside/\(sound)") == contents)
            }
        }
    }

    @Test("a page of days is made of reward-days by a daemon, where no footer has all of it")
    func pageOfDays() throws {
        let left = try expired()
        var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
        let bad = try #require(newest(left).runs.last { $0.table == .days })
        left.disk.damage(bad.fileName.text) { $0[140] ^= 1 }
        // Into a merge with the first run.
        try pipeline.take(Self.packetCount..<600)
        try pipeline.rest(turns: 130)
        #expect(pipeline.told.count("merge failed") == 1)
        #expect(pipeline.told.count("derived files rebuilt") == 1)
        #expect(pipeline.told.count("rebuild failed") == 0)
        try pipeline.stop()
        try expectWhole(left, 600)
    }

    @Test("days are made of reward-days also with a lost key and without a segment")
    func daysWithLostKey() throws {
        let left = try filled()
        let manifest = try newest(left)
        let lost = FileName.segment(manifest.sealed[0].number).text
        let blocks = try SegmentReader(
            manifest.sealed[0].number, directory: manifest.directory, in: left
        ).readFooter(of: manifest.sealed[0]).blocks
        left.disk.damage(lost) { bytes in
            for block in blocks { bytes[Int(block.offset) + 200] ^= 1 }
        }
        for run in manifest.namesRuns { left.disk.damage(run.fileName.text) { $0[20] ^= 1 } }
        do {
            let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
            #expect(pipeline.found.contains { $0.contains("keys are lost") })
        }
        let next = left.disk.kill()
        try next.unlink(FileName.segment(manifest.sealed[1].number).text)
        let days = try #require(newest(next).runs(of: .days).first).fileName.text
        next.disk.damage(days) { $0[20] ^= 1 }
        let before = try #require(next.disk.contents(days))
        do {
            let pipeline = try SteppedPipeline.open(next, clock: clock, seed: 6)
            #expect(pipeline.found.contains { $0.hasPrefix("derived files rebuilt") })
        }
        let whole = ReferenceModel(packetCount: Self.packetCount)
        #expect(try DirectoryReading(next).eventCount == whole.eventCount)
        // Businesses of lost keys may be in it.
        #expect(next.disk.contents("aside/\(days)") == before)
    }

    @Test(
        "an offline rebuild makes what it can: names from a copy, and bad runs, without all footers"
    )
    func offline() throws {
        let base = try expired()
        let manifest = try newest(base)
        let segment = try #require(
            manifest.sealed.first {
                try !SegmentReader($0.number, directory: manifest.directory, in: base)
                    .readFooter(of: $0).names.isEmpty
            })
        let name = FileName.segment(segment.number).text
        let good = try #require(base.disk.contents(name))
        let blocks = try SegmentReader(segment.number, directory: manifest.directory, in: base)
            .readFooter(of: segment).blocks
        base.disk.damage(name) { bytes in
            for block in blocks { bytes[Int(block.offset) + 200] ^= 1 }
        }
        for run in manifest.namesRuns { base.disk.damage(run.fileName.text) { $0[20] ^= 1 } }
        do { _ = try SteppedPipeline.open(base, clock: clock, seed: 5) }
        base.disk.damage(name) { $0 = good }
        let text = "ingest-reader rebuild"
        #expect(try Verifier.run(base).findings.contains { "\($0)".contains(text) })
        for table in TableKind.counterTables {
            let left = base.disk.kill()
            let store = ManifestStore(files: left)
            let bad = try #require(newest(left).runs(of: table).first).fileName.text
            if table != .rewardDays { left.disk.damage(bad) { $0[140] ^= 1 } }
            let runs = try LogRebuild.all(of: store.readNewest(isWhole: false), store).manifest.runs
            #expect(runs.contains { $0.fileName.text == bad } == (table == .rewardDays))
            try expectWhole(left)
        }
        // Nothing is wrong that it could mend, and it cannot do all.
        let left = base.disk.kill()
        let store = ManifestStore(files: left)
        _ = try LogRebuild.all(of: store.readNewest(isWhole: false), store)
        #expect(throws: StorageError.self) {
            try LogRebuild.all(of: store.readNewest(isWhole: false), store)
        }
    }

    /// With the footers of all segments damaged.
    private func withoutFooters(
        hasExpired: Bool
    ) throws -> (files: SimulatedFileSystem, manifest: Manifest) {
        let base = hasExpired ? try expired(hasFooter: true) : try filled()
        let manifest = try newest(base)
        #expect(hasExpired != manifest.expired.isEmpty)
        #expect(manifest.sealed[0].number <= manifest.mergedEnd.segment)
        for entry in manifest.sealed {
            base.disk.damage(FileName.segment(entry.number).text) { $0[$0.count - 300] ^= 1 }
        }
        return (base, manifest)
    }

    private func rebuild(
        _ files: SimulatedFileSystem
    ) throws(StorageError) -> LogRebuild<SimulatedFileSystem>.Outcome {
        let store = ManifestStore(files: files)
        let newest: Manifest
        do { newest = try store.readNewest(isWhole: false) } catch {
            newest = try LogRebuild.manifest(of: files)
        }
        return try LogRebuild.all(of: newest, store)
    }

    private func expectSound(_ files: SimulatedFileSystem) throws {
        try expectWhole(files)
        let findings = try Verifier.run(files).findings.filter { $0.kind != .note }
        #expect(findings.isEmpty)
    }

    @Test(
        "an offline rebuild seals segments again whose footers are bad, and nothing damaged stays",
        arguments: [false, true])
    func footers(hasExpired: Bool) throws {
        let (base, manifest) = try withoutFooters(hasExpired: hasExpired)
        let runs = manifest.runs.map(\.fileName.text) + manifest.namesRuns.map(\.fileName.text)
        for hasBadRuns in [false, true] {
            let left = base.disk.kill()
            if hasBadRuns { for name in runs { left.disk.damage(name) { $0[140] ^= 1 } } }
            let made = try rebuild(left)
            #expect(made.losses.count == manifest.sealed.count)
            #expect(made.losses.allSatisfy { $0.contains("sealed again from its blocks") })
            #expect(made.manifest.sealed.map(\.rowCount) == manifest.sealed.map(\.rowCount))
            #expect(made.manifest.shard.totals == manifest.shard.totals)
            #expect(try Set(left.names()).isDisjoint(with: runs) == hasBadRuns)
            try expectSound(left)
            let again = try rebuild(left)
            #expect(again.losses.isEmpty && again.manifest.sealed == made.manifest.sealed)
        }
    }

    @Test("no segment is sealed again where one of them has lost a block, or is another one")
    func unsealed() throws {
        let (base, manifest) = try withoutFooters(hasExpired: false)
        let names = manifest.sealed.map { FileName.segment($0.number).text }
        let sound = try filled()
        let name = names[names.count / 2]
        // As a start seals it again that has lost one of its blocks, and the run that has them.
        let other = sound.disk.kill()
        let run = try #require(manifest.runs(of: .rewardDays).first).fileName.text
        other.disk.damage(run) { $0[20] ^= 1 }
        other.disk.damage(names[0]) { bytes in
            bytes[Int(SegmentLayout.blocksOffset) + 60] ^= 1
            bytes[bytes.count - 300] ^= 1
        }
        _ = try SteppedPipeline.open(other, clock: clock, seed: 5)
        let exchanged = try #require(other.disk.contents(names[0]))
        #expect(try newest(other).lost.count == 1)
        for fault in 0..<4 {
            let left = (fault == 3 ? sound : base).disk.kill()
            switch fault {
            case 0: left.disk.damage(name) { $0[Int(SegmentLayout.blocksOffset) + 60] ^= 1 }
            case 1: left.disk.damage(name) { $0[20] ^= 1 }
            case 2: left.disk.damage(name) { $0 = Array($0.prefix($0.count / 2)) }
            default: left.disk.damage(names[0]) { $0 = exchanged }
            }
            let (images, before) = (names.map { left.disk.contents($0) }, try newest(left))
            let error = #expect(throws: StorageError.self) { try rebuild(left) }
            // Of a segment whose next one has no header nobody can say that it is whole.
            let wrong = fault == 3 ? names[0] : fault == 1 ? names[names.count / 2 - 1] : name
            #expect(error.map { "\($0)".contains(wrong) } == true, "\(fault): \(error as Any)")
            #expect(names.map { left.disk.contents($0) } == images, "\(fault)")
            #expect(try newest(left) == before, "\(fault)")
        }
    }

    @Test("blocks that were lost before are no hindrance, and stay recorded as they were")
    func recordedLoss() throws {
        let left = try filled()
        let manifest = try newest(left)
        let name = FileName.segment(manifest.sealed[0].number).text
        left.disk.damage(try #require(manifest.runs(of: .rewardDays).first).fileName.text) {
            $0[20] ^= 1
        }
        left.disk.damage(name) { bytes in
            bytes[Int(SegmentLayout.blocksOffset) + 60] ^= 1
            bytes[bytes.count - 300] ^= 1
        }
        _ = try SteppedPipeline.open(left, clock: clock, seed: 5)
        let next = left.disk.kill()
        let before = (lost: try newest(next).lost, count: try DirectoryReading(next).eventCount)
        #expect(before.lost.count == 1)
        next.disk.damage(name) { $0[$0.count - 300] ^= 1 }
        let made = try rebuild(next)
        #expect(made.manifest.lost == before.lost)
        #expect(try DirectoryReading(next).eventCount == before.count)
        #expect(
            try Verifier.run(next).findings.allSatisfy { [.note, .evidenceLost].contains($0.kind) })
    }

    @Test(
        "a crash before every fifth operation of an offline rebuild leaves all counters, and to the next one the rest"
    )
    func offlineCrash() throws {
        let (base, manifest) = try withoutFooters(hasExpired: false)
        base.disk.damage(manifest.runs[0].fileName.text) { $0[140] ^= 1 }
        var operation = base.disk.kill().disk.operationCount
        var isWhole = false
        while !isWhole {
            let files = base.disk.kill()
            files.disk.crash(beforeOperation: operation)
            isWhole = (try? rebuild(files)) != nil
            let left =
                operation % 2 == 0
                ? files.disk.kill() : files.disk.powerCut(seed: UInt64(operation))
            if operation % 3 == 0 { _ = try SteppedPipeline.open(left, clock: clock, seed: 6) }
            let next = left.disk.kill()
            _ = try rebuild(next)
            try expectWhole(next)
            if operation % 3 != 0 {
                let findings = try Verifier.run(next).findings.filter { $0.kind != .note }
                #expect(findings.isEmpty, "\(operation): \(findings.prefix(2))")
            }
            operation += 5
        }
    }

    /// What is wrong when a rebuild begins.
    enum Damage: CaseIterable {
        case rewardDays, allTables, lossy, names
    }

    @Test(
        "a crash before any operation of a rebuild leaves the right result to the next start, and all evidence",
        arguments: Damage.allCases)
    func crash(damage: Damage) throws {
        let base = damage == .lossy ? try expired() : try filled()
        let manifest = try newest(base)
        var bad: [FileName] = []
        switch damage {
        case .rewardDays: bad = manifest.runs(of: .rewardDays).map(\.fileName)
        case .allTables: bad = manifest.runs.map(\.fileName)
        case .lossy: bad = [manifest.runs(of: .rewardDays)[0].fileName]
        case .names: bad = manifest.namesRuns.map(\.fileName)
        }
        for name in bad { base.disk.damage(name.text) { $0[20] ^= 1 } }
        // Names alone are evidence where the log has all.
        let runs =
            damage == .lossy ? manifest.runs.map(\.fileName) : damage == .names ? bad : []
        let evidence = try runs.map { try #require(base.disk.contents($0.text)) }
        let whole = base.disk.kill()
        let first = whole.disk.operationCount
        var expected: [ReferenceModel.Key: ReferenceModel.Counts] = [:]
        var operation = first
        while true {
            let files = base.disk.kill()
            files.disk.crash(beforeOperation: operation)
            let isWhole = (try? SteppedPipeline.open(files, clock: clock, seed: 5)) != nil
            let left =
                operation % 2 == 0
                ? files.disk.kill() : files.disk.powerCut(seed: UInt64(operation))
            _ = try SteppedPipeline.open(left, clock: clock, seed: 6)
            let next = left.disk.kill()
            do {
                var pipeline = try SteppedPipeline.open(next, clock: clock, seed: 7)
                try pipeline.rest(turns: 62)
            }
            let counts = try DirectoryReading(next).counts
            if operation == first { expected = counts }
            #expect(counts == expected, "\(operation - first)")
            if damage != .lossy {
                #expect(counts == ReferenceModel(packetCount: Self.packetCount).counts)
            }
            var kept = try next.names()
            if kept.contains("aside") {
                kept += try next.subdirectory("aside", create: false).names().map { "aside/\($0)" }
            }
            let contents = Set(kept.compactMap { next.disk.contents($0) })
            #expect(contents.isSuperset(of: evidence), "\(operation - first)")
            if isWhole { break }
            operation += 1
        }
        #expect(operation - first > 20)
    }
}
