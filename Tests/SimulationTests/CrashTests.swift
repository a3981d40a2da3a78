import Glibc
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// The whole path from the ring to the snapshot, crashed at every operation on the disk.
///
/// Fault model: that of `SimulatedDisk`: after a power cut any subset of unsynced writes and directory
/// operations is gone, torn at 512 bytes. After every crash: what was durable is counted, what is counted
/// was sent, in whole packets and in order, `verify` finds nothing, and the rest can be sent again from
/// there to the exact counters of a run without a crash.
@Suite("A crash at any operation")
struct CrashTests {
    static let packetCount: UInt64 = 80

    /// What one life of the daemon left behind.
    struct Life {
        /// Rows that must be counted from now on: those that were durable, or more where the crash kept more.
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

    private func clock() -> SimulatedClock { SimulatedClock.afterEvents() }

    /// A reader of what a crash left, before any start: all counters of some first packets, and no others.
    private func readBeforeStart(_ files: SimulatedFileSystem, crash: Int) throws {
        let found: DirectoryReading
        do { found = try DirectoryReading(files) } catch let error as ReaderError {
            // The directory was being made; or a mark of which half was written is still there, which stops
            // readers until the next start (docs/format/durable-mark.md).
            let isMark = error.path.hasSuffix("/\(FileName.durableMark.text)")
            #expect(error.kind == .missingManifest || isMark, "crash \(crash): \(error)")
            return
        }
        let packets = found.eventCount / UInt64(SimulatedPacket.eventCount)
        #expect(found.counts == ReferenceModel(packetCount: packets).counts, "crash \(crash)")
    }

    /// Checks the directory after a crash, goes on from there, and checks the end.
    private func recover(
        _ files: SimulatedFileSystem, after life: Life, crash: Int, seed: UInt64
    ) throws {
        let clock = clock()
        try readBeforeStart(files, crash: crash)
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
        // What a crash tore is put aside, which is told and no fault.
        let findings = try Verifier.run(files).findings.filter {
            $0.kind != .note || !$0.file.hasPrefix("aside/")
        }
        #expect(findings.isEmpty, "crash \(crash): \(findings)")
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
        let newest = try newest(files)
        #expect(newest.sealed.count >= 3)
        #expect(newest.generation.rawValue >= 4)
    }

    /// Two runs that differ in the order of their steps share the operations between them.
    @Test(
        "a power cut before each operation loses nothing durable", arguments: [11, 12] as [UInt64])
    func powerCutAtEveryOperation(seed: UInt64) throws {
        var operation = 1 + Int(seed % 2)
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
            operation += 2
        }
        #expect(crashes > 100)
    }

    @Test("killed before every fifth operation, a process loses no block that was written whole")
    func killAtEveryFifthOperation() throws {
        let seed: UInt64 = 21
        var operation = 1
        while true {
            let files = SimulatedFileSystem(seed: seed)
            let disk = files.disk
            disk.crash(beforeOperation: operation)
            var life = live(files, from: 0, clock: clock(), seed: seed)
            if !disk.isDown { break }
            let left = disk.kill()
            let written = try Self.writtenRowCount(in: left)
            #expect(written >= life.durableRowCount)
            life.durableRowCount = written
            try recover(left, after: life, crash: operation, seed: seed)
            operation += 5
        }
        #expect(operation > 100)
    }

    /// Rows of all blocks that are whole in the segment files.
    private static func writtenRowCount(in files: SimulatedFileSystem) throws -> UInt64 {
        var count: UInt64 = 0
        let buffer = ReadBuffer()
        for name in try files.names() {
            guard case .segment(let number)? = FileName(name),
                let manifest = try? newest(files),
                let reader = try? SegmentReader(number, directory: manifest.directory, in: files)
            else { continue }
            var walk = reader.makeWalk()
            while case .block(let header) = try walk.next(into: buffer) {
                count += UInt64(header.summary.rowCount)
            }
        }
        return count
    }

    /// Calls that can fail, how, and which of them do: each `stride`-th, so that the test stays short.
    private static let faults: [(kind: SimulatedDisk.Kind, errno: Int32, stride: Int)] = [
        (.create, EIO, 5), (.create, ENOSPC, 7), (.write, EIO, 19), (.write, ENOSPC, 23),
        (.allocate, ENOSPC, 3), (.syncData, EIO, 3), (.sync, EIO, 5), (.truncate, EIO, 1),
        (.rename, EIO, 5), (.unlink, EIO, 7), (.syncDirectory, EIO, 7), (.open, EIO, 17),
        (.read, EIO, 79), (.byteCount, EIO, 31), (.names, EIO, 1),
    ]

    @Test("a call that fails ends the daemon at most, and loses nothing durable", arguments: faults)
    func failAtEveryCall(
        fault: (kind: SimulatedDisk.Kind, errno: Int32, stride: Int)
    ) throws {
        let seed: UInt64 = 31
        var call = 1
        while true {
            let files = SimulatedFileSystem(seed: seed)
            let disk = files.disk
            disk.shortenWrites(oneIn: 5)
            disk.fail(fault.kind, onCall: call, errno: fault.errno)
            let life = live(files, from: 0, clock: clock(), seed: seed)
            if disk.callCount(fault.kind) < call { break }
            if let error = life.error {
                #expect([71, 74].contains(error.exitCode), "\(fault.kind) \(call): \(error)")
            }
            let left = disk.powerCut(seed: seed &+ UInt64(call))
            try recover(left, after: life, crash: call, seed: seed)
            call += fault.stride
        }
    }
}
