// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import IngestFormat

/// The durable blocks after a manifest's cut, one after the other, while a daemon may be writing more.
///
/// Which blocks are durable (docs/durability.md): those up to the durable mark, those the manifest covers, and
/// those that another block follows, because a block is written only after the one before was synced. The last
/// block of the log beyond the mark is not given: it may be gone after a power cut.
///
/// No durable block is ever left out: where the tail seems to end but the log goes on further back, the place
/// is looked at once more, because what was being written at the first look is whole by then; if it still
/// cannot be read, that is an error. Each segment must continue the chain of the one before.
///
/// **Cost** That of `BlockWalk`, by heads 2 µs a block; where the mark is behind, each block is looked at twice. The rest of
/// the last segment is searched, and the directory listed: a mark that is out of date may stand before a hole.
package struct LogTail<Files: FileSystem> {
    /// A block with its place; its bytes, or those of its head, are in the buffer.
    package struct Block {
        package let header: BlockHeader
        package let offset: UInt64
        package let file: Files.File
        /// The position of the log behind this block.
        package var end: LogPosition {
            LogPosition(segment: header.context.segment, blockCount: header.endOrdinal)
        }
    }

    private enum Source {
        case index(SegmentReader<Files>, SegmentFooter, next: Int)
        case walk(SegmentReader<Files>, BlockWalk<Files.File>)

        var header: SegmentHeader {
            switch self {
            case .index(let reader, _, _), .walk(let reader, _): reader.header
            }
        }
    }

    private let files: Files
    private let manifest: Manifest
    private var directory: DirectoryID { manifest.directory }
    private let mark: LogPosition?
    /// Whether blocks are believed that have a sound head, and no more of them is read.
    private let isHeadOnly: Bool
    private var segment: SegmentNumber
    private var source: Source?
    /// What the next segment's header must name as the block before; `nil` where that block was lost.
    private var lastChecksum: UInt32?
    /// Whether the log was seen to go on behind the place at hand, which is so no longer written to.
    private var isFinal = false
    /// Everything up to here was given, or is covered by the manifest.
    package private(set) var position: LogPosition
    /// Why the tail ended where it did, if it was not the end of the log.
    private var damage: StorageError?
    private let ahead = ReadBuffer(capacity: 4096)

    /// - Parameters:
    ///   - mark: of `DurableMarkFile`, read before this.
    ///   - isHeadOnly: gives blocks by their heads, for who reads what it wants of them later: the check of that tells what
    ///     is damaged. A durable block was written whole, so that none is missed or invented.
    package init(
        after manifest: Manifest, mark: LogPosition?, in files: Files, isHeadOnly: Bool = false
    ) {
        self.isHeadOnly = isHeadOnly
        self.files = files
        self.manifest = manifest
        self.mark = mark
        position = manifest.cut
        segment = manifest.firstUnsealed
        lastChecksum = manifest.shard.lastBlockChecksum
    }

    /// The next durable block; `nil` at the end of what is durable now.
    ///
    /// **Errors** `corrupt` where the log goes on behind something that is no block, where a segment does not continue the
    /// one before, and where the log ends before the mark: beside a daemon the manifest may be out of date, read that again.
    package mutating func next(into buffer: ReadBuffer) throws(StorageError) -> Block? {
        if let block = try found(into: buffer) { return block }
        guard let mark, position < mark else { return nil }
        throw damage
            ?? .corrupt(
                path: files.path, offset: 0,
                detail: "the log ends at \(position.text), the durable mark is \(mark.text)")
    }

    private mutating func found(into buffer: ReadBuffer) throws(StorageError) -> Block? {
        while true {
            if source == nil, let opened = try open(segment) { try enter(opened) }
            if let block = try step(into: buffer) {
                isFinal = false
                lastChecksum = block.header.chainChecksum
                if block.end <= position { continue }
                guard try isDurable(block) else { return nil }
                position = block.end
                return block
            }
            if isFinal {
                try leaveSegment()
            } else {
                guard try isFollowed() else { return nil }
                isFinal = true
            }
        }
    }

    // MARK: Segments

    /// A segment that is not there, or is being created, has no blocks.
    private func open(_ number: SegmentNumber) throws(StorageError) -> Source? {
        let opened = try StorageError.readable { () throws(StorageError) in
            // Else each search for what follows reads megabytes of zeros, in this process and in later ones.
            try SegmentReader(number, directory: directory, in: files, readsAhead: false)
        }
        guard let reader = opened else { return nil }
        if let footer = try reader.readFooterIfSealed() { return .index(reader, footer, next: 0) }
        return .walk(reader, reader.makeWalk())
    }

    private mutating func enter(_ opened: Source) throws(StorageError) {
        if let lastChecksum, opened.header.previousChecksum != lastChecksum {
            throw damage
                ?? .corrupt(
                    path: path(of: segment), offset: 0,
                    detail: "does not continue the previous segment: blocks are missing")
        }
        damage = nil
        lastChecksum = opened.header.previousChecksum
        source = opened
    }

    /// Goes on with the next segment, where nothing can come behind the place at hand any more.
    private mutating func leaveSegment() throws(StorageError) {
        switch source {
        case .index(_, let footer, _)?: if footer.endsInLoss { lastChecksum = nil }
        case .walk(_, let walk)?: if try hasBlock(behind: walk) { throw followed(walk) }
        case nil:
            throw .corrupt(
                path: path(of: segment), offset: 0,
                detail: "the segment is missing, or its header is damaged")
        }
        segment = segment.next
        source = nil
        isFinal = false
    }

    private func followed(_ walk: BlockWalk<Files.File>) -> StorageError {
        damage
            ?? .corrupt(
                path: walk.file.path, offset: walk.offset,
                detail: "zeros in place of a block, followed by blocks")
    }

    private func path(of number: SegmentNumber) -> String {
        "\(files.path)/\(FileName.segment(number).text)"
    }

    // MARK: Blocks

    private mutating func step(into buffer: ReadBuffer) throws(StorageError) -> Block? {
        switch source {
        case .index(let reader, let footer, let next)?:
            guard next < footer.blocks.count else { return nil }
            let header = try reader.read(
                footer.blocks[next], into: buffer, isHeadOnly: isHeadOnly)
            source = .index(reader, footer, next: next + 1)
            return Block(header: header, offset: footer.blocks[next].offset, file: reader.file)
        case .walk(let reader, var walk)?:
            let offset = walk.offset
            let step = try walk.next(into: buffer, isHeadOnly: isHeadOnly)
            source = .walk(reader, walk)
            damage = nil
            if case .block(let header) = step {
                return Block(header: header, offset: offset, file: walk.file)
            }
            if case .nothing = step { return nil }
            damage = buffer.hole ?? step.error(path: walk.file.path, offset: offset)
            return nil
        case nil: return nil
        }
    }

    private func isDurable(_ block: Block) throws(StorageError) -> Bool {
        if let mark, block.end <= mark { return true }
        switch source {
        // A footer is written only after all blocks are durable.
        case .index?: return true
        case .walk(_, var walk)?:
            if case .block = try walk.next(into: ahead) { return true }
            return try isFollowed()
        case nil: return false
        }
    }

    // MARK: What follows

    /// Whether a block lies further on in the log than the place at hand, in this segment or a later one.
    private func isFollowed() throws(StorageError) -> Bool {
        if try hasFirstBlock(segment.next) { return true }
        if case .walk(_, let walk)? = source, try hasBlock(behind: walk) { return true }
        for name in try files.names() {
            guard case .segment(let number)? = FileName(name), number >= segment,
                manifest.mayHoldTail(number)
            else { continue }
            if number > segment, try hasFirstBlock(number) { return true }
            if number > segment || source == nil, try hasAnyBlock(number) { return true }
        }
        return false
    }

    /// Whether a whole block lies anywhere in a segment, whatever its header says.
    private func hasAnyBlock(_ number: SegmentNumber) throws(StorageError) -> Bool {
        let opened = try StorageError.readable { () throws(StorageError) in
            try files.open(FileName.segment(number).text, .read)
        }
        guard let file = opened else { return false }
        file.stopReadingAhead()
        let place = BlockPlace(directory: directory, segment: number, blockOrdinal: 0)
        return try hasBlock(behind: BlockWalk(file, place: place))
    }

    /// Whether a segment begins as one that the log has gone on to.
    private func hasFirstBlock(_ number: SegmentNumber) throws(StorageError) -> Bool {
        switch try open(number) {
        case .index(_, let footer, _)?: return footer.blockCount > 0
        case .walk(_, var walk)?:
            if case .block = try walk.next(into: ahead) { return true }
            return false
        case nil: return false
        }
    }

    private func hasBlock(behind walk: BlockWalk<Files.File>) throws(StorageError) -> Bool {
        var scan = BlockScan(
            file: walk.file, directory: directory, segment: walk.place.segment ?? segment,
            end: try walk.file.byteCount())
        return try scan.next(from: walk.offset, at: walk.place, into: ahead) != nil
    }
}

extension SegmentFooter {
    /// Whether the last blocks of the segment are among those that were lost.
    fileprivate var endsInLoss: Bool {
        lost.contains { $0.firstBlock &+ $0.blockCount == blockCount }
    }
}
