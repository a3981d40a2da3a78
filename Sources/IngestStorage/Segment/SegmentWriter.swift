// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// Writes the blocks of one segment. Owned by the sync queue.
///
/// Order (docs/durability.md): the file is created exclusively, its header, first extent and name are durable
/// before `create` returns; a block is one write; `sync` is `fdatasync` on the same descriptor. The caller
/// issues the write of block N+1 only after the sync of N returned: then at most the last block of the
/// log can be torn.
///
/// **Errors** `diskFull` changes nothing: the same block is appended again later, at the same place. After
/// `durabilityLost` every call throws it again without touching the file; the process ends with 71.
///
/// **Cost** A block: one pwrite, one fdatasync, and every 16 MiB one fallocate. No allocation.
package struct SegmentWriter<Files: FileSystem>: ~Copyable {
    package let header: SegmentHeader
    package let file: Files.File
    /// Where the next block goes.
    package private(set) var byteCount = UInt64(SegmentHeader.byteCount)
    package private(set) var blockCount: UInt32 = 0
    private var allocatedByteCount: UInt64 = 0
    private let byteCountMax: UInt64
    private var failure: StorageError?

    /// Creates the segment file.
    /// - Parameter byteCountMax: about how large the segment will get; bounds what is preallocated.
    /// **Errors** `alreadyExists`: the number was used before. After `diskFull` nothing is left behind.
    package static func create(
        _ header: SegmentHeader, byteCountMax: Int, in files: Files
    ) throws(StorageError) -> SegmentWriter {
        let name = FileName.segment(header.segment).text
        let file = try files.create(name)
        var writer = SegmentWriter(header: header, file: file, byteCountMax: byteCountMax)
        do {
            try writer.allocate(to: UInt64(SegmentHeader.byteCount))
            try file.write(header.encode(), at: 0)
        } catch {
            try? files.unlink(name)
            throw error
        }
        try file.sync()
        try files.syncDirectory()
        return writer
    }

    private init(header: SegmentHeader, file: Files.File, byteCountMax: Int) {
        self.header = header
        self.file = file
        self.byteCountMax = UInt64(max(byteCountMax, SegmentHeader.byteCount))
    }

    /// Writes a block behind the last one. Not durable before `sync`.
    /// - Returns: the block's offset in the file.
    @discardableResult
    package mutating func append(_ block: RawSpan) throws(StorageError) -> UInt64 {
        if let failure { throw failure }
        let offset = byteCount
        let end = offset + UInt64(block.byteCount)
        try allocate(to: end)
        try file.write(block, at: offset)
        byteCount = end
        blockCount += 1
        return offset
    }

    /// As `append` of the buffer's bytes.
    @discardableResult
    package mutating func append(_ block: BlockBuffer) throws(StorageError) -> UInt64 {
        // SAFETY: the buffer lives, and is not encoded into, during the call.
        let bytes = unsafe RawSpan(_unsafeBytes: block.bytes)
        return try append(bytes)
    }

    /// Makes all appended blocks durable.
    package mutating func sync() throws(StorageError) {
        if let failure { throw failure }
        do { try file.syncData() } catch {
            failure = error
            throw error
        }
    }

    /// Reserves whole steps ahead, so that most blocks change no metadata; near the end of the disk or
    /// of the segment only what is needed.
    private mutating func allocate(to end: UInt64) throws(StorageError) {
        guard end > allocatedByteCount else { return }
        let step = UInt64(Limits.preallocationByteCountMax)
        let ahead = max(end, min((end + step - 1) / step * step, byteCountMax))
        do {
            try file.allocate(to: ahead)
            allocatedByteCount = ahead
        } catch {
            guard case .diskFull = error, ahead > end else { throw error }
            try file.allocate(to: end)
            allocatedByteCount = end
        }
    }
}

/// Ends a segment whose blocks are all durable. Runs on the compact queue, off the write path.
package enum SegmentSealer {
    /// Writes the footer behind the last block, cuts what was preallocated, makes both durable.
    ///
    /// The segment counts as sealed once a durable manifest holds the returned trailer's footer checksum;
    /// until then a start seals it again by copy.
    /// - Parameters:
    ///   - file: the descriptor that the blocks were written with.
    ///   - offset: end of the last block.
    /// **Errors** `diskFull` can be tried again; `durabilityLost` is final.
    package static func seal(
        _ file: some StorageFile, footer: SegmentFooter, at offset: UInt64
    ) throws(StorageError) -> SegmentTrailer {
        let (bytes, trailer) = footer.encode(at: offset)
        try file.write(bytes, at: offset)
        try file.truncate(to: trailer.fileByteCount)
        try file.sync()
        return trailer
    }
}
