import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// What a scan for the next block makes of bytes that only look like blocks.
@Suite struct BlockScanTests {
    private let files = SimulatedFileSystem(seed: 1)

    private func scan(
        _ bytes: [UInt8], _ header: SegmentHeader
    ) throws -> (offset: UInt64, header: BlockHeader)? {
        let file = try files.create("0000000001.segment")
        try file.write(bytes, at: 0)
        var scan = BlockScan(
            file: file, directory: TestLog.directory, segment: header.segment,
            end: UInt64(bytes.count))
        return try scan.next(
            from: SegmentLayout.blocksOffset,
            at: BlockPlace(directory: TestLog.directory, segment: header.segment, blockOrdinal: 0),
            into: ReadBuffer())
    }

    @Test func `headers of blocks that are not there are not checked without end`() throws {
        var log = TestLog(seed: 1)
        let header = log.startSegment()
        let block = log.block(rowCount: 40_000)
        #expect(block.bytes.count > 300_000)
        // Sound headers, each of a block that goes on over thousands of others.
        var bytes = header.padded
        while bytes.count < 4 << 20 { bytes += block.bytes[..<512] }
        let error = #expect(throws: StorageError.self) { try scan(bytes, header) }
        guard case .corrupt(let path, let offset, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(path.hasSuffix("0000000001.segment") && offset < bytes.count)
        // Unbounded it would be 3 GB.
        let readByteCountMax = 6 * bytes.count + 5 * Limits.blockByteCountMax
        #expect(files.disk.readByteCount < readByteCountMax, "\(files.disk.readByteCount)")
    }

    /// As a name can: each with a version and a header that there may be.
    /// The second place is the last 8 bytes of a window, which says nothing yet of the block's segment.
    @Test(
        arguments: [2, 0xFFFF] as [UInt16],
        [1 << 20, Int(SegmentLayout.blocksOffset) + 4_096 * ((1 << 6) - 1) - 8])
    func `beginnings of another version are not read without end, and hide no block`(
        version: UInt16, end: Int
    ) throws {
        var log = TestLog(seed: 3)
        let header = log.startSegment()
        var bytes = header.padded
        let beginning =
            Array("IGB1".utf8) + [UInt8(version & 0xFF), UInt8(version >> 8), 0x00, 0x10]
        while bytes.count < end { bytes += beginning }
        let last = log.block(rowCount: 5)
        bytes += last.bytes
        let found = try scan(bytes, header)
        #expect(found?.offset == UInt64(end) && found?.header.summary == last.summary)
        // Unbounded it would be 512 MiB.
        let readByteCountMax = 6 * bytes.count + 5 * Limits.blockByteCountMax
        #expect(files.disk.readByteCount < readByteCountMax, "\(files.disk.readByteCount)")
    }

    @Test func `beginnings of another version that cannot be headers are not read at all`() throws {
        var log = TestLog(seed: 4)
        let header = log.startSegment()
        var bytes = header.padded
        for count in [0, 8, 0x1008, 0xFFFF] as [UInt16] {
            for _ in 0..<2_000 {
                bytes += Array("IGB1".utf8) + [2, 0, UInt8(count & 0xFF), UInt8(count >> 8)]
            }
        }
        let end = bytes.count
        bytes += log.block(rowCount: 5).bytes
        #expect(try scan(bytes, header)?.offset == UInt64(end))
        #expect(files.disk.readByteCount < 3 * bytes.count + 16 << 10)
    }

    @Test func `damaged blocks and strange beginnings are passed, to the whole block behind`()
        throws
    {
        var log = TestLog(seed: 2)
        let header = log.startSegment()
        var bytes = header.padded
        for _ in 0..<40 {
            var block = log.block(rowCount: 400).bytes
            block[block.count / 2] ^= 1
            bytes += block
        }
        // Of another segment, and what a name may hold.
        var other = TestLog(seed: 2)
        _ = other.startSegment()
        _ = other.startSegment()
        bytes += other.block(rowCount: 3).bytes
        for _ in 0..<1_000 { bytes += Array("IGB1".utf8) + [1, 0, 0xFF, 0xFF] }
        let end = bytes.count
        let last = log.block(rowCount: 5)
        bytes += last.bytes
        let found = try scan(bytes, header)
        #expect(found?.offset == UInt64(end) && found?.header.summary == last.summary)
        #expect(files.disk.readByteCount < 12 * bytes.count, "\(files.disk.readByteCount)")
    }
}
