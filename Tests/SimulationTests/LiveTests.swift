import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import PipelineTestSupport
import TestSupport
import Testing

/// Generations in the middle of a segment: that there is one a second, what becomes of its files, and that
/// readers never notice.
@Suite("A generation inside a segment")
struct LiveTests {
    private let clock = SimulatedClock(
        wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000)

    private static let eventCount = UInt64(SimulatedPacket.eventCount)

    private func open(
        _ files: SimulatedFileSystem, seed: UInt64 = 5, segmentByteCountMax: Int = 1 << 20
    ) throws(PipelineError) -> SteppedPipeline {
        try SteppedPipeline.open(files, clock: clock, seed: seed) {
            $0.segmentByteCountMax = segmentByteCountMax
        }
    }

    private func newest(_ files: SimulatedFileSystem) throws -> Manifest {
        try ManifestStore(files: files).readNewest()
    }

    private func model(_ packetCount: UInt64) -> ReferenceModel {
        ReferenceModel(packetCount: packetCount)
    }

    // MARK: What is published

    @Test("a tick covers all that is durable, and is none where nothing is new")
    func everyTick() throws {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try open(files)
        var generation: UInt64 = 0
        for round in 0..<6 as Range<UInt64> {
            try pipeline.take(round * 7..<(round + 1) * 7)
            // The last turns are for merges of names.
            try pipeline.rest(turns: 5)
            let manifest = try newest(files)
            let mark = try DurableMarkFile.read(in: files, directory: manifest.directory)
            #expect(manifest.liveSegment == SegmentNumber(rawValue: 1))
            #expect(manifest.cut == mark)
            #expect(manifest.generation.rawValue > generation)
            #expect(manifest.shard.totals.rowCount == (round + 1) * 7 * Self.eventCount)
            // All is in runs: there is no tail to fold.
            let snapshot = try IngestReader.open(files)
            #expect(try snapshot.status().compacted == snapshot.cut)
            #expect(try DirectoryReading(files).counts == model((round + 1) * 7).counts)
            #expect(try Verifier.run(files).findings.isEmpty)
            generation = manifest.generation.rawValue
            try pipeline.rest(turns: 20)
            #expect(try newest(files).generation.rawValue == generation)
        }
        try pipeline.stop()
        let end = try newest(files)
        #expect(end.liveSegment == nil && end.sealed.count == 1)
        #expect(end.runs.map(\.table) == [.days, .rewardDays])
        #expect(end.runs.map(\.span) == [LogSpan](repeating: end.runs[0].span, count: 2))
        #expect(try DirectoryReading(files).counts == model(42).counts)
    }

    @Test("status says the same before a generation, in one, and after the seal")
    func status() throws {
        let files = SimulatedFileSystem(seed: 2)
        var pipeline = try open(files)
        try pipeline.take(0..<9)
        func look() throws -> DirectoryStatus { try IngestReader.open(files).status() }
        let before = try look()
        try pipeline.rest(turns: 2)
        let inside = try look()
        try pipeline.stop()
        let after = try look()
        for other in [inside, after] {
            #expect(other.rowCount == before.rowCount)
            #expect(other.packets == before.packets && other.events == before.events)
            #expect(other.nameCount == before.nameCount && other.keyCount == before.keyCount)
        }
        #expect(before.rowCount == 9 * Self.eventCount)
        #expect(before.packets[.accepted] == 9)
    }

    // MARK: Files

