import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Event ids that come again: under another sequence, over restarts and crashes, and after they were forgotten.
@Suite("Repeated ids")
struct RepeatTests {
    private func clock() -> SimulatedClock { SimulatedClock.afterEvents() }

    /// Offers packets whose events have ids, under sequences from `first` on.
    private func send(
        _ packets: Range<UInt64>, day: Int = 0, from first: UInt64,
        to pipeline: inout SteppedPipeline
    ) throws {
        for (place, packet) in packets.enumerated() {
            var isTaken = false
            while !isTaken {
                isTaken = pipeline.offer(
                    SimulatedPacket(sequence: packet, day: day, hasIDs: true),
                    as: first + UInt64(place))
                try pipeline.turn()
            }
        }
        try pipeline.settle()
        try pipeline.settle()
    }

    private func events(_ files: SimulatedFileSystem) throws -> [String: UInt64] {
        let status = try IngestReader.open(files).status()
        return Dictionary(uniqueKeysWithValues: status.events.map { ($0.key.name, $0.value) })
    }

    private func counted(_ files: SimulatedFileSystem) throws -> UInt64 {
        try events(files)["counted", default: 0]
    }

    private func unchecked(_ files: SimulatedFileSystem) throws -> UInt64 {
        try IngestReader.open(files).rewards().reduce(0) { $0 + $1.counters.uncheckedEvents }
    }

