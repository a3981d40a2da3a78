import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Runs that are replaced and may be all that has what is in them: wherever a crash comes, or the disk refuses, their
/// bytes stay, under their name or in `aside/`.
@Suite("Evidence stays")
struct EvidenceTests {
    private let clock = SimulatedClock(
        wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000)

    private func filled() throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4)
        try pipeline.take(0..<250)
        try pipeline.rest(turns: 70)
        try pipeline.stop()
        return files.disk.kill()
    }

    private func newest(_ files: SimulatedFileSystem) throws -> Manifest {
        try ManifestStore(files: files).readNewest()
    }

    /// With a lost block, after which runs may have what the log has no more.
    private func withLostBlock() throws -> SimulatedFileSystem {
        let base = try filled()
        do {
            var first = try SteppedPipeline.open(base, clock: clock, seed: 5)
            try first.take(250..<300)
        }
        let left = base.disk.kill()
        let segment = try #require(left.names().filter { $0.hasSuffix(".segment") }.max())
        left.disk.damage(segment) { $0[4096 + 200] ^= 1 }
        do {
            var second = try SteppedPipeline.open(left, clock: clock, seed: 6)
            try second.stop()
        }
        #expect(try !newest(left).lost.isEmpty)
        return left.disk.kill()
    }

    /// With segments that expired without a footer: runs alone have their counters.
    private func withExpiredFooter() throws -> SimulatedFileSystem {
        let files = try filled()
        let segment = FileName.segment(try newest(files).sealed[0].number).text
        files.disk.damage(segment) { $0[$0.count - 300] ^= 1 }
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 9) {
            $0.retention = RetentionPolicy(byteCountMax: 6_000)
        }
        try pipeline.rest(turns: 140)
        try pipeline.stop()
        return files.disk.kill()
    }

    /// The bytes of all runs of counters, or of other tables, that are there or in `aside/`.
    private func runs(
        _ files: SimulatedFileSystem, of tables: [TableKind] = TableKind.counterTables
    ) throws -> Set<[UInt8]> {
        var names = try files.names()
        if names.contains("aside") {
            names += try files.subdirectory("aside", create: false).names().map { "aside/\($0)" }
        }
        let endings = tables.map { ".\($0.name).run" }
        return Set(
            names.filter { name in endings.contains { name.contains($0) } }
                .compactMap { files.disk.contents($0) })
    }

    /// Lives in which what is retired is removed.
    private func live(_ files: SimulatedFileSystem) throws {
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 7)
        try pipeline.rest(turns: 70)
        try pipeline.stop()
    }

    @Test("a crash behind the manifest that replaces runs, or before it, costs none of them")
    func behindManifest() throws {
        let base = try withLostBlock()
        let manifest = try newest(base)
        let bad = try #require(manifest.runs(of: .rewardDays).first)
        base.disk.damage(bad.fileName.text) { $0[140] ^= 1 }
        let before = try runs(base)
        func crashed(before operation: Int) -> SimulatedFileSystem {
            let files = base.disk.kill()
            files.disk.crash(beforeOperation: files.disk.operationCount + operation)
            do {
                var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 6)
                try pipeline.take(300..<600)
                try pipeline.rest(turns: 20)
            } catch {}
            return files.disk.kill()
        }
        func isReplaced(_ files: SimulatedFileSystem) throws -> Bool {
            let newest = try ManifestStore(files: files).readNewest(isWhole: false)
            return !newest.runs.contains(bad)
        }
        var (first, last) = (0, 4_000)
        try #require(try !isReplaced(crashed(before: first)) && isReplaced(crashed(before: last)))
        while last - first > 1 {
            let middle = (first + last) / 2
            if try isReplaced(crashed(before: middle)) { last = middle } else { first = middle }
        }
        for operation in first - 6...last + 6 {
            let left = crashed(before: operation)
            let isGone = try isReplaced(left)
            try live(left)
            let kept = try runs(left)
            #expect(
                isGone
                    ? kept.isSuperset(of: before)
                    : kept.contains(base.disk.contents(bad.fileName.text)!),
                "\(operation - last)")
        }
    }

    @Test("runs are there under their names for as long as a manifest names them")
    func refusedManifest() throws {
        let left = try withLostBlock()
        let manifest = try newest(left)
        let before = try runs(left)
        left.disk.fail(.create, ofFiles: ".manifest.tmp", onCall: 1, errno: 28, forever: true)
        let store = ManifestStore(files: left)
        #expect(throws: StorageError.self) { try LogRebuild.run(store, after: manifest) }
        #expect(try newest(left) == manifest)
        let names = Set(try left.names())
        for run in manifest.runs { #expect(names.contains(run.fileName.text)) }
        #expect(try Verifier.run(left).exitCode == 65)
        #expect(try runs(left) == before)
    }

    @Test("where aside/ takes no name a start says so, a daemon waits, and nothing is replaced")
    func fullAside() throws {
        for byte in [20, 140] {
            let left = try withLostBlock()
            let bad = try #require(newest(left).runs(of: .rewardDays).first)
            left.disk.damage(bad.fileName.text) { $0[byte] ^= 1 }
            let before = try runs(left)
            left.disk.fail(.link, onCall: 1, errno: 28, forever: true)
            if byte == 20 {
                var failure: PipelineError?
                do { _ = try SteppedPipeline.open(left, clock: clock, seed: 5) } catch {
                    failure = error
                }
                #expect(failure?.exitCode == 74)
                let text = failure.map { "\($0)" } ?? ""
                #expect(text.hasPrefix("disk full: link") && text.contains("/aside/"), "\(text)")
                #expect(try runs(left) == before)
                left.disk.clearFailures()
                try live(left.disk.kill())
                continue
            }
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
            try pipeline.take(300..<600)
            try pipeline.rest(turns: 20)
            #expect(pipeline.told.count("merge failed") == 1)
            #expect(try ManifestStore(files: left).readNewest(isWhole: false).runs.contains(bad))
            #expect(try runs(left).isSuperset(of: before))
            left.disk.clearFailures()
            try pipeline.rest(turns: 80)
            #expect(pipeline.told.count("derived files rebuilt") == 1)
            try pipeline.stop()
            #expect(try runs(left).isSuperset(of: before))
        }
    }

    @Test("a sync that fails removes nothing that a manifest may name")
    func failedSync() throws {
        let lost = try withLostBlock()
        let expired = try withExpiredFooter()
        for base in [lost, expired] {
            let manifest = try newest(base)
            for run in manifest.runs(of: .rewardDays) + manifest.runs(of: .days) {
                base.disk.damage(run.fileName.text) { $0[20] ^= 1 }
            }
            let names = try #require(manifest.namesRuns.first).fileName.text
            base.disk.damage(names) { $0[20] ^= 1 }
            var (call, isDone) = (0, false)
            while !isDone {
                call += 1
                let files = base.disk.kill()
                files.disk.fail(.syncDirectory, onCall: call)
                do {
                    _ = try SteppedPipeline.open(files, clock: clock, seed: 5)
                    isDone = true
                } catch {}
                let newest = try ManifestStore(files: files.disk.kill()).readNewest(isWhole: false)
                if newest.generation == manifest.generation { continue }
                let gone = newest.fileNames.map(\.text).filter { files.disk.contents($0) == nil }
                #expect(gone.isEmpty, "\(call): \(gone)")
            }
            #expect(call > 3)
        }
    }

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

    @Test("names that are nowhere but in a run whose manifest is gone come from there")
    func newerNames() throws {
        let left = try filled()
        let manifest = try newest(left)
        let old = manifest.namesRuns
        let none = try #require(old.last)
        let whole = try NamesRunWriter.write(
            manifest.nextFileNumber,
            merging: try old.map {
                try NamesRunReader($0, directory: manifest.directory, in: left)
            },
            and: FreshNames(
                of: [], names: none.names.upperBound..<none.names.upperBound,
                keys: none.keys.upperBound..<none.keys.upperBound), for: manifest, in: left)
        // The generation that names it is gone, and so is what it replaced; a block of the names cannot be read.
        for run in old { try left.unlink(run.fileName.text) }
        let first = manifest.sealed[0]
        let end = try SegmentReader(first.number, directory: manifest.directory, in: left)
            .readFooter(of: first).blocks.last!.end
        left.disk.damage(FileName.segment(first.number).text) { bytes in
            for place in stride(from: 150, to: Int(end), by: 64) { bytes[place] ^= 1 }
        }
        let (copy, readable) = (left.disk.kill(), left.disk.kill())
        // Its pages cannot be read either: then it stays.
        copy.disk.damage(whole.fileName.text) { bytes in
            for place in stride(from: 130, to: bytes.count - 400, by: 16) { bytes[place] ^= 1 }
        }
        let before = try runs(copy, of: [.names])
        try live(readable)
        let isAnyLost = try DirectoryReading(readable).counts.keys.contains {
            $0.reward.hasPrefix("(lost:") || $0.business.hasPrefix("(lost:")
        }
        #expect(!isAnyLost)
        try live(copy)
        let isLost = try DirectoryReading(copy).counts.keys.contains {
            $0.reward.hasPrefix("(lost:")
        }
        #expect(isLost)
        #expect(try runs(copy, of: [.names]).isSuperset(of: before))
    }

    @Test("starts that are killed while they make runs again leave no more than one of them does")
    func killedStarts() throws {
        let base = try filled()
        let manifest = try newest(base)
        let bad = try #require(manifest.runs(of: .rewardDays).first)
        base.disk.damage(bad.fileName.text) { $0[20] ^= 1 }
        let countBefore = try base.names().filter { $0.contains(".run") }.count
        func isReplaced(_ files: SimulatedFileSystem) throws -> Bool {
            try !ManifestStore(files: files).readNewest(isWhole: false).runs.contains(bad)
        }
        func killed(_ files: SimulatedFileSystem, before operation: Int) -> SimulatedFileSystem {
            let files = files.disk.kill()
            files.disk.crash(beforeOperation: files.disk.operationCount + operation)
            do { _ = try SteppedPipeline.open(files, clock: clock, seed: 6) } catch {}
            return files.disk.kill()
        }
        var last = 0
        while try !isReplaced(killed(base, before: last)) { last += 1 }
        var left = base
        var counts: [Int] = []
        for _ in 0..<8 {
            left = killed(left, before: last - 2)
            let isDone = try isReplaced(left)
            #expect(!isDone)
            counts.append(try left.names().filter { $0.contains(".run") }.count)
        }
        #expect(counts[0] > countBefore)
        #expect(counts.allSatisfy { $0 <= counts[0] }, "\(counts)")
        try live(left)
        #expect(
            try DirectoryReading(left).eventCount == ReferenceModel(packetCount: 250).eventCount)
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
