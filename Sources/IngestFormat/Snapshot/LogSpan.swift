// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// A stretch of the log that one run covers: whole segments from `firstSegment` on, up to `end`.
///
/// Spans are chained by segment numbers, `next.firstSegment == end.segment.next`.
package struct LogSpan: Hashable, Sendable, BitwiseCopyable {
    package internal(set) var firstSegment: SegmentNumber
    /// The last segment covered, and how many of its blocks (ordinals, lost ones too) are.
    package internal(set) var end: LogPosition
    package init(firstSegment: SegmentNumber, end: LogPosition) {
        self.firstSegment = firstSegment
        self.end = end
    }
    package var lastSegment: SegmentNumber { end.segment }
    /// Segment numbers in it, the last one's included.
    package var segmentCount: UInt64 { UInt64(lastSegment.rawValue - firstSegment.rawValue) + 1 }
    /// The span of this and the next one together; `nil` if they do not touch.
    package func joined(with next: LogSpan) -> LogSpan? {
        next.firstSegment == end.segment.next
            ? LogSpan(firstSegment: firstSegment, end: next.end) : nil
    }
}

/// A piece of the log that could not be read when its segment was sealed. Its rows are in no counter
/// that was folded afterwards; its ordinals are never given again.
package struct LostRange: Hashable, Sendable {
    package var segment: SegmentNumber
    /// Ordinals of the blocks lost.
    package var firstBlock: UInt32
    package var blockCount: UInt32
    /// Where the bytes were in the segment file.
    package var offset: UInt64
    package var byteCount: UInt64
    /// Rows in them, where a header or index could still be believed; `nil` = unknown.
    package var rowCount: UInt64?
    /// Ordinals of names and keys that were introduced there.
    package var names: Range<UInt32>
    package var keys: Range<UInt32>

    package init(
        segment: SegmentNumber, firstBlock: UInt32, blockCount: UInt32, offset: UInt64,
        byteCount: UInt64, rowCount: UInt64?, names: Range<UInt32>, keys: Range<UInt32>
    ) {
        self.segment = segment
        self.firstBlock = firstBlock
        self.blockCount = blockCount
        self.offset = offset
        self.byteCount = byteCount
        self.rowCount = rowCount
        self.names = names
        self.keys = keys
    }
}
