import Glibc
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Rows that expire: what is left of them, that no answer changes, and what crashes make of it.
///
/// Fault model: that of `SimulatedDisk`.
@Suite("Retention")
struct RetentionTests {
    private static let dayMilliseconds = 86_400_000
    private static let eventCount = UInt64(SimulatedPacket.eventCount)

    private func clock() -> SimulatedClock { SimulatedClock.afterEvents() }

    private func segments(_ files: SimulatedFileSystem) throws -> [SegmentNumber] {
        try files.names().compactMap {
            if case .segment(let number)? = FileName($0) { number } else { nil }
        }
    }

    /// What is trusted and what has footers still are all that is counted.
    private func checkEvidence(_ files: SimulatedFileSystem, _ when: String = "") throws {
        let manifest = try newest(files)
        var evidence = Evidence()
        for entry in manifest.expired {
            let run = try RunReader(entry.run, directory: manifest.directory, in: files)
            try evidence.add(run.makeCursor())
            let segments = try run.readExpired()
            evidence.totals.add(segments.ledger)
            evidence.totals.rowCount += segments.rowCount
        }
        for entry in manifest.sealed {
            let footer = try SegmentReader(entry.number, directory: manifest.directory, in: files)
                .readFooter(of: entry)
            try evidence.add(footer.rewardDays.makeCursor())
            evidence.totals.add(LogTotals(footer))
        }
        var counted = Evidence()
        for run in manifest.runs(of: .rewardDays) {
            try counted.add(
                RunReader(run, directory: manifest.directory, in: files).makeCursor())
        }
        for segment in manifest.level0 {
            try counted.add(
                RunReader.openFooter(of: segment, directory: manifest.directory, in: files)
                    .rewardDays.makeCursor())
        }
        #expect(evidence.counters == counted.counters, "\(when)")
        #expect(evidence.totals == manifest.shard.totals, "\(when)")
        let findings = try Verifier.run(files).findings.filter { $0.kind != .note }
        #expect(findings.isEmpty, "\(when): \(findings.prefix(3))")
    }

    // MARK: By age

