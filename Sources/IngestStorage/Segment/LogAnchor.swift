// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

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
            commitEpoch: header.context.commitEpoch &+ 1, previousChecksum: header.headerChecksum,
            nextName: header.nextName.rawValue, nextKey: header.nextKey.rawValue)
    }

    /// Behind a sealed segment, lost blocks included.
    package init(after footer: SegmentFooter, startingAt start: LogAnchor) {
        let last = footer.blocks.last
        let lostBehind = last.map { UInt64(footer.blockCount) &- UInt64($0.ordinal) &- 1 }
        self.init(
            commitEpoch: (last?.summary.commitEpoch).map { $0 &+ 1 &+ (lostBehind ?? 0) }
                ?? start.commitEpoch &+ UInt64(footer.blockCount),
            previousChecksum: footer.lastBlockChecksum, nextName: footer.names.upperBound,
            nextKey: footer.keys.upperBound)
    }

    /// How many blocks lie between this place and a later one; at most what one segment can have.
    func blockCount(to later: LogAnchor) -> UInt32 {
        guard later.commitEpoch > commitEpoch else { return 0 }
        return UInt32(min(later.commitEpoch - commitEpoch, UInt64(Limits.segmentBlockCountMax)))
    }
}
