import Glibc
import IngestFormat
import IngestPipeline
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Starts on a disk on which somebody else takes every byte that becomes free.
@Suite("A second writer on the disk")
struct HogTests {
    private let clock = SimulatedClock.afterEvents()
    private static let packetCount: UInt64 = 1_000

    private func open(
        _ files: SimulatedFileSystem, unpublishedByteCountMax: UInt64 = 64 << 20
    ) throws(PipelineError) -> SteppedPipeline {
        try SteppedPipeline.open(files, clock: clock, seed: 1) {
            $0.segmentByteCountMax = 8 << 20
            $0.unpublishedByteCountMax = unpublishedByteCountMax
        }
    }

    /// A daemon that was killed with a segment of a good deal more than a manifest, and the disk full then.
    private func killed(after packetCount: UInt64 = packetCount) throws -> (
        files: SimulatedFileSystem, segment: Int
    ) {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try open(files)
        try pipeline.take(0..<packetCount)
        let left = files.disk.kill()
        let segment = try #require(left.disk.contents("0000000001.segment")).count
        left.disk.limit(byteCount: Int(try used(left)))
        return (left, segment)
    }

    private func used(_ files: SimulatedFileSystem) throws -> UInt64 {
        let space = try files.space()
        return space.totalByteCount - space.freeByteCount
    }

