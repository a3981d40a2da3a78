import IngestFormat
import IngestStorage
import Synchronization
import TestSupport
import Testing

/// No durable block is left out of a tail in silence: not beside a writer, and not where the disk lost some.
@Suite struct LogTailDamageTests {
    private static let script = LogScript(blockCounts: [4, 3, 2])

    /// The whole log as a killed daemon leaves it, without a mark.
    private func written() throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try Self.script.write(to: files, synced: &synced, seals: false)
        let next = files.disk.kill()
        try next.unlink("durable-mark")
        return next
    }

    private func tailError(_ files: SimulatedFileSystem) -> StorageError? {
        error(of: { try tailBlocks(in: files, after: TestLog.manifest()) })
    }

    @Test(arguments: [1, 2, 3])
    func `blocks written between the looks at a segment and at the next are given`(
        _ present: Int
    ) throws {
        let script = Self.script
        let files = SimulatedFileSystem(seed: 1)
        var mark = try DurableMarkFile(
            in: files, directory: TestLog.directory, startingAt: .start)
        var writer = try SegmentWriter.create(script.headers[0], byteCountMax: 4096, in: files)
        for block in script.segments[0][..<present] {
            try writer.append(block.bytes.span.bytes)
            try mark.set(block.end)
        }
        let wasOpened = Atomic(false)
        let watched = WatchedFileSystem(files) { name in
            guard name == script.name(1), !wasOpened.exchange(true, ordering: .relaxed) else {
                return
            }
            // The daemon goes on while the reader is between two calls.
            for (index, block) in script.segments[0].enumerated().dropFirst(present) {
                let offset = UInt64(script.offset(segment: 0, block: index))
                try? files.open(script.name(0), .readWrite).write(block.bytes, at: offset)
            }
            guard
                var next = try? SegmentWriter.create(
                    script.headers[1], byteCountMax: 4096, in: files)
            else { return }
            for block in script.segments[1] { _ = try? next.append(block.bytes.span.bytes) }
        }
        let found = try tailBlocks(in: watched, after: TestLog.manifest())
        let sawTheNext = wasOpened.load(ordering: .relaxed)
        #expect(sawTheNext)
        #expect(found == (script.segments[0] + script.segments[1].dropLast()).map(\.header))
    }

    enum Damage: CaseIterable { case flippedHeader, flippedBody, zeroed }

    @Test(arguments: Damage.allCases)
    func `damage that whole blocks follow is an error with the file, at every block`(
        _ damage: Damage
    ) throws {
        for (segment, blocks) in Self.script.segments.enumerated() {
            for block in blocks.indices {
                let isLast = segment == 2 && block == blocks.count - 1
                let files = try written()
                let start = Self.script.offset(segment: segment, block: block)
                let end = start + blocks[block].bytes.count
                files.disk.damage(Self.script.name(segment)) { bytes in
                    switch damage {
                    case .flippedHeader: bytes[start + 9] ^= 1
                    case .flippedBody: bytes[end - 30] ^= 1
                    case .zeroed: for byte in start..<end { bytes[byte] = 0 }
                    }
                }
                guard isLast else {
                    #expect(tailError(files)?.exitCode == 65, "segment \(segment) block \(block)")
                    continue
                }
                // Nothing says that it was durable; then the one before is the last known to be.
                let expected = Self.script.blocks.dropLast(2)
                #expect(
                    try tailBlocks(in: files, after: TestLog.manifest()) == expected.map(\.header))
            }
        }
    }

    @Test func `a segment cut short between two blocks is missed by the next one`() throws {
        for count in 0..<4 {
            let files = try written()
            let end = Self.script.offset(segment: 0, block: count)
            files.disk.damage(Self.script.name(0)) { $0.removeLast($0.count - end) }
            guard case .corrupt(let path, _, _)? = tailError(files) else {
                Issue.record("\(count) blocks are taken for the whole segment")
                continue
            }
            #expect(path.hasSuffix(Self.script.name(1)))
        }
    }

    @Test(arguments: [0, 1, 2])
    func `a segment that is missing before others, or has a bad header over blocks, is an error`(
        _ index: Int
    ) throws {
        if index < 2 {
            let missing = try written()
            try missing.unlink(Self.script.name(index))
            #expect(tailError(missing)?.exitCode == 65)
        }
        let bad = try written()
        bad.disk.damage(Self.script.name(index)) { $0[20] ^= 1 }
        #expect(tailError(bad)?.exitCode == 65)
    }

    @Test func `a segment whose last blocks recovery has lost is read past`() throws {
        for lost in 0..<4 {
            let files = try written()
            for block in lost..<4 {
                let start = Self.script.offset(segment: 0, block: block)
                files.disk.damage(Self.script.name(0)) { $0[start + 9] ^= 1 }
            }
            _ = try recover(files)
            let epochs = try tailBlocks(in: files, after: TestLog.manifest()).map(\.commitEpoch)
            #expect(epochs == (1...9).filter { $0 <= lost || $0 > 4 }.map { UInt64($0) })
        }
    }
}
