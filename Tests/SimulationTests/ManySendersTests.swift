import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Senders are whoever writes a number into a packet, and a footer holds a bounded number of them.
struct ManySendersTests {
    private static let senderCount: UInt64 = 60_000

    @Test
    func `more senders than a segment holds go into two, and every footer is one that is read`()
        throws
    {
        let files = SimulatedFileSystem(seed: 5)
        var pipeline = try SteppedPipeline.open(
            files, clock: SimulatedClock(wallMicroseconds: SimulatedPacket.start), seed: 5
        ) { $0.segmentByteCountMax = 16 << 20 }
        for sender in 1...Self.senderCount {
            while !pipeline.offerEmpty(sender: sender) { try pipeline.turn() }
            if sender % 512 == 0 { try pipeline.turn() }
        }
        try pipeline.stop()
        let manifest = try newest(files)
        let counts = try manifest.sealed.map { entry in
            try SegmentReader(entry.number, directory: manifest.directory, in: files)
                .readFooter(of: entry).ledger.count
        }
        #expect(counts.count == 2, "the count of senders alone ended the first segment")
        #expect(counts.reduce(0, +) == Int(Self.senderCount))
        #expect(counts.allSatisfy { $0 <= Limits.segmentSenderCountMax })
        #expect(try Verifier.run(files).findings.isEmpty)
    }
}