    @Test("of live runs three generations stay, of others all for a minute")
    func unlink() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try open(files)
        var runsOfNames: Set<FileName> = []
        let store = ManifestStore(files: files)
        for round in 0..<12 as Range<UInt64> {
            try pipeline.take(round * 3..<(round + 1) * 3)
            try pipeline.rest(turns: 2)
            let present = Set(try files.names().compactMap { FileName($0) })
            var kept: [Manifest] = []
            for case .manifest(let generation) in present {
                kept.append(try store.read(generation))
            }
            #expect(kept.count <= 1 + RetiredFiles.liveBatchCountMax)
            // No run is missing that a manifest names. Of names there are more, and of live runs those that
            // generations of merged names have pushed no manifest out for.
            let named = Set(kept.flatMap { $0.fileNames })
            #expect(named.isSubset(of: present))
            #expect(present.count { $0.isCounterRun } <= 2 * (1 + RetiredFiles.liveBatchCountMax))
            runsOfNames.formUnion(kept.flatMap { $0.namesRuns.map(\.fileName) })
            #expect(runsOfNames.isSubset(of: present), "a minute is not over")
        }
        #expect(try newest(files).generation.rawValue >= 12)
        try pipeline.rest(turns: 140)
        let present = Set(try files.names().compactMap { FileName($0) }.filter { $0.isAnyRun })
        let manifest = try newest(files)
        #expect(present == manifest.fileNames.filter { $0.isAnyRun })
    }

    @Test("the live runs of before a seal stay for as long as three generations")
    func unlinkAtSeal() throws {
        var retired = RetiredFiles()
        func name(_ number: UInt64) -> FileName {
            .run(.rewards, FileNumber(rawValue: number))
        }
        for number in 1...3 as ClosedRange<UInt64> {
            retired.add([name(100 + number)], live: [name(number)], at: number)
            #expect(retired.takeDue(at: number) == nil)
        }
        // A generation that drops no live runs pushes none out.
        retired.add([name(104)], at: 4)
        #expect(retired.takeDue(at: 4) == nil)
        retired.add([], live: [name(5)], at: 5)
        #expect(retired.takeDue(at: 5) == [name(1)])
        #expect(retired.takeDue(at: 5) == nil)
        var left: Set<FileName> = []
        while let names = retired.takeDue(at: 5 + RetiredFiles.keptNanoseconds) {
            left.formUnion(names)
        }
        #expect(left == Set([101, 102, 103, 104, 2, 3, 5].map(name)))
    }

    // MARK: Readers

    @Test("readers between all steps see the sums of their cut, and counters that never fall")
    func readers() throws {
        let files = SimulatedFileSystem(seed: 4)
        var pipeline = try open(files, segmentByteCountMax: SteppedPipeline.segmentByteCountMax)
        var held = try IngestReader.open(files)
        var heldCounts = try DirectoryReading(held).counts
        var last: UInt64 = 0
        var next: UInt64 = 0
        while next < 120 {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
            let reading = try DirectoryReading(files)
            let packets = reading.eventCount / Self.eventCount
            #expect(packets >= last)
            if packets != last { #expect(reading.counts == model(packets).counts) }
            last = packets
            // One that is held on to answers as before, whatever is unlinked.
            #expect(try DirectoryReading(held).counts == heldCounts)
            if next % 10 == 0 {
                held = try IngestReader.open(files)
                heldCounts = try DirectoryReading(held).counts
            }
        }
        try pipeline.stop()
        #expect(try newest(files).sealed.count > 5)
        #expect(try DirectoryReading(files).counts == model(120).counts)
    }

    // MARK: A start

    @Test("all money counted is known at a start, whatever the kill left unsealed")
    func money() throws {
        for segmentByteCountMax in [1 << 20, SteppedPipeline.segmentByteCountMax] {
            let files = SimulatedFileSystem(seed: 6)
            var pipeline = try open(files, segmentByteCountMax: segmentByteCountMax)
            try pipeline.take(0..<40)
            try pipeline.rest(turns: 2)
            try pipeline.take(40..<60)
            let left = files.disk.kill()
            var identity = SeededRandom(seed: 1)
            let start = try PipelineStart.open(
                left, clock: clock, counters: PipelineCounters(), random: &identity)
            let money = model(60).counts.values.reduce(0) { $0 + $1.revenueMicros }
            #expect(money > 0 && start.log.moneyCountedMicros == Int64(money))
        }
    }

    @Test("an idle daemon that is killed leaves nothing to copy")
    func inPlace() throws {
        let files = SimulatedFileSystem(seed: 7)
        var pipeline = try open(files)
        try pipeline.take(0..<30)
        try pipeline.rest(turns: 2)
        let left = files.disk.kill()
        let manifest = try newest(left)
        #expect(manifest.liveSegment != nil)
        let report = try SegmentRecovery.run(
            in: left, after: manifest, now: clock.wallMicroseconds())
        #expect(report.segments.map(\.isInPlace) == [true])
        var again = try open(left)
        try again.take(30..<40)
        try again.stop()
        #expect(try DirectoryReading(left).counts == model(40).counts)
        #expect(try Verifier.run(left).findings.isEmpty)
    }

    @Test("counters stay where the blocks that they were shown from are gone", arguments: 0..<3)
    func keptCounters(index: Int) throws {
        let files = SimulatedFileSystem(seed: 8)
        var pipeline = try open(files)
        try pipeline.take(0..<10)
        try pipeline.rest(turns: 2)
        let cut = try newest(files).shard
        // More that no generation has.
        try pipeline.take(10..<14)
        let shown = try DirectoryReading(files)
        let status = try IngestReader.open(files).status()
        #expect(shown.counts == model(14).counts)
        let left = files.disk.kill()
        left.disk.damage(FileName.segment(cut.cut.segment).text) { bytes in
            let end = Int(cut.cutOffset)
            switch index {
            case 0: bytes[SegmentHeader.byteCount + 20] ^= 1
            case 1: for byte in SegmentHeader.byteCount..<end { bytes[byte] = 0 }
            default: for byte in end - 64..<end { bytes[byte] ^= 0xFF }
            }
        }
        // A start that is cut off after recovery finds the same again.
        _ = try SegmentRecovery.run(
            in: left, after: try newest(left), now: clock.wallMicroseconds())
        var again = try open(left.disk.kill())
        let found = try DirectoryReading(again.directory.files)
        #expect(found.counts == shown.counts)
        let after = try IngestReader.open(again.directory.files).status()
        #expect(after.rowCount == status.rowCount && after.events == status.events)
        #expect(after.nameCount == status.nameCount && after.keyCount == status.keyCount)
        #expect(after.lostRangeCount == 1)
        try again.take(14..<20)
        try again.stop()
        #expect(try DirectoryReading(again.directory.files).counts == model(20).counts)
        // The evidence is gone, and verify goes on saying so.
        let verified = try Verifier.run(again.directory.files)
        #expect(verified.exitCode == 65)
        // What is counted of the lost rows is right as far as anyone can say.
        #expect(verified.differenceCount == 0, "\(verified.findings)")
    }
}

extension FileName {
    fileprivate var isAnyRun: Bool { if case .run = self { true } else { false } }

    fileprivate var isCounterRun: Bool {
        if case .run(let table, _) = self { table != .names } else { false }
    }
}
