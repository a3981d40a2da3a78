// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// Looks for the next whole block behind bytes that are none: at every multiple of 8 bytes, by magic, then
/// by place, then by all checksums. Recovery and `verify` need it.
///
/// **Cost** One pass over the bytes up to the block, about 1 GB/s; of what lies behind it, no more than was before it, or
/// 4 KiB.
package struct BlockScan<File: StorageFile> {
    let file: File
    let directory: DirectoryID
    let segment: SegmentNumber
    let end: UInt64

    /// - Parameter end: nothing is looked for behind it.
    package init(file: File, directory: DirectoryID, segment: SegmentNumber, end: UInt64) {
        self.file = file
        self.directory = directory
        self.segment = segment
        self.end = end
    }

    private static var windowByteCountMin: Int { 4 << 10 }
    private static var windowByteCountMax: Int { 1 << 20 }

    /// The first whole block of this segment at or after `start` that can follow what was there:
    /// with the ordinal of `place` it must be in the chain, with a later one there is a gap.
    package func next(
        from start: UInt64, at place: BlockPlace, into buffer: ReadBuffer
    ) throws(StorageError) -> (offset: UInt64, header: BlockHeader)? {
        let window = ReadBuffer(capacity: Self.windowByteCountMin)
        // Most gaps are short: what is read behind the next block is read again.
        var byteCount = Self.windowByteCountMin
        var windowStart = (start + 7) / 8 * 8
        while windowStart < end {
            let count = min(UInt64(byteCount), end - windowStart)
            try window.read(file, at: windowStart, byteCount: Int(count))
            for candidate in candidates(in: window) {
                let offset = windowStart + UInt64(candidate)
                if let header = try block(at: offset, following: place, into: buffer) {
                    return (offset, header)
                }
            }
            if window.byteCount < Int(count) { break }
            windowStart += count
            byteCount = min(2 * byteCount, Self.windowByteCountMax)
        }
        return nil
    }

    private func block(
        at offset: UInt64, following expected: BlockPlace, into buffer: ReadBuffer
    ) throws(StorageError) -> BlockHeader? {
        let place = BlockPlace(directory: directory, segment: segment)
        var walk = BlockWalk(file, from: offset, place: place, end: end)
        guard case .block(let header) = try walk.next(into: buffer) else { return nil }
        let ordinal = expected.blockOrdinal ?? 0
        if header.context.blockOrdinal > ordinal { return header }
        let isChained =
            expected.previousChecksum.map { $0 == header.context.previousChecksum } ?? true
        return header.context.blockOrdinal == ordinal && isChained ? header : nil
    }

    /// Places of the magic, which is never split by a window: both are multiples of 8.
    private func candidates(in window: ReadBuffer) -> [Int] {
        window.withBytes { bytes in
            var found: [Int] = []
            var place = 0
            while place + 8 <= bytes.byteCount {
                // SAFETY: 4 bytes from `place` on lie inside.
                let word = unsafe bytes.unsafeLoadUnaligned(
                    fromUncheckedByteOffset: place, as: UInt32.self)
                if word.littleEndian == BlockLayout.magic { found.append(place) }
                place += 8
            }
            return found
        }
    }
}
