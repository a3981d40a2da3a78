import Glibc
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Level 0 full of footers on a disk with hardly any room: what a merge, a stop and the next start make of it, and what
/// becomes of the reserve.
@Suite("A full table of runs on a nearly full disk")
struct FullTableTests {
    private let clock = SimulatedClock.afterEvents()

    private func open(
        _ files: SimulatedFileSystem, unpublishedCountMax: Int = 4
    ) throws(PipelineError) -> SteppedPipeline {
        try SteppedPipeline.open(files, clock: clock, seed: 17) {
            $0.unpublishedSegmentCountMax = unpublishedCountMax
        }
    }

    private func limit(_ files: SimulatedFileSystem, room: Int) throws {
        let space = try files.space()
        files.disk.limit(byteCount: Int(space.totalByteCount - space.freeByteCount) + room)
    }

    /// A daemon that takes no more blocks, because no merge has had its turn.
    /// - Returns: how many packets it has taken.
    private func fill(_ pipeline: inout SteppedPipeline) throws -> UInt64 {
        pipeline.merges = false
        var next: UInt64 = 0
        for _ in 0..<2_000 {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
        }
        #expect(try !newest(pipeline.directory.files).hasRoomForSegments)
        return next
    }

    private func reserve(_ files: SimulatedFileSystem) throws -> UInt64 {
        try files.open("reserve", .read).byteCount()
    }

    @Test("the merge has the room of the reserve, which is whole again behind it")
    func merge() throws {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try open(files)
        var next = try fill(&pipeline)
        let whole = try reserve(files)
        try limit(files, room: 0)
        pipeline.merges = true
        try pipeline.rest(turns: 10)
        #expect(try newest(files).hasRoomForSegments)
        #expect(pipeline.counters.merge[.merges] > 0)
        #expect(pipeline.told.count("snapshot publish failed, retrying: ") == 1)
        #expect(pipeline.told.count("snapshot publish resumed after ") == 1)
        // What the runs have taken is missing to the reserve, and the log waits for that.
        files.disk.limit(byteCount: 1 << 40)
        for _ in 0..<40 { try pipeline.turn() }
        #expect(pipeline.shortage == nil)
        #expect(try reserve(files) == whole)
        let more = next + 30
        while next < more {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
        }
        try pipeline.stop()
        try expectWhole(files, packetCount: next)
    }

    @Test(
        "a merge that finds no room there either waits, and the reserve is whole once there is some"
    )
    func waits() throws {
        let files = SimulatedFileSystem(seed: 2)
        var pipeline = try open(files)
        let next = try fill(&pipeline)
        let whole = try reserve(files)
        files.disk.hog()
        pipeline.merges = true
        for _ in 0..<200 { try pipeline.turn() }
        #expect(pipeline.shortage == .space)
        #expect(try !newest(files).hasRoomForSegments)
        let reading = try DirectoryReading(files)
        #expect(reading.eventCount > 0)
        files.disk.hog(false)
        files.disk.limit(byteCount: 1 << 40)
        for _ in 0..<200 { try pipeline.turn() }
        #expect(try newest(files).hasRoomForSegments)
        #expect(pipeline.shortage == nil)
        #expect(try reserve(files) == whole)
        try pipeline.stop()
        try expectWhole(files, packetCount: next)
    }

    @Test(
        "a stop ends with 0 or 74, whatever room there is, and the next start has all that was durable",
        arguments: [true, false])
    func stop(isHogged: Bool) throws {
        var codes: Set<Int32> = []
        for room in stride(from: 0, to: 24_000, by: 6_000) {
            let files = SimulatedFileSystem(seed: 3)
            var pipeline = try open(files)
            _ = try fill(&pipeline)
            try limit(files, room: room)
            if isHogged { files.disk.hog() }
            pipeline.merges = true
            for _ in 0..<room / 200 { try pipeline.turn() }
            var code: Int32 = 0
            do throws(PipelineError) { try pipeline.stop() } catch { code = error.exitCode }
            codes.insert(code)
            #expect(code == 0 || code == 74, "\(room)")
            let durable = pipeline.counters.sync[.durableRows]
            var left = files.disk.kill()
            // Nothing is free, and a start needs hardly anything.
            for _ in 0..<3 {
                do throws(PipelineError) {
                    var again = try open(left)
                    try again.rest(turns: 3)
                } catch {
                    // Of two segments that are not sealed the second may be larger than what the first leaves in reserve.
                    #expect(isHogged && error.shortage == .space, "\(room): \(error)")
                    #expect("\(error)".contains("copy of a segment of "))
                }
                let found = try DirectoryReading(left)
                let packets = found.eventCount / UInt64(SimulatedPacket.eventCount)
                #expect(found.eventCount >= durable, "\(room)")
                #expect(found.counts == ReferenceModel(packetCount: packets).counts, "\(room)")
                left = left.disk.kill()
            }
            left.disk.hog(false)
            left.disk.limit(byteCount: 1 << 40)
            var last = try open(left)
            try last.rest(turns: 100)
            #expect(try newest(left).hasRoomForSegments)
            try last.stop()
            let packets =
                try DirectoryReading(left).eventCount / UInt64(SimulatedPacket.eventCount)
            try expectWhole(left, packetCount: packets)
        }
        #expect(codes.contains(isHogged ? 74 : 0), "\(codes)")
    }

    @Test("while it waits at its end for the disk, with a merge ordered, time goes by")
    func waitsWithoutSpinning() throws {
        let files = SimulatedFileSystem(seed: 4)
        var pipeline = try open(files, unpublishedCountMax: 1_000)
        pipeline.merges = false
        var next: UInt64 = 0
        for turn in 0..<2_000 where pipeline.told.count("snapshot publish failed") == 0 {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
            guard turn % 20 == 0, try newest(files).level0.count >= Limits.level0MergeCount else {
                continue
            }
            files.disk.fail(
                .create, ofFiles: ".manifest.tmp", onCall: 1, errno: EMFILE, forever: true)
        }
        #expect(pipeline.told.count("snapshot publish failed") == 1)
        try pipeline.settle()
        try pipeline.closeInput()
        var stillCount = 0
        for turn in 0..<60 {
            let before = clock.monotonicNanoseconds()
            if case .worked = try pipeline.turnWaiting() { continue }
            stillCount = clock.monotonicNanoseconds() == before ? stillCount + 1 : 0
            // A try that is refused takes no time here.
            #expect(stillCount < 3, "turn \(turn)")
        }
        files.disk.clearFailures()
        try pipeline.stop()
        try expectWhole(files, packetCount: next)
    }
}
