import Glibc
import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// Writes `blockCount` blocks into one segment as the sync stage does; `synced` grows with each that is durable.
private func write(
    _ blocks: [TestLog.Block], header: SegmentHeader, to files: SimulatedFileSystem,
    synced: inout Int
) throws {
    var mark = try DurableMarkFile(
        in: files, directory: TestLog.directory, startingAt: .start)
    var writer = try SegmentWriter.create(header, byteCountMax: 64 << 10, in: files)
    for block in blocks {
        try writer.append(block.bytes.span.bytes)
        try writer.sync()
        synced += 1
        try mark.set(block.end)
    }
}

private func makeBlocks(_ count: Int, seed: UInt64 = 1) -> (SegmentHeader, [TestLog.Block]) {
    var log = TestLog(seed: seed)
    let header = log.startSegment()
    return (header, (0..<count).map { _ in log.block(rowCount: 30) })
}

@Suite struct SegmentWriterTests {
    @Test func `blocks are read back as they were written`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let (header, blocks) = makeBlocks(5)
        var synced = 0
        try write(blocks, header: header, to: files, synced: &synced)
        #expect(synced == 5)
        #expect(try tailBlocks(in: files, after: TestLog.manifest()) == blocks.map(\.header))
    }

    @Test
    func `L2: a crash before any operation leaves a prefix of the blocks with all synced ones`()
        throws
    {
        let (header, blocks) = makeBlocks(4)
        let whole = SimulatedFileSystem(seed: 1)
        var all = 0
        try write(blocks, header: header, to: whole, synced: &all)
        for operation in 0..<whole.disk.operationCount {
            let files = SimulatedFileSystem(seed: 1)
            files.disk.crash(beforeOperation: operation)
            var synced = 0
            try? write(blocks, header: header, to: files, synced: &synced)
            #expect(files.disk.isDown)
            for seed in 0..<8 as Range<UInt64> {
                let left = files.disk.powerCut(seed: seed)
                var walk: [BlockContext] = []
                if let reader = try? SegmentReader(
                    header.segment, directory: TestLog.directory, in: left)
                {
                    let buffer = ReadBuffer()
                    var blocks = reader.makeWalk()
                    while case .block(let found) = try blocks.next(into: buffer) {
                        walk.append(found.context)
                    }
                }
                #expect(walk == blocks.prefix(walk.count).map(\.header))
                #expect(walk.count >= synced, "operation \(operation), seed \(seed)")
                let durable = try tailBlocks(in: left, after: TestLog.manifest())
                #expect(durable.count <= walk.count)
                #expect(durable == blocks.prefix(durable.count).map(\.header))
            }
        }
    }

    @Test func `a reader beside the writer sees no block that a power cut can take`() throws {
        let (header, blocks) = makeBlocks(6)
        let files = SimulatedFileSystem(seed: 1)
        var mark = try DurableMarkFile(
            in: files, directory: TestLog.directory, startingAt: .start)
        var writer = try SegmentWriter.create(header, byteCountMax: 64 << 10, in: files)
        for (index, block) in blocks.enumerated() {
            try writer.append(block.bytes.span.bytes)
            #expect(try tailBlocks(in: files, after: TestLog.manifest()).count == index)
            try writer.sync()
            // Every second mark is late: then the block behind has to prove the one before.
            guard index % 2 == 0 else { continue }
            try mark.set(block.end)
            #expect(try tailBlocks(in: files, after: TestLog.manifest()).count == index + 1)
        }
    }

    @Test func `a full disk loses nothing, and the same block goes to the same place later`() throws
    {
        let (header, blocks) = makeBlocks(6)
        let content = blocks.reduce(4_096) { $0 + $1.bytes.count }
        for room in stride(from: 0, through: content, by: 397) {
            let files = SimulatedFileSystem(seed: 1)
            files.disk.limit(byteCount: room)
            var writer: SegmentWriter<SimulatedFileSystem>
            do {
                writer = try SegmentWriter.create(header, byteCountMax: 64 << 10, in: files)
            } catch {
                guard case .diskFull = error else { throw error }
                #expect(room < 4_096)
                #expect(try files.names() == [], "a file without a header stays behind")
                files.disk.limit(byteCount: 1 << 30)
                writer = try SegmentWriter.create(header, byteCountMax: 64 << 10, in: files)
            }
            var refusals = 0
            for block in blocks {
                do { try writer.append(block.bytes.span.bytes) } catch {
                    guard case .diskFull = error else { throw error }
                    refusals += 1
                    files.disk.limit(byteCount: 1 << 30)
                    try writer.append(block.bytes.span.bytes)
                }
                try writer.sync()
            }
            #expect(refusals == (room >= 4_096 && room < content ? 1 : 0))
            let left = files.disk.kill()
            let buffer = ReadBuffer()
            var walk = try SegmentReader(
                header.segment, directory: TestLog.directory, in: left
            ).makeWalk()
            for block in blocks {
                guard case .block(let found) = try walk.next(into: buffer) else {
                    Issue.record("block \(block.header.blockOrdinal) is missing at room \(room)")
                    break
                }
                #expect(found.context == block.header)
            }
        }
    }

    @Test func `a failed sync is durability lost for good, whichever it is`() throws {
        let (header, blocks) = makeBlocks(3)
        for failing in 1...3 {
            let files = SimulatedFileSystem(seed: 1)
            files.disk.fail(.syncData, onCall: failing)
            var writer = try SegmentWriter.create(header, byteCountMax: 64 << 10, in: files)
            for block in blocks.prefix(failing - 1) {
                try writer.append(block.bytes.span.bytes)
                try writer.sync()
            }
            let block = blocks[failing - 1]
            try writer.append(block.bytes.span.bytes)
            var failure: StorageError?
            do { try writer.sync() } catch { failure = error }
            guard case .durabilityLost? = failure else {
                Issue.record("sync \(failing) did not fail")
                return
            }
            #expect(failure?.exitCode == 71)
            let calls = files.disk.operationCount
            var again: StorageError?
            do { try writer.sync() } catch { again = error }
            #expect(again == failure)
            do { try writer.append(block.bytes.span.bytes) } catch { again = nil }
            #expect(again == nil)
            #expect(files.disk.operationCount == calls, "the file was touched after a failed sync")
        }
    }

    @Test func `a sync without space takes back its block, which is written again and read back`()
        throws
    {
        let (header, blocks) = makeBlocks(4)
        for failing in 1...4 {
            let files = SimulatedFileSystem(seed: UInt64(failing))
            var writer = try SegmentWriter.create(header, byteCountMax: 64 << 10, in: files)
            files.disk.fail(.syncData, onCall: failing, errno: ENOSPC)
            var refusals = 0
            for block in blocks {
                while true {
                    let place = writer.byteCount
                    do {
                        try writer.append(block.bytes.span.bytes)
                        try writer.sync()
                        break
                    } catch {
                        guard case .diskFull = error else { throw error }
                        #expect(writer.byteCount == place)
                        refusals += 1
                    }
                }
            }
            #expect(refusals == 1)
            for seed in 0..<8 as Range<UInt64> {
                let left = files.disk.powerCut(seed: seed)
                let buffer = ReadBuffer()
                var walk = try SegmentReader(
                    header.segment, directory: TestLog.directory, in: left
                ).makeWalk()
                for block in blocks {
                    guard case .block(let found) = try walk.next(into: buffer) else {
                        Issue.record("block \(block.header.blockOrdinal), sync \(failing)")
                        break
                    }
                    #expect(found.context == block.header)
                }
            }
        }
    }

    @Test func `once the block is settled, each further one is written and synced once again`()
        throws
    {
        let (header, blocks) = makeBlocks(6)
        let files = SimulatedFileSystem(seed: 9)
        var writer = try SegmentWriter.create(header, byteCountMax: 64 << 10, in: files)
        // Two blocks are in the sync that fails: both are settled.
        for block in blocks.prefix(2) { try writer.append(block.bytes.span.bytes) }
        files.disk.fail(.syncData, onCall: 1, errno: ENOSPC)
        var failure: StorageError?
        do { try writer.sync() } catch { failure = error }
        #expect(failure?.shortage == .space)
        for (index, block) in blocks.enumerated() {
            let (syncs, reads) = (files.disk.callCount(.syncData), files.disk.callCount(.read))
            try writer.append(block.bytes.span.bytes)
            let isSettled = index < 2
            #expect(files.disk.callCount(.syncData) == syncs + (isSettled ? 1 : 0))
            #expect((files.disk.callCount(.read) > reads) == isSettled)
            try writer.sync()
            #expect(files.disk.callCount(.syncData) == syncs + 1, "block \(index)")
        }
    }

    @Test func `a block that cannot be read back after such a sync is durability lost`() throws {
        let (header, blocks) = makeBlocks(1)
        let files = SimulatedFileSystem(seed: 2)
        var writer = try SegmentWriter.create(header, byteCountMax: 64 << 10, in: files)
        let block = blocks[0]
        try writer.append(block.bytes.span.bytes)
        files.disk.fail(.syncData, onCall: 1, errno: ENOSPC)
        var failure: StorageError?
        do { try writer.sync() } catch { failure = error }
        #expect(failure?.shortage == .space)
        // For want of memory it is tried again.
        files.disk.fail(.read, onCall: 1, errno: ENOMEM)
        do { try writer.append(block.bytes.span.bytes) } catch { failure = error }
        #expect(failure?.shortage == .resources)
        files.disk.fail(.read, onCall: 1, errno: EIO, forever: true)
        do { try writer.append(block.bytes.span.bytes) } catch { failure = error }
        #expect(failure?.exitCode == 71, "\(String(describing: failure))")
        do { try writer.sync() } catch { failure = error }
        #expect(failure?.exitCode == 71)
    }

    @Test func `a block that is not on the disk after such a sync is durability lost`() throws {
        let (header, blocks) = makeBlocks(1)
        let files = SimulatedFileSystem(seed: 2)
        var writer = try SegmentWriter.create(header, byteCountMax: 64 << 10, in: files)
        files.disk.fail(.syncData, onCall: 1, errno: ENOSPC)
        let block = blocks[0]
        try writer.append(block.bytes.span.bytes)
        var failure: StorageError?
        do { try writer.sync() } catch { failure = error }
        #expect(failure?.shortage == .space)
        files.disk.forgetSyncs()
        do { try writer.append(block.bytes.span.bytes) } catch { failure = error }
        #expect(failure?.exitCode == 71, "\(String(describing: failure))")
    }

    @Test(arguments: [SimulatedDisk.Kind.sync, .syncDirectory])
    func `L1: a segment whose creation could not be made durable is not handed out`(
        _ kind: SimulatedDisk.Kind
    ) throws {
        let files = SimulatedFileSystem(seed: 1)
        files.disk.fail(kind, onCall: 1)
        var failure: StorageError?
        do {
            _ = try SegmentWriter.create(makeBlocks(0).0, byteCountMax: 1 << 20, in: files)
        } catch { failure = error }
        guard case .durabilityLost? = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
    }

    @Test func `preallocation goes in steps and stops at the segment's size`() throws {
        let files = SimulatedFileSystem(seed: 1)
        var log = TestLog(seed: 1)
        let header = log.startSegment()
        var writer = try SegmentWriter.create(header, byteCountMax: 20 << 20, in: files)
        #expect(try writer.file.byteCount() == 16 << 20)
        let block = [UInt8](repeating: 1, count: 512 << 10)
        for _ in 0..<40 { try writer.append(block.span.bytes) }
        #expect(try writer.file.byteCount() == writer.byteCount)
        #expect(files.disk.callCount(.allocate) == 3)
    }

    @Test func `a number is never used twice`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let header = makeBlocks(0).0
        _ = try SegmentWriter.create(header, byteCountMax: 1 << 20, in: files)
        var failure: StorageError?
        do { _ = try SegmentWriter.create(header, byteCountMax: 1 << 20, in: files) } catch {
            failure = error
        }
        guard case .alreadyExists? = failure else {
            Issue.record("created twice")
            return
        }
    }
}
