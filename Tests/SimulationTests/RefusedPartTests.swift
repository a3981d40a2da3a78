import Glibc
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// A disk that refuses one kind of file alone, while the log goes on: merges, generations, retention. Each must wait
/// by itself, hold up no other, go on when it can, and end when it is told to.
@Suite("One kind of file is refused while the log goes on")
struct RefusedPartTests {
    private let clock = SimulatedClock.afterEvents()

    private func open(
        _ files: SimulatedFileSystem,
        _ configure: (inout PipelineConfiguration) -> Void = { _ in }
    ) throws(PipelineError) -> SteppedPipeline {
        try SteppedPipeline.open(files, clock: clock, seed: 17) {
            $0.unpublishedSegmentCountMax = 8
            configure(&$0)
        }
    }

    /// Runs of rewards are written by merges alone.
    private static let merged = ".rewards.run.tmp"

    /// Refuses merges until the compact stage takes no more blocks.
    /// - Returns: how many packets were taken.
    private func fill(
        _ pipeline: inout SteppedPipeline, _ files: SimulatedFileSystem, from first: UInt64 = 0,
        _ errno: Int32 = ENOSPC
    ) throws -> UInt64 {
        files.disk.fail(
            .create, ofFiles: Self.merged, onCall: 1, errno: errno, forever: true)
        let before = try newest(files).level0.count
        var (next, turns) = (first, 0)
        while turns < 3_000 {
            turns += 1
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
            guard turns % 50 == 0 else { continue }
            let manifest = try newest(files)
            #expect(manifest.runs(of: .rewards).count <= Limits.runCountMax)
            // A turn may publish several segments.
            #expect(manifest.level0.count <= max(before, Limits.level0CountMax + 8))
            #expect(manifest.namesRuns.count <= 2 * Limits.runCountMax)
        }
        return next
    }

    @Test(
        "merges: level 0 grows to its limit, then blocks wait; all goes on when they are taken",
        arguments: [ENOSPC, EMFILE, EROFS])
    func merges(errno: Int32) throws {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try open(files)
        let next = try fill(&pipeline, files, errno)
        let full = try newest(files)
        #expect(!full.hasRoomForSegments)
        // What could be merged was: names do not wait for tables.
        #expect(full.namesRuns.count < Limits.runCountMax)
        #expect(pipeline.counters.merge[.refusals] > 2)
        // Each minute, and not with every try.
        let minutes = pipeline.counters.merge[.refusals] / 15 + 2
        let waiting = pipeline.told.count("snapshot publish failed, retrying: ")
        #expect(waiting >= 1 && waiting <= minutes, "\(waiting)")
        #expect(pipeline.told.count("snapshot publish resumed") == 0)
        let reading = try DirectoryReading(files)
        let packets = reading.eventCount / UInt64(SimulatedPacket.eventCount)
        #expect(reading.counts == ReferenceModel(packetCount: packets).counts)
        files.disk.clearFailures()
        try pipeline.rest(turns: 20)
        #expect(try newest(files).generation > full.generation)
        #expect(try newest(files).hasRoomForSegments)
        #expect(pipeline.told.count("snapshot publish resumed after ") == 1)
        try pipeline.stop()
        try expectWhole(files, packetCount: next)
    }

    @Test("merges: a stop publishes all the same, and so does the next one")
    func stopWithoutMerges() throws {
        let files = SimulatedFileSystem(seed: 2)
        var pipeline = try open(files)
        var next = try fill(&pipeline, files)
        try pipeline.settle()
        try pipeline.stop()
        let last = try newest(files)
        #expect(last.level0.count > Limits.level0CountMax)
        try expectWhole(files, packetCount: next)
        let left = files.disk.kill()
        var second = try open(left)
        #expect(second.counters.merge[.merges] == 0, "a start merges nothing")
        next = try fill(&second, left, from: next)
        #expect(try newest(left).cut == last.cut)
        try second.stop()
        #expect(try newest(left).cut > last.cut)
        try expectWhole(left, packetCount: next)
        // Its successor can merge.
        let after = left.disk.kill()
        var third = try open(after)
        try third.rest(turns: 20)
        #expect(try newest(after).hasRoomForSegments)
        try third.stop()
        try expectWhole(after, packetCount: next)
    }

