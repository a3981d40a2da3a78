import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// The ids that a start knows: those of a log that was damaged, of a clock that was wrong, and the same as the daemon
/// had that was killed.
@Suite("Ids at a start")
struct LoadedIDTests {
    private static let hour: Int64 = 3_600_000_000
    private static let now = SimulatedPacket.start + 3 * 24 * hour

    private func send(
        _ packets: Range<UInt64>, from first: UInt64, to pipeline: inout SteppedPipeline
    ) throws {
        for (place, packet) in packets.enumerated() {
            let packet = SimulatedPacket(sequence: packet, hasIDs: true)
            while !pipeline.offer(packet, as: first + UInt64(place)) { try pipeline.turn() }
            try pipeline.turn()
        }
        try pipeline.settle()
        try pipeline.settle()
    }

    private struct Sums: Equatable {
        var counted: UInt64 = 0
        var duplicate: UInt64 = 0
        var outside: UInt64 = 0
        var unchecked: UInt64 = 0
    }

    private func sums(_ files: SimulatedFileSystem) throws -> Sums {
        let reader = try IngestReader.open(files)
        var sums = Sums()
        for (verdict, count) in try reader.status().events {
            switch verdict.name {
            case "counted": sums.counted = count
            case "duplicate": sums.duplicate = count
            case "outside_window": sums.outside = count
            default: break
            }
        }
        sums.unchecked = try reader.rewards().reduce(0) { $0 + $1.counters.uncheckedEvents }
        return sums
    }

    enum Damage: CaseIterable {
        case lastFooter, someFooter, allFooters, someBlock, lastBlock, firstMissing, someMissing,
            lastMissing, allMissing

        /// Whether all blocks can still be read.
        var isHarmless: Bool {
            switch self {
            case .lastFooter, .someFooter, .allFooters: true
            default: false
            }
        }

        func apply(to files: SimulatedFileSystem, _ segments: [SealedSegment]) throws {
            let names = segments.map { FileName.segment($0.number).text }
            let (some, last) = (names[names.count / 2], names[names.count - 1])
            func damageFooter(_ name: String) {
                files.disk.damage(name) { $0[$0.count - SegmentTrailer.byteCount - 9] ^= 1 }
            }
            func damageBlock(_ name: String) {
                files.disk.damage(name) { $0[Int(SegmentLayout.blocksOffset) + 300] ^= 1 }
            }
            switch self {
            case .lastFooter: damageFooter(last)
            case .someFooter: damageFooter(some)
            case .allFooters: names.forEach(damageFooter)
            case .someBlock: damageBlock(some)
            case .lastBlock: damageBlock(last)
            case .firstMissing: try files.unlink(names[0])
            case .someMissing: try files.unlink(some)
            case .lastMissing: try files.unlink(last)
            case .allMissing: for name in names { try files.unlink(name) }
            }
        }
    }

