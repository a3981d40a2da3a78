import Glibc
import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Segments of small blocks, which are rewritten into full ones when they are sealed.
@Suite("Rewritten segments")
struct RewriteTests {
    private static let packetCount: UInt64 = 240
    private let clock = SimulatedClock.afterEvents()

    /// One live segment of small blocks.
    private func live(_ files: SimulatedFileSystem) throws -> SteppedPipeline {
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
            $0.segmentByteCountMax = 4 << 20
        }
        try pipeline.take(0..<Self.packetCount)
        return pipeline
    }

    private static func events(_ reader: IngestReader) throws -> [EventRow] {
        var events: [EventRow] = []
        try reader.forEachEvent(EventsQuery()) { event in
            events.append(event)
            return .next
        }
        return events
    }

    private func footer(_ files: SimulatedFileSystem) throws -> SegmentFooter {
        let manifest = try newest(files)
        let entry = try #require(manifest.sealed.first)
        return try SegmentReader(entry.number, directory: manifest.directory, in: files)
            .readFooter(of: entry)
    }

    @Test("rows keep their order and place, and who has the old file open reads it")
    func rows() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try live(files)
        let early = try IngestReader.open(files)
        let before = try Self.events(early)
        let (cut, ledger) = (early.cut, try early.ledger())
        let byteCount = files.disk.contents("0000000001.segment")?.count ?? 0
        try pipeline.stop()
        #expect(pipeline.counters.compact[.segmentsRewritten] == 1)
        let blocks = try footer(files).blocks
        #expect(blocks.count < 4 && blocks.allSatisfy { $0.summary.rewritten != nil })
        #expect(files.disk.contents("0000000001.segment")!.count < byteCount / 4)
        // Behind the cut of the reader, blocks may have come.
        let after = try Self.events(try IngestReader.open(files))
        #expect(before.count > 100 && Array(after.prefix(before.count)) == before)
        #expect(Set(before.map(\.block)).count > 20)
        #expect(try Self.events(early) == before)
        #expect(early.cut == cut)
        #expect(try early.ledger() == ledger)
        let findings = try Verifier.run(files).findings
        #expect(findings.isEmpty, "\(findings)")
    }

    @Test("a rewritten segment without its footer is walked, and sealed again as it is")
    func withoutFooter() throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try live(files)
        try pipeline.stop()
        let footer = try footer(files)
        let whole = try #require(files.disk.contents("0000000001.segment"))
        for keepsManifest in [true, false] {
            let left = files.disk.kill()
            left.disk.damage("0000000001.segment") { $0[$0.count - 9] ^= 1 }
            if !keepsManifest {
                for name in try left.names() where name.hasSuffix(".manifest") {
                    try left.unlink(name)
                }
            }
            var again = try SteppedPipeline.open(left, clock: clock, seed: 5)
            try again.take(Self.packetCount..<Self.packetCount + 20)
            try again.stop()
            #expect(try self.footer(left).blocks == footer.blocks)
            #expect(
                left.disk.contents("0000000001.segment")?.prefix(Int(footer.blocks[0].end))
                    == whole.prefix(Int(footer.blocks[0].end)))
            let model = ReferenceModel(packetCount: Self.packetCount + 20)
            #expect(try DirectoryReading(left).counts == model.counts)
            let findings = try Verifier.run(left).findings.filter { $0.kind != .note }
            #expect(findings.isEmpty, "\(findings)")
        }
    }

    @Test(
        "of a damaged rewritten block all commits are lost, and told, with a mark and without",
        arguments: [true, false])
    func damaged(hasMark: Bool) throws {
        let files = SimulatedFileSystem(seed: 3)
        var pipeline = try live(files)
        try pipeline.stop()
        let block = try footer(files).blocks[0]
        let left = files.disk.kill()
        left.disk.damage("0000000001.segment") {
            $0[Int(block.offset) + 400] ^= 1
            $0[$0.count - 9] ^= 1
        }
        if !hasMark { try left.unlink("durable-mark") }
        let again = try SteppedPipeline.open(left, clock: clock, seed: 5)
        _ = consume again
        let lost = try newest(left).lost
        #expect(lost.map(\.blockCount) == [block.summary.commitCount])
        #expect(lost[0].rowCount == UInt64(block.summary.rowCount))
        #expect(try Verifier.run(left).exitCode == 65)
    }

    @Test("what a disk does not take, or gives back otherwise, is sealed as it stands")
    func refused() throws {
        for (kind, errno) in [(SimulatedDisk.Kind.rename, EIO), (.read, EIO), (.write, ENOSPC)] {
            let files = SimulatedFileSystem(seed: 3)
            var pipeline = try live(files)
            // Only a rewritten segment is written under a temporary name here.
            files.disk.fail(
                kind, ofFiles: kind == .read ? "0000000001.segment" : ".segment.tmp", onCall: 1,
                errno: errno, forever: true)
            try pipeline.stop()
            #expect(pipeline.counters.compact[.segmentsRewritten] == 0, "\(kind)")
            let told = pipeline.told.count("segment 1 keeps its small blocks")
            #expect(told == (errno == EIO ? 1 : 0), "\(kind)")
            files.disk.clearFailures()
            let model = ReferenceModel(packetCount: Self.packetCount)
            #expect(try DirectoryReading(files).counts == model.counts, "\(kind)")
            #expect(try footer(files).blocks.allSatisfy { $0.summary.rewritten == nil })
            #expect(try Verifier.run(files).findings.isEmpty)
        }
    }
}
