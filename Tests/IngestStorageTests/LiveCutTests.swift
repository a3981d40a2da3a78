import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// Generations whose cut lies inside a segment: what readers and a start make of them.
@Suite("A cut inside a segment") struct LiveCutTests {
    private static let script = LogScript(blockCounts: [3, 4])

    /// A log whose second segment is live, and a generation that covers its first blocks.
    private static func written(
        covering blockCount: Int, of index: Int = 1, script: LogScript = Self.script
    ) throws -> (files: SimulatedFileSystem, manifest: Manifest) {
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        var manifest = TestLog.manifest()
        for segment in 0..<index {
            manifest = try publish([script.file(segment)], after: manifest, in: files)
        }
        manifest = try publish(
            [script.file(index, blockCount: blockCount)], after: manifest, in: files, isLive: true)
        return (files.disk.kill(), manifest)
    }

    private static func recover(
        _ files: SimulatedFileSystem, _ manifest: Manifest
    ) throws(StorageError) -> RecoveryReport {
        try SegmentRecovery.run(in: files, after: manifest, now: TestLog.now)
    }

    // MARK: Readers

    @Test("a reader goes on at the cut, and reads nothing before it", arguments: 0..<2)
    func tail(index: Int) throws {
        for blockCount in 1...Self.script.segments[index].count {
            let (files, manifest) = try Self.written(covering: blockCount, of: index)
            let covered = Self.script.segments[..<index].joined().count + blockCount
            let rest = Self.script.blocks[covered...].map(\.header)
            #expect(try tailBlocks(in: files, after: manifest) == Array(rest))
            files.disk.damage(Self.script.name(index)) { bytes in
                for byte in SegmentHeader.byteCount..<Int(manifest.shard.cutOffset) {
                    bytes[byte] = 0xEE
                }
            }
            #expect(try tailBlocks(in: files, after: manifest) == Array(rest))
        }
    }

    @Test("a reader with the manifest before goes on when the segment is sealed by a start")
    func sealedMeanwhile() throws {
        let (files, manifest) = try Self.written(covering: 2)
        let before = try tailBlocks(in: files, after: manifest)
        _ = try Self.recover(files, manifest)
        #expect(try tailBlocks(in: files, after: manifest) == before)
    }

    @Test("blocks that do not continue the manifest are no tail of it", arguments: 0..<2)
    func otherHistory(index: Int) throws {
        let (files, good) = try Self.written(covering: 2, of: index)
        var manifest = good
        manifest.shard.lastBlockChecksum ^= 1
        #expect(error(of: { try tailBlocks(in: files, after: manifest) })?.exitCode == 65)
    }

    @Test("a block behind the cut that is damaged is an error, since the log goes on behind it")
    func damagedBehind() throws {
        let (files, manifest) = try Self.written(covering: 2)
        let offset = Int(manifest.shard.cutOffset)
        files.disk.damage(Self.script.name(1)) { $0[offset + 20] ^= 1 }
        #expect(error(of: { try tailBlocks(in: files, after: manifest) })?.exitCode == 65)
    }

    // MARK: A start

    @Test("a start seals the segment as if there had been no generation inside it")
    func recovery() throws {
        let expected = try Self.script.footer(1)
        for blockCount in 1...4 {
            let (files, manifest) = try Self.written(covering: blockCount)
            let report = try Self.recover(files, manifest)
            let segment = try #require(report.segments.first)
            #expect(report.segments.count == 1 && report.lost == [])
            #expect(segment.file.footer == expected.footer)
            #expect(segment.file.remainder == nil)
            // Without a byte behind the cut only the footer is written.
            #expect(segment.isInPlace == (blockCount == 4))
            let bytes =
                Self.script.headers[1].encode() + Self.script.segments[1].flatMap(\.bytes)
                + expected.footer.encode(at: expected.offset).bytes
            #expect(files.disk.contents(Self.script.name(1)) == bytes)
            let last = try #require(Self.script.blocks.last)
            #expect(report.next.previousChecksum == last.summary.headerChecksum)
            #expect(report.next.commitEpoch == last.header.commitEpoch + 1)
        }
    }

    @Test("a start that is cut off anywhere can be repeated", arguments: [2, 4])
    func crash(covering blockCount: Int) throws {
        let expected = try Self.script.footer(1).footer
        let (whole, manifest) = try Self.written(covering: blockCount)
        let before = whole.disk.operationCount
        _ = try Self.recover(whole, manifest)
        for operation in before...whole.disk.operationCount {
            let (files, _) = try Self.written(covering: blockCount)
            files.disk.crash(beforeOperation: operation)
            _ = error(of: { try Self.recover(files, manifest) })
            for left in [files.disk.powerCut(seed: UInt64(operation)), files.disk.kill()] {
                let report = try Self.recover(left, manifest)
                #expect(report.segments.map(\.file.footer) == [expected], "\(operation)")
                let published = try publish(report.segments.map(\.file), after: manifest, in: left)
                #expect(published.liveSegment == nil)
                #expect(try tailBlocks(in: left, after: published) == [])
            }
        }
    }

