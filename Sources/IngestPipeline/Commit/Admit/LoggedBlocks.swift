// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage

/// Decodes blocks of sealed segments for a start: one after the other in their order, with those behind it where they are
/// small. Used by one thread at a time.
final class LoggedBlocks<Files: FileSystem>: @unchecked Sendable {
    private let directory: DirectoryID
    private let decoder = BlockDecoder()
    private let buffer = ReadBuffer(capacity: windowByteCount)
    /// What of which file is in the buffer: bytes from here on, several blocks if they are small.
    private var path = ""
    private var windowStart: UInt64 = 0
    /// Of the block that was decoded last.
    let rows = BlockRows()

    private static var windowByteCount: Int { 1 << 20 }

    init(directory: DirectoryID) { self.directory = directory }

    /// Decodes parts of a block into `rows`, each row under the key that its event was judged by.
    /// - Returns: the other parts; `nil` if it is not whole.
    func decode(
        _ block: BlockIndexEntry, of segment: SealedBlocks<Files>, wanted: BlockSections
    ) throws(StorageError) -> DecodedBlock? {
        guard let file = segment.file else { return nil }
        if file.path != path || block.offset < windowStart
            || block.end > windowStart + UInt64(buffer.byteCount)
        {
            try read(
                file, at: block.offset,
                byteCount: max(Self.windowByteCount, block.summary.byteCount))
        }
        let first = Int(block.offset - windowStart)
        guard first + block.summary.byteCount <= buffer.byteCount else { return nil }
        let place = BlockPlace(directory: directory, blockOrdinal: block.ordinal)
        return buffer.withBytes { bytes in
            let decoded = try? decoder.decode(
                bytes.extracting(first..<first + block.summary.byteCount), at: place,
                wanted: wanted.union(.rewardHash), into: rows)
            guard decoded?.header.summary == block.summary else { return nil }
            tellOthersApart()
            return decoded
        }
    }

    private func tellOthersApart() {
        if rows.rewardHashCount == 0 { return }
        var place = 0
        for row in 0..<rows.rowCount {
            // SAFETY: the decoder has filled `rowCount` rows, and a hash for each whose attributes say so.
            guard unsafe RowAttributes(rawValue: rows.attributes[row]).isOverflow else { continue }
            let key = unsafe KeyOrdinal(rawValue: rows.key[row])
            unsafe rows.key[row] =
                OtherRewards.judgedKey(rows.rewardHash[place], of: key).rawValue
            place += 1
        }
    }

    /// The header of a block alone; `nil` if it cannot be read.
    func header(
        _ block: BlockIndexEntry, of segment: SealedBlocks<Files>
    ) throws(StorageError) -> BlockHeader? {
        guard let file = segment.file else { return nil }
        let bytes = try StorageError.readable { () throws(StorageError) in
            try file.readArray(at: block.offset, byteCount: BlockDecoder.headerByteCountMax)
        }
        guard let bytes else { return nil }
        // SAFETY: bytes of an array are initialised; the span ends with the call.
        return unsafe try? decoder.header(bytes.span.bytes)
    }

    /// What is wrong with a block, or where it lies: of its own bytes, since those behind it were read too.
    func text(
        ofDamaged block: BlockIndexEntry, in segment: SealedBlocks<Files>
    ) throws(StorageError) -> String {
        let place = "block \(block.ordinal), \(segment.file?.path ?? "") at byte \(block.offset)"
        guard let file = segment.file else { return place }
        try read(file, at: block.offset, byteCount: block.summary.byteCount)
        return buffer.hole.map { "\($0)" } ?? place
    }

    private func read(
        _ file: Files.File, at offset: UInt64, byteCount: Int
    ) throws(StorageError) {
        path = ""
        try buffer.readAround(file, at: offset, byteCount: byteCount)
        (path, windowStart) = (file.path, offset)
    }
}
