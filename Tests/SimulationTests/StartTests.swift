import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import PipelineTestSupport
import TestSupport
import Testing

/// What a start finds of the lives before it, and what those leave for it.
@Suite("A start")
struct StartTests {
    private let clock = SimulatedClock.afterEvents()

    /// Runs a daemon over some packets, to a clean stop unless it is to be killed.
    private func live(
        _ files: SimulatedFileSystem, packets: Range<UInt64>, stops: Bool = true,
        configure: (inout PipelineConfiguration) -> Void = { _ in }
    ) throws(PipelineError) {
        var pipeline = try SteppedPipeline.open(
            files, clock: clock, seed: packets.lowerBound &+ 5, configure: configure)
        var next = packets.lowerBound
        while next < packets.upperBound {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
        }
        if stops { try pipeline.stop() }
    }

    private func error(_ body: () throws(PipelineError) -> Void) -> PipelineError? {
        do {
            try body()
            return nil
        } catch {
            return error
        }
    }

    @Test("unclean stops without end do not stop it: the manifest keeps the first and the newest")
    func manyUncleanStops() throws {
        let files = SimulatedFileSystem(seed: 1)
        try live(files, packets: 0..<40)
        let store = ManifestStore(files: files)
        var manifest = try store.readNewest()
        let stopMax = Limits.manifestUncleanStopCountMax
        manifest.uncleanStops = (0..<stopMax).map {
            UncleanStop(foundAt: Int64($0), position: .start)
        }
        manifest.generation = manifest.generation.next
        try store.publish(manifest)
        var left = files.disk.kill()
        for life in 1...3 as ClosedRange<UInt64> {
            try live(left, packets: life * 40..<(life + 1) * 40, stops: false)
            left = left.disk.kill()
        }
        try live(left, packets: 160..<161)
        let stops = try newest(left).uncleanStops
        #expect(stops.count == stopMax)
        #expect(stops.prefix(2).map(\.foundAt) == [0, 4])
        #expect(stops.suffix(3).allSatisfy { $0.foundAt > Int64(stopMax) })
    }

