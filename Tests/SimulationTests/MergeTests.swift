import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Runs are merged beside everything else: that this happens, that nobody waits for it or sees it, and what
/// becomes of the files.
@Suite("Runs are merged")
struct MergeTests {
    private let clock = SimulatedClock.afterEvents()

    private func open(
        _ files: SimulatedFileSystem, configure: (inout PipelineConfiguration) -> Void = { _ in }
    ) throws(PipelineError) -> SteppedPipeline {
        try SteppedPipeline.open(files, clock: clock, seed: 9, configure: configure)
    }

    @Test("at most eight runs of a table, and behind them the footers of level 0")
    func tables() throws {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try open(files)
        var next: UInt64 = 0
        var seen: Set<String> = []
        var last = Generation(rawValue: 0)
        while next < 800 {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
            // The manifest checks itself where the runs of a table begin and end.
            let manifest = try newest(files)
            if manifest.generation == last { continue }
            last = manifest.generation
            for table in TableKind.counterTables {
                #expect(manifest.runs(of: table).count <= Limits.runCountMax)
            }
            seen.insert(manifest.runs.isEmpty ? "no runs" : "runs")
            if manifest.runs(of: .rewards).count > 1 { seen.insert("several runs") }
            if !manifest.level0.isEmpty { seen.insert("level 0") }
        }
        #expect(seen == ["no runs", "runs", "several runs", "level 0"])
        try pipeline.stop()
        #expect(pipeline.counters.merge[.merges] > 5)
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 800).counts)
        #expect(try Verifier.run(files).findings.isEmpty)
    }

    @Test(
        "a merge that takes its time holds up nothing before level 0 is full, and no reader then")
    func slowMerge() throws {
        let files = SimulatedFileSystem(seed: 2)
        var pipeline = try open(files) { $0.unpublishedSegmentCountMax = 8 }
        pipeline.merges = false
        var next: UInt64 = 0
        var turns = 0
        // Until the compact stage takes no more blocks, and so the ring is full.
        while turns < 4_000 {
            turns += 1
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
        }
        let full = try newest(files)
        #expect(!full.hasRoomForSegments && full.runs.isEmpty)
        #expect(full.level0.count >= Limits.level0CountMax)
        #expect(pipeline.counters.compact[.segmentsSealed] >= UInt64(full.sealed.count) + 8)
        #expect(pipeline.counters.compact[.segmentsSealed] <= UInt64(full.sealed.count) + 10)
        let reading = try DirectoryReading(files)
        let packets = reading.eventCount / UInt64(SimulatedPacket.eventCount)
        #expect(reading.counts == ReferenceModel(packetCount: packets).counts)
        pipeline.merges = true
        try pipeline.rest(turns: 20)
        #expect(try newest(files).runs.contains { $0.table == .rewards })
        try pipeline.stop()
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: next).counts)
        #expect(try Verifier.run(files).findings.isEmpty)
    }

    @Test("a stop does not wait for a merge, and leaves nothing of it")
    func stop() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try open(files)
        pipeline.merges = false
        var next: UInt64 = 0
        while try newest(files).sealed.count < Limits.level0MergeCount {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
        }
        try pipeline.rest(turns: 2)
        try pipeline.stop()
        #expect(pipeline.counters.merge[.merges] == 0)
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: next).counts)
        // The next daemon goes on with it.
        var again = try open(files.disk.kill())
        #expect(again.counters.merge[.merges] == 0, "a start merges nothing")
        try again.rest(turns: 80)
        #expect(again.counters.merge[.merges] > 0)
        let end = try newest(again.directory.files)
        let runs = Set(
            try again.directory.files.names().filter { $0.hasSuffix(".run") })
        #expect(runs == Set((end.runs.map(\.fileName) + end.namesRuns.map(\.fileName)).map(\.text)))
        try again.stop()
        #expect(
            try DirectoryReading(again.directory.files).counts
                == ReferenceModel(packetCount: next).counts)
    }

    @Test("money is summed in 128 bits over segments, merges, expiry, starts and a rebuild")
    func money() throws {
        var files = SimulatedFileSystem(seed: 3)
        func open() throws(PipelineError) -> SteppedPipeline {
            try self.open(files) {
                $0.segmentByteCountMax = Limits.segmentByteCountMin
                $0.retention = RetentionPolicy(dayCountMax: 30)
                $0.moneyMicrosMax = Limits.moneyMicrosMax
            }
        }
        let packets = (0..<300).map {
            SimulatedPacket(sequence: UInt64($0), day: $0 % 2, largestCount: 200)
        }
        var pipeline = try open()
        for packet in packets {
            let isTaken = pipeline.offer(packet)
            #expect(isTaken)
            if packet.sequence % 5 == 4 { try pipeline.settle() }
        }
        try pipeline.rest(turns: 3)
        try checkMoney(files, "runs, level 0 and a tail")
        // Their bytes alone would not have ended one.
        let sealed = try newest(files).sealed
        #expect(sealed.count > 8)
        #expect(try newest(files).runs.count >= 3)
        clock.advance(milliseconds: 40 * 86_400_000)
        try pipeline.rest(turns: 70)
        #expect(try newest(files).sealed.count < sealed.count)
        #expect(try !newest(files).expired.isEmpty)
        try checkMoney(files, "expired")
        try pipeline.stop()
        files = files.disk.kill()
        pipeline = try open()
        try checkMoney(files, "started")
        try pipeline.stop()
        let manifest = try newest(files)
        files = files.disk.kill()
        for run in manifest.runs { try files.unlink(run.fileName.text) }
        for case .manifest(let generation)? in try files.names().map({ FileName($0) }) {
            try files.unlink(FileName.manifest(generation).text)
        }
        pipeline = try open()
        #expect(pipeline.directory.warnings.contains { $0.hasPrefix("derived files rebuilt") })
        try checkMoney(files, "made again")
    }

    /// One reward has 60,000 redemptions of the largest amount on two days.
    private func checkMoney(_ files: SimulatedFileSystem, _ when: String) throws {
        let reader = try IngestReader.open(files)
        let day = 30_000 * UInt128(Limits.moneyMicrosMax)
        #expect(day > UInt64.max)
        let found = try [
            reader.reward("reward")?.counters, reader.rewards().first?.counters,
            reader.rewards(RewardsQuery(order: .revenue, limit: 1)).first?.counters,
        ].map { $0?.revenue.micros }
        #expect(found == [2 * day, 2 * day, 2 * day], "\(when)")
        #expect(try reader.days().map(\.counters.revenue.micros) == [day, day], "\(when)")
        #expect(try reader.rewardDays().map(\.counters.revenue.micros) == [day, day], "\(when)")
        let findings = try Verifier.run(files).findings.filter { $0.kind != .note }
        #expect(findings.isEmpty, "\(when): \(findings.prefix(2))")
    }

    @Test("a file that cannot be removed ends nothing, and goes a minute later")
    func unlinkFails() throws {
        let files = SimulatedFileSystem(seed: 4)
        var pipeline = try open(files)
        files.disk.fail(.unlink, onCall: 1, forever: true)
        for next in 0..<200 as Range<UInt64> {
            while !pipeline.offer(SimulatedPacket(sequence: next)) { try pipeline.turn() }
            try pipeline.turn()
        }
        try pipeline.rest(turns: 70)
        #expect(pipeline.counters.compact[.unlinkFailures] > 0)
        let before = try files.names().count { $0.hasSuffix(".run") }
        files.disk.clearFailures()
        try pipeline.rest(turns: 140)
        let end = try newest(files)
        let after = try files.names().count { $0.hasSuffix(".run") }
        #expect(after == end.runs.count + end.namesRuns.count && after < before)
        try pipeline.stop()
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 200).counts)
    }

    @Test("what manifests take on disk is counted")
    func manifestBytes() throws {
        let files = SimulatedFileSystem(seed: 8)
        var pipeline = try open(files)
        for next in 0..<200 as Range<UInt64> {
            while !pipeline.offer(SimulatedPacket(sequence: next)) { try pipeline.turn() }
            try pipeline.turn()
        }
        try pipeline.stop()
        let last = try newest(files).generation
        var kept: UInt64 = 0
        for name in try files.names() where name.hasSuffix(".manifest") {
            kept += UInt64(try #require(files.disk.contents(name)).count)
        }
        #expect(pipeline.counters.compact[.manifests] == last.rawValue)
        let byteCount = pipeline.counters.compact[.manifestBytes]
        #expect(byteCount >= kept && byteCount <= kept * last.rawValue)
    }

    @Test("daemons that live half a minute leave no runs behind")
    func shortLives() throws {
        var files = SimulatedFileSystem(seed: 6)
        var most = 0
        for life in 0..<10 as Range<UInt64> {
            var pipeline = try open(files)
            var next = life * 20
            while next < (life + 1) * 20 {
                if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
                try pipeline.turn()
            }
            try pipeline.settle()
            try pipeline.rest(turns: 30)
            let manifest = try newest(files)
            let extra =
                try files.names().count { $0.hasSuffix(".run") } - manifest.runs.count
                - manifest.namesRuns.count
            most = max(most, extra)
            files = files.disk.kill()
        }
        // Those of its own last minute and of the three manifests before.
        #expect(most < 60)
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 200).counts)
    }
}
