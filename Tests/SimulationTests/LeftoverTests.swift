import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Files that a start finds and no manifest names: those that may be all that has what is in them stay, under their name or
/// in `aside/`; the others go.
@Suite("What was never published")
struct LeftoverTests: FilledDirectory {
    let clock = SimulatedClock.afterEvents()

    /// Writes the runs of a generation without its manifest.
    private func merge(_ manifest: Manifest, in files: SimulatedFileSystem) throws -> [RunEntry] {
        var merge = TableMerge(for: manifest, in: files)
        try merge.add(manifest.runs)
        for segment in manifest.level0 { try merge.add(segment) }
        return try #require(
            try merge.run(
                of: LogSpan(firstSegment: LogPosition.start.segment.next, end: manifest.cut),
                firstNumber: manifest.nextFileNumber))
    }

    private func damage(_ segment: SealedSegment, _ files: SimulatedFileSystem) throws {
        let manifest = try newest(files)
        let block = try SegmentReader(segment.number, directory: manifest.directory, in: files)
            .readFooter(of: segment).blocks[0]
        files.disk.damage(FileName.segment(segment.number).text) { bytes in
            bytes[bytes.count - 300] ^= 1
            bytes[Int(block.offset) + 200] ^= 1
        }
    }

    @Test("a run that was never published stays where the log cannot be read that it was made of")
    func unpublished() throws {
        for isOlder in [false, true] {
            let left = try filled()
            let manifest = try newest(left)
            let segment = try #require(manifest.level0.first)
            _ = try merge(manifest, in: left)
            try damage(segment, left)
            if isOlder {
                // One that ends with the runs.
                for name in try left.names() where name.hasSuffix(".manifest") {
                    let found = try Manifest.decode(#require(left.disk.contents(name)))
                    if found.cut >= LogPosition(segment: segment.number, blockCount: 0) {
                        try left.unlink(name)
                    }
                }
            }
            let before = try runs(left)
            try live(left)
            #expect(try runs(left).isSuperset(of: before), "\(isOlder)")
        }
    }

    @Test("names that were never published stay where a block of them cannot be read")
    func unpublishedNames() throws {
        let base = try filled()
        let manifest = try newest(base)
        do {
            var pipeline = try SteppedPipeline.open(base, clock: clock, seed: 5)
            base.disk.fail(.create, ofFiles: ".manifest.tmp", onCall: 1, forever: true)
            pipeline.merges = false
            try pipeline.take(250..<300)
            try pipeline.stop()
        } catch {}
        for isDamaged in [false, true] {
            let left = base.disk.kill()
            let unpublished = try left.names().filter {
                if case .run(.names, let number)? = FileName($0) {
                    number >= manifest.nextFileNumber
                } else {
                    false
                }
            }
            #expect(unpublished.count == 1)
            let run = try #require(left.disk.contents(unpublished[0]))
            let segment = manifest.lastSealed.next
            let reader = try SegmentReader(segment, directory: manifest.directory, in: left)
            let footer = try SegmentFooterFile.read(
                reader.file, number: segment, directory: manifest.directory
            ).footer
            let block = try #require(footer.blocks.first { $0.summary.nameCount > 0 })
            if isDamaged {
                left.disk.damage(FileName.segment(segment).text) {
                    $0[Int(block.offset) + 200] ^= 1
                }
            }
            try live(left)
            #expect(try runs(left, of: [.names]).contains(run) == isDamaged)
        }
    }

    @Test("runs behind what an offline rebuild has found of the log are not removed")
    func offline() throws {
        let left = try filled()
        let manifest = try newest(left)
        #expect(manifest.sealed[1].number <= manifest.mergedEnd.segment)
        try damage(manifest.sealed[1], left)
        left.disk.damage(FileName.manifest(manifest.generation).text) { $0[40] ^= 1 }
        let before = try runs(left)
        let store = ManifestStore(files: left)
        let found = try LogRebuild<SimulatedFileSystem>.manifest(of: left)
        _ = try LogRebuild.run(store, after: found, names: .made)
        try live(left)
        #expect(try runs(left).isSuperset(of: before))
    }

    /// What starts make again that are killed before they are done.
    enum Work: CaseIterable {
        case rewardDays, withExpired, laterRun, rewardsAlone, names, withoutManifest
        /// The log has not all of it: what is left of killed starts may be evidence.
        case withLostBlock, withLostNames
    }

    private static let packetCount: UInt64 = 380

    private func filled(expires: Bool) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
            if expires { $0.retention = RetentionPolicy(byteCountMax: 9_000) }
        }
        for first in stride(from: 0, to: Self.packetCount, by: 38) {
            try pipeline.take(first..<first + 38)
            try pipeline.rest(turns: 70)
        }
        try pipeline.stop()
        let left = files.disk.kill()
        #expect(try newest(left).expired.isEmpty != expires)
        return left
    }

    /// A directory in which a start has that to do.
    private func damaged(_ work: Work) throws -> SimulatedFileSystem {
        let base = try filled(expires: work == .withExpired)
        let manifest = try newest(base)
        let runs = manifest.runs(of: .rewardDays)
        switch work {
        case .rewardDays, .withExpired: base.disk.damage(runs[0].fileName.text) { $0[20] ^= 1 }
        case .laterRun:
            // A footer that nobody needs, since a sound run has what was in it.
            let segment = FileName.segment(manifest.sealed[0].number).text
            base.disk.damage(segment) { $0[$0.count - 300] ^= 1 }
            #expect(!runs[1].span.contains(manifest.sealed[0].number))
            base.disk.damage(runs[1].fileName.text) { $0[20] ^= 1 }
        case .rewardsAlone:
            // It is made of reward-days: nobody needs the footer.
            let segment = FileName.segment(manifest.sealed[0].number).text
            base.disk.damage(segment) { $0[$0.count - 300] ^= 1 }
            base.disk.damage(manifest.runs(of: .rewards)[0].fileName.text) { $0[20] ^= 1 }
        case .names:
            for run in manifest.namesRuns { base.disk.damage(run.fileName.text) { $0[20] ^= 1 } }
        case .withLostBlock:
            // Its footer says so.
            try damageFirstBlocks(base)
            let segment = FileName.segment(manifest.sealed[0].number).text
            base.disk.damage(segment) { $0[$0.count - 300] ^= 1 }
            base.disk.damage(runs[0].fileName.text) { $0[20] ^= 1 }
        case .withLostNames:
            try damageFirstBlocks(base)
            for run in manifest.namesRuns { base.disk.damage(run.fileName.text) { $0[20] ^= 1 } }
        case .withoutManifest:
            for name in try base.names() where name.hasSuffix(".manifest") {
                try base.unlink(name)
            }
        }
        return base
    }

    private func killed(
        _ files: SimulatedFileSystem, before operation: Int
    ) -> SimulatedFileSystem {
        let files = files.disk.kill()
        files.disk.crash(beforeOperation: files.disk.operationCount + operation)
        do { _ = try SteppedPipeline.open(files, clock: clock, seed: 6) } catch {}
        return files.disk.kill()
    }

    /// The first operation before which a crash comes after something.
    private func firstOperation(_ isAfter: (Int) throws -> Bool) throws -> Int {
        var (first, last) = (0, 256)
        try #require(try isAfter(last))
        while last - first > 1 {
            let middle = (first + last) / 2
            if try isAfter(middle) { last = middle } else { first = middle }
        }
        return last
    }

    @Test(
        "starts that are killed while they make files again leave no more than two of them do",
        arguments: Work.allCases)
    func killedStarts(work: Work) throws {
        let base = try damaged(work)
        let manifests = try Set(base.names().filter { $0.hasSuffix(".manifest") })
        func isDone(_ files: SimulatedFileSystem) throws -> Bool {
            try !manifests.isSuperset(of: files.names().filter { $0.hasSuffix(".manifest") })
        }
        var left = base
        var counts = [try base.names().filter { $0.contains(".run") }.count]
        for _ in 0..<4 {
            let operation = try firstOperation { try isDone(killed(left, before: $0)) }
            left = killed(left, before: operation - 1)
            counts.append(try left.names().filter { $0.contains(".run") }.count)
        }
        #expect(counts[1] > counts[0])
        #expect(counts[3...].allSatisfy { $0 <= counts[2] }, "\(counts)")
        let isProvable = ![.rewardsAlone, .names, .withLostBlock, .withLostNames].contains(work)
        #expect(!isProvable || counts[2] <= counts[1], "\(counts)")
        try live(left)
        let asideCount =
            try left.names().contains("aside")
            ? left.subdirectory("aside", create: false).names().filter { $0.contains(".run") }
                .count : 0
        #expect(asideCount <= counts[2] && (!isProvable || asideCount <= 1), "\(asideCount)")
        if work == .withLostBlock || work == .withLostNames { return }
        #expect(
            try DirectoryReading(left).counts
                == ReferenceModel(packetCount: Self.packetCount).counts)
    }

    @Test(
        "a run on expired segments stays where what is left of those cannot be read",
        arguments: [false, true])
    func besideExpired(hasManifest: Bool) throws {
        let left = try filled(expires: true)
        let manifest = try newest(left)
        let whole = try merge(manifest, in: left)
        left.disk.damage(manifest.runs(of: .rewardDays)[0].fileName.text) { $0[20] ^= 1 }
        let expired = try #require(manifest.expired.first)
        left.disk.damage(expired.run.fileName.text) { $0[140] ^= 1 }
        if !hasManifest {
            for name in try left.names() where name.hasSuffix(".manifest") { try left.unlink(name) }
        }
        let kept = try whole.map { try #require(left.disk.contents($0.fileName.text)) }
        do { _ = try SteppedPipeline.open(left, clock: clock, seed: 5) } catch {}
        #expect(try runs(left.disk.kill()).isSuperset(of: kept))
    }

    @Test("runs that were never published stay where listed ones cannot be read, nor a footer")
    func besideBadRun() throws {
        let base = try filled()
        let manifest = try newest(base)
        let whole = try merge(manifest, in: base)
        let kept = try whole.map { try #require(base.disk.contents($0.fileName.text)) }
        let listed = try #require(manifest.runs(of: .rewardDays).first)
        for (isBadRun, isBadFooter) in [(false, true), (true, false), (true, true)] {
            let left = base.disk.kill()
            if isBadRun { left.disk.damage(listed.fileName.text) { $0[140] ^= 1 } }
            if isBadFooter {
                // Nobody needs it, as long as runs have what was in it.
                left.disk.damage(FileName.segment(manifest.sealed[0].number).text) {
                    $0[$0.count - 300] ^= 1
                }
            }
            do { _ = try SteppedPipeline.open(left, clock: clock, seed: 5) }
            let there = try runs(left.disk.kill())
            #expect(there.isSuperset(of: kept) == (isBadRun && isBadFooter))
        }
    }

    @Test("they stay also where a start made others again, and was killed then")
    func killedBehindManifest() throws {
        let base = try filled(expires: false)
        let manifest = try newest(base)
        let whole = try merge(manifest, in: base)
        let kept = try whole.map { try #require(base.disk.contents($0.fileName.text)) }
        // One that is made again, and one that nobody reads: nor has a footer what is in it.
        let runs = manifest.runs(of: .rewardDays)
        base.disk.damage(runs[0].fileName.text) { $0[20] ^= 1 }
        base.disk.damage(runs[1].fileName.text) { $0[140] ^= 1 }
        let segment = try #require(manifest.sealed.first { runs[1].span.contains($0.number) })
        base.disk.damage(FileName.segment(segment.number).text) { $0[$0.count - 300] ^= 1 }
        func isMade(_ files: SimulatedFileSystem) throws -> Bool {
            try ManifestStore(files: files).readNewest(isWhole: false) != manifest
        }
        let first = try firstOperation { try isMade(killed(base, before: $0)) }
        for operation in first..<first + 40 {
            let left = killed(base, before: operation)
            do { _ = try SteppedPipeline.open(left, clock: clock, seed: 6) }
            #expect(try self.runs(left.disk.kill()).isSuperset(of: kept), "\(operation - first)")
        }
    }

    @Test("a names run that was never published has names that are on a bad page of one that was")
    func besideBadPage() throws {
        let base = try filled()
        let old = try newest(base).namesRuns
        let whole = try mergeNames(base)
        for (isDamaged, isLost) in [(false, false), (true, false), (true, true)] {
            let left = base.disk.kill()
            if isLost { try damageFirstBlocks(left) }
            if isDamaged { for run in old { try damagePage(.names, of: run, left) } }
            let kept = try #require(left.disk.contents(whole.fileName.text))
            do { _ = try SteppedPipeline.open(left, clock: clock, seed: 5) }
            #expect(try runs(left.disk.copy(), of: [.names]).contains(kept) == isDamaged)
            #expect(
                try DirectoryReading(left).counts == ReferenceModel(packetCount: 250).counts)
            // Once names have been made again it is one too many.
            let next = left.disk.kill()
            do { _ = try SteppedPipeline.open(next, clock: clock, seed: 6) }
            #expect(try !runs(next.disk.copy(), of: [.names]).contains(kept))
        }
    }

    @Test("so have names of segments whose expiry was not published")
    func besideExpiry() throws {
        let left = try filled()
        let manifest = try newest(left)
        var expiry = ExpiredMerge(for: manifest, in: left)
        let output = try expiry.run(
            Array(manifest.sealed.prefix(2)), older: [], firstNumber: manifest.nextFileNumber)
        #expect(output != nil)
        try damageFirstBlocks(left)
        for run in manifest.namesRuns { try damagePage(.names, of: run, left) }
        do { _ = try SteppedPipeline.open(left, clock: clock, seed: 5) }
        #expect(try DirectoryReading(left).counts == ReferenceModel(packetCount: 250).counts)
    }

    @Test("names runs that were merged go to aside/ no more often where keys are lost")
    func mergedAfterLoss() throws {
        let left = try filled()
        try damageFirstBlocks(left)
        for run in try newest(left).namesRuns {
            left.disk.damage(run.fileName.text) { $0[20] ^= 1 }
        }
        do {
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
            #expect(pipeline.found.contains { $0.contains("keys are lost") })
            try pipeline.take(250..<900)
            try pipeline.rest(turns: 20)
        }
        let next = left.disk.kill()
        let listed = Set(try newest(next).namesRuns.map(\.fileName.text))
        let merged = try next.names().filter { $0.contains(".names.run") && !listed.contains($0) }
        #expect(!merged.isEmpty)
        do { _ = try SteppedPipeline.open(next, clock: clock, seed: 6) }
        let aside = try next.subdirectory("aside", create: false).names()
        #expect(aside.filter(merged.contains).isEmpty)
    }

    @Test("a names run that is put back stays where the newest has lost names")
    func putBack() throws {
        let left = try filled()
        let old = try newest(left).namesRuns
        let name = try #require(old.first).fileName.text
        let good = try #require(left.disk.contents(name))
        try damageFirstBlocks(left)
        for run in old { left.disk.damage(run.fileName.text) { $0[20] ^= 1 } }
        try live(left)
        let next = left.disk.kill()
        #expect(next.disk.contents(name) == nil)
        let file = try next.create(name)
        try file.write(good, at: 0)
        try live(next)
        #expect(try runs(next, of: [.names]).contains(good))
    }

    @Test("names of expired segments come from each run that has a page of them")
    func expiredNames() throws {
        for isSwapped in [false, true] {
            let left = try filled(expires: true)
            let manifest = try newest(left)
            let kinds: [NamesPageKind] = isSwapped ? [.keys, .names] : [.names, .keys]
            for run in manifest.namesRuns { try damagePage(kinds[0], of: run, left) }
            for run in manifest.expired { try damagePage(kinds[1], of: run.names, left) }
            do {
                let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
                #expect(pipeline.found.contains { $0.hasPrefix("derived files rebuilt") })
            }
            #expect(
                try DirectoryReading(left).counts
                    == ReferenceModel(packetCount: Self.packetCount).counts)
        }
    }

    @Test("where the newest manifest is gone, its runs are neither written over nor removed")
    func newerRuns() throws {
        let left = try withExpiredFooter()
        let store = ManifestStore(files: left)
        let manifest = try store.readNewest()
        let merged = try merge(manifest, in: left)
        // The generation that names them is gone, and the time is over in which what they replace stays.
        for run in manifest.runs { try left.unlink(run.fileName.text) }
        let before = try runs(left)
        #expect(merged.count == 3 && before.count == 3)
        do {
            let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 9)
            #expect(pipeline.found.contains { $0.contains("expired without a footer") })
        }
        try live(left)
        #expect(try runs(left).isSuperset(of: before))
    }
}
