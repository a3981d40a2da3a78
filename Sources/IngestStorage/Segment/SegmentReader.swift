// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import IngestFormat

/// One segment file, open for reading: header, footer if it is sealed, blocks by index or by walk. The
/// file may be written to, sealed, replaced or unlinked meanwhile; what was opened stays readable.
package struct SegmentReader<Files: FileSystem> {
    package let number: SegmentNumber
    package let directory: DirectoryID
    package let header: SegmentHeader
    package let file: Files.File

    /// Opens a segment and checks its header.
    ///
    /// **Errors** `notFound`; `corrupt` also for a file of another directory or number, and for one that is
    /// being created this moment; `newerFormat`.
    /// - Parameter readsAhead: whether the kernel may: see `StorageFile.stopReadingAhead`.
    package init(
        _ number: SegmentNumber, directory: DirectoryID, in files: Files, readsAhead: Bool = true
    ) throws(StorageError) {
        let file = try files.open(FileName.segment(number).text, .read)
        if !readsAhead { file.stopReadingAhead() }
        self.init(number, directory, try Self.readHeader(file, number, directory), file)
    }

    package init(
        _ number: SegmentNumber, _ directory: DirectoryID, _ header: SegmentHeader,
        _ file: Files.File
    ) {
        self.number = number
        self.directory = directory
        self.header = header
        self.file = file
    }

    package static func readHeader(
        _ file: Files.File, _ number: SegmentNumber, _ directory: DirectoryID
    ) throws(StorageError) -> SegmentHeader {
        let bytes = try file.readArray(at: 0, byteCount: SegmentHeader.byteCount)
        return try StorageError.decoding(file.path) { () throws(FormatError) in
            try SegmentHeader.decode(bytes, directory: directory, segment: number)
        }
    }

    /// The footer of a segment that a manifest calls sealed, checked against what that says of it.
    package func readFooter(
        of entry: SealedSegment, parts: SegmentFooter.Parts = .all
    ) throws(StorageError) -> SegmentFooter {
        try file.check(byteCount: entry.byteCount, max: .max)
        let (footer, trailer) = try SegmentFooterFile.read(
            file, number: number, directory: directory, parts: parts)
        guard footer.entry(trailer: trailer) == entry else {
            throw .corrupt(
                path: file.path, offset: trailer.footerOffset,
                detail: "footer does not match its manifest entry")
        }
        return footer
    }

    /// The footer of a segment that no manifest calls sealed, if it has one that is whole.
    package func readFooterIfSealed() throws(StorageError) -> SegmentFooter? {
        do {
            return try SegmentFooterFile.read(file, number: number, directory: directory).footer
        } catch {
            guard case .corrupt = error else { throw error }
            return nil
        }
    }

    /// What the log goes on with behind this segment.
    package func anchor(behind footer: SegmentFooter) -> LogAnchor {
        LogAnchor(after: footer, startingAt: LogAnchor(startOf: header))
    }

    /// Reads a block that the index names, checks all of it, or its head.
    package func read(
        _ entry: BlockIndexEntry, into buffer: ReadBuffer, isHeadOnly: Bool = false
    ) throws(StorageError) -> BlockHeader {
        try Self.read(entry, of: file, number, directory, into: buffer, isHeadOnly: isHeadOnly)
    }

    private static func read(
        _ entry: BlockIndexEntry, of file: Files.File, _ number: SegmentNumber,
        _ directory: DirectoryID, into buffer: ReadBuffer, isHeadOnly: Bool = false
    ) throws(StorageError) -> BlockHeader {
        let place = BlockPlace(
            directory: directory, segment: number, blockOrdinal: entry.ordinal)
        var walk = BlockWalk(
            file, from: entry.offset, place: place,
            end: entry.offset + UInt64(entry.summary.byteCount))
        let step = try walk.next(into: buffer, isHeadOnly: isHeadOnly)
        if case .block(let header) = step, header.summary == entry.summary { return header }
        throw buffer.hole ?? step.error(path: file.path, offset: entry.offset)
    }

    /// The names and keys that its blocks introduce.
    ///
    /// - Parameter mayMiss: whether to go on without those of a damaged block.
    package func readNames(
        by footer: SegmentFooter, mayMiss: Bool = false
    ) throws(StorageError) -> [NamesOfBlock] {
        try Self.readNames(footer.blocks, of: file, number, directory, mayMiss: mayMiss)
    }

    /// As above, of blocks of which no footer need tell.
    static func readNames(
        _ entries: [BlockIndexEntry], of file: Files.File, _ number: SegmentNumber,
        _ directory: DirectoryID, mayMiss: Bool
    ) throws(StorageError) -> [NamesOfBlock] {
        let (buffer, decoder, rows) = (ReadBuffer(), BlockDecoder(), BlockRows())
        var found: [NamesOfBlock] = []
        for entry in entries where entry.summary.nameCount > 0 || entry.summary.keyCount > 0 {
            do throws(StorageError) {
                _ = try read(entry, of: file, number, directory, into: buffer)
                let block = try StorageError.decoding(file.path, at: entry.offset) {
                    () throws(FormatError) in
                    try buffer.withBytes { (bytes) throws(FormatError) in
                        try decoder.decode(bytes, wanted: .dictionary, into: rows)
                    }
                }
                found.append(
                    NamesOfBlock(
                        firstName: entry.summary.firstName, names: block.names.copy(),
                        firstKey: entry.summary.firstKey, keys: block.keys))
            } catch {
                guard mayMiss, case .corrupt = error else { throw error }
            }
        }
        return found
    }

    /// The blocks from the first on, by walk.
    package func makeWalk() -> BlockWalk<Files.File> {
        BlockWalk(
            file,
            place: BlockPlace(
                directory: directory, segment: number, blockOrdinal: 0,
                previousChecksum: header.previousChecksum))
    }
}

