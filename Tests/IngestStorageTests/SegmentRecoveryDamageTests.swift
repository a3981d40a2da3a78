import Glibc
import IngestStorage
import TestSupport
import Testing

@testable import IngestFormat

/// What recovery does with files that are missing, foreign, hostile, or on a disk that fails meanwhile.
@Suite struct SegmentRecoveryDamageTests {
    private func written(_ script: LogScript) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        return files.disk.kill()
    }

    @Test func `a segment header with any flipped byte is made again as it was`() throws {
        let script = LogScript(blockCounts: [2, 1])
        let base = try written(script)
        let straight = base.disk.kill()
        _ = try recover(straight)
        let expected = straight.disk.contents(script.name(0))
        for byte in 0..<SegmentHeader.byteCount {
            let files = base.disk.kill()
            files.disk.damage(script.name(0)) { $0[byte] ^= 0x80 }
            let damaged = files.disk.contents(script.name(0))?.prefix(SegmentHeader.byteCount)
            let report = try recover(files)
            #expect(report.lost == [])
            #expect(files.disk.contents(script.name(0)) == expected, "byte \(byte)")
            let copy = "aside/\(script.name(0)).at-0"
            #expect(report.segments.first?.aside == [copy])
            #expect(files.disk.contents(copy) == damaged.map { Array($0) })
            let line = "segment 1: header or footer was damaged"
            #expect(report.messages.contains { $0.hasPrefix(line) }, "\(report.messages)")
        }
    }

    @Test func `a footer with any flipped byte is made again from the blocks`() throws {
        let script = LogScript(blockCounts: [2, 1], rowCount: 3)
        let base = try written(script)
        let expected = try #require(base.disk.contents(script.name(0)))
        let start = script.offset(segment: 0, block: 2)
        for byte in start..<expected.count {
            let files = base.disk.kill()
            files.disk.damage(script.name(0)) { $0[byte] ^= 0x01 }
            let report = try recover(files)
            #expect(report.lost == [])
            #expect(report.blocks == script.blocks.map(\.summary))
            #expect(files.disk.contents(script.name(0)) == expected, "byte \(byte - start)")
        }
    }

    @Test func `a segment that is missing between two others is a gap that is reported`() throws {
        let script = LogScript(blockCounts: [2, 3, 1])
        let files = try written(script)
        try files.unlink(script.name(1))
        let report = try recover(files)
        #expect(report.blocks == (script.segments[0] + script.segments[2]).map(\.summary))
        let lost = try #require(report.lost.first)
        #expect(report.lost.count == 1)
        #expect(lost.segment.rawValue == 2 && lost.firstBlock == 0 && lost.blockCount == 3)
        #expect(lost.rowCount == nil)
        #expect(lost.names == 7..<16)
        #expect(report.segments.map(\.file.entry.number.rawValue) == [1, 2, 3])
        #expect(try recover(files).lost == report.lost)
    }

    @Test func `the last segment missing below the mark is a gap as well`() throws {
        let script = LogScript(blockCounts: [2, 3])
        let files = try written(script)
        try files.unlink(script.name(1))
        let report = try recover(files)
        #expect(report.blocks == script.segments[0].map(\.summary))
        #expect(report.lost.map(\.blockCount) == [3])
        #expect(report.lastSegment.rawValue == 2)
    }

    @Test func `more missing segments than a disk loses by accident are refused`() throws {
        let script = LogScript(blockCounts: [1])
        let files = try written(script)
        try files.rename(script.name(0), to: "4000000000.segment")
        #expect(error(of: { try recover(files) })?.exitCode == 65)
    }

    @Test func `an old gap survives the loss of its footer`() throws {
        let script = LogScript(blockCounts: [3, 1])
        let files = try written(script)
        let offset = script.offset(segment: 0, block: 1)
        files.disk.damage(script.name(0)) { $0[offset] ^= 1 }
        let first = try recover(files)
        files.disk.damage(script.name(0)) { $0[$0.count - 1] ^= 1 }
        let second = try recover(files)
        #expect(second.blocks == first.blocks)
        #expect(second.lost.map(\.firstBlock) == [1])
        #expect(second.lost.map(\.names) == first.lost.map(\.names))
        #expect(try files.subdirectory("aside", create: false).names().count == 1)
    }

    @Test func `a segment of another directory holds no block of this one`() throws {
        let script = LogScript(blockCounts: [2])
        let files = try written(script)
        files.disk.damage(script.name(0)) { bytes in bytes[24] ^= 1 }
        var other = TestLog.manifest()
        other.directory = DirectoryID(rawValue: 1)
        let report = try recoverSegments(in: files, after: other, now: TestLog.now)
        #expect(report.blocks == [])
        #expect(report.dropped.map(\.rawValue) == [1])
        let aside = report.asideOfDropped.flatMap { files.disk.contents($0) ?? [] }
        #expect(aside.count > 4_096 + SegmentHeader.byteCount, "all of it is aside")
    }

    @Test func `a sound block of another history is not taken for one of this log`() throws {
        let script = LogScript(blockCounts: [2, 2])
        let other = LogScript(blockCounts: [2, 2], seed: 2)
        #expect(script.blocks[0].header.directory == other.blocks[0].header.directory)
        for index in 0..<2 {
            for block in 0..<2 {
                let files = try written(script)
                let start = script.offset(segment: index, block: block)
                files.disk.damage(script.name(index)) { bytes in
                    bytes.removeLast(bytes.count - start)
                    bytes += other.segments[index][block].bytes
                }
                let report = try recover(files)
                let foreign = other.segments[index][block].summary
                // The first block of a log has nothing before it that could tell the two apart.
                let isFirst = index == 0 && block == 0
                #expect(report.blocks.contains(foreign) == isFirst, "segment \(index), \(block)")
                let lost = report.lost.reduce(0) { $0 + $1.blockCount }
                #expect(report.blocks.count + Int(lost) == 4)
            }
        }
    }

    @Test(arguments: [0, 130, 431])
    func `a log goes on behind blocks that were lost at its end, through crashes`(
        _ byte: Int
    ) throws {
        let script = LogScript(blockCounts: [2], rowCount: 2)
        let files = try written(script)
        let offset = script.offset(segment: 0, block: 1)
        files.disk.damage(script.name(0)) { $0[offset + byte] ^= 1 }
        let report = try recover(files)
        #expect(report.lost.map(\.firstBlock) == [1])
        #expect(report.next.commitEpoch == 3)
        let manifest = try publish(
            report.segments.map(\.file), after: TestLog.manifest(), in: files)
        #expect(manifest.shard.lastBlockChecksum == report.next.previousChecksum)
        var log = TestLog(seed: 5, after: report)
        let header = log.startSegment()
        var writer = try SegmentWriter.create(header, byteCountMax: 4096, in: files)
        let block = log.block()
        try writer.append(block.bytes.span.bytes)
        try writer.sync()
        let left = files.disk.powerCut(seed: 1)
        let again = try recoverSegments(in: left, after: manifest, now: TestLog.now)
        #expect(again.blocks == [block.summary])
        #expect(again.lost == [])
    }

    @Test func `a log that does not continue its manifest is refused`() throws {
        let files = try written(LogScript(blockCounts: [2]))
        var manifest = TestLog.manifest()
        manifest.shard.lastBlockChecksum = 77
        let refusal = error(of: {
            try recoverSegments(in: files, after: manifest, now: TestLog.now)
        })
        #expect(refusal?.exitCode == 65)
    }

    @Test func `a block of a later format version stops the start`() throws {
        let script = LogScript(blockCounts: [2])
        let files = try written(script)
        files.disk.damage(script.name(0)) { bytes in
            let start = script.offset(segment: 0, block: 1)
            bytes[start + BlockLayout.Header.version.offset] = 9
            let header = Int(bytes.number(BlockLayout.Header.headerByteCount, at: start))
            let sum = bytes[start..<start + header].withUnsafeBytes {
                BlockLayout.headerChecksum($0)
            }
            bytes.put(sum, at: start + BlockLayout.Header.headerChecksum.offset)
            bytes.removeLast(64)
        }
        let before = files.disk.contents(script.name(0))
        guard case .newerFormat(_, 9)? = error(of: { try recover(files) }) else {
            Issue.record("read a block of version 9")
            return
        }
        #expect(files.disk.contents(script.name(0)) == before)
    }

    @Test func `recovery on a full disk changes nothing and works once there is room`() throws {
        let script = LogScript(blockCounts: [3, 2])
        let base = try written(script)
        let straight = base.disk.kill()
        _ = try recover(straight)
        let expected = try image(straight)
        let used = try image(base.disk.kill()).values.reduce(0) { $0 + $1.count }
        var refusals = 0
        for room in stride(from: used, to: used + 6_000, by: 64) {
            let files = base.disk.kill()
            let before = try image(files)
            files.disk.limit(byteCount: room)
            if let refusal = error(of: { try recover(files) }) {
                guard case .diskFull = refusal else { throw refusal }
                #expect(refusal.exitCode == 74)
                refusals += 1
                #expect(try image(files).keys == before.keys)
                files.disk.limit(byteCount: 1 << 30)
                _ = try recover(files)
            }
            #expect(try image(files) == expected)
        }
        #expect(refusals > 10)
    }

    @Test(arguments: [SimulatedDisk.Kind.sync, .syncDirectory, .rename, .create, .read, .names])
    func `an I/O error at any call is told, and the next start does it all`(
        _ kind: SimulatedDisk.Kind
    ) throws {
        let script = LogScript(blockCounts: [2, 2])
        let base = try written(script)
        let straight = base.disk.kill()
        let report = try recover(straight)
        let expected = try image(straight)
        let calls = straight.disk.callCount(kind)
        #expect(calls > 0)
        for call in 1...calls {
            let files = base.disk.kill()
            files.disk.fail(kind, onCall: call)
            let failure = error(of: { try recover(files) })
            if kind == .syncDirectory { #expect(failure?.exitCode == 71) }
            let left = files.disk.powerCut(seed: UInt64(call))
            #expect(try recover(left).blocks == report.blocks, "call \(call)")
            #expect(try image(left) == expected)
        }
    }

    @Test func `what a failed sync left in the page cache is durable after recovery`() throws {
        let script = LogScript(blockCounts: [3])
        for seed in 0..<20 as Range<UInt64> {
            let files = SimulatedFileSystem(seed: seed)
            files.disk.fail(.syncData, onCall: 3)
            var synced = 0
            let failure = error(of: { try script.write(to: files, synced: &synced) })
            #expect(failure?.exitCode == 71)
            #expect(synced == 2)
            // The process ends; the machine goes on, with pages that the disk never got.
            let next = files.disk.kill()
            let report = try recover(next)
            #expect(report.blocks.count == 3)
            let later = next.disk.powerCut(seed: seed)
            #expect(try recover(later).blocks == report.blocks)
        }
    }

    @Test func `random damage never traps, loses no sound block, and settles at once`() throws {
        let script = LogScript(blockCounts: [4, 3, 2], rowCount: 4)
        let base = try written(script)
        for seed in 0..<150 as Range<UInt64> {
            let files = base.disk.kill()
            var random = SeededRandom(seed: seed)
            for _ in 0..<1 + random.below(4) {
                let name = script.name(Int(random.below(3)))
                files.disk.damage(name) { Self.damage(&$0, &random) }
            }
            let report: RecoveryReport
            do { report = try recover(files) } catch {
                // Only a version field can make a sound file unreadable as a whole.
                guard let error = error as? StorageError, error.exitCode == 65 else { throw error }
                continue
            }
            let known = Set(script.blocks.map(\.summary))
            #expect(report.blocks.allSatisfy { known.contains($0) })
            let epochs = report.blocks.map(\.commitEpoch)
            #expect(epochs == epochs.sorted())
            let before = try image(files)
            #expect(try recover(files).blocks == report.blocks, "seed \(seed)")
            #expect(try image(files) == before, "seed \(seed)")
        }
    }

    private static func damage(_ bytes: inout [UInt8], _ random: inout SeededRandom) {
        let place = Int(random.below(UInt64(bytes.count)))
        let count = min(bytes.count - place, Int(random.below(700)))
        switch random.below(6) {
        case 0: bytes[place] ^= UInt8(1 << random.below(8))
        case 1: for i in place..<place + count { bytes[i] = UInt8(random.below(256)) }
        case 2: for i in place..<place + count { bytes[i] = 0 }
        case 3: bytes.removeLast(bytes.count - place)
        case 4: bytes.removeSubrange(place..<place + count)
        default: bytes.insert(contentsOf: bytes[place..<place + count], at: place / 8 * 8)
        }
        if bytes.isEmpty { bytes = [1] }
    }
}
