import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// A life of a daemon is in the log from its beginning to its end, also if it never had a block.
@Suite("Lives are recorded when they begin and when they end")
struct LifeTests {
    private let clock = SimulatedClock.afterEvents()

    private func open(_ files: SimulatedFileSystem) throws -> SteppedPipeline {
        clock.advance(milliseconds: 60_000)
        return try SteppedPipeline.open(files, clock: clock, seed: 4)
    }

    private func stops(_ files: SimulatedFileSystem) throws -> [Int64] {
        try IngestReader.open(files).status().uncleanStops.map(\.foundAtMicroseconds)
    }

    @Test(
        "R1: one that is killed before its first block is found by the next; one that is stopped is not"
    )
    func withoutBlock() throws {
        var files = SimulatedFileSystem(seed: 1)
        for life in 1...6 {
            do {
                var pipeline = try open(files)
                let names = try files.names().filter { $0.hasSuffix(".segment") }
                #expect(names == ["0000000001.segment"], "life \(life)")
                // Lives 2 and 4 are ended.
                if life % 2 == 0 { try pipeline.stop() }
            }
            let left = life % 3 == 0 ? files.disk.powerCut(seed: UInt64(life)) : files.disk.kill()
            files = left
            let segments = try files.names().filter { $0.hasSuffix(".segment") }
            #expect(segments.isEmpty == (life % 2 == 0), "life \(life)")
            let findings = try Verifier.run(files).findings
            #expect(findings.isEmpty, "life \(life): \(findings)")
        }
        // Lives 1, 3 and 5 were not, and 2, 4 and 6 have found that.
        #expect(try stops(files).count == 3)
        var pipeline = try open(files)
        try pipeline.take(0..<3)
        try pipeline.stop()
        #expect(try stops(files).count == 3)
        #expect(try DirectoryReading(files).counts == ReferenceModel(packetCount: 3).counts)
    }

    @Test("the log has it too: without a manifest, and with lives between that had no block")
    func withoutManifest() throws {
        let files = SimulatedFileSystem(seed: 1)
        _ = try open(files)
        var left = files.disk.kill()
        var foundAt: [Int64] = []
        for _ in 0..<2 {
            var idle = try open(left)
            try idle.stop()
            left = left.disk.kill()
            foundAt = try stops(left)
        }
        #expect(foundAt.count == 1)
        var pipeline = try open(left)
        try pipeline.take(0..<3)
        try pipeline.stop()
        left = left.disk.kill()
        for name in try left.names() where name.hasSuffix(".manifest") { try left.unlink(name) }
        _ = try open(left)
        #expect(try stops(left).first == foundAt[0])
    }

    @Test("one that only shed has said how much, however it ended")
    func shedding() throws {
        var files = SimulatedFileSystem(seed: 1)
        for life in 1...4 as ClosedRange<UInt64> {
            do {
                var pipeline = try open(files)
                let isOffered = pipeline.offerShed(10 * life)
                #expect(isOffered)
                try pipeline.settle()
                // What has no rows waits up to a second for some.
                clock.advance(milliseconds: 1_100)
                try pipeline.settle()
                if life % 2 == 0 { try pipeline.stop() }
            }
            let left = life > 2 ? files.disk.powerCut(seed: life) : files.disk.kill()
            files = left
            let rows = try IngestReader.open(files).ledger()
            let shed = rows.reduce(UInt64(0)) { $0 + $1.packetsRefused[.shed, default: 0] }
            let expected = (1...life).reduce(UInt64(0)) { $0 + 10 * UInt64($1) }
            #expect(rows.map(\.sender) == [.unidentified], "life \(life)")
            #expect(shed == expected, "life \(life)")
            let findings = try Verifier.run(files).findings.filter { $0.kind != .note }
            #expect(findings.isEmpty, "life \(life): \(findings)")
        }
        _ = try open(files)
        #expect(try stops(files).count == 2)
    }

    @Test("one that begins while the disk takes nothing is recorded once it takes something")
    func onFullDisk() throws {
        let files = SimulatedFileSystem(seed: 1)
        var first = try open(files)
        try first.take(0..<50)
        try first.stop()
        let full = files.disk.kill()
        try full.unlink("reserve")
        full.disk.hog()
        do {
            var pipeline = try open(full)
            #expect(pipeline.shortage == .space)
            try pipeline.settle()
            full.disk.hog(false)
            full.disk.limit(byteCount: 1 << 30)
            clock.advance(milliseconds: 60_000)
            try pipeline.settle()
            #expect(pipeline.shortage == nil)
        }
        let left = full.disk.kill()
        #expect(try stops(left).isEmpty)
        var pipeline = try open(left)
        try pipeline.stop()
        #expect(try stops(left).count == 1)
    }

    @Test("R5: packets that such a life took are unknown since")
    func unknown() throws {
        let files = SimulatedFileSystem(seed: 1)
        var first = try open(files)
        try first.take(0..<3)
        try first.stop()
        var left = files.disk.kill()
        _ = try open(left)
        left = left.disk.kill()
        _ = try open(left)
        let row = try #require(
            try IngestReader.open(left).ledger().first {
                if case .framed = $0.sender { true } else { false }
            })
        #expect(row.unknownSinceMicroseconds != nil)
    }
}