/// Footer and trailer of a segment file.
package enum SegmentFooterFile {
    /// **Errors** `corrupt` for a file without a whole footer: an unsealed one, too.
    package static func readTrailer(
        _ file: some StorageFile, number: SegmentNumber, directory: DirectoryID
    ) throws(StorageError) -> SegmentTrailer {
        let byteCount = try file.byteCount()
        let trailerOffset = byteCount &- UInt64(SegmentTrailer.byteCount)
        guard byteCount >= UInt64(SegmentHeader.byteCount + SegmentTrailer.byteCount) else {
            throw .corrupt(path: file.path, offset: byteCount, detail: "no room for a footer")
        }
        let end = try file.readArray(at: trailerOffset, byteCount: SegmentTrailer.byteCount)
        return try StorageError.decoding(file.path, at: trailerOffset) {
            () throws(FormatError) in
            try SegmentTrailer.decode(
                end, fileByteCount: byteCount, directory: directory, segment: number)
        }
    }

    /// **Errors** as `readTrailer`.
    package static func read(
        _ file: some StorageFile, number: SegmentNumber, directory: DirectoryID,
        parts: SegmentFooter.Parts = .all
    ) throws(StorageError) -> (footer: SegmentFooter, trailer: SegmentTrailer) {
        let trailer = try readTrailer(file, number: number, directory: directory)
        let bytes = try file.readArray(
            at: trailer.footerOffset, byteCount: Int(trailer.footerByteCount))
        let footer = try StorageError.decoding(file.path, at: trailer.footerOffset) {
            () throws(FormatError) in
            try SegmentFooter.decode(bytes, trailer: trailer, parts: parts)
        }
        return (footer, trailer)
    }
}

extension BlockWalk.Step {
    /// What to say where a block was promised.
    package func error(path: String, offset: UInt64) -> StorageError {
        switch self {
        case .block:
            .corrupt(path: path, offset: offset, detail: "block does not match its index entry")
        case .nothing: .corrupt(path: path, offset: offset, detail: "no block, only zeros")
        case .damaged(_, let error), .unreadable(let error):
            StorageError(path: path, offset: offset, error)
        }
    }
}

/// What the next block must begin with, at some place between two blocks of the log.
package struct LogAnchor: Hashable, Sendable {
    /// Of the next block.
    package var commitEpoch: UInt64
    /// Header checksum of the last block before; 0 if there is none.
    package var previousChecksum: UInt32
    package var nextName: UInt32
    package var nextKey: UInt32

    package init(
        commitEpoch: UInt64, previousChecksum: UInt32, nextName: UInt32, nextKey: UInt32
    ) {
        self.commitEpoch = commitEpoch
        self.previousChecksum = previousChecksum
        self.nextName = nextName
        self.nextKey = nextKey
    }

    /// At a manifest's cut. The commit epochs of a directory begin at 1.
    package init(cutOf manifest: Manifest) { self.init(cutOf: manifest.shard) }

    package init(cutOf shard: ShardState) {
        self.init(
            commitEpoch: shard.commitEpoch &+ 1, previousChecksum: shard.lastBlockChecksum,
            nextName: shard.nextName, nextKey: shard.nextKey)
    }

    /// At the start of a segment, as its header says.
    package init(startOf header: SegmentHeader) {
        self.init(
            commitEpoch: header.commitEpoch, previousChecksum: header.previousChecksum,
            nextName: header.firstName.rawValue, nextKey: header.firstKey.rawValue)
    }

    /// Before a block, as its header says.
    package init(before header: BlockHeader) {
        self.init(
            commitEpoch: header.context.commitEpoch,
            previousChecksum: header.context.previousChecksum,
            nextName: header.context.firstName.rawValue, nextKey: header.context.firstKey.rawValue)
    }

    /// Behind a block, as its header says.
    package init(after header: BlockHeader) {
        self.init(
            commitEpoch: header.context.commitEpoch &+ UInt64(header.commitCount),
            previousChecksum: header.chainChecksum,
            nextName: header.nextName.rawValue, nextKey: header.nextKey.rawValue)
    }

    /// Behind a sealed segment, lost blocks included.
    package init(after footer: SegmentFooter, startingAt start: LogAnchor) {
        let last = footer.blocks.last
        let lostBehind = last.map { UInt64(footer.blockCount) &- UInt64($0.endOrdinal) }
        self.init(
            commitEpoch: (last?.summary.lastCommitEpoch).map { $0 &+ 1 &+ (lostBehind ?? 0) }
                ?? start.commitEpoch &+ UInt64(footer.blockCount),
            previousChecksum: footer.lastBlockChecksum, nextName: footer.names.upperBound,
            nextKey: footer.keys.upperBound)
    }

    /// So many commits before, of which nothing else is known.
    func moved(back commitCount: UInt64) -> LogAnchor {
        LogAnchor(
            commitEpoch: max(1, commitEpoch - min(commitCount, commitEpoch)), previousChecksum: 0,
            nextName: 1, nextKey: 0)
    }

    /// How many blocks lie between this place and a later one; at most what one segment can have.
    func blockCount(to later: LogAnchor) -> UInt32 {
        guard later.commitEpoch > commitEpoch else { return 0 }
        return UInt32(min(later.commitEpoch - commitEpoch, UInt64(Limits.segmentBlockCountMax)))
    }
}
