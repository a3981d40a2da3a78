// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// What is in the file of one unsealed segment, found by reading all of it. States, no verdicts.
///
/// It keeps no file open: one that a copy replaces gives its room to the next copy, and there may be hundreds.
struct SegmentSurvey<Files: FileSystem> {
    /// A stretch of the file. Zeros behind the last are no piece.
    enum Piece {
        case block(offset: UInt64, BlockHeader)
        /// One block of which only the header can be believed.
        case damaged(offset: UInt64, BlockHeader)
        /// Bytes that cannot be read as blocks.
        case unreadable(Range<UInt64>, Content)
    }

    enum Content {
        /// Where blocks were lost before, and zeros were left.
        case zeros
        /// They begin as a footer does.
        case footer
        case other
    }

    let number: SegmentNumber
    /// Of its file; `nil` for a segment that is missing.
    let path: String?
    let byteCount: UInt64
    /// `nil` if it cannot be believed.
    let header: SegmentHeader?
    /// A footer that is sound by itself. It does not make the segment sealed: no manifest has it.
    let footer: SegmentFooter?
    let trailer: SegmentTrailer?
    private(set) var pieces: [Piece] = []
    /// The footer and where it begins, if everything before it is as it says.
    private(set) var intact: (footer: SegmentFooter, offset: UInt64)?

    /// A segment that others follow, and that is not there.
    init(missing number: SegmentNumber) {
        self.number = number
        path = nil
        byteCount = 0
        header = nil
        footer = nil
        trailer = nil
    }

    /// Reads the file.
    ///
    /// **Errors** `io`; `newerFormat`: the directory needs a later release.
    init(
        _ number: SegmentNumber, directory: DirectoryID, in files: Files
    ) throws(StorageError) {
        let file = try files.open(FileName.segment(number).text, .read)
        self.number = number
        path = file.path
        byteCount = try file.byteCount()
        header = try Self.believing { () throws(StorageError) in
            try SegmentReader<Files>.readHeader(file, number, directory)
        }
        let sealed = try Self.believing { () throws(StorageError) in
            try SegmentFooterFile.read(file, number: number, directory: directory)
        }
        footer = sealed?.footer
        trailer = sealed?.trailer
        if try !readByIndex(file, directory) { try readByWalk(file, directory) }
    }

    /// The file again.
    func open(in files: Files) throws(StorageError) -> Files.File {
        try files.open(FileName.segment(number).text, .read)
    }

    /// The value, or `nil` where the bytes cannot be believed.
    private static func believing<Value>(
        _ body: () throws(StorageError) -> Value
    ) throws(StorageError) -> Value? {
        do { return try body() } catch {
            if case .corrupt = error { return nil }
            throw error
        }
    }

    /// The pieces of a file that is exactly what its footer says.
    private mutating func readByIndex(
        _ file: Files.File, _ directory: DirectoryID
    ) throws(StorageError) -> Bool {
        guard let footer, let trailer, let header else { return false }
        let reader = SegmentReader<Files>(number, directory, header, file)
        let buffer = ReadBuffer()
        var found: [Piece] = []
        for entry in footer.blocks {
            let block = try Self.believing { () throws(StorageError) in
                try reader.read(entry, into: buffer)
            }
            guard let block else { return false }
            found.append(.block(offset: entry.offset, block))
        }
        for gap in footer.gaps(footerOffset: trailer.footerOffset) {
            guard try file.isZero(gap) else { return false }
        }
        pieces = found
        intact = (footer, trailer.footerOffset)
        return true
    }

    private mutating func readByWalk(
        _ file: Files.File, _ directory: DirectoryID
    ) throws(StorageError) {
        let end = trailer?.footerOffset ?? byteCount
        let buffer = ReadBuffer()
        var scan = BlockScan(file: file, directory: directory, segment: number, end: end)
        var walk = BlockWalk(
            file,
            place: BlockPlace(
                directory: directory, segment: number, blockOrdinal: 0,
                previousChecksum: header?.previousChecksum), end: end)
        while walk.offset < end {
            let offset = walk.offset
            switch try walk.next(into: buffer) {
            case .block(let header): pieces.append(.block(offset: offset, header))
            case .damaged(let header, _):
                pieces.append(.damaged(offset: offset, header))
                walk.move(past: header)
            case .nothing, .unreadable:
                let next = try scan.next(from: offset, at: walk.place, into: buffer)
                try appendUnreadable(offset..<(next?.offset ?? end), isLast: next == nil, in: file)
                guard let next else { return }
                walk.resume(at: next.offset, ordinal: next.header.context.blockOrdinal)
            }
        }
    }

    /// Bytes between blocks, or behind the last without the zeros at their end.
    private mutating func appendUnreadable(
        _ range: Range<UInt64>, isLast: Bool, in file: Files.File
    ) throws(StorageError) {
        let end = try file.endOfContent(in: range)
        if end == range.lowerBound {
            if !isLast { pieces.append(.unreadable(range, .zeros)) }
            return
        }
        let first = try file.readArray(at: range.lowerBound, byteCount: 4)
        let magic = first.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        pieces.append(
            .unreadable(
                range.lowerBound..<(isLast ? end : range.upperBound),
                magic == SegmentFooter.magic ? .footer : .other))
    }
}

extension StorageFile {
    private static var windowByteCount: UInt64 { 1 << 20 }

    /// Whether a range holds zeros only; what lies behind the file's end does.
    func isZero(_ range: Range<UInt64>) throws(StorageError) -> Bool {
        try endOfContent(in: range) == range.lowerBound
    }

    /// Where the last byte of a range ends that is not zero; its start if there is none.
    func endOfContent(in range: Range<UInt64>) throws(StorageError) -> UInt64 {
        let buffer = ReadBuffer(capacity: Int(Self.windowByteCount))
        var end = range.upperBound
        while end > range.lowerBound {
            let count = min(Self.windowByteCount, end - range.lowerBound)
            try buffer.read(self, at: end - count, byteCount: Int(count))
            if let last = buffer.lastNonzero { return end - count + UInt64(last) + 1 }
            end -= count
        }
        return range.lowerBound
    }
}