    @Test(
        "the same events under new sequences count once, before and after a crash", arguments: 1...4
    )
    func overCrashes(seed: Int) throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: UInt64(seed))
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: UInt64(seed))
        try send(0..<30, from: 0, to: &pipeline)
        let first = try events(files)
        try send(0..<30, from: 1_000, to: &pipeline)
        let again = try events(files)
        #expect(again["counted"] == first["counted"])
        #expect(again["duplicate"] == first["counted"])
        // Not viewable ones never claimed their ids, and are what they were.
        #expect(again["not_viewable"] == 2 * first["not_viewable", default: 0])
        for round in 2...3 as ClosedRange<UInt64> {
            files = seed % 2 == 0 ? files.disk.kill() : files.disk.powerCut(seed: UInt64(seed))
            pipeline = try SteppedPipeline.open(files, clock: clock, seed: round)
            try send(0..<30, from: round * 1_000, to: &pipeline)
            #expect(try counted(files) == first["counted"])
        }
        try pipeline.stop()
        #expect(try Verifier.run(files).findings.filter { $0.kind != .note }.isEmpty)
    }

    @Test("what was forgotten counts again, and is shown as outside the window")
    func forgotten() throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: 5)
        let policy = CountingPolicy(windowMicroseconds: 3_600_000_000)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 5, policy: policy)
        try send(0..<10, from: 0, to: &pipeline)
        let first = try counted(files)
        clock.advance(milliseconds: 8_000_000)
        // The generation of the first ids ends with a block that comes after their window.
        try send(100..<101, from: 500, to: &pipeline)
        clock.advance(milliseconds: 8_000_000)
        try send(101..<102, from: 501, to: &pipeline)
        let between = (try counted(files), try unchecked(files))
        try send(0..<10, from: 1_000, to: &pipeline)
        #expect(try counted(files) == between.0 + first)
        #expect(try unchecked(files) == between.1 + first)
        let status = try IngestReader.open(files).status()
        #expect(try #require(status.idsCompleteSinceMicroseconds) > SimulatedPacket.start)
        try pipeline.stop()
        files = files.disk.kill()
        var refusing = policy
        refusing.refusesOutsideWindow = true
        var again = try SteppedPipeline.open(files, clock: clock, seed: 6, policy: refusing)
        clock.advance(milliseconds: 8_000_000)
        try send(200..<201, from: 2_000, to: &again)
        clock.advance(milliseconds: 8_000_000)
        try send(201..<202, from: 2_001, to: &again)
        // New rewards that are refused leave no rows, and the ledger alone may wait for a second.
        clock.advance(milliseconds: 1_000)
        try again.settle()
        let before = try events(files)
        try send(0..<10, from: 3_000, to: &again)
        let after = try events(files)
        #expect(after["counted"] == before["counted"])
        #expect(
            after["outside_window"] == before["outside_window", default: 0] + first,
            "\(before) \(after)")
    }

    @Test(
        "a start that knows only the newest ids counts none again without showing it",
        arguments: 1...4)
    func newestOnly(seed: UInt64) throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: seed)
        let policy = CountingPolicy(keyCountMax: 64 * Int(seed))
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: seed, policy: policy)
        try send(0..<200, from: 0, to: &pipeline)
        let first = try counted(files)
        try pipeline.stop()
        let before = try unchecked(files)
        files = files.disk.kill()
        var again = try SteppedPipeline.open(files, clock: clock, seed: seed, policy: policy)
        // The newest are known, whatever came before them.
        try send(190..<200, from: 1_000, to: &again)
        #expect(try counted(files) == first)
        try send(0..<200, from: 2_000, to: &again)
        let countedAgain = try unchecked(files) - before
        #expect(countedAgain > 0)
        #expect(try counted(files) == first + countedAgain)
        try again.stop()
    }

    @Test(
        "a start whose clock is behind, and is corrected, knows all ids for as long as others do",
        arguments: [20, 5 * 3_600, 8 * 86_400])
    func clockBehind(seconds: Int) throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: 9)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 9)
        try send(0..<10, day: 1, from: 0, to: &pipeline)
        let first = try counted(files)
        try pipeline.stop()
        files = files.disk.kill()
        clock.jumpWall(milliseconds: -seconds * 1_000)
        pipeline = try SteppedPipeline.open(
            files, clock: clock, seed: 10, clockStepMilliseconds: seconds * 1_000)
        // Another generation of ids begins, and the window of the first ones is nearly over.
        clock.advance(milliseconds: 3 * 3_600_000)
        try send(100..<101, from: 1_000, to: &pipeline)
        let others = try counted(files) - first
        clock.advance(milliseconds: 7 * 86_400_000 - 3 * 3_600_000 - 60_000)
        try send(0..<10, day: 1, from: 2_000, to: &pipeline)
        #expect(try counted(files) == first + others)
        try pipeline.stop()
    }

    @Test(
        "a start that accepts a clock behind the log knows when the log says that ids were counted"
    )
    func clockAccepted() throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: 9)
        // The newest events are half an hour ahead of the right time, and half an hour behind that of the log.
        clock.jumpWall(milliseconds: 1_800_000)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 9)
        try send(0..<10, day: 1, from: 0, to: &pipeline)
        try pipeline.stop()
        files = files.disk.kill()
        clock.jumpWall(milliseconds: -3_600_000)
        pipeline = try SteppedPipeline.open(files, clock: clock, seed: 10, acceptsClock: true)
        clock.advance(milliseconds: 3 * 3_600_000)
        try send(100..<101, from: 1_000, to: &pipeline)
        clock.advance(milliseconds: 7 * 86_400_000 - 3 * 3_600_000 + 600_000)
        let before = (try counted(files), try unchecked(files))
        try send(0..<10, day: 1, from: 2_000, to: &pipeline)
        let again = (try counted(files), try unchecked(files))
        #expect(again.0 > before.0)
        #expect(again.0 - before.0 == again.1 - before.1)
        try pipeline.stop()
        #expect(try Verifier.run(files).findings.filter { $0.kind != .note }.isEmpty)
    }

    @Test("a conflict of a reward that never counted is no difference once its segment is gone")
    func ledgerAlone() throws {
        let files = SimulatedFileSystem(seed: 8)
        var pipeline = try SteppedPipeline.open(files, clock: clock(), seed: 8) {
            $0.retention = RetentionPolicy(byteCountMax: 9_000)
        }
        for (sequence, reward) in ["counts", "never counts"].enumerated() {
            // Both with the id of the first.
            let click = SimulatedPacket(sequence: 0, hasIDs: true, only: (reward, "shop"))
            let isTaken = pipeline.offer(click, as: UInt64(sequence))
            #expect(isTaken)
        }
        try pipeline.settle()
        #expect(try IngestReader.open(files).status().events[.conflict] == 1)
        for sequence in 2..<80 as Range<UInt64> {
            let isTaken = pipeline.offer(SimulatedPacket(sequence: sequence))
            #expect(isTaken)
            try pipeline.turn()
        }
        try pipeline.stop()
        #expect(try newest(files).lastExpired.rawValue > 0)
        #expect(try Verifier.run(files).findings.filter { $0.kind != .note }.isEmpty)
    }
}
