// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import IngestFormat

/// Looks for the next whole block behind bytes that are none: at every multiple of 8 bytes, by magic, then
/// by place, then by all checksums. Recovery and `verify` need it.
///
/// Blocks that are damaged do not overlap, so their checks read no more than was passed. Bytes
/// forged to begin as blocks at every place, each as long as one can be, would be checked over and over: more than
/// `falseByteCountMax` of such checks is an error, and never a start that does not end. Names can begin as blocks of
/// another version, which nothing but a checksum tells from one: as many of them are checked, and then they are passed.
///
/// **Cost** One pass over the bytes up to the block, about 1 GB/s, but of what was only reserved and never written; of what
/// lies behind it, no more than was before it, or 4 KiB. Of places that only begin as blocks, three times what was passed,
/// and four of the largest blocks; and as much of those of another version.
package struct BlockScan<File: StorageFile> {
    let file: File
    let directory: DirectoryID
    let segment: SegmentNumber
    /// Nothing is looked for behind it.
    package var end: UInt64
    /// Bytes that were gone through, by all calls.
    private var passedByteCount: UInt64 = 0
    /// Bytes checked of places that began as a block and were none.
    private var falseByteCount: UInt64 = 0
    /// Bytes read of places that began as a block of another version.
    private var strangeByteCount: UInt64 = 0
    /// Whether no whole block is left before `end`.
    private var isBehindWhole = false

    package init(file: File, directory: DirectoryID, segment: SegmentNumber, end: UInt64) {
        self.file = file
        self.directory = directory
        self.segment = segment
        self.end = end
    }

    private static var windowByteCountMin: Int { 4 << 10 }
    private static var pageByteCount: UInt64 { 4 << 10 }
    private static var windowByteCountMax: Int { 1 << 20 }

    /// Three times, since damaged blocks may be passed more than once: by the walk, and where a scan begins again.
    private var falseByteCountMax: UInt64 {
        3 * passedByteCount + 4 * UInt64(Limits.blockByteCountMax)
    }

    /// The first whole block of this segment at or after `start` that can follow what was there:
    /// with the ordinal of `place` it must be in the chain, with a later one there is a gap. Where there is none, the
    /// first of a later ordinal of which the header can be believed: it was begun when all before it were durable.
    ///
    /// **Errors** `corrupt` where too much of the file was made to look like blocks; those of `BlockWalk`.
    package mutating func next(
        from start: UInt64, at place: BlockPlace, into buffer: ReadBuffer
    ) throws(StorageError) -> (offset: UInt64, header: BlockHeader)? {
        let window = ReadBuffer(capacity: Self.windowByteCountMin)
        // Most gaps are short: what is read behind the next block is read again.
        var byteCount = Self.windowByteCountMin
        var windowStart = (start + 7) / 8 * 8
        var begun: (offset: UInt64, header: BlockHeader)?
        while windowStart < end {
            // Up to the end of a page: what was read of one is data, whatever it was before.
            let windowEnd = (windowStart + UInt64(byteCount)) / Self.pageByteCount
            let count = min(windowEnd * Self.pageByteCount, end) - windowStart
            try window.readAround(file, at: windowStart, byteCount: Int(count))
            if window.isZero {
                // Nothing is read of what was only reserved.
                let next = try file.nextData(from: windowStart + count) / 8 * 8
                passedByteCount += count
                windowStart = max(windowStart + count, next)
                byteCount = min(2 * byteCount, Self.windowByteCountMax)
                continue
            }
            let passedBefore = passedByteCount
            for candidate in candidates(in: window) {
                let offset = windowStart + UInt64(candidate.place)
                passedByteCount = passedBefore + UInt64(candidate.place)
                if candidate.isStrange {
                    if strangeByteCount >= falseByteCountMax { continue }
                    strangeByteCount += UInt64(BlockLayout.headerByteCountMax)
                }
                switch try block(at: offset, following: place, into: buffer) {
                case .block(let header): return (offset, header)
                case .damaged(let header, _):
                    if isBehindWhole { return (offset, header) }
                    begun = begun ?? (offset, header)
                case .nothing, .unreadable: break
                }
            }
            if window.byteCount < Int(count) { break }
            passedByteCount = passedBefore + count
            windowStart += count
            byteCount = min(2 * byteCount, Self.windowByteCountMax)
        }
        isBehindWhole = true
        return begun
    }

    /// - Returns: nothing for a block that does not follow.
    private mutating func block(
        at offset: UInt64, following expected: BlockPlace, into buffer: ReadBuffer
    ) throws(StorageError) -> BlockWalk<File>.Step {
        let place = BlockPlace(directory: directory, segment: segment)
        var walk = BlockWalk(file, from: offset, place: place, end: end)
        let step = try walk.next(into: buffer)
        switch step {
        case .block(let header):
            if follows(header, expected) { return step }
            try miss(header.byteCount, at: offset)
        case .damaged(let header, _):
            try miss(header.byteCount, at: offset)
            if header.context.blockOrdinal > expected.blockOrdinal ?? 0 { return step }
        case .unreadable, .nothing: try miss(headerByteCount(in: buffer), at: offset)
        }
        return .nothing
    }

    private func follows(_ header: BlockHeader, _ expected: BlockPlace) -> Bool {
        let ordinal = expected.blockOrdinal ?? 0
        if header.context.blockOrdinal > ordinal { return true }
        let isChained =
            expected.previousChecksum.map { $0 == header.context.previousChecksum } ?? true
        return header.context.blockOrdinal == ordinal && isChained
    }

    /// How many bytes were under the checksum of a header that was none, as it says itself; nothing of bytes that only
    /// happen to begin as one: a name can.
    private func headerByteCount(in buffer: ReadBuffer) -> Int {
        buffer.withBytes { bytes in
            guard isOfThisSegment(bytes, at: 0) else { return 0 }
            let field = BlockLayout.Header.headerByteCount
            let count: UInt16 = load(bytes, field.offset)
            return min(Int(count), BlockLayout.headerByteCountMax)
        }
    }

    /// Counts the bytes of a failed check.
    private mutating func miss(_ byteCount: Int, at offset: UInt64) throws(StorageError) {
        falseByteCount += min(UInt64(byteCount), end - min(end, offset))
        guard falseByteCount > falseByteCountMax else { return }
        throw .corrupt(
            path: file.path, offset: offset,
            detail: "too many false block headers: \(falseByteCount) bytes checked")
    }

    private typealias Candidate = (place: Int, isStrange: Bool)

    /// Places of the magic, which is never split by a window: both are multiples of 8. Blocks of our version that say
    /// they are of another segment are left out.
    private func candidates(in window: ReadBuffer) -> [Candidate] {
        window.withBytes { bytes in
            var found: [Candidate] = []
            var place = 0
            while place + 8 <= bytes.byteCount {
                let word: UInt32 = load(bytes, place)
                if word == BlockLayout.magic, let candidate = candidate(bytes, at: place) {
                    found.append(candidate)
                }
                place += 8
            }
            return found
        }
    }

    /// - Parameter place: of the magic, with the version and the header's length behind it.
    private func candidate(_ bytes: RawSpan, at place: Int) -> Candidate? {
        let version: UInt16 = load(bytes, place + BlockLayout.Header.version.offset)
        if version == BlockLayout.version {
            // Of one at the window's end more is read.
            let isCut = bytes.byteCount - place < Self.placeEnd
            return isCut || isOfThisSegment(bytes, at: place) ? (place, false) : nil
        }
        let count: UInt16 = load(bytes, place + BlockLayout.Header.headerByteCount.offset)
        let isPossible =
            count >= BlockLayout.headerByteCountMin && count <= BlockLayout.headerByteCountMax
            && count % UInt16(BlockLayout.alignment) == 0
        return isPossible ? (place, true) : nil
    }

    private static var placeEnd: Int { BlockLayout.Header.directory.offset + 8 }

    private func isOfThisSegment(_ bytes: RawSpan, at place: Int) -> Bool {
        guard bytes.byteCount - place >= Self.placeEnd else { return false }
        let number: UInt32 = load(bytes, place + BlockLayout.Header.segment.offset)
        let owner: UInt64 = load(bytes, place + BlockLayout.Header.directory.offset)
        return number == segment.rawValue && owner == directory.rawValue
    }

    private func load<Value: FixedWidthInteger & BitwiseCopyable>(
        _ bytes: RawSpan, _ offset: Int
    ) -> Value {
        // SAFETY: the callers have seen that the value lies inside.
        unsafe Value(
            littleEndian: bytes.unsafeLoadUnaligned(
                fromUncheckedByteOffset: offset, as: Value.self))
    }
}

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