    @Test("a restart puts no good run aside, however many generations there were")
    func retiredRuns() throws {
        var retiredCount = 0
        for packetCount in stride(from: 400, to: 560, by: 20) as StrideTo<UInt64> {
            let files = SimulatedFileSystem(seed: 2)
            try live(files, packets: 0..<packetCount)
            let manifest = try newest(files)
            #expect(manifest.generation.rawValue > 8)
            let left = files.disk.kill()
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 1)
            #expect(pipeline.directory.movedAside == [])
            retiredCount += pipeline.directory.retired.count
            #expect(try !left.names().contains("aside"))
            // They go a minute later.
            try pipeline.rest(turns: 70)
            let runs = try left.names().count { $0.hasSuffix(".run") }
            let end = try newest(left)
            #expect(runs == end.runs.count + end.namesRuns.count)
        }
        #expect(retiredCount >= 4)
    }

    @Test("a damaged page of a run ends no life: all is made again when it is to be merged")
    func damagedRun() throws {
        // Rewards are not merged, but made of the new reward-days.
        for table in [TableKind.days, .rewardDays] {
            let files = SimulatedFileSystem(seed: 3)
            try live(files, packets: 0..<200)
            let run = try #require(
                try newest(files).runs.first { $0.table == table })
            files.disk.damage(run.fileName.text) { $0[RunHeader.byteCount + 8] ^= 1 }
            let left = files.disk.kill()
            // Enough for the run to be merged.
            try live(left, packets: 200..<900)
            #expect(try !newest(left).runs.contains(run), "\(table)")
            #expect(
                try DirectoryReading(left).counts == ReferenceModel(packetCount: 900).counts,
                "\(table)")
        }
    }

    @Test("many sealed segments are published before their time", arguments: [true, false])
    func earlyPublish(byCount: Bool) throws {
        let files = SimulatedFileSystem(seed: 4)
        try live(files, packets: 0..<300, stops: false) {
            $0.compactIntervalNanoseconds = 1 << 60
            if byCount {
                $0.unpublishedSegmentCountMax = 3
            } else {
                $0.unpublishedByteCountMax = 4096
            }
        }
        #expect(try newest(files).generation.rawValue >= 2)
        let waiting = SimulatedFileSystem(seed: 4)
        try live(waiting, packets: 0..<150, stops: false) {
            $0.compactIntervalNanoseconds = 1 << 60
        }
        #expect(try newest(waiting).generation.rawValue == 0)
    }

    /// A killed daemon's last rename may not be durable; nothing is removed before it is.
    @Test("a kill, a start that rests, and a power cut leave a directory that opens")
    func unsyncedRename() throws {
        func life(_ files: SimulatedFileSystem) throws(PipelineError) {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 5) {
                $0.segmentByteCountMax = 1 << 20
            }
            for round in 0..<6 as Range<UInt64> {
                try pipeline.take(round * 5..<(round + 1) * 5)
                try pipeline.rest(turns: 2)
            }
            try pipeline.stop()
        }
        let whole = SimulatedFileSystem(seed: 3)
        try life(whole)
        let end = whole.disk.operationCount
        for operation in end - 8...end {
            let files = SimulatedFileSystem(seed: 3)
            files.disk.crash(beforeOperation: operation)
            try? life(files)
            let left = files.disk.kill()
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 1)
            try pipeline.rest(turns: 70)
            for seed in 0..<20 as Range<UInt64> {
                let cut = left.disk.powerCut(seed: seed)
                let failure = error { () throws(PipelineError) in
                    _ = try SteppedPipeline.open(cut, clock: clock, seed: 1)
                }
                #expect(failure == nil, "operation \(operation - end), power cut \(seed)")
            }
        }
    }

    @Test("names are made again where the names runs of a manifest end before its next name")
    func namesGap() throws {
        let files = SimulatedFileSystem(seed: 8)
        try live(files, packets: 0..<20)
        let good = try newest(files)
        let changes: [(inout Manifest) -> Void] = [
            { $0.shard.nextName += 1 }, { $0.shard.nextKey += 1 }, { $0.namesRuns = [] },
        ]
        for change in changes {
            var manifest = good
            change(&manifest)
            manifest.generation = good.generation.next
            let left = files.disk.kill()
            try ManifestStore(files: left).publish(manifest)
            let pipeline = try SteppedPipeline.open(left, clock: clock, seed: 1)
            #expect(pipeline.directory.warnings.contains { $0.contains("names runs") })
            _ = consume pipeline
            let end = try newest(left)
            #expect(end.namesRuns.last?.names.upperBound == manifest.shard.nextName)
            #expect(end.namesRuns.last?.keys.upperBound == manifest.shard.nextKey)
            #expect(try DirectoryReading(left).counts == ReferenceModel(packetCount: 20).counts)
        }
    }

    /// A copy of the directory from earlier days, from which the operator took a segment.
    @Test(
        "a sealed copy of a segment with fewer blocks than were durable costs those blocks, and says so"
    )
    func shortCopy() throws {
        func life(_ packets: UInt64) throws(PipelineError) -> SimulatedFileSystem {
            let files = SimulatedFileSystem(seed: 7)
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 5) {
                $0.segmentByteCountMax = 1 << 20
            }
            for first in stride(from: 0, to: packets, by: 10) {
                try pipeline.take(first..<first + 10)
                try pipeline.rest(turns: 2)
            }
            return files.disk.kill()
        }
        let name = FileName.segment(SegmentNumber(rawValue: 1)).text
        let copy = try life(10)
        var early = try SteppedPipeline.open(copy, clock: clock, seed: 1)
        try early.stop()
        let sealed = try #require(copy.disk.contents(name))
        let left = try life(20)
        left.disk.damage(name) { $0 = sealed }
        var again = try SteppedPipeline.open(left, clock: clock, seed: 1)
        let kept = ReferenceModel(packetCount: 10).counts
        #expect(try DirectoryReading(left).counts == kept)
        #expect(try !newest(left).lost.isEmpty)
        try again.stop()
        #expect(try DirectoryReading(left).counts == kept)
    }

    @Test("segments are at most an eighth of the file system, and never below the minimum")
    func segmentBound() {
        let least = Limits.segmentByteCountMin
        let mebibyte = 1 << 20
        let cases: [(total: UInt64, chosen: Int, expected: Int)] = [
            (1 << 40, 256 * mebibyte, 256 * mebibyte), (1 << 26, 256 * mebibyte, 8 * mebibyte),
            (1 << 26, mebibyte, mebibyte), (100_000, 256 * mebibyte, least), (0, least, least),
            (.max, 1 << 30, 1 << 30),
        ]
        for (total, chosen, expected) in cases {
            var configuration = PipelineConfiguration()
            configuration.segmentByteCountMax = chosen
            let space: FileSystemSpace = (totalByteCount: total, freeByteCount: 0)
            #expect(configuration.limitSegments(to: space) == (chosen != expected))
            #expect(configuration.segmentByteCountMax == expected)
        }
    }
}
