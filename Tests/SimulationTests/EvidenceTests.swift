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
struct EvidenceTests: FilledDirectory {
    let clock = SimulatedClock.afterEvents()

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

    @Test("names that are nowhere but in a run whose manifest is gone come from there")
    func newerNames() throws {
        let left = try filled()
        let manifest = try newest(left)
        let old = manifest.namesRuns
        let whole = try mergeNames(left)
        // The generation that names it is gone, and so is what it replaced; a block of the names cannot be read.
        try damageFirstBlocks(left)
        for run in old { try left.unlink(run.fileName.text) }
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

    @Test("a segment that is missing between others is not given up where no manifest is left")
    func gap() throws {
        let base = try filled()
        let manifest = try newest(base)
        let names = try base.names()
        for name in names where name.hasSuffix(".manifest") { try base.unlink(name) }
        for (place, number) in manifest.sealed.map(\.number).dropLast().enumerated() {
            let left = base.disk.kill()
            // None, or one that cannot be read.
            if place % 2 == 1 {
                try left.create(FileName.manifest(manifest.generation).text).write([1, 2], at: 0)
            }
            let name = FileName.segment(number).text
            try left.unlink(name)
            let before = try left.names()
            let error = #expect(throws: PipelineError.self, "\(name)") {
                try SteppedPipeline.open(left, clock: clock, seed: 5)
            }
            let isFirst = number == manifest.sealed[0].number
            let what = isFirst ? "the log begins with segment 2" : "the segment is missing, and"
            #expect(error.map { "\($0)".contains(what) } == true)
            #expect(try Set(left.names()).isSuperset(of: before), "\(name)")
        }
    }

    @Test("a segment of level 0 that has lost a block before is sealed again like any other")
    func levelZeroTwice() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4)
        try pipeline.take(0..<100)
        try pipeline.stop()
        var left = files.disk.kill()
        let entry = try newest(left).sealed[1]
        let name = FileName.segment(entry.number).text
        let reader = try SegmentReader(
            entry.number, directory: pipeline.directory.manifest.directory, in: left)
        let first = try reader.readFooter(of: entry).blocks[0]
        left.disk.damage(name) { $0[Int(first.offset) + 300] ^= 1 }
        for life in 5...7 as ClosedRange<UInt64> {
            left.disk.damage(name) { $0[$0.count - 20] ^= 1 }
            var again = try SteppedPipeline.open(left, clock: clock, seed: life)
            let newest = try newest(left)
            #expect(
                newest.lost.map(\.blockCount) == [first.summary.commitCount]
                    && newest.lost[0].segment == entry.number)
            let findings = try Verifier.run(left).findings.filter { $0.kind != .note }
            #expect(Set(findings.map(\.kind)) == [.evidenceLost], "\(findings)")
            try again.stop()
            left = left.disk.kill()
        }
    }
}