    @Test(
        "of a damaged log none counts again without being shown", arguments: Damage.allCases,
        [4 << 10, SteppedPipeline.segmentByteCountMax])
    func damaged(damage: Damage, segmentByteCountMax: Int) throws {
        let clock = SimulatedClock(wallMicroseconds: Self.now)
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 3) {
            $0.segmentByteCountMax = segmentByteCountMax
        }
        try send(0..<120, from: 0, to: &pipeline)
        try pipeline.stop()
        let left = files.disk.kill()
        let sealed = try newest(left).sealed
        try #require(sealed.count > 4)
        try damage.apply(to: left, sealed)
        clock.advance(milliseconds: 60_000)
        var again = try SteppedPipeline.open(left, clock: clock, seed: 4)
        let before = try sums(left)
        try send(0..<120, from: 1_000, to: &again)
        let after = try sums(left)
        let countedAgain = after.counted - before.counted
        #expect(after.unchecked - before.unchecked == countedAgain)
        #expect((countedAgain == 0) == damage.isHarmless)
        #expect(countedAgain < before.counted || damage == .allMissing)
    }

    @Test("a clock that was ahead makes no start forget", arguments: [false, true])
    func clockAhead(refuses: Bool) throws {
        let policy = CountingPolicy(refusesOutsideWindow: refuses)
        let files = SimulatedFileSystem(seed: 7)
        var first = try SteppedPipeline.open(
            files, clock: SimulatedClock(wallMicroseconds: Self.now), seed: 7, policy: policy)
        try send(0..<10, from: 0, to: &first)
        try first.stop()
        var left = files.disk.kill()
        let ahead = SimulatedClock(wallMicroseconds: Self.now + 8 * 24 * Self.hour)
        let any = CountingPolicy(ageMicrosecondsMax: nil, refusesOutsideWindow: refuses)
        var wrong = try SteppedPipeline.open(left, clock: ahead, seed: 8, policy: any)
        try send(10..<12, from: 10, to: &wrong)
        try wrong.stop()
        var before = try sums(left)
        for life in 1...2 as ClosedRange<UInt64> {
            left = left.disk.kill()
            let clock = SimulatedClock(
                wallMicroseconds: Self.now + Int64(life) * Self.hour)
            var mended = try SteppedPipeline.open(
                left, clock: clock, seed: 9, policy: policy, acceptsClock: life == 1)
            // The ids of all lives but the wrong one, which had forgotten, are known, and new ones count.
            let new = 100 + life
            try send(0..<10, from: life * 1_000, to: &mended)
            #expect(try sums(left).counted == before.counted)
            try send(new..<new + 1, from: life * 1_000 + 10, to: &mended)
            let after = try sums(left)
            #expect(after.counted > before.counted)
            #expect(after.outside == before.outside && after.unchecked == before.unchecked)
            before = after
            try mended.stop()
        }
    }

    @Test("a life whose clock was behind makes no later start forget")
    func clockBehind() throws {
        let files = SimulatedFileSystem(seed: 13)
        var left = files
        // Lives at these days: the second one is wrong by a month.
        for (life, day) in [0, -30, 0, 0].enumerated() {
            let clock = SimulatedClock(
                wallMicroseconds: Self.now + Int64(day) * 24 * Self.hour + Int64(life) * Self.hour)
            let policy = CountingPolicy(
                ageMicrosecondsMax: nil, leadMicrosecondsMax: 60 * 24 * Self.hour)
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 14, policy: policy)
            let first = UInt64(life) * 10
            try send(first..<first + 10, from: UInt64(life) * 1_000, to: &pipeline)
            try pipeline.stop()
            left = left.disk.kill()
        }
        let clock = SimulatedClock(wallMicroseconds: Self.now + 5 * Self.hour)
        var last = try SteppedPipeline.open(left, clock: clock, seed: 15)
        let before = try sums(left)
        try send(0..<10, from: 9_000, to: &last)
        #expect(try sums(left).counted == before.counted)
    }

    @Test("a start looks at no more segments than the window has, whether or not they have ids")
    func boundedReads() throws {
        let clock = SimulatedClock(wallMicroseconds: Self.now)
        let files = SimulatedFileSystem(seed: 17)
        let policy = CountingPolicy(windowMicroseconds: Self.hour)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 17, policy: policy)
        for packet in 0..<600 as Range<UInt64> {
            while !pipeline.offer(SimulatedPacket(sequence: packet)) { try pipeline.turn() }
            try pipeline.settle()
            try pipeline.rest(turns: 2)
            clock.advance(milliseconds: 600_000)
        }
        try pipeline.stop()
        let left = files.disk.kill()
        let count = try newest(left).sealed.count
        try #require(count > 60)
        let opened = left.disk.callCount(.open)
        var identity = SeededRandom(seed: 1)
        _ = try PipelineStart.open(
            left, clock: clock, policy: policy, counters: PipelineCounters(), random: &identity)
        #expect(left.disk.callCount(.open) - opened < count)
    }

    @Test("what was too old before a silence is as old as it was")
    func silence() throws {
        let clock = SimulatedClock(wallMicroseconds: Self.now)
        let files = SimulatedFileSystem(seed: 11)
        let policy = CountingPolicy(windowMicroseconds: Self.hour)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 11, policy: policy)
        try send(0..<20, from: 0, to: &pipeline)
        let lastForgotten = clock.wallMicroseconds()
        clock.advance(milliseconds: 3 * 3_600_000)
        try send(20..<40, from: 20, to: &pipeline)
        try pipeline.stop()
        let left = files.disk.kill()
        var again = try SteppedPipeline.open(left, clock: clock, seed: 12, policy: policy)
        try send(40..<41, from: 40, to: &again)
        try again.stop()
        let since = try #require(
            try IngestReader.open(left).status().idsCompleteSinceMicroseconds)
        #expect(since <= lastForgotten && since >= Self.now)
    }

    @Test("what was counted ahead of its time is outside of the window by a smaller lead too")
    func smallerLead() throws {
        let clock = SimulatedClock(wallMicroseconds: SimulatedPacket.start - 6_000_000)
        var files = SimulatedFileSystem(seed: 13)
        var sequence: UInt64 = 0
        for (lead, ids) in [(60, [0, 1, 2, 3]), (0, [0])] as [(Int64, [UInt64])] {
            let policy = CountingPolicy(leadMicrosecondsMax: lead * 1_000_000, keyCountMax: 1)
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 13, policy: policy)
            for id in ids {
                var packet = SimulatedPacket(sequence: id, hasIDs: true)
                packet.only = ("reward", "business")
                while !pipeline.offer(packet, as: sequence) { try pipeline.turn() }
                try pipeline.settle()
                sequence += 1
                clock.advance(milliseconds: 1_000)
            }
            try pipeline.stop()
            files = files.disk.kill()
            // All but two of the first life's ids are forgotten when another one comes.
            #expect(try sums(files) == Sums(counted: sequence, unchecked: lead > 0 ? 2 : 3))
            clock.advance(milliseconds: 10_000)
        }
        #expect(try Verifier.run(files, deepByteCountMax: 1 << 20).exitCode == 0)
    }

    @Test(
        "a start knows what the daemon knew that was killed",
        arguments: 1...4 as ClosedRange<UInt64>)
    func sameAsLive(seed: UInt64) throws {
        let isLimited = seed % 2 == 1
        // Times between blocks are far from the window, where the one may know a 128th of it more.
        let policy = CountingPolicy(
            windowMicroseconds: 6 * Self.hour + Self.hour / 12,
            keyCountMax: isLimited ? 100 : 1 << 20)
        let clock = SimulatedClock(wallMicroseconds: Self.now)
        let files = SimulatedFileSystem(seed: seed)
        var live = try SteppedPipeline.open(files, clock: clock, seed: seed, policy: policy)
        for packet in 0..<60 as Range<UInt64> {
            try send(packet..<packet + 1, from: packet, to: &live)
            clock.advance(milliseconds: 600_000)
        }
        let copy = files.disk.copy()
        var loaded = try SteppedPipeline.open(
            copy, clock: SimulatedClock(wallMicroseconds: clock.wallMicroseconds()), seed: seed,
            policy: policy)
        let before = try sums(files)
        #expect(try sums(copy) == before)
        // The ids of these are less than there may be, and the newest.
        let packets: Range<UInt64> = isLimited ? 44..<60 : 0..<60
        try send(packets, from: 1_000, to: &live)
        try send(packets, from: 1_000, to: &loaded)
        let (liveSums, loadedSums) = (try sums(files), try sums(copy))
        #expect(loadedSums == liveSums)
        #expect(liveSums.duplicate > before.duplicate)
        #expect((liveSums.counted > before.counted) != isLimited)
    }
}
