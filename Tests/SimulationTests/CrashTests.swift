import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import Testing

/// The whole path from the ring to the snapshot, crashed at every operation on the disk.
///
/// Fault model: that of `SimulatedDisk`: after a power cut any subset of unsynced writes and directory
/// operations is gone, torn at 512 bytes. After every crash: what was durable is counted, what is counted
/// was sent, in whole packets and in order, `verify` finds nothing, and the rest can be sent again from
/// there to the exact counters of a run without a crash.
@Suite("A crash at any operation")
struct CrashTests {
    static let packetCount: UInt64 = 96

    /// What one life of the daemon left behind.
    struct Life {
        var durableRowCount: UInt64
        var error: PipelineError?
    }

    /// Runs the daemon until all packets are in or the disk is gone.
    private func live(
        _ files: SimulatedFileSystem, from first: UInt64, clock: SimulatedClock, seed: UInt64
    ) -> Life {
        var life = Life(durableRowCount: 0, error: nil)
        do throws(PipelineError) {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: seed)
            let counters = pipeline.counters
            defer { life.durableRowCount = counters.sync[.durableRows] }
            var next = first
            while next < Self.packetCount {
                if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
                try pipeline.turn()
            }
            try pipeline.stop()
        } catch {
            life.error = error
        }
        return life
    }

    private func clock() -> SimulatedClock {
        SimulatedClock(wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000)
    }

    /// Checks the directory after a crash, goes on from there, and checks the end.
    private func recover(
        _ files: SimulatedFileSystem, after life: Life, crash: Int, seed: UInt64
    ) throws {
        let clock = clock()
        do {
            // Recovery alone, then a look: nothing is received yet.
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: seed)
            try pipeline.stop()
        }
        let found = try DirectoryReading(files)
        let packets = found.eventCount / UInt64(SimulatedPacket.eventCount)
        #expect(found.eventCount % UInt64(SimulatedPacket.eventCount) == 0, "crash \(crash)")
        #expect(found.eventCount >= life.durableRowCount, "crash \(crash)")
        #expect(found.counts == ReferenceModel(packetCount: packets).counts, "crash \(crash)")
        let rest = live(files, from: packets, clock: clock, seed: seed &+ 1)
        #expect(rest.error == nil, "crash \(crash)")
        let end = try DirectoryReading(files)
        let whole = ReferenceModel(packetCount: Self.packetCount)
        #expect(end.counts == whole.counts, "crash \(crash)")
        let report = try Verifier.run(files)
        #expect(report.findings.isEmpty, "crash \(crash): \(report.findings)")
    }

    @Test("the run without a crash counts everything, and verify finds nothing")
    func withoutCrash() throws {
        let files = SimulatedFileSystem(seed: 3)
        let life = live(files, from: 0, clock: clock(), seed: 3)
        #expect(life.error == nil)
        #expect(life.durableRowCount == Self.packetCount * UInt64(SimulatedPacket.eventCount))
        let found = try DirectoryReading(files)
        #expect(found.counts == ReferenceModel(packetCount: Self.packetCount).counts)
        #expect(try Verifier.run(files).findings.isEmpty)
        // Enough happens for the crashes below to meet it: several segments and generations.
        #expect(try ManifestStore(files: files).readNewest().sealed.count >= 3)
    }

    @Test(
        "a power cut before each operation loses nothing durable", arguments: [11, 12] as [UInt64])
    func powerCutAtEveryOperation(seed: UInt64) throws {
        var operation = 1
        var crashes = 0
        while true {
            let files = SimulatedFileSystem(seed: seed)
            let disk = files.disk
            disk.crash(beforeOperation: operation)
            let life = live(files, from: 0, clock: clock(), seed: seed)
            if !disk.isDown { break }
            crashes += 1
            try recover(
                disk.powerCut(seed: seed &+ UInt64(operation)), after: life, crash: operation,
                seed: seed)
            operation += 1
        }
        #expect(crashes > 100)
    }

    @Test("a killed process loses nothing that was written")
    func killAtEveryOperation() throws {
        let seed: UInt64 = 21
        var operation = 1
        while true {
            let files = SimulatedFileSystem(seed: seed)
            let disk = files.disk
            disk.crash(beforeOperation: operation)
            let life = live(files, from: 0, clock: clock(), seed: seed)
            if !disk.isDown { break }
            try recover(disk.kill(), after: life, crash: operation, seed: seed)
            operation += 3
        }
        #expect(operation > 100)
    }
}