    @Test(
        "starts, as many as there are, keep the room that they need, shed, and go on when there is some"
    )
    func starts() throws {
        var (files, segment) = try killed()
        #expect(segment > 100_000)
        files.disk.hog()
        var sealed: [UInt8]?
        for start in 0..<6 {
            var pipeline = try open(files)
            #expect(pipeline.shortage == .space, "\(start)")
            try pipeline.rest(turns: 5)
            #expect(pipeline.told.count("snapshot publish failed, retrying: ") == 1, "\(start)")
            #expect(
                try DirectoryReading(files).counts
                    == ReferenceModel(packetCount: Self.packetCount).counts, "\(start)")
            files = start % 2 == 0 ? files.disk.kill() : files.disk.powerCut(seed: UInt64(start))
            // What the first of them has sealed is written over itself by the others.
            let copy = try #require(files.disk.contents("0000000001.segment"))
            #expect(copy.count > segment / 8, "\(start)")
            #expect(sealed == nil || sealed == copy, "\(start)")
            sealed = copy
        }
        var pipeline = try open(files)
        try pipeline.rest(turns: 2)
        files.disk.hog(false)
        files.disk.limit(byteCount: 1 << 30)
        try pipeline.rest(turns: 5)
        #expect(pipeline.told.count("snapshot publish resumed after ") == 1)
        try pipeline.stop(waits: true)
        try expectWhole(files, packetCount: Self.packetCount, "\(segment)")
    }

    @Test("without a reserve a start says how much it has to copy")
    func withoutReserve() throws {
        let (files, segment) = try killed()
        try files.unlink("reserve")
        try files.disk.limit(byteCount: Int(used(files)))
        let error = #expect(throws: PipelineError.self) { _ = try open(files) }
        #expect(error?.exitCode == 74)
        #expect(
            error.map { "\($0)" }?.contains("copy of a segment of \(segment) bytes")
                == true)
        let next = files.disk.kill()
        next.disk.limit(byteCount: 1 << 30)
        var pipeline = try open(next)
        try pipeline.stop()
        try expectWhole(next, packetCount: Self.packetCount, "without reserve")
    }

    /// Counted behind that start: its tries at a generation, before any time has gone by.
    @Test(
        "what a start has sealed and not published counts to what may wait",
        arguments: [1, 1 << 40])
    func owed(byteCountMax: UInt64) throws {
        let (files, _) = try killed()
        files.disk.limit(byteCount: 1 << 30)
        files.disk.fail(.create, onCall: 1, errno: ENOSPC, forever: true)
        var pipeline = try open(files, unpublishedByteCountMax: byteCountMax)
        try pipeline.rest(turns: 1)
        let triesCount = pipeline.told.count("snapshot publish failed, retrying: ")
        #expect(triesCount == (byteCountMax == 1 ? 1 : 0))
        files.disk.clearFailures()
        try pipeline.stop()
        try expectWhole(files, packetCount: Self.packetCount, "owed")
    }

    @Test("the reserve is not lent to what needs more than it has")
    func lendsWhatHelps() throws {
        let files = SimulatedFileSystem(seed: 1)
        let reserve = try DiskReserve(in: files)
        try reserve.hold(forSegmentOf: 1 << 20)
        try files.disk.limit(byteCount: Int(used(files)) + 1_000)
        let whole = reserve.byteCount
        let lent = whole - (1 << 20) - (1 << 18) - UInt64(Limits.reserveFloorByteCount)
        #expect(!reserve.lend(for: 10 << 30))
        #expect(!reserve.lend(for: lent + 1_001))
        #expect(reserve.byteCount == whole)
        try reserve.hold(forSegmentOf: 1 << 20)
        #expect(reserve.lend(for: lent + 1_000))
        #expect(reserve.byteCount == whole - lent)
    }

    @Test("a start on a full disk that nobody else writes to goes on")
    func alone() throws {
        let (files, _) = try killed()
        var pipeline = try open(files)
        files.disk.limit(byteCount: 1 << 30)
        try pipeline.rest(turns: 5)
        try pipeline.stop(waits: true)
        try expectWhole(files, packetCount: Self.packetCount, "alone")
    }

    @Test("a crash before any operation of such a start, and another start")
    func crashes() throws {
        var operation = 0
        let begun = try killed(after: 60).files
        while operation < 300 {
            let files = begun.disk.kill()
            files.disk.crash(beforeOperation: operation)
            do {
                _ = try open(files)
                if !files.disk.isDown { break }
            } catch {}
            let next = operation % 2 == 0 ? files.disk.powerCut(seed: 7) : files.disk.kill()
            // A power cut may leave what was renamed or not; never neither.
            next.disk.limit(byteCount: 1 << 30)
            var pipeline = try open(next)
            try pipeline.stop()
            #expect(
                try DirectoryReading(next).counts == ReferenceModel(packetCount: 60).counts,
                "crash \(operation)")
            operation += 3
        }
        #expect(operation > 8 && operation < 300)
    }

    @Test("without an inode starts go on, shed, and lose nothing")
    func inodes() throws {
        var (files, _) = try killed()
        files.disk.limit(byteCount: 1 << 30)
        for start in 0..<3 {
            files.disk.fail(.create, onCall: 1, errno: ENOSPC, forever: true)
            var pipeline = try open(files)
            try pipeline.rest(turns: 3)
            #expect(pipeline.told.count("snapshot publish failed, retrying: ") == 1, "\(start)")
            #expect(
                try DirectoryReading(files).counts
                    == ReferenceModel(packetCount: Self.packetCount).counts, "\(start)")
            files = files.disk.kill()
        }
        files.disk.clearFailures()
        var pipeline = try open(files)
        try pipeline.stop()
        try expectWhole(files, packetCount: Self.packetCount, "inodes")
    }

    @Test("a sparse reserve is known for what it is, and allocated again")
    func sparse() throws {
        let (files, segment) = try killed()
        files.disk.limit(byteCount: 1 << 30)
        files.disk.makeSparse("reserve")
        let reserve = try DiskReserve(in: files)
        #expect(reserve.missingByteCount > UInt64(segment) && reserve.byteCount == 0)
        #expect(try !DiskReserve.isHeld(in: files))
        try reserve.hold(forSegmentOf: 1 << 20)
        #expect(try DiskReserve.isHeld(in: files))
        #expect(try DiskReserve(in: files).missingByteCount == 0)
        files.disk.limit(byteCount: Int(try used(files)) + 1_000)
        let error = #expect(throws: StorageError.self) { try reserve.hold(forSegmentOf: 4 << 20) }
        #expect("\(error!)".contains("bytes are held"))
    }
}
