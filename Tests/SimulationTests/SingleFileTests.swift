import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// A directory of which one file is missing, damaged or one generation old: what a start makes of it, and that it
/// destroys nothing that it cannot make again.
@Suite("Single files")
struct SingleFileTests {
    private static let packetCount: UInt64 = 400
    private let clock = SimulatedClock.afterEvents()

    /// A directory with expired segments, and what it was before the last of them expired.
    private func filled() throws -> (files: SimulatedFileSystem, before: SimulatedFileSystem) {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
            $0.retention = RetentionPolicy(byteCountMax: 12_000)
        }
        try pipeline.take(0..<Self.packetCount - 40)
        try pipeline.rest(turns: 70)
        let before = files.disk.copy()
        try pipeline.take(Self.packetCount - 40..<Self.packetCount)
        try pipeline.rest(turns: 70)
        try pipeline.stop()
        let (old, new) = (try newest(before), try newest(files))
        #expect(old.lastExpired < new.lastExpired && old.lastExpired.rawValue > 0)
        #expect(old.expired.map(\.run.fileName) != new.expired.map(\.run.fileName))
        return (files.disk.kill(), before)
    }

    private func names(_ files: SimulatedFileSystem) throws -> Set<String> {
        try Set(files.names()).subtracting(["LOCK", "leases", "reserve", "aside"])
    }

    /// What is wrong with a file.
    private enum Fault: CaseIterable {
        case missing, badHead, badMiddle, badEnd, short

        /// Whether the head of a run does not show it.
        var isOfPage: Bool { self == .badMiddle || self == .badEnd }

        func apply(to name: String, in files: SimulatedFileSystem) throws {
            if self == .missing { return try files.unlink(name) }
            files.disk.damage(name) { bytes in
                switch self {
                case .missing: break
                case .badHead: bytes[20] ^= 1
                case .badMiddle: bytes[bytes.count / 2] ^= 1
                case .badEnd: bytes[bytes.count - 3] ^= 1
                case .short: bytes.removeLast(bytes.count / 3)
                }
            }
        }
    }

    /// One life with retention that goes on.
    private func live(_ files: SimulatedFileSystem) -> PipelineError? {
        do throws(PipelineError) {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 9) {
                $0.retention = RetentionPolicy(byteCountMax: 12_000)
            }
            try pipeline.rest(turns: 130)
            try pipeline.stop()
            return nil
        } catch { return error }
    }

    @Test("whatever single file is missing or damaged, a start loses nothing, or changes nothing")
    func missingOrDamaged() throws {
        let base = try filled().files
        let manifest = try newest(base)
        var refusals: Set<String> = []
        for name in try base.names() {
            guard let file = FileName(name), file != .aside, file != .lock else { continue }
            // The only copy of level 0: what of it is lost, and that it is said, UnreadableTests show.
            if case .segment(let number) = file, number > manifest.mergedEnd.segment { continue }
            for fault in Fault.allCases {
                let files = base.disk.kill()
                guard let good = files.disk.contents(name), fault == .missing || good.count > 40
                else { continue }
                try fault.apply(to: name, in: files)
                let what = "\(name) \(fault)"
                let isOfPage = name.hasSuffix(".run") && fault.isOfPage
                let left = try names(files)
                if let error = live(files) {
                    #expect([65, 66].contains(error.exitCode), "\(what): \(error)")
                    #expect("\(error)".contains("/sim"), "\(what): \(error)")
                    // A start that is refused changes nothing; a merge that is refused leaves all that is the log's.
                    let gone = left.subtracting(try names(files)).filter {
                        $0.contains("expired") || $0.hasSuffix(".segment")
                    }
                    #expect(gone.isEmpty, "\(what): \(gone)")
                    if !isOfPage { refusals.insert(String(name.drop { $0 != "." })) }
                } else if fault == .missing, case .segment = file {
                    // Counted still, and cannot be checked.
                    #expect(
                        try DirectoryReading(files).counts
                            == ReferenceModel(packetCount: Self.packetCount).counts, "\(what)")
                } else if case .segment = file {
                    continue
                } else if file.isLog {
                    // Damage of a page shows when it is read.
                    #expect(try Verifier.run(files).exitCode == 65, "\(what)")
                } else if isOfPage, try newest(files).fileNames.contains(file) {
                    // Derived, and not read: a page is found bad by who reads it, and made again when a merge does.
                    let report = try Verifier.run(files)
                    #expect(report.exitCode == 65, "\(what)")
                    #expect(
                        report.findings.allSatisfy { $0.kind == .note || $0.file == name },
                        "\(what): \(report.findings)")
                } else {
                    try expectWhole(files, packetCount: Self.packetCount, what)
                }
                guard file.isLog else { continue }
                // Restored from a copy.
                let next = files.disk.kill()
                if try next.names().contains(name) { try next.unlink(name) }
                try next.create(name).write(good, at: 0)
                #expect(live(next) == nil, "\(what)")
                try expectWhole(next, packetCount: Self.packetCount, "\(what), restored")
            }
        }
        #expect(refusals.isSubset(of: [".expired.run", ".expired-names.run"]), "\(refusals)")
    }

    @Test("names of expired rows whose page index is damaged stop a start: nothing has them else")
    func expiredIndex() throws {
        let base = try filled().files
        let names = try newest(base).expired.map { $0.names.fileName.text }
        #expect(!names.isEmpty)
        for name in names {
            let files = base.disk.kill()
            files.disk.damage(name) { $0[$0.count - 1] ^= 1 }
            let left = try self.names(files)
            let error = live(files)
            #expect(error?.exitCode == 65, "\(name): \(error as Any)")
            #expect("\(error as Any)".contains(name), "\(error as Any)")
            #expect(try self.names(files.disk.kill()) == left, "\(name)")
        }
    }

    /// A directory of which a segment that runs cover is damaged.
    private func withDamagedSegment() throws -> (files: SimulatedFileSystem, segment: SealedSegment)
    {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4)
        try pipeline.take(0..<250)
        try pipeline.rest(turns: 70)
        try pipeline.stop()
        let left = files.disk.kill()
        let manifest = try newest(left)
        try #require(manifest.sealed[0].number <= manifest.mergedEnd.segment)
        left.disk.damage(FileName.segment(manifest.sealed[0].number).text) {
            $0[$0.count - 300] ^= 1
        }
        return (left, manifest.sealed[0])
    }

    /// A life in which that segment expires.
    private func expire(_ files: SimulatedFileSystem) throws {
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 9) {
            $0.retention = RetentionPolicy(byteCountMax: 6_000)
        }
        try pipeline.rest(turns: 140)
        try pipeline.stop()
    }

    @Test(
        "a damaged segment that expires is put aside, also where a crash comes before the manifest")
    func expiredAside() throws {
        let (base, segment) = try withDamagedSegment()
        let name = FileName.segment(segment.number).text
        let damaged = base.disk.contents(name)
        func crashed(before operation: Int) -> SimulatedFileSystem {
            let files = base.disk.kill()
            files.disk.crash(beforeOperation: files.disk.operationCount + operation)
            try? expire(files)
            return files.disk.kill()
        }
        func isAside(_ files: SimulatedFileSystem) -> Bool {
            files.disk.contents("aside/\(name)") == damaged
        }
        // The first operation behind which it has been put aside.
        var (before, behind) = (0, 2_000)
        try #require(!isAside(crashed(before: before)) && isAside(crashed(before: behind)))
        while behind - before > 1 {
            let middle = (before + behind) / 2
            if isAside(crashed(before: middle)) { behind = middle } else { before = middle }
        }
        for operation in before...behind + 8 {
            let left = crashed(before: operation)
            try expire(left)
            #expect(try newest(left).lastExpired >= segment.number, "\(operation)")
            #expect(isAside(left), "\(operation)")
            #expect(
                try DirectoryReading(left).counts == ReferenceModel(packetCount: 250).counts,
                "\(operation)")
        }
    }

    @Test(
        "where runs were all that had the counters of such a segment, a start says that they are lost"
    )
    func expiredAndLost() throws {
        let (base, segment) = try withDamagedSegment()
        try expire(base)
        for hasManifest in [true, false] {
            let left = base.disk.kill()
            let runs = try newest(left).runs
            let run = try #require(runs.first { $0.table == .rewardDays }).fileName.text
            left.disk.damage(run) { $0[20] ^= 1 }
            for name in try left.names() where !hasManifest && name.hasSuffix(".manifest") {
                try left.unlink(name)
            }
            do {
                let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 9)
                #expect(
                    pipeline.found.contains {
                        $0.hasPrefix("1 segments had expired without a footer")
                    },
                    "\(hasManifest): \(pipeline.found)")
            }
            #expect(
                try DirectoryReading(left).eventCount
                    == ReferenceModel(packetCount: 250).eventCount - segment.rowCount)
            let report = try Verifier.run(left)
            #expect(report.exitCode == 65 && report.differenceCount == 0, "\(report.findings)")
            // The sound runs beside it have counters that are nowhere else.
            let aside = try left.subdirectory("aside", create: false).names()
            for run in runs { #expect(aside.contains(run.fileName.text), "\(hasManifest)") }
        }
    }

    @Test(
        "a run of rewards or days is made of reward-days, which have what no footer has any more",
        arguments: [[.rewards], [.days], [.rewards, .days]] as [[TableKind]])
    func expiredAndDerived(tables: [TableKind]) throws {
        let (base, _) = try withDamagedSegment()
        try expire(base)
        let whole = ReferenceModel(packetCount: 250)
        for hasNames in [true, false] {
            let left = base.disk.kill()
            let manifest = try newest(left)
            for run in manifest.runs where tables.contains(run.table) {
                left.disk.damage(run.fileName.text) { $0[20] ^= 1 }
            }
            // A page, which a start sees as it reads the keys.
            for run in manifest.namesRuns where !hasNames {
                left.disk.damage(run.fileName.text) { $0[140] ^= 1 }
            }
            do {
                let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 9)
                #expect(!pipeline.found.contains { $0.contains("expired without a footer") })
            }
            #expect(try DirectoryReading(left).eventCount == whole.eventCount)
            if hasNames { #expect(try DirectoryReading(left).counts == whole.counts) }
            #expect(try Verifier.run(left).differenceCount == 0)
            let kept = try newest(left).runs
            for run in manifest.runs {
                #expect(
                    kept.contains(run) == !tables.contains(run.table), "\(run.table) \(hasNames)")
            }
        }
    }

    @Test(
        "where the newest manifest is gone, or older ones are in its place, nothing expired is lost"
    )
    func olderManifests() throws {
        let (base, before) = try filled()
        let end = try newest(base).lastExpired
        let manifests = try base.names().filter { $0.hasSuffix(".manifest") }
        #expect(manifests.count == 4)
        for count in 1...manifests.count {
            let files = base.disk.kill()
            for name in manifests.suffix(count) { try files.unlink(name) }
            #expect(live(files) == nil, "\(count) are gone")
            try expectWhole(files, packetCount: Self.packetCount, "\(count) manifests are gone")
        }
        // All of them, and those of a copy that was made before segments expired.
        let files = base.disk.kill()
        for name in manifests { try files.unlink(name) }
        for name in try before.names() where name.hasSuffix(".manifest") {
            try files.create(name).write(before.disk.contents(name)!, at: 0)
        }
        #expect(live(files) == nil)
        try expectWhole(files, packetCount: Self.packetCount, "older manifests")
        #expect(
            try newest(files).lastExpired >= end, "the expired runs are part of the log")
    }

    @Test(
        "an expired run that was never published goes, or is the log's where its segments have gone"
    )
    func unpublished() throws {
        let base = try filled().files
        let manifest = try newest(base)
        let segment = FileName.segment(manifest.lastSealed).text
        for isThere in [true, false] {
            let files = base.disk.kill()
            var merge = ExpiredMerge(for: manifest, in: files)
            _ = try merge.run(manifest.sealed, older: [], firstNumber: manifest.nextFileNumber)
            if !isThere { try files.unlink(segment) }
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 5)
            try pipeline.stop()
            #expect(
                try newest(files).lastExpired
                    == (isThere ? manifest.lastExpired : manifest.lastSealed))
            #expect(try !files.names().contains("aside"))
            try expectWhole(files, packetCount: Self.packetCount, "\(isThere)")
        }
    }
}

extension FileName {
    /// Whether it is a part of the log that nothing can make again.
    fileprivate var isLog: Bool {
        if case .run(let table, _) = self { !table.isDerived } else { false }
    }
}
