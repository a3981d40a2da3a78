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
    package func contains(_ segment: SegmentNumber) -> Bool {
        segment >= firstSegment && segment <= lastSegment
    }
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

/// What a stretch of the log adds up to, over all senders and keys: rows, packets by result, events by
/// verdict. A manifest holds them, so that nobody reads every footer for four numbers.
///
/// A sum that would not fit 64 bits stays at the largest value, as in `LedgerSum`.
package struct LogTotals: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .int("row count", \.rowCount), .counts("packets", \.packets, room: codeCount),
        .counts("events", \.events, room: codeCount))
    /// Room for codes, of packets and of events.
    private static let codeCount = 16

    package var rowCount: UInt64 = 0
    /// Packets by `PacketResult`, indexed by its raw value.
    package private(set) var packets = [UInt64](repeating: 0, count: Self.packetCodeCount)
    /// Events by `Verdict`, indexed by its raw value.
    package private(set) var events = [UInt64](repeating: 0, count: Self.eventCodeCount)

    package static let packetCodeCount = PacketResult.allCases.count
    package static let eventCodeCount = Verdict.allCases.count

    package init() {}

    /// Of a sealed segment, as its footer says.
    package init(_ footer: SegmentFooter) {
        rowCount = footer.rowCount
        add(footer.ledger)
    }

    package mutating func add(_ entries: [LedgerEntry]) {
        for entry in entries {
            Self.add(entry.packets, to: &packets)
            Self.add(entry.events, to: &events)
        }
    }

    package mutating func add(_ other: LogTotals) {
        Self.add(other.rowCount, to: &rowCount)
        Self.add(other.packets, to: &packets)
        Self.add(other.events, to: &events)
    }

    private static func add(_ counts: [UInt64], to sums: inout [UInt64]) {
        for (code, count) in counts.enumerated() where code < sums.count {
            add(count, to: &sums[code])
        }
    }

    private static func add(_ count: UInt64, to sum: inout UInt64) {
        let (whole, overflow) = sum.addingReportingOverflow(count)
        sum = overflow ? .max : whole
    }
}
