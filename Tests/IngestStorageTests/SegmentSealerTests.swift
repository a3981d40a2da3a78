import Glibc
import IngestFormat
import IngestStorage
import TestSupport
import Testing

@Suite struct SegmentSealerTests {
    private func unsealed(_ script: LogScript) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        return files.disk.kill()
    }

    private func seal(
        _ script: LogScript, in files: SimulatedFileSystem
    ) throws -> SealedSegment {
        let (footer, offset) = try script.footer(0)
        let file = try files.open(script.name(0), .readWrite)
        return footer.entry(trailer: try SegmentSealer.seal(file, footer: footer, at: offset))
    }

    private func readFooter(
        of entry: SealedSegment, in files: SimulatedFileSystem
    ) throws -> SegmentFooter {
        try SegmentReader(entry.number, directory: TestLog.directory, in: files)
            .readFooter(of: entry)
    }

    @Test func `L3: a sealed segment is its blocks and the footer, durable, and nothing more`()
        throws
    {
        let script = LogScript(blockCounts: [3])
        let files = try unsealed(script)
        let entry = try seal(script, in: files)
        let (footer, offset) = try script.footer(0)
        let expected =
            script.headers[0].padded + script.blocks.flatMap(\.bytes)
            + footer.encode(at: offset).bytes
        for seed in 0..<20 as Range<UInt64> {
            let left = files.disk.powerCut(seed: seed)
            #expect(left.disk.contents(script.name(0)) == expected)
            #expect(try readFooter(of: entry, in: left) == footer)
        }
    }

    @Test func `a crash at any operation of sealing loses no block`() throws {
        let script = LogScript(blockCounts: [3])
        let base = try unsealed(script)
        let straight = base.disk.kill()
        let entry = try seal(script, in: straight)
        let content = script.offset(segment: 0, block: 3)
        for operation in 0..<straight.disk.operationCount {
            let files = base.disk.kill()
            files.disk.crash(beforeOperation: operation)
            #expect(throws: StorageError.self) { try seal(script, in: files) }
            for seed in 0..<20 as Range<UInt64> {
                let left = files.disk.powerCut(seed: seed)
                let tail = try #require(left.disk.contents(script.name(0))).dropFirst(content)
                let report = try recover(left)
                #expect(report.segments.map(\.file.entry) == [entry])
                // The start of a footer is no evidence; what begins otherwise may have been a block.
                let isEvidence = tail.first != UInt8(ascii: "I") && tail.contains { $0 != 0 }
                #expect((report.segments[0].torn != nil) == isEvidence)
                #expect(report.segments[0].aside.isEmpty == !isEvidence)
            }
        }
    }

    @Test func `a segment or a directory that was removed meanwhile ends with 65 and says so`()
        throws
    {
        let script = LogScript(blockCounts: [3])
        let files = try unsealed(script)
        let (footer, offset) = try script.footer(0)
        try files.unlink(script.name(0))
        let refusal = error(of: {
            _ = try SegmentSealer.seal(footer, keys: [], at: offset, isAgain: false, in: files)
        })
        #expect(
            refusal?.exitCode == 65 && "\(refusal as Any)".contains("removed while it was written"))
        #expect("\(refusal as Any)".contains(script.name(0)))
        try withTemporaryDirectory { files in
            #expect(rmdir(files.path) == 0)
            let gone = error(of: {
                _ = try SegmentWriter.create(script.headers[0], byteCountMax: 4096, in: files)
            })
            #expect(gone?.exitCode == 65 && "\(gone as Any)".contains("directory was removed"))
            #expect(mkdir(files.path, 0o700) == 0)
        }
    }

    @Test func `a full disk leaves the segment unsealed, and it can be sealed later`() throws {
        let script = LogScript(blockCounts: [30], rowCount: 2)
        let files = try unsealed(script)
        let before = try #require(files.disk.contents(script.name(0)))
        files.disk.limit(byteCount: 1)
        guard case .diskFull? = error(of: { try seal(script, in: files) }) else {
            Issue.record("sealed on a full disk")
            return
        }
        #expect(files.disk.contents(script.name(0))?.prefix(before.count) == before[...])
        files.disk.limit(byteCount: 1 << 30)
        let entry = try seal(script, in: files)
        #expect(try readFooter(of: entry, in: files).blocks.count == 30)
    }

    @Test func `L3: a footer that only the page cache has is written again by the next start`()
        throws
    {
        let script = LogScript(blockCounts: [3])
        for seed in 0..<20 as Range<UInt64> {
            let files = try unsealed(script)
            files.disk.fail(.sync, onCall: 1)
            #expect(error(of: { try seal(script, in: files) })?.exitCode == 71)
            let next = files.disk.kill()
            let entry = try recover(next).segments[0].file.entry
            let left = next.disk.powerCut(seed: seed)
            #expect(try readFooter(of: entry, in: left).blocks.count == 3)
        }
    }
}