    @Test("a directory of 400 days answers for all of them and keeps the rows of thirty")
    func fourHundredDays() throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: 1)
        func open() throws(PipelineError) -> SteppedPipeline {
            try SteppedPipeline.open(files, clock: clock, seed: 1) {
                $0.segmentByteCountMax = Limits.segmentByteCountMin
                $0.retention = RetentionPolicy(dayCountMax: 30)
            }
        }
        var pipeline = try open()
        var model = ReferenceModel(packetCount: 0)
        for day in 0..<400 {
            for index in 0..<2 as Range<UInt64> {
                let packet = SimulatedPacket(sequence: UInt64(day) * 2 + index, day: day)
                let isTaken = pipeline.offer(packet)
                #expect(isTaken)
                model.add(packet)
            }
            try pipeline.settle()
            // For merges.
            try pipeline.rest(turns: 2)
            clock.advance(milliseconds: Self.dayMilliseconds)
            guard day % 50 == 49 else { continue }
            // Killed and started again, now and then, and cleanly stopped.
            if day % 100 == 99 { try pipeline.stop() }
            files = files.disk.kill()
            #expect(try DirectoryReading(files).counts == model.counts, "day \(day)")
            pipeline = try open()
            #expect(pipeline.directory.movedAside == [])
        }
        try pipeline.settle()
        try pipeline.rest(turns: 200)
        let manifest = try newest(files)
        // The newest event of a segment is one to three days older than the clock was when it came.
        #expect((27...32).contains(manifest.sealed.count))
        #expect(manifest.lastExpired.rawValue == 400 - UInt32(manifest.sealed.count))
        #expect(manifest.expired.count <= Limits.runCountMax)
        // And the one that the last life has begun.
        #expect(try segments(files).count == manifest.sealed.count + 1)
        let status = try IngestReader.open(files).status()
        let expired = try #require(status.expired)
        #expect(expired.rowCount == UInt64(manifest.lastExpired.rawValue) * 2 * Self.eventCount)
        #expect(status.rowCount == 800 * Self.eventCount && expired.missingSegmentCount == 0)
        #expect(try DirectoryReading(files).counts == model.counts)
        try checkEvidence(files)
        // It goes on counting.
        let last = SimulatedPacket(sequence: 800, day: 400)
        let isTaken = pipeline.offer(last)
        #expect(isTaken)
        model.add(last)
        try pipeline.stop()
        #expect(try DirectoryReading(files).counts == model.counts)
        try checkEvidence(files)
    }

    @Test(
        "an event that claims a far day keeps no segment for longer, nor do segments without rows")
    func farDay() throws {
        let clock = clock()
        let files = SimulatedFileSystem(seed: 8)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 8) {
            $0.retention = RetentionPolicy(dayCountMax: 30)
        }
        func next(_ isTaken: Bool) throws {
            #expect(isTaken)
            // A block without rows is closed after a second.
            for _ in 0..<2 {
                try pipeline.settle()
                try pipeline.rest(turns: 2)
            }
            clock.advance(milliseconds: 4_000_000)
        }
        try next(pipeline.offer(SimulatedPacket(sequence: 0)))
        // Of known names, refused as too early, and stored with its time.
        try next(pipeline.offer(SimulatedPacket(sequence: 0, day: 80_000), as: 4))
        try next(pipeline.offer(SimulatedPacket(sequence: 1)))
        try next(pipeline.offerEmpty(sender: 3))
        try next(pipeline.offer(SimulatedPacket(sequence: 2)))
        // The last sealed segment stays for its windows.
        try next(pipeline.offer(SimulatedPacket(sequence: 3)))
        let before = try newest(files)
        #expect(before.sealed.map(\.rowCount) == [5, 5, 5, 0, 5])
        #expect(before.sealed[1].maxTimestamp > clock.wallMicroseconds())
        clock.advance(milliseconds: 29 * Self.dayMilliseconds)
        try pipeline.rest(turns: 70)
        #expect(try newest(files).expired.isEmpty)
        clock.advance(milliseconds: 2 * Self.dayMilliseconds)
        try pipeline.rest(turns: 70)
        let after = try newest(files)
        #expect(
            after.lastExpired.rawValue == 4 && after.shard.totals == before.shard.totals
        )
    }

    @Test("R6: a clock that goes wrong for an hour removes nothing, one that stays does")
    func wrongClock() throws {
        let clock = clock()
        let files = SimulatedFileSystem(seed: 2)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 2) {
            $0.retention = RetentionPolicy(dayCountMax: 30)
        }
        try pipeline.take(0..<120)
        try pipeline.rest(turns: 70)
        clock.jumpWall(milliseconds: 40 * Self.dayMilliseconds)
        try pipeline.rest(turns: 3_600)
        #expect(try newest(files).expired.isEmpty)
        clock.advance(milliseconds: Self.dayMilliseconds)
        try pipeline.rest(turns: 70)
        #expect(try newest(files).sealed.count == 1 && !newest(files).expired.isEmpty)
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 120).counts)
    }

    // MARK: By bytes

    private static let bounded: @Sendable (inout PipelineConfiguration) -> Void = {
        $0.retention = RetentionPolicy(byteCountMax: 9_000)
    }

    @Test("segments go until they have as many bytes as they may, and readers never notice")
    func bytes() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try SteppedPipeline.open(
            files, clock: clock(), seed: 3, configure: Self.bounded)
        var held = try IngestReader.open(files)
        var heldCounts = try DirectoryReading(held).counts
        var last: UInt64 = 0
        var expired: Set<SegmentNumber> = []
        for next in 0..<160 as Range<UInt64> {
            let isTaken = pipeline.offer(SimulatedPacket(sequence: next))
            #expect(isTaken)
            try pipeline.turn()
            let reading = try DirectoryReading(files)
            let packets = reading.eventCount / Self.eventCount
            #expect(packets >= last)
            if packets != last {
                #expect(reading.counts == ReferenceModel(packetCount: packets).counts)
            }
            last = packets
            #expect(try DirectoryReading(held).counts == heldCounts)
            expired.insert(try newest(files).lastExpired)
            if next % 10 == 0 {
                held = try IngestReader.open(files)
                heldCounts = try DirectoryReading(held).counts
            }
        }
        try pipeline.settle()
        // A minute is not over for most of them, and a reader holds some for an hour.
        let waiting = try segments(files)
        let heldStatus = try held.status()
        try pipeline.rest(turns: 3_700)
        // What has expired since has been merged, and the files are gone.
        #expect(try held.status().expired == heldStatus.expired)
        let manifest = try newest(files)
        #expect(expired.count > 3 && manifest.sealed.count >= 1)
        let byteCount = manifest.sealed.reduce(UInt64(0)) { $0 + $1.byteCount }
        #expect(byteCount <= 9_000)
        let left = try segments(files)
        #expect(left.count < waiting.count && left.allSatisfy { $0 > manifest.lastExpired })
        try pipeline.stop()
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 160).counts)
        try checkEvidence(files)
    }

    // MARK: Damage

    @Test("segments that are missing or damaged go along, and are told")
    func unreadable() throws {
        let files = SimulatedFileSystem(seed: 4)
        var pipeline = try SteppedPipeline.open(files, clock: clock(), seed: 4)
        try pipeline.take(0..<400)
        try pipeline.rest(turns: 20)
        try pipeline.stop()
        let count = try newest(files).sealed.count
        #expect(count >= 9)
        // Runs have the counters of the first ones.
        #expect(try newest(files).mergedEnd.segment.rawValue >= 8)
        let left = files.disk.kill()
        let names = (1...3).map { FileName.segment(SegmentNumber(rawValue: $0)).text }
        try left.unlink(names[0])
        left.disk.damage(names[2]) { $0[$0.count - 100] ^= 1 }
        var again = try SteppedPipeline.open(left, clock: clock(), seed: 5) {
            $0.retention = RetentionPolicy(byteCountMax: 1)
        }
        try again.rest(turns: count + 10)
        let manifest = try newest(left)
        #expect(manifest.sealed.count == 1 && manifest.lastExpired.rawValue == UInt32(count - 1))
        #expect(left.disk.contents("aside/\(names[2])") != nil)
        #expect(try IngestReader.open(left).status().expired?.missingSegmentCount == 2)
        #expect(try DirectoryReading(left).counts == ReferenceModel(packetCount: 400).counts)
        try again.stop()
        // Where the newest is missing, it waits for one that has a footer.
        let third = left.disk.kill()
        let end = try newest(third).lastSealed
        try third.unlink(FileName.segment(end).text)
        var waits = try SteppedPipeline.open(third.disk.kill(), clock: clock(), seed: 7) {
            $0.retention = RetentionPolicy(byteCountMax: 1)
        }
        try waits.rest(turns: 200)
        #expect(try newest(waits.directory.files).sealed.map(\.number) == [end])
        try waits.take(400..<440)
        try waits.stop()
        #expect(
            try DirectoryReading(waits.directory.files).counts
                == ReferenceModel(packetCount: 440).counts)
    }

    // MARK: Crashes

    /// Whatever is sealed goes.
    private static let tight: @Sendable (inout PipelineConfiguration) -> Void = {
        $0.retention = RetentionPolicy(byteCountMax: 1)
    }

    /// One life that expires segments, unlinks them, and expires more.
    private func live(
        _ files: SimulatedFileSystem, from first: UInt64, seed: UInt64
    ) -> PipelineError? {
        do throws(PipelineError) {
            var pipeline = try SteppedPipeline.open(
                files, clock: clock(), seed: seed, configure: Self.tight)
            var next = first
            for end in [48, 88] as [UInt64] where end > next {
                try pipeline.take(next..<end)
                try pipeline.rest(turns: 65)
                next = end
            }
            try pipeline.stop()
            return nil
        } catch {
            return error
        }
    }

    private static let packetCount: UInt64 = 88

    /// Checks what a crash left, goes on from there, and checks the end.
    private func recover(_ files: SimulatedFileSystem, crash: Int, seed: UInt64) throws {
        do {
            var pipeline = try SteppedPipeline.open(
                files, clock: clock(), seed: seed, configure: Self.tight)
            #expect(pipeline.directory.missingSegments == [], "crash \(crash)")
            try pipeline.stop()
        }
        let found = try DirectoryReading(files)
        let packets = found.eventCount / Self.eventCount
        #expect(found.counts == ReferenceModel(packetCount: packets).counts, "crash \(crash)")
        #expect(live(files, from: packets, seed: seed &+ 1) == nil, "crash \(crash)")
        let end = try DirectoryReading(files)
        let whole = ReferenceModel(packetCount: Self.packetCount)
        #expect(end.counts == whole.counts, "crash \(crash)")
        let status = try IngestReader.open(files).status()
        #expect(status.expired?.missingSegmentCount == 0, "crash \(crash)")
        try checkEvidence(files, "crash \(crash)")
    }

    @Test("without a crash enough expires for the crashes to meet it")
    func withoutCrash() throws {
        let files = SimulatedFileSystem(seed: 9)
        #expect(live(files, from: 0, seed: 9)?.exitCode == nil)
        let manifest = try newest(files)
        #expect(manifest.lastExpired.rawValue >= 3 && !manifest.sealed.isEmpty)
        #expect(try segments(files).first.map { $0.rawValue > 1 } == true)
    }

    @Test("a power cut before every ninth operation loses no row that counts, and no evidence")
    func powerCutAtEveryNinthOperation() throws {
        var operation = 1
        var crashes = 0
        while true {
            let files = SimulatedFileSystem(seed: 9)
            let disk = files.disk
            disk.crash(beforeOperation: operation)
            _ = live(files, from: 0, seed: 9)
            if !disk.isDown { break }
            crashes += 1
            try recover(disk.powerCut(seed: UInt64(operation)), crash: operation, seed: 9)
            operation += 9
        }
        #expect(crashes > 30)
    }

    private static let faults: [(kind: SimulatedDisk.Kind, errno: Int32, stride: Int)] = [
        (.create, EIO, 19), (.write, ENOSPC, 71), (.sync, EIO, 17), (.rename, EIO, 19),
        (.unlink, EIO, 17), (.syncDirectory, EIO, 19), (.open, EIO, 47), (.read, EIO, 301),
    ]

    @Test("a call that fails ends the daemon at most", arguments: faults)
    func failAtEveryCall(
        fault: (kind: SimulatedDisk.Kind, errno: Int32, stride: Int)
    ) throws {
        var call = 1
        while true {
            let files = SimulatedFileSystem(seed: 31)
            files.disk.fail(fault.kind, onCall: call, errno: fault.errno)
            let error = live(files, from: 0, seed: 31)
            if files.disk.callCount(fault.kind) < call { break }
            if let error {
                #expect([71, 74].contains(error.exitCode), "\(fault.kind) \(call): \(error)")
            }
            try recover(files.disk.powerCut(seed: UInt64(call)), crash: call, seed: 31)
            call += fault.stride
        }
    }
}

/// Counters by (key, day), and what ledgers add up to.
private struct Evidence {
    var counters: [[UInt64]: [UInt64]] = [:]
    var totals = LogTotals()

    mutating func add<Source: CounterPageSource>(_ source: Source) throws {
        var source = source
        let page = CounterPage()
        while try source.nextPage(into: page) {
            for row in 0..<page.rowCount {
                let place = [UInt64(page.key(row)), UInt64(UInt32(bitPattern: page.day(row)))]
                let values = CounterColumn.allCases.map { page.value($0, row) }
                let sum = counters[place] ?? values.map { _ in 0 }
                counters[place] = zip(sum, values).map { $0 + $1 }
            }
        }
    }
}