    /// What can be gone of the segment that the cut lies in, though it was durable.
    private static let losses: [(String, @Sendable (inout [UInt8]) -> Void)] = [
        ("a block's header", { $0[Self.script.offset(segment: 1, block: 1) + 9] ^= 1 }),
        ("a block's body", { $0[Self.script.offset(segment: 1, block: 1) + 300] ^= 1 }),
        ("the end", { $0.removeLast($0.count - Self.script.offset(segment: 1, block: 1)) }),
        ("all blocks", { $0.removeLast($0.count - SegmentHeader.byteCount) }),
        ("the header", { for byte in 0..<SegmentHeader.byteCount { $0[byte] = 0 } }),
        ("everything", { $0 = [] }),
    ]

    @Test("where covered blocks are gone, their ordinals are not given again", arguments: 0..<6)
    func lost(index: Int) throws {
        let (what, damage) = Self.losses[index]
        for blockCount in 2...4 {
            let (files, manifest) = try Self.written(covering: blockCount)
            files.disk.damage(Self.script.name(1), damage)
            let report = try Self.recover(files, manifest)
            let segment = try #require(report.segments.first)
            #expect(!segment.isInPlace)
            #expect(report.next.nextName >= manifest.shard.nextName, "\(what)")
            #expect(report.next.nextKey >= manifest.shard.nextKey, "\(what)")
            #expect(report.next.commitEpoch > manifest.shard.commitEpoch, "\(what)")
            let lostCount = report.lost.reduce(0) { $0 + $1.blockCount }
            #expect((lostCount > 0) == (what != "the header"), "\(what)")
            // The counters of what is behind the cut stand apart from what the live runs have.
            let remainder = segment.file.remainder
            #expect((remainder != nil) == (lostCount > 0), "\(what)")
            let kept = segment.file.footer.blocks.filter { $0.ordinal >= blockCount }
            let rowCount = kept.reduce(0) { $0 + UInt64($1.summary.rowCount) }
            if let remainder { #expect(remainder.totals.rowCount == rowCount, "\(what)") }
            // A start that came no further finds the same.
            let left = files.disk.kill()
            let again = try Self.recover(left, manifest)
            #expect(again.lost == report.lost && again.next == report.next, "\(what)")
            #expect(again.segments.first?.file.remainder?.counters == remainder?.counters)
            _ = try publish(again.segments.map(\.file), after: manifest, in: left)
        }
    }

    @Test("a segment that is not there at all is lost as far as it was covered")
    func missing() throws {
        let (files, manifest) = try Self.written(covering: 3)
        try files.unlink(Self.script.name(1))
        try files.unlink(FileName.durableMark.text)
        let report = try Self.recover(files, manifest)
        #expect(report.lost.map(\.blockCount) == [3])
        #expect(report.next.nextName == manifest.shard.nextName)
        #expect(report.segments.first?.file.footer.lastBlockChecksum == lastChecksum(ofSegment: 0))
    }

    private func lastChecksum(ofSegment index: Int) -> UInt32? {
        Self.script.segments[index].last?.summary.headerChecksum
    }

    @Test("a manifest of another log stops the start, and nothing is changed")
    func foreign() throws {
        for change in [
            { $0.lastBlockChecksum ^= 1 }, { $0.cutOffset += 8 },
        ] as [(inout ShardState) -> Void] {
            let (files, good) = try Self.written(covering: 2)
            var manifest = good
            change(&manifest.shard)
            let before = try image(files)
            #expect(error(of: { try Self.recover(files, manifest) })?.exitCode == 65)
            #expect(try image(files) == before)
        }
    }

    @Test("what a segment adds up to block by block is what its footer says")
    func totals() throws {
        for (index, blocks) in Self.script.segments.enumerated() {
            for count in 1...blocks.count {
                let totals = try Self.script.totals(index, blockCount: count)
                let footer = try Self.script.file(index, blockCount: count).footer
                #expect(totals == LogTotals(footer))
                #expect(totals.rowCount == UInt64(12 * count))
                #expect(totals.packets[Int(PacketResult.accepted.rawValue)] == UInt64(count))
            }
        }
    }
}
