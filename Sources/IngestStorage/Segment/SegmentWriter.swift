// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import Glibc
import IngestFormat

/// Writes the blocks of one segment. Owned by the sync queue.
///
/// Order (docs/durability.md): the file is created exclusively, its header, first extent and name are durable
/// before `create` returns; a block is one write; `sync` is `fdatasync` on the same descriptor. The caller
/// issues the write of block N+1 only after the sync of N returned: then at most the last block of the
/// log can be torn.
///
/// **Errors** A `Shortage` changes nothing: the same block is appended again later, at the same place. A sync that
/// failed for want of space takes back what was appended since the last one: the file is opened anew, and what is
/// appended then in its place is synced at once and read back, since pages of a failed sync may look written and not be. After
/// `durabilityLost` every call throws it again without touching the file; the process ends with 71.
///
/// **Cost** A block: one pwrite, one fdatasync, and every 16 MiB one fallocate. No allocation.
package struct SegmentWriter<Files: FileSystem>: ~Copyable {
    package let header: SegmentHeader
    package private(set) var file: Files.File
    private let files: Files
    /// Where the next block goes.
    package private(set) var byteCount = SegmentLayout.blocksOffset
    package private(set) var blockCount: UInt32 = 0
    /// Of the blocks that are durable.
    private var synced = (byteCount: SegmentLayout.blocksOffset, blockCount: UInt32(0))
    /// Up to where bytes were written, or begun to be.
    private var writtenEnd: UInt64 = 0
    /// Up to where pages may look written and not be, until a block that is written there is settled: a sync failed for
    /// want of space. Whether the descriptor is still that of the sync.
    private var suspectEnd: UInt64 = 0
    private var mustReopen = false
    /// Whether all that was appended was made durable and read back.
    private var isSettled = false
    private var allocatedByteCount: UInt64 = 0
    private let byteCountMax: UInt64
    private var failure: StorageError?

    /// Creates the segment file.
    /// - Parameters:
    ///   - byteCountMax: about how large the segment will get; bounds what is preallocated.
    ///   - isAgain: whether this very segment was begun before, by this process, and refused for a `Shortage`. What
    ///     could not be removed then is removed now.
    /// **Errors** `alreadyExists`: the number was used before. `removed`: the directory is gone. After a `Shortage` nothing
    /// is left behind that a call with `isAgain` does not remove.
    package static func create(
        _ header: SegmentHeader, byteCountMax: Int, in files: Files, isAgain: Bool = false
    ) throws(StorageError) -> SegmentWriter {
        let name = FileName.segment(header.segment).text
        if isAgain {
            do { try files.unlink(name) } catch {
                guard case .notFound = error else { throw error }
            }
        }
        let file: Files.File
        do throws(StorageError) { file = try files.create(name) } catch .notFound {
            throw .removed(
                path: files.path, detail: "the data directory was removed while the daemon ran")
        }
        var writer = SegmentWriter(
            header: header, file: file, in: files, byteCountMax: byteCountMax)
        do {
            try writer.allocate(to: SegmentLayout.blocksOffset)
            try writer.file.write(header.encode(), at: 0)
            try writer.file.sync()
        } catch {
            // A file without a block: what a failed sync lost of it is not missed.
            let cause = error.ofUnneededBytes
            if case .durabilityLost = cause { throw cause }
            try? files.unlink(name)
            throw cause
        }
        try files.syncDirectory()
        return writer
    }

    private init(header: SegmentHeader, file: Files.File, in files: Files, byteCountMax: Int) {
        self.header = header
        self.file = file
        self.files = files
        self.byteCountMax = max(UInt64(byteCountMax), SegmentLayout.blocksOffset)
    }

    /// Writes a block behind the last one. Not durable before `sync`.
    /// - Returns: the block's offset in the file.
    @discardableResult
    package mutating func append(_ block: RawSpan) throws(StorageError) -> UInt64 {
        if let failure { throw failure }
        try reopenIfNeeded()
        let offset = byteCount
        let end = offset + UInt64(block.byteCount)
        try allocate(to: end)
        (writtenEnd, isSettled) = (max(writtenEnd, end), false)
        try file.write(block, at: offset)
        if offset < suspectEnd {
            try settle(block, at: offset)
            isSettled = true
        }
        byteCount = end
        blockCount += 1
        return offset
    }

    /// Makes a block durable at once, and reads it back from the disk.
    private mutating func settle(_ block: RawSpan, at offset: UInt64) throws(StorageError) {
        try syncOnce()
        file.forgetCached()
        let buffer = ReadBuffer()
        do { try buffer.read(file, at: offset, byteCount: block.byteCount) } catch {
            // For want of memory it can be tried again; a disk that does not give it back has lost it.
            guard error.shortage == nil else { throw error }
            throw lost()
        }
        let found = buffer.withBytes { Checksum.crc32c($0) }
        guard buffer.byteCount == block.byteCount, found == Checksum.crc32c(block) else {
            throw lost()
        }
    }

    private mutating func lost() -> StorageError {
        let error = StorageError.durabilityLost(path: file.path, call: "read back", errno: EIO)
        failure = error
        return error
    }

    /// As `append` of the buffer's bytes.
    @discardableResult
    package mutating func append(_ block: BlockBuffer) throws(StorageError) -> UInt64 {
        // SAFETY: the buffer lives, and is not encoded into, during the call.
        let bytes = unsafe RawSpan(_unsafeBytes: block.bytes)
        return try append(bytes)
    }

    /// Makes all appended blocks durable.
    ///
    /// **Errors** After `diskFull` those since the last sync are to be appended again.
    package mutating func sync() throws(StorageError) {
        if let failure { throw failure }
        if !isSettled { try syncOnce() }
        synced = (byteCount, blockCount)
    }

    private mutating func syncOnce() throws(StorageError) {
        do { try file.syncData() } catch {
            let cause = error.ofUnneededBytes
            if cause.shortage == nil {
                failure = error
            } else {
                (byteCount, blockCount) = synced
                (suspectEnd, mustReopen) = (max(suspectEnd, writtenEnd), true)
            }
            throw cause
        }
    }

    /// The descriptor of a failed sync is not synced again: it has told of its error, and would say 0 whatever became
    /// of the bytes.
    private mutating func reopenIfNeeded() throws(StorageError) {
        guard mustReopen else { return }
        file = try files.open(FileName.segment(header.segment).text, .readWrite)
        mustReopen = false
    }

    /// How large the file of a segment is made for bytes up to `end`.
    package static func allocation(upTo end: UInt64, byteCountMax: UInt64) -> UInt64 {
        let step = UInt64(Limits.preallocationByteCountMax)
        return max(end, min((end + step - 1) / step * step, byteCountMax))
    }

    /// Reserves whole steps ahead, so that most blocks change no metadata; near the end of the disk or
    /// of the segment only what is needed.
    private mutating func allocate(to end: UInt64) throws(StorageError) {
        guard end > allocatedByteCount else { return }
        let ahead = Self.allocation(upTo: end, byteCountMax: byteCountMax)
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
    package struct Outcome {
        package let footer: SegmentFooter
        package let trailer: SegmentTrailer
        package var isRewritten = false
        /// Why it was not rewritten, though that would have paid.
        package var refusal: StorageError?
    }

    /// Seals a segment by its footer: rewritten where its blocks are small and the disk takes that, else as it stands.
    /// - Parameters:
    ///   - keys: the names of every key, by ordinal.
    ///   - offset: end of the last block.
    ///   - isAgain: whether the disk refused it before: then it is not rewritten, which needs more than a footer.
    /// **Errors** As `seal(_:footer:at:)`; `removed` where the file is gone.
    package static func seal<Files: FileSystem>(
        _ footer: SegmentFooter, keys: [RewardKey], at offset: UInt64, isAgain: Bool,
        in files: Files
    ) throws(StorageError) -> Outcome {
        var refusal: StorageError?
        // Another descriptor than the blocks' own will do: they are durable already. It is that of the live segment,
        // also where a rename took effect and said that it did not: no footer is written over rewritten blocks.
        let file: Files.File
        do throws(StorageError) {
            file = try files.open(FileName.segment(footer.segment).text, .readWrite)
        } catch .notFound(let path) {
            throw .removed(
                path: path,
                detail: "the segment was removed while it was written, what was acked of it is lost"
            )
        }
        if SegmentRewrite<Files>.pays(footer) && !isAgain {
            do {
                let (footer, trailer) = try SegmentRewrite.run(footer, keys: keys, in: files)
                return Outcome(footer: footer, trailer: trailer, isRewritten: true)
            } catch { refusal = error }
        }
        let trailer = try seal(file, footer: footer, at: offset)
        return Outcome(footer: footer, trailer: trailer, refusal: refusal)
    }

    /// Writes the footer behind the last block, cuts what was preallocated, makes both durable.
    ///
    /// The segment counts as sealed once a durable manifest holds the returned trailer's footer checksum;
    /// until then a start seals it again by copy.
    /// - Parameters:
    ///   - file: the descriptor that the blocks were written with.
    ///   - offset: end of the last block.
    /// **Errors** A `Shortage` can be tried again, on a descriptor of its own; `durabilityLost` is final.
    package static func seal(
        _ file: some StorageFile, footer: SegmentFooter, at offset: UInt64
    ) throws(StorageError) -> SegmentTrailer {
        let (bytes, trailer) = footer.encode(at: offset)
        try file.write(bytes, at: offset)
        try file.truncate(to: trailer.fileByteCount)
        // The blocks are durable; the footer is written anew.
        do { try file.sync() } catch { throw error.ofUnneededBytes }
        return trailer
    }
}
