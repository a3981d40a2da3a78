import IngestFormat
import IngestStorage
import TestSupport
import Testing

@Suite struct LogTailTests {
    private func written(_ script: LogScript) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        return files.disk.kill()
    }

    private func removeMark(_ files: SimulatedFileSystem) throws -> SimulatedFileSystem {
        try files.unlink("durable-mark")
        return files
    }

    @Test func `the tail goes from segment to segment, sealed or not`() throws {
        let script = LogScript(blockCounts: [2, 3, 2])
        let files = try written(script)
        #expect(try tailBlocks(in: files, after: TestLog.manifest()) == script.blocks.map(\.header))
    }

    @Test func `what a manifest covers is not given again`() throws {
        let script = LogScript(blockCounts: [2, 3])
        let files = try written(script)
        let report = try recover(files)
        let manifest = try publish(
            [report.segments[0].file], after: TestLog.manifest(), in: files)
        #expect(
            try tailBlocks(in: files, after: manifest) == script.segments[1].map(\.header))
        let all = try publish([report.segments[1].file], after: manifest, in: files)
        #expect(try tailBlocks(in: files, after: all) == [])
    }

    @Test func `without a mark the last block of the log is not believed`() throws {
        let script = LogScript(blockCounts: [2, 3])
        let files = try removeMark(try written(script))
        #expect(
            try tailBlocks(in: files, after: TestLog.manifest())
                == script.blocks.dropLast().map(\.header))
    }

    @Test func `the first block of a segment proves the last one of the segment before`() throws {
        let script = LogScript(blockCounts: [2, 1])
        let files = try removeMark(try written(script))
        files.disk.damage(script.name(0)) { $0.removeLast(64) }
        #expect(
            try tailBlocks(in: files, after: TestLog.manifest())
                == script.segments[0].map(\.header))
    }

    @Test func `a footer proves all blocks of its segment`() throws {
        let script = LogScript(blockCounts: [3])
        let files = try removeMark(try written(script))
        try script.seal(0, in: files)
        #expect(try tailBlocks(in: files, after: TestLog.manifest()) == script.blocks.map(\.header))
    }

    @Test func `a tail that was recovered with a gap is read past the gap`() throws {
        let script = LogScript(blockCounts: [3, 1])
        let files = try written(script)
        files.disk.damage(script.name(0)) { $0[script.offset(segment: 0, block: 1) + 9] ^= 1 }
        _ = try recover(files)
        #expect(
            try tailBlocks(in: files, after: TestLog.manifest()).map(\.commitEpoch) == [1, 3, 4])
    }

    @Test func `bad bytes end a segment and are told where the next is out of the chain`() throws {
        let script = LogScript(blockCounts: [3, 1])
        let files = try written(script)
        files.disk.damage(script.name(0)) { bytes in
            bytes[script.offset(segment: 0, block: 1) + 9] ^= 1
            bytes.removeLast(64)
        }
        let mark = try DurableMarkFile.read(in: files, directory: TestLog.directory)
        var tail = LogTail(after: TestLog.manifest(), mark: mark, in: files)
        let buffer = ReadBuffer()
        #expect(try tail.next(into: buffer)?.header.context == script.blocks[0].header)
        // The next segment goes on, out of the chain.
        let found = error(of: { try tail.next(into: buffer) })
        #expect(found?.exitCode == 65 && "\(found!)".contains(script.name(0)))
    }

    @Test func `a follower sees every block once, as soon as it is durable`() throws {
        let script = LogScript(blockCounts: [3, 3])
        let files = SimulatedFileSystem(seed: 1)
        var mark = try DurableMarkFile(
            in: files, directory: TestLog.directory, startingAt: .start)
        let markFile = { try DurableMarkFile.read(in: files, directory: TestLog.directory) }
        var position = LogPosition.start
        var seen: [BlockContext] = []
        for (index, header) in script.headers.enumerated() {
            var writer = try SegmentWriter.create(header, byteCountMax: 4096, in: files)
            for block in script.segments[index] {
                try writer.append(block.bytes.span.bytes)
                try writer.sync()
                try mark.set(block.end)
                var tail = LogTail(after: TestLog.manifest(), mark: try markFile(), in: files)
                let buffer = ReadBuffer()
                while let found = try tail.next(into: buffer) {
                    if found.end > position { seen.append(found.header.context) }
                }
                position = tail.position
                #expect(position == block.end)
            }
        }
        #expect(seen == script.blocks.map(\.header))
    }
}

