import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Generations: that there is one when a segment is sealed and none before, what becomes of their files, and that
/// readers never notice.
@Suite("A generation and the tail after it")
struct GenerationTests {
    private let clock = SimulatedClock.afterEvents()

    private static let eventCount = UInt64(SimulatedPacket.eventCount)

    private func open(
        _ files: SimulatedFileSystem, seed: UInt64 = 5, segmentByteCountMax: Int = 1 << 20
    ) throws(PipelineError) -> SteppedPipeline {
        try SteppedPipeline.open(files, clock: clock, seed: seed) {
            $0.segmentByteCountMax = segmentByteCountMax
        }
    }

    // MARK: What is published

    @Test("nothing is published inside a segment, and a reader sees all of it at once")
    func tail() throws {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try open(files)
        for round in 0..<6 as Range<UInt64> {
            try pipeline.take(round * 7..<(round + 1) * 7)
            try pipeline.rest(turns: 5)
            let manifest = try newest(files)
            let mark = try DurableMarkFile.read(in: files, directory: manifest.directory)
            #expect(manifest.generation.rawValue == 0 && manifest.cut == .start)
            let status = try IngestReader.open(files).status()
            #expect(status.cut == mark?.cut)
            #expect(status.rowCount == (round + 1) * 7 * Self.eventCount)
            #expect(
                try DirectoryReading(files).counts
                    == ReferenceModel(packetCount: (round + 1) * 7).counts)
            #expect(try Verifier.run(files).findings.isEmpty)
        }
        try pipeline.stop()
        let end = try newest(files)
        #expect(end.generation.rawValue == 1 && end.sealed.count == 1)
        #expect(end.runs.isEmpty && end.level0.count == 1)
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 42).counts)
    }

    @Test("status says the same before the seal and after")
    func status() throws {
        let files = SimulatedFileSystem(seed: 2)
        var pipeline = try open(files)
        try pipeline.take(0..<9)
        let before = try IngestReader.open(files).status()
        try pipeline.stop()
        let after = try IngestReader.open(files).status()
        #expect(after.rowCount == before.rowCount)
        #expect(after.packets == before.packets && after.events == before.events)
        #expect(after.nameCount == before.nameCount && after.keyCount == before.keyCount)
        #expect(before.rowCount == 9 * Self.eventCount)
        #expect(before.packets[.accepted] == 9)
    }

    // MARK: Files

    @Test("L4: files that a generation drops stay for a minute")
    func unlink() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try open(files, segmentByteCountMax: SteppedPipeline.segmentByteCountMax)
        let store = ManifestStore(files: files)
        for round in 0..<12 as Range<UInt64> {
            try pipeline.take(round * 6..<(round + 1) * 6)
            try pipeline.rest(turns: 2)
            let present = Set(try files.names().compactMap { FileName($0) })
            for case .manifest(let generation) in present {
                let named = try store.read(generation).fileNames
                #expect(named.isSubset(of: present), "a minute is not over")
            }
        }
        #expect(try newest(files).generation.rawValue >= 5)
        try pipeline.rest(turns: 140)
        let present = Set(try files.names().compactMap { FileName($0) }.filter { $0.isAnyRun })
        let manifest = try newest(files)
        #expect(present == manifest.fileNames.filter { $0.isAnyRun })
    }

    // MARK: Readers

    @Test("readers between all steps see the sums of their cut, and counters that never fall")
    func readers() throws {
        let files = SimulatedFileSystem(seed: 4)
        var pipeline = try open(files, segmentByteCountMax: SteppedPipeline.segmentByteCountMax)
        var held = try IngestReader.open(files)
        var heldCounts = try DirectoryReading(held).counts
        var last: UInt64 = 0
        var next: UInt64 = 0
        while next < 120 {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
            let reading = try DirectoryReading(files)
            let packets = reading.eventCount / Self.eventCount
            #expect(packets >= last)
            if packets != last {
                #expect(reading.counts == ReferenceModel(packetCount: packets).counts)
            }
            last = packets
            // One that is held on to answers as before, whatever is unlinked.
            #expect(try DirectoryReading(held).counts == heldCounts)
            if next % 10 == 0 {
                held = try IngestReader.open(files)
                heldCounts = try DirectoryReading(held).counts
            }
        }
        try pipeline.stop()
        #expect(try newest(files).sealed.count > 5)
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 120).counts)
    }
}

extension FileName {
    fileprivate var isAnyRun: Bool { if case .run = self { true } else { false } }
}
