// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// What is in the file of one unsealed segment, found by reading all of it. States, no verdicts.
///
/// It keeps no file open: one that a copy replaces gives its room to the next copy, and there may be hundreds.
package struct SegmentSurvey<Files: FileSystem> {
    /// A stretch of the file. Zeros behind the last are no piece.
    package enum Piece {
        case block(offset: UInt64, BlockHeader)
        /// One block of which only the header can be believed.
        case damaged(offset: UInt64, BlockHeader)
        /// Bytes that cannot be read as blocks.
        case unreadable(Range<UInt64>, Content)
    }

    package enum Content {
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
    package private(set) var pieces: [Piece] = []
    /// What was wrong with the first bytes that the disk could not read, if there are such.
    package private(set) var hole: StorageError?
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
    /// **Errors** `io`; `newerFormat`: the directory needs a later release; those of `BlockScan`.
    init(
        _ number: SegmentNumber, directory: DirectoryID, in files: Files
    ) throws(StorageError) {
        try self.init(
            number, directory: directory,
            of: try files.open(FileName.segment(number).text, .read))
    }

    /// As above, of a file that is open.
    package init(
        _ number: SegmentNumber, directory: DirectoryID, of file: Files.File
    ) throws(StorageError) {
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
        try readByWalk(file, directory)
        if let footer, let trailer, header != nil, isAsIn(footer) {
            intact = (footer, trailer.footerOffset)
        }
    }

    /// The whole blocks, as a footer lists them.
    var blocks: [BlockIndexEntry] {
        pieces.compactMap { piece in
            guard case .block(let offset, let header) = piece else { return nil }
            return BlockIndexEntry(
                ordinal: header.context.blockOrdinal, offset: offset, summary: header.summary)
        }
    }

    /// Whether there are just the blocks that a footer lists, and nothing but zeros between them.
    private func isAsIn(_ footer: SegmentFooter) -> Bool {
        let isSound = pieces.allSatisfy { piece in
            switch piece {
            case .block, .unreadable(_, .zeros): true
            case .damaged, .unreadable: false
            }
        }
        return isSound && blocks == footer.blocks
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
            let step = try walk.next(into: buffer)
            if case .block = step {} else { hole = hole ?? buffer.hole }
            switch step {
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
        let first = ReadBuffer(capacity: 4)
        try first.readAround(file, at: range.lowerBound, byteCount: 4)
        let magic = first.array(0..<first.byteCount).reversed()
            .reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        pieces.append(
            .unreadable(
                range.lowerBound..<(isLast ? end : range.upperBound),
                magic == SegmentFooter.magic ? .footer : .other))
    }
}

extension StorageFile {
    private static var windowByteCount: UInt64 { 1 << 20 }

    /// Where the last byte of a range ends that is not zero; its start if there is none.
    package func endOfContent(in range: Range<UInt64>) throws(StorageError) -> UInt64 {
        if range.isEmpty { return range.lowerBound }
        let buffer = ReadBuffer(capacity: min(range.count, Int(Self.windowByteCount)))
        var end = range.upperBound
        while end > range.lowerBound {
            let count = min(Self.windowByteCount, end - range.lowerBound)
            try buffer.readAround(self, at: end - count, byteCount: Int(count))
            if let last = buffer.lastNonzero { return end - count + UInt64(last) + 1 }
            end -= count
        }
        return range.lowerBound
    }
}

/// Which blocks of a sealed segment can be read, also where its footer cannot.
///
/// **Cost** That of the footer; without it, that of reading the segment.
package struct SealedBlocks<Files: FileSystem> {
    /// `nil` where the segment is missing.
    package let file: Files.File?
    /// `nil` where it cannot be believed.
    package let header: SegmentHeader?
    /// In the order of the log. Ordinals of blocks that were lost are missing.
    package let entries: [BlockIndexEntry]
    /// Block ordinals given in the segment.
    package let ordinalCount: UInt32
    /// Of its footer, where it was asked for; 0 where the footer cannot be believed.
    package let claimCountMin: Int
    /// The newest commit of an id that was forgotten when it was sealed; `nil` if nobody knows.
    package let idsCompleteSince: Int64?
    private let hasFooter: Bool

    /// **Errors** `io`; `newerFormat`. A segment that is missing or damaged has the blocks that are left of it.
    package init(
        _ segment: SealedSegment, directory: DirectoryID, countsClaims: Bool = false,
        in files: Files
    ) throws(StorageError) {
        ordinalCount = segment.blockCount
        let sealed = try StorageError.readable { () throws(StorageError) in
            let reader = try SegmentReader(segment.number, directory: directory, in: files)
            let footer = try reader.readFooter(of: segment, parts: countsClaims ? .ledger : [])
            return (reader: reader, footer: footer)
        }
        if let (reader, footer) = sealed {
            (file, header, entries) = (reader.file, reader.header, footer.blocks)
            (hasFooter, claimCountMin) = (true, countsClaims ? footer.claimCountMin : 0)
            let isKnown = footer.idsCompleteSince != SegmentFooter.unknownCompleteSince
            idsCompleteSince = isKnown ? footer.idsCompleteSince : nil
            return
        }
        (hasFooter, claimCountMin, idsCompleteSince) = (false, 0, nil)
        let found = try StorageError.readable { () throws(StorageError) in
            let survey = try SegmentSurvey(segment.number, directory: directory, in: files)
            return (file: try survey.open(in: files), survey: survey)
        }
        (file, header) = (found?.file, found?.survey.header)
        entries = found?.survey.blocks ?? []
    }

    /// Blocks of the segment, by the commits in them, of which nobody knows where they are; 0 where its footer says which
    /// were lost. Blocks of a file that was exchanged are not the segment's.
    package var unreadableCount: Int {
        if hasFooter { return 0 }
        let own = entries.prefix { $0.endOrdinal <= ordinalCount }
        return max(0, own.reduce(Int(ordinalCount)) { $0 - Int($1.summary.commitCount) })
    }

    /// The names and keys that those of its blocks introduce that can be read.
    func readNames(of number: SegmentNumber, _ directory: DirectoryID) throws(StorageError)
        -> [NamesOfBlock]
    {
        guard let file else { return [] }
        return try SegmentReader<Files>.readNames(
            entries, of: file, number, directory, mayMiss: true)
    }
}

extension SegmentFooter {
    /// Rows that are counted and have an id, at least: all that are counted but those that may lack one.
    package var claimCountMin: Int {
        var counted: UInt64 = 0
        // Any number may stand in a file.
        for entry in ledger {
            let sum = counted.addingReportingOverflow(entry.events[Int(Verdict.counted.rawValue)])
            counted = sum.overflow ? .max : sum.partialValue
        }
        let ids = blocks.reduce(UInt64(0)) { $0 &+ UInt64($1.summary.eventHashCount) }
        let both = min(counted, rowCount) &+ min(ids, rowCount)
        return Int(clamping: both - min(both, rowCount))
    }
}
