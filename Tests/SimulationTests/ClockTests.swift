import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// The wall clock dates events and blocks, and orders nothing: it may step in either direction.
@Suite("A wall clock that steps")
struct ClockTests {
    private static let packetCount: UInt64 = 90
    private static let hour = 3_600_000

    /// Milliseconds, after each third of the packets. Events of the simulation stay within what the policy takes.
    private static let steps: [[Int]] = [
        [hour, -hour], [-hour, -hour], [20 * hour, -30 * hour], [-20 * hour, 40 * hour],
        [10_000, -5_000], [-1, 1],
    ]

    @Test("nothing is lost or counted twice by its steps, over a stop or a kill", arguments: steps)
    func jumps(steps: [Int]) throws {
        for kills in [false, true] {
            var files = SimulatedFileSystem(seed: 1)
            let clock = SimulatedClock(
                wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000 + 43_200_000_000)
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 2)
            let third = Self.packetCount / 3
            try pipeline.take(0..<third)
            clock.jumpWall(milliseconds: steps[0])
            try pipeline.take(third..<2 * third)
            try pipeline.rest(turns: 3)
            if !kills { try pipeline.stop() }
            // The log's last time may lie ahead of this start's.
            clock.jumpWall(milliseconds: steps[1])
            files = files.disk.kill()
            pipeline = try SteppedPipeline.open(files, clock: clock, seed: 3)
            try pipeline.take(2 * third..<Self.packetCount)
            try pipeline.stop()
            let whole = ReferenceModel(packetCount: Self.packetCount)
            #expect(try DirectoryReading(files).counts == whole.counts, "\(steps), \(kills)")
            let findings = try Verifier.run(files).findings
            #expect(findings.isEmpty, "\(steps), \(kills): \(findings.prefix(2))")
        }
    }

    @Test(
        "one that steps under way changes no verdict, and the next start knows the log's last time")
    func underWay() throws {
        for step in [30 * 24 * Self.hour, -30 * 24 * Self.hour] {
            var files = SimulatedFileSystem(seed: 4)
            let clock = SimulatedClock.afterEvents()
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 5)
            #expect(pipeline.log.lastAdmissionTime == 0)
            try pipeline.take(0..<20)
            clock.jumpWall(milliseconds: step)
            try pipeline.take(20..<40)
            #expect(pipeline.counters.commit[.clockSteps] == 1)
            let whole = ReferenceModel(packetCount: 40)
            #expect(pipeline.counters.events[.tooOld] == 0)
            #expect(pipeline.counters.events[.tooEarly] == 0)
            #expect(try DirectoryReading(files).counts == whole.counts)
            // By the time from before, whatever the clock shows now; the same after a kill as after a stop.
            let now = clock.wallMicroseconds() - Int64(step) * 1_000
            var last: [Int64] = []
            for kills in [true, false] {
                if !kills { try pipeline.stop() }
                files = files.disk.kill()
                pipeline = try SteppedPipeline.open(files, clock: clock, seed: 6)
                last.append(pipeline.log.lastAdmissionTime)
            }
            #expect(last[0] == last[1])
            #expect((now - 60_000_000...now).contains(last[0]))
            #expect(pipeline.log.isAhead(of: clock.wallMicroseconds()) == (step < 0))
            #expect(try DirectoryReading(files).counts == whole.counts)
            let findings = try Verifier.run(files).findings
            #expect(findings.isEmpty, "\(step): \(findings.prefix(2))")
        }
    }
}
