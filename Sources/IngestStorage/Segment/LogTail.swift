// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import IngestFormat

/// The durable blocks after a manifest's cut, one after the other, while a daemon may be writing more.
///
/// Which blocks are durable (docs/durability.md): those up to the durable mark, those the manifest covers, and
/// those that another block follows, because a block is written only after the one before was synced. The last
/// block of the log beyond the mark is not given: it may be gone after a power cut.
///
/// **Cost** That of `BlockWalk`; where the mark is behind, each block is looked at twice.
package struct LogTail<Files: FileSystem> {
    /// A block with its place; its bytes are in the buffer.
    package struct Block {
        package let header: BlockHeader
        package let offset: UInt64
        /// The position of the log behind this block.
        package var end: LogPosition {
            LogPosition(
                segment: header.context.segment, blockCount: header.context.blockOrdinal &+ 1)
        }
    }

    private enum Source {
        case index(SegmentReader<Files>, blocks: [BlockIndexEntry], next: Int)
        case walk(BlockWalk<Files.File>)
    }

    private let files: Files
    private let directory: DirectoryID
    private let mark: LogPosition
    private var segment: SegmentNumber
    private var source: Source?
    /// Everything up to here was given, or is covered by the manifest.
    package private(set) var position: LogPosition
    /// Why the tail ended where it did, if it was not the end of the log.
    package private(set) var damage: StorageError?
    private let ahead = ReadBuffer(capacity: 4096)

    /// - Parameter mark: of `DurableMarkFile.read`, read before this.
    package init(after manifest: Manifest, mark: LogPosition?, in files: Files) {
        self.files = files
        directory = manifest.directory
        self.mark = max(mark ?? .start, manifest.cut)
        position = manifest.cut
        let isSealed = manifest.sealed.contains { $0.number == manifest.cut.segment }
        segment = isSealed ? manifest.cut.segment.next : max(manifest.cut.segment, Self.first)
    }

    private static var first: SegmentNumber { SegmentNumber(rawValue: 1) }

    /// The next durable block; `nil` at the end of what is durable now.
    package mutating func next(into buffer: ReadBuffer) throws(StorageError) -> Block? {
        while true {
            if source == nil {
                source = try open(segment)
                if source == nil { return nil }
            }
            guard let block = try step(into: buffer) else {
                // The end of this segment; a later one continues the log if it has a block.
                guard try hasBlock(in: segment.next) else { return nil }
                segment = segment.next
                source = nil
                continue
            }
            if block.end <= position { continue }
            guard try isDurable(block) else { return nil }
            position = block.end
            return block
        }
    }

    /// A segment that is not there, or is being created, has no blocks.
    private func open(_ number: SegmentNumber) throws(StorageError) -> Source? {
        let reader: SegmentReader<Files>
        do { reader = try SegmentReader(number, directory: directory, in: files) } catch {
            switch error {
            case .notFound, .corrupt: return nil
            default: throw error
            }
        }
        if let footer = try reader.readFooterIfSealed() {
            return .index(reader, blocks: footer.blocks, next: 0)
        }
        return .walk(reader.makeWalk())
    }

    private mutating func step(into buffer: ReadBuffer) throws(StorageError) -> Block? {
        switch source {
        case .index(let reader, let blocks, let next)?:
            guard next < blocks.count else { return nil }
            let header = try reader.read(blocks[next], into: buffer)
            source = .index(reader, blocks: blocks, next: next + 1)
            return Block(header: header, offset: blocks[next].offset)
        case .walk(var walk)?:
            let offset = walk.offset
            let step = try walk.next(into: buffer)
            source = .walk(walk)
            if case .block(let header) = step { return Block(header: header, offset: offset) }
            if case .nothing = step { return nil }
            damage = step.error(path: walk.file.path, offset: offset)
            return nil
        case nil: return nil
        }
    }

    private func isDurable(_ block: Block) throws(StorageError) -> Bool {
        if block.end <= mark { return true }
        switch source {
        // A footer is written only after all blocks are durable.
        case .index?: return true
        case .walk(var walk)?:
            if case .block = try walk.next(into: ahead) { return true }
            return try hasBlock(in: segment.next)
        case nil: return false
        }
    }

    private func hasBlock(in number: SegmentNumber) throws(StorageError) -> Bool {
        switch try open(number) {
        case .index(_, let blocks, _)?: return !blocks.isEmpty
        case .walk(var walk)?:
            if case .block = try walk.next(into: ahead) { return true }
            return false
        case nil: return false
        }
    }
}