    @Test("a crash with a full level 0 is recovered without a merge")
    func startOnFullTables() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try open(files)
        _ = try fill(&pipeline, files)
        let left = files.disk.kill()
        var again = try open(left)
        #expect(again.counters.merge[.merges] == 0)
        #expect(try newest(left).level0.count > Limits.level0CountMax)
        try again.rest(turns: 20)
        #expect(try newest(left).hasRoomForSegments)
        let events = try DirectoryReading(left).eventCount
        try again.stop()
        try expectWhole(left, packetCount: events / UInt64(SimulatedPacket.eventCount))
    }

    @Test("a merge that the disk has no room for is not begun, and tried again every few seconds")
    func mergeWithoutRoom() throws {
        let files = SimulatedFileSystem(seed: 4)
        var pipeline = try open(files)
        pipeline.merges = false
        var next: UInt64 = 0
        while try newest(files).sealed.count < Limits.level0MergeCount {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
        }
        try pipeline.settle()
        try pipeline.rest(turns: 140)
        #expect(try newest(files).hasRoomForSegments)
        // Less than what the log takes next, and far more than any run has.
        let space = try files.space()
        let used = Int(space.totalByteCount - space.freeByteCount)
        let spare = DiskReserve<SimulatedFileSystem>.stepByteCount(
            forSegmentsOf: UInt64(SteppedPipeline.segmentByteCountMax))
        files.disk.limit(byteCount: used + Int(spare))
        let creates = files.disk.callCount(.create)
        pipeline.merges = true
        // At once, after 1, 2 and 4 s of rest, and then always after 4.
        try pipeline.rest(turns: 400)
        let refusalCount = pipeline.counters.merge[.refusals]
        #expect((70...103).contains(refusalCount), "\(refusalCount)")
        #expect(files.disk.callCount(.create) == creates, "something was begun")
        #expect(pipeline.told.count("") == 0, "nothing waits for it")
        files.disk.limit(byteCount: used + 2 * Int(spare))
        try pipeline.rest(turns: 10)
        #expect(pipeline.counters.merge[.merges] > 0)
        files.disk.limit(byteCount: 1 << 40)
        try pipeline.stop()
        try expectWhole(files, packetCount: next)
    }

    @Test(
        "generations and merges of tables: rows expire all the same, and are not counted twice",
        arguments: [".names.run.tmp", ".reward-days.run.tmp"])
    func generations(ending: String) throws {
        let files = SimulatedFileSystem(seed: 5)
        var pipeline = try open(files) {
            $0.segmentByteCountMax = Limits.segmentByteCountMin
            $0.retention = RetentionPolicy(dayCountMax: 30)
        }
        // A segment a day; the first of them are to go on the 34th.
        var model = ReferenceModel(packetCount: 0)
        for day in 0..<32 {
            let packet = SimulatedPacket(sequence: UInt64(day), day: day)
            let isTaken = pipeline.offer(packet)
            #expect(isTaken)
            model.add(packet)
            try pipeline.settle()
            clock.advance(milliseconds: 86_400_000)
            try pipeline.rest(turns: 3)
        }
        try pipeline.settle()
        let before = try newest(files)
        #expect(before.sealed.count > 25)
        files.disk.fail(
            .create, ofFiles: ending, onCall: 1, errno: ENOSPC, forever: true)
        for day in 32..<35 {
            let packet = SimulatedPacket(sequence: UInt64(day), day: day)
            let isTaken = pipeline.offer(packet)
            #expect(isTaken)
            model.add(packet)
            try pipeline.settle()
            clock.advance(milliseconds: 86_400_000)
            try pipeline.rest(turns: 140)
        }
        let held = try newest(files)
        if ending == ".names.run.tmp" {
            #expect(held.cut == before.cut, "a generation was published")
        }
        #expect(held.lastExpired > before.lastExpired)
        #expect(pipeline.counters.compact[.segmentsExpired] > 0)
        let segments = try files.names().count { $0.hasSuffix(".segment") }
        #expect(segments <= held.sealed.count + 5, "their files go too")
        files.disk.clearFailures()
        try pipeline.rest(turns: 5)
        if ending == ".names.run.tmp" { #expect(try newest(files).cut > held.cut) }
        try pipeline.stop()
        #expect(try DirectoryReading(files).counts == model.counts)
    }

    @Test("by bytes rows expire although merges of tables are due and refused")
    func refusedTables() throws {
        let files = SimulatedFileSystem(seed: 9)
        var pipeline = try open(files)
        var next: UInt64 = 0
        func fill(while isWanted: (Manifest) -> Bool) throws {
            while isWanted(try newest(files)) {
                if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
                try pipeline.turn()
            }
        }
        try fill { $0.mergedEnd == .start }
        pipeline.merges = false
        try fill { $0.level0.count < Limits.level0MergeCount }
        try pipeline.stop()
        let left = files.disk.kill()
        for ending in [".reward-days.run.tmp", ".names.run.tmp"] {
            left.disk.fail(.create, ofFiles: ending, onCall: 1, errno: ENOSPC, forever: true)
        }
        let merged = try newest(left).mergedEnd.segment
        var again = try open(left) { $0.retention = RetentionPolicy(byteCountMax: 1) }
        try again.rest(turns: 30)
        #expect(try newest(left).lastExpired == merged)
        left.disk.clearFailures()
        try again.rest(turns: 130)
        #expect(try newest(left).lastExpired > merged)
    }

    @Test("retention: counters are published all the same, and rows go once they can")
    func retention() throws {
        let files = SimulatedFileSystem(seed: 6)
        var pipeline = try open(files) { $0.retention = RetentionPolicy(byteCountMax: 9_000) }
        files.disk.fail(
            .create, ofFiles: ".expired.run.tmp", onCall: 1, errno: ENOSPC, forever: true)
        var next: UInt64 = 0
        while next < 120 {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
        }
        try pipeline.rest(turns: 30)
        let held = try newest(files)
        #expect(held.expired.isEmpty && held.sealed.count > 4)
        let waiting = pipeline.told.count("retention failed, retrying: ")
        #expect(waiting >= 1 && waiting <= 3, "\(waiting)")
        files.disk.clearFailures()
        try pipeline.rest(turns: 130)
        #expect(try !newest(files).expired.isEmpty)
        #expect(pipeline.told.count("retention resumed after ") == 1)
        try pipeline.stop()
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 120).counts)
    }

    @Test("manifests: everything waits, and nothing of what was refused is left")
    func manifests() throws {
        let files = SimulatedFileSystem(seed: 7)
        var pipeline = try open(files)
        try pipeline.take(0..<30)
        files.disk.fail(
            .create, ofFiles: ".manifest.tmp", onCall: 1, errno: ENOSPC, forever: true)
        let held = try newest(files)
        var next: UInt64 = 30
        for _ in 0..<600 {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
        }
        #expect(try newest(files).generation == held.generation)
        #expect(pipeline.told.count("snapshot publish failed, retrying: ") >= 1)
        files.disk.clearFailures()
        try pipeline.rest(turns: 5)
        #expect(pipeline.told.count("snapshot publish resumed after ") == 1)
        try pipeline.stop()
        try expectWhole(files, packetCount: next)
        let end = try newest(files)
        let named = Set((end.runs.map(\.fileName) + end.namesRuns.map(\.fileName)).map(\.text))
        #expect(try named.isSubset(of: files.names()))
        #expect(try !files.names().contains { $0.hasSuffix(".tmp") })
    }
}
