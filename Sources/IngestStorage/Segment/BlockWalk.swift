// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import IngestFormat

/// Goes through the blocks of a segment file from one to the next, without an index: for the tail that
/// a reader follows, and for recovery. The file may be written to meanwhile.
///
/// The walk says what is at its place; it does not judge (`DamageVerdict` does).
///
/// **Cost** Two preads a block (one where it is smaller than 4 KiB, or its head is enough), and its checksums.
package struct BlockWalk<File: StorageFile> {
    package enum Step {
        /// A whole block, every checksum right, the expected one; its bytes are in the buffer.
        case block(BlockHeader)
        /// Zeros, or the end of the file.
        case nothing
        /// The header can be believed, the rest cannot.
        case damaged(BlockHeader, FormatError)
        /// No block that belongs here.
        case unreadable(FormatError)
    }

    package let file: File
    /// Where the next block is expected; the end of the last one given.
    package private(set) var offset: UInt64
    /// Whose next block: directory, segment, ordinal, and the chain where it is known.
    package private(set) var place: BlockPlace
    /// The walk sees nothing from here on: the footer, or the end of the file.
    private let end: UInt64
    private let decoder = BlockDecoder()

    private static var firstReadByteCount: Int { 4096 }

    /// - Parameters:
    ///   - offset: start of the block that `place` describes.
    ///   - end: `nil` = wherever the file ends at each step.
    package init(
        _ file: File, from offset: UInt64 = SegmentLayout.blocksOffset, place: BlockPlace,
        end: UInt64? = nil
    ) {
        self.file = file
        self.offset = offset
        self.place = place
        self.end = end ?? .max
    }

    package var ordinal: UInt32 { place.blockOrdinal ?? 0 }

    /// Looks at the next place; moves on only past a whole block.
    ///
    /// **Errors** `newerFormat` for a sound block of a later release; `io`.
    /// - Parameter isHeadOnly: believes a block whose header is sound, and reads no more of it.
    package mutating func next(
        into buffer: ReadBuffer, isHeadOnly: Bool = false
    ) throws(StorageError) -> Step {
        let step = try look(into: buffer, isHeadOnly: isHeadOnly)
        if case .block(let header) = step { move(past: header) }
        return step
    }

    /// Goes on behind a damaged block whose header was given.
    package mutating func move(past header: BlockHeader) {
        offset = offset &+ UInt64(header.byteCount)
        place.blockOrdinal = header.endOrdinal
        place.previousChecksum = header.chainChecksum
    }

    /// Goes on at a block found further on, whatever lies between.
    package mutating func resume(at newOffset: UInt64, ordinal: UInt32) {
        offset = newOffset
        place.blockOrdinal = ordinal
        place.previousChecksum = nil
    }

    private func look(
        into buffer: ReadBuffer, isHeadOnly: Bool
    ) throws(StorageError) -> Step {
        try buffer.readAround(file, at: offset, byteCount: count(Self.firstReadByteCount))
        if buffer.isZero { return .nothing }
        let header: BlockHeader
        do {
            header = try buffer.withBytes { (bytes) throws(FormatError) in
                try decoder.header(bytes, at: place)
            }
        } catch { return .unreadable(try believable(error)) }
        if let error = Self.overLimit(header) { return .unreadable(error) }
        return isHeadOnly ? .block(header) : try check(header, in: buffer)
    }

    private func check(
        _ header: BlockHeader, in buffer: ReadBuffer
    ) throws(StorageError) -> Step {
        let present = buffer.byteCount
        if header.byteCount > present {
            let rest = min(header.byteCount, count(header.byteCount)) - present
            try buffer.appendAround(file, at: offset + UInt64(present), byteCount: max(0, rest))
        }
        buffer.keep(header.byteCount)
        do {
            _ = try buffer.withBytes { (bytes) throws(FormatError) in
                try decoder.check(bytes, at: place)
            }
            return .block(header)
        } catch { return .damaged(header, try believable(error)) }
    }

    /// What no writer makes, and would take memory or positions that there are not.
    private static func overLimit(_ header: BlockHeader) -> FormatError? {
        let end = UInt64(header.context.blockOrdinal) + UInt64(header.commitCount)
        if end > UInt64(Limits.segmentBlockCountMax) {
            return .corrupt(
                "block ordinal", at: 0, got: header.context.blockOrdinal,
                expected: .atMost(Limits.segmentBlockCountMax - Int(header.commitCount)))
        }
        let byteCountMax =
            Limits.blockByteCountMax + BlockLayout.headerByteCountMax + BlockLayout.commitAlignment
        if header.byteCount > byteCountMax {
            return .corrupt(
                "byte count", at: 0, got: header.byteCount, expected: .atMost(byteCountMax))
        }
        return nil
    }

    /// How many of `wanted` bytes lie before the end.
    private func count(_ wanted: Int) -> Int {
        Int(min(UInt64(wanted), end > offset ? end - offset : 0))
    }

    private func believable(_ error: FormatError) throws(StorageError) -> FormatError {
        if case .newerFormat = error {
            throw StorageError(path: file.path, offset: offset, error)
        }
        return error
    }
}