@Suite struct DurableMarkFileTests {
    private let directory = TestLog.directory
    private func position(_ segment: UInt32, _ blocks: UInt32) -> LogPosition {
        LogPosition(segment: SegmentNumber(rawValue: segment), blockCount: blocks)
    }

    @Test func `the mark grows and never falls`() throws {
        let files = SimulatedFileSystem(seed: 1)
        #expect(try DurableMarkFile.read(in: files, directory: directory) == nil)
        var mark = try DurableMarkFile(in: files, directory: directory, startingAt: .start)
        for (set, expected) in [
            (position(1, 1), position(1, 1)), (position(1, 7), position(1, 7)),
            (position(1, 3), position(1, 7)), (position(2, 0), position(2, 0)),
        ] {
            try mark.set(set)
            #expect(mark.position == expected)
            #expect(try DurableMarkFile.read(in: files, directory: directory) == expected)
        }
    }

    @Test func `a start keeps a mark that is further on`() throws {
        let files = SimulatedFileSystem(seed: 1)
        var first = try DurableMarkFile(in: files, directory: directory, startingAt: .start)
        try first.set(position(5, 9))
        let second = try DurableMarkFile(
            in: files, directory: directory, startingAt: position(4, 1))
        #expect(second.position == position(5, 9))
        let third = try DurableMarkFile(
            in: files, directory: directory, startingAt: position(6, 0))
        #expect(third.position == position(6, 0))
        #expect(try DurableMarkFile.read(in: files, directory: directory) == position(6, 0))
    }

    @Test func `a mark with any flipped bit is no mark, and a start makes a good one`() throws {
        let files = SimulatedFileSystem(seed: 1)
        var mark = try DurableMarkFile(in: files, directory: directory, startingAt: .start)
        try mark.set(position(3, 4))
        for bit in 0..<64 * 8 {
            let other = files.disk.kill()
            other.disk.damage("durable-mark") { $0[bit / 8] ^= 1 << (bit % 8) }
            // A start goes on without it, a reader does not.
            #expect(try DurableMarkFile.read(in: other, directory: directory) == nil, "bit \(bit)")
            #expect(
                error(of: { try DurableMarkFile.readSound(in: other, directory: directory) })?
                    .exitCode == 65)
            let again = try DurableMarkFile(
                in: other, directory: directory, startingAt: position(2, 2))
            #expect(again.position == position(2, 2))
            #expect(try DurableMarkFile.read(in: other, directory: directory) == position(2, 2))
        }
    }

    @Test func `a mark of a newer format stops everybody and stays as it is`() throws {
        let files = SimulatedFileSystem(seed: 1)
        _ = try DurableMarkFile(in: files, directory: directory, startingAt: position(1, 1))
        files.disk.damage("durable-mark") { $0 = newerMark($0) }
        let bytes = files.disk.contents("durable-mark")
        for open in [
            { _ = try DurableMarkFile.read(in: files, directory: directory) },
            { _ = try DurableMarkFile.readSound(in: files, directory: directory) },
            { _ = try DurableMarkFile(in: files, directory: directory, startingAt: .start) },
        ] {
            #expect(
                error(of: open) == .newerFormat(path: "/sim/durable-mark", version: 2))
        }
        #expect(files.disk.contents("durable-mark") == bytes)
    }

    /// The same mark as version 2; its checksum is of the bytes with the value as zeros.
    private func newerMark(_ mark: [UInt8]) -> [UInt8] {
        var bytes = mark
        bytes[4] = 2
        return bytes.sealed(bytes.count, without: 16..<24)
    }

    @Test func `the mark of another directory, and one cut short, are no mark`() throws {
        let files = SimulatedFileSystem(seed: 1)
        _ = try DurableMarkFile(in: files, directory: directory, startingAt: position(1, 1))
        #expect(
            try DurableMarkFile.read(in: files, directory: DirectoryID(rawValue: 5)) == nil)
        files.disk.damage("durable-mark") { $0.removeLast(20) }
        #expect(try DurableMarkFile.read(in: files, directory: directory) == nil)
    }

    @Test func `after a power cut the mark is an older one or none`() throws {
        let files = SimulatedFileSystem(seed: 1)
        var mark = try DurableMarkFile(in: files, directory: directory, startingAt: .start)
        for block in 1...20 as ClosedRange<UInt32> { try mark.set(position(1, block)) }
        for seed in 0..<50 as Range<UInt64> {
            let left = try DurableMarkFile.read(
                in: files.disk.powerCut(seed: seed), directory: directory)
            #expect(left.map { $0 <= position(1, 20) } ?? true)
        }
    }
}
