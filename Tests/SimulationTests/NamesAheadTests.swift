import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import PipelineTestSupport
import TestSupport
import Testing

/// Names that are written before a generation covers them: that they are in the next one, once each, and that
/// nothing is left of those that never were.
@Suite("Names written ahead")
struct NamesAheadTests {
    private let clock = SimulatedClock(
        wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000)

    private func open(
        _ files: SimulatedFileSystem,
        segmentByteCountMax: Int = SteppedPipeline.segmentByteCountMax,
        waitingNameByteCountMax: Int = 64, intervalSeconds: UInt64 = 4
    ) throws(PipelineError) -> SteppedPipeline {
        try SteppedPipeline.open(files, clock: clock, seed: 3) {
            $0.segmentByteCountMax = segmentByteCountMax
            $0.waitingNameByteCountMax = waitingNameByteCountMax
            $0.compactIntervalNanoseconds = intervalSeconds * 1_000_000_000
        }
    }

    private func newest(_ files: SimulatedFileSystem) throws -> Manifest {
        try ManifestStore(files: files).readNewest()
    }

    private func waiting(_ files: SimulatedFileSystem) throws -> [String] {
        try files.names().filter { $0.hasSuffix(".names.run.tmp") }
    }

    @Test("they wait under temporary names, and no reader misses or sees them", arguments: [1, 2])
    func readers(seed: UInt64) throws {
        let files = SimulatedFileSystem(seed: seed)
        var pipeline = try open(files)
        var (next, mostWaiting, last): (UInt64, Int, UInt64) = (0, 0, 0)
        while next < 150 {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
            mostWaiting = max(mostWaiting, try waiting(files).count)
            let reading = try DirectoryReading(files)
            let packets = reading.eventCount / UInt64(SimulatedPacket.eventCount)
            if packets != last {
                #expect(reading.counts == ReferenceModel(packetCount: packets).counts)
            }
            last = packets
            // The runs of a manifest end where its names do: the store checks that at a start.
            let manifest = try newest(files)
            #expect(manifest.namesRuns.last?.names.upperBound ?? 1 == manifest.shard.nextName)
        }
        #expect(mostWaiting > 1)
        try pipeline.stop()
        #expect(try waiting(files).isEmpty)
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 150).counts)
        #expect(try Verifier.run(files).findings.isEmpty)
    }

    @Test("sealed segments that are published without the live one leave its names ahead")
    func sealedAlone() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 3) {
            $0.waitingNameByteCountMax = 64
            $0.compactIntervalNanoseconds = 1 << 60
            $0.unpublishedSegmentCountMax = 3
        }
        var stayed = false
        for next in 0..<200 as Range<UInt64> {
            while !pipeline.offer(SimulatedPacket(sequence: next)) { try pipeline.turn() }
            let before = try newest(files).generation
            try pipeline.turn()
            if try newest(files).generation != before {
                stayed = try stayed || !waiting(files).isEmpty
            }
        }
        #expect(stayed)
        try pipeline.stop()
        #expect(try newest(files).generation.rawValue > 3)
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 200).counts)
        #expect(try Verifier.run(files).findings.isEmpty)
    }

    @Test("a crash anywhere leaves a directory that opens with every name, and nothing aside")
    func crashes() throws {
        func life(_ files: SimulatedFileSystem) throws(PipelineError) {
            var pipeline = try open(files, segmentByteCountMax: 1 << 14, intervalSeconds: 2)
            try pipeline.take(0..<60)
            try pipeline.stop()
        }
        let whole = SimulatedFileSystem(seed: 4)
        try life(whole)
        let end = whole.disk.operationCount
        var found = 0
        for operation in stride(from: 20, to: end, by: max(1, end / 60)) {
            let files = SimulatedFileSystem(seed: 4)
            files.disk.crash(beforeOperation: operation)
            try? life(files)
            for left in [files.disk.kill(), files.disk.powerCut(seed: UInt64(operation))] {
                found += try waiting(left).count
                var again = try open(left)
                #expect(again.directory.movedAside == [], "operation \(operation)")
                #expect(try waiting(left).isEmpty)
                try again.stop()
                let reading = try DirectoryReading(left)
                let packets = reading.eventCount / UInt64(SimulatedPacket.eventCount)
                #expect(reading.counts == ReferenceModel(packetCount: packets).counts)
                let wrong = try Verifier.run(left).findings.filter { $0.kind != .note }
                #expect(wrong.isEmpty, "operation \(operation): \(wrong.prefix(2))")
            }
        }
        #expect(found > 0)
    }
}
