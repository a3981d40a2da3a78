import IngestFormat
import IngestPipeline
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Retention over several lives of a daemon: clocks that are wrong at a start, and lives that are too short for it.
@Suite("Retention over lives")
struct RetentionLifeTests {
    private static let dayMilliseconds = 86_400_000

    private func clock() -> SimulatedClock { SimulatedClock.afterEvents() }

    private func byAge(accepts: Bool = false) -> @Sendable (inout PipelineConfiguration) -> Void {
        { $0.retention = RetentionPolicy(dayCountMax: 30, acceptsClock: accepts) }
    }

    // MARK: Clocks

    @Test("a start 450 days ahead removes nothing for a day, also where others follow it")
    func aheadAtStart() throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: 2)
        do {
            var pipeline = try SteppedPipeline.open(
                files, clock: clock, seed: 2, configure: byAge())
            try pipeline.take(0..<120)
            try pipeline.stop()
        }
        let sealed = try newest(files).sealed.count
        clock.jumpWall(milliseconds: 450 * Self.dayMilliseconds)
        for life in 0..<4 as Range<UInt64> {
            files = files.disk.kill()
            var pipeline = try SteppedPipeline.open(
                files, clock: clock, seed: life, configure: byAge())
            #expect(pipeline.told.count("clock skew: the clock is 45") == 1, "life \(life)")
            // Blocks with the wrong time come.
            try pipeline.take(120 + 8 * life..<128 + 8 * life)
            try pipeline.rest(turns: 3_600)
            #expect(try newest(files).expired.isEmpty, "life \(life)")
            if life < 3 { continue }
            clock.advance(milliseconds: Self.dayMilliseconds)
            try pipeline.rest(turns: 70)
            #expect(try newest(files).lastExpired.rawValue >= UInt32(sealed))
        }
        #expect(try Verifier.run(files).exitCode == 0)
    }

    @Test("a clock that steps after days in which nothing could expire removes nothing for a day")
    func aheadAfterQuiet() throws {
        let clock = clock()
        let files = SimulatedFileSystem(seed: 5)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 5, configure: byAge())
        for _ in 0..<3 {
            clock.advance(milliseconds: Self.dayMilliseconds)
            try pipeline.rest(turns: 70)
        }
        clock.jumpWall(milliseconds: 450 * Self.dayMilliseconds)
        try pipeline.take(0..<120)
        try pipeline.rest(turns: 3_600)
        let manifest = try newest(files)
        #expect(manifest.expired.isEmpty && manifest.sealed.count > 1)
        try pipeline.stop()
    }

    @Test("a clock that is accepted is believed at once")
    func accepted() throws {
        let clock = clock()
        let files = SimulatedFileSystem(seed: 3)
        do {
            var pipeline = try SteppedPipeline.open(
                files, clock: clock, seed: 3, configure: byAge())
            try pipeline.take(0..<120)
            try pipeline.stop()
        }
        clock.jumpWall(milliseconds: 450 * Self.dayMilliseconds)
        let left = files.disk.kill()
        var pipeline = try SteppedPipeline.open(
            left, clock: clock, seed: 4, configure: byAge(accepts: true))
        #expect(pipeline.told.count("clock skew") == 0)
        try pipeline.rest(turns: 70)
        #expect(try newest(left).sealed.count == 1)
        try pipeline.stop()
    }

    @Test("segments dated years ahead go with those behind them")
    func datedAhead() throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: 4)
        for (life, jump) in [0, 3_650, -3_650].enumerated() {
            clock.jumpWall(milliseconds: jump * Self.dayMilliseconds)
            files = files.disk.kill()
            var pipeline = try SteppedPipeline.open(
                files, clock: clock, seed: UInt64(life), configure: byAge(accepts: true))
            let first = UInt64(life) * 40
            try pipeline.take(first..<first + 40)
            try pipeline.stop()
        }
        let before = try newest(files)
        let ahead = before.sealed.count { $0.lastCommitTime > clock.wallMicroseconds() }
        #expect(ahead > 0 && ahead < before.sealed.count - 2)
        files = files.disk.kill()
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 9, configure: byAge())
        // Those before it are not old yet, and it is not by itself.
        try pipeline.rest(turns: 70)
        #expect(try newest(files).expired.isEmpty)
        for _ in 0..<40 {
            clock.advance(milliseconds: Self.dayMilliseconds)
            try pipeline.rest(turns: 2)
        }
        try pipeline.rest(turns: 130)
        #expect(try newest(files).sealed.count == 1)
        #expect(try Verifier.run(files).exitCode == 0)
    }

    // MARK: Short lives

    @Test("lives of half a minute remove what those before have dropped", arguments: [0, -4_000])
    func shortLives(jump: Int) throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: 5)
        var byteCounts: [UInt64] = []
        for life in 0..<30 as Range<UInt64> {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: life) {
                $0.retention = RetentionPolicy(byteCountMax: 9_000)
            }
            try pipeline.take(life * 40..<life * 40 + 40)
            try pipeline.rest(turns: 25)
            byteCounts.append(
                try files.names().filter { $0.hasSuffix(".segment") }.reduce(0) {
                    $0 + (try files.open($1, .read).byteCount())
                })
            files = files.disk.kill()
            clock.jumpWall(milliseconds: jump)
        }
        let early = byteCounts[6..<14].max() ?? 0
        let late = byteCounts[14...].max() ?? 0
        #expect(late <= early + early / 4, "\(byteCounts)")
        #expect(try newest(files).lastExpired.rawValue > 20)
    }

    @Test("a clock that went back by years puts nothing off for longer than a minute")
    func backAtStart() throws {
        let clock = clock()
        var files = SimulatedFileSystem(seed: 6)
        do {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 6) {
                $0.retention = RetentionPolicy(byteCountMax: 1)
            }
            try pipeline.take(0..<80)
            try pipeline.settle()
        }
        clock.jumpWall(milliseconds: -3_650 * Self.dayMilliseconds)
        let dropped = try newest(files).droppedSegment
        #expect(dropped.rawValue > 0)
        for life in 0..<3 {
            files = files.disk.kill()
            let first = FileName.segment(SegmentNumber(rawValue: 1)).text
            #expect(try files.names().contains(first) == (life < 2), "life \(life)")
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 7) {
                $0.retention = RetentionPolicy(byteCountMax: 1)
            }
            // A generation, and half a minute.
            try pipeline.take(80 + 10 * UInt64(life)..<90 + 10 * UInt64(life))
            try pipeline.rest(turns: 35)
        }
    }
}
