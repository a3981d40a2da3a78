import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
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
}
