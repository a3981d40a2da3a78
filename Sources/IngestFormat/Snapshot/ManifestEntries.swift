// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

// What a manifest lists.

/// A sealed segment as the manifest knows it: enough to tell whether the file is the one that was sealed.
package struct SealedSegment: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .id("segment", \.number), .reserved(4), .int("file byte count", \.byteCount),
        .int("row count", \.rowCount, in: 0...UInt64(Limits.segmentRowCountMax)),
        .int("min timestamp", \.minTimestamp), .int("max timestamp", \.maxTimestamp),
        .int("footer checksum", \.footerChecksum),
        .int("block count", \.blockCount, in: 0...UInt64(Limits.segmentBlockCountMax)),
        .int("last commit time", \.lastCommitTime))

    package var number: SegmentNumber
    /// Byte count of the whole file.
    package var byteCount: UInt64
    /// `SegmentTrailer.footerChecksum`: through it every byte of the file is covered.
    package var footerChecksum: UInt32
    /// Block ordinals given in it, lost ones included.
    package var blockCount: UInt32
    package var rowCount: UInt64
    /// Event times of its rows, microseconds; both 0 where `rowCount` is 0.
    package var minTimestamp: Int64
    package var maxTimestamp: Int64
    /// When the last block was committed, microseconds since 1970; of a segment without blocks, when it was sealed.
    package var lastCommitTime: Int64

    package init(
        number: SegmentNumber, byteCount: UInt64, footerChecksum: UInt32, blockCount: UInt32,
        rowCount: UInt64, minTimestamp: Int64, maxTimestamp: Int64, lastCommitTime: Int64
    ) {
        self.lastCommitTime = lastCommitTime
        self.number = number
        self.byteCount = byteCount
        self.footerChecksum = footerChecksum
        self.blockCount = blockCount
        self.rowCount = rowCount
        self.minTimestamp = minTimestamp
        self.maxTimestamp = maxTimestamp
    }

    /// Reads `count` segments, whose numbers go on from `first`.
    /// **Errors** `torn`, `corrupt`; the caller has held `count` against a limit.
    static func decode(
        _ reader: inout FieldReader, count: Int, from first: UInt64
    ) throws(FormatError) -> [SealedSegment] {
        let blank = SealedSegment(
            number: SegmentNumber(rawValue: 0), byteCount: 0, footerChecksum: 0, blockCount: 0,
            rowCount: 0, minTimestamp: 0, maxTimestamp: 0, lastCommitTime: 0)
        var sealed: [SealedSegment] = []
        sealed.reserveCapacity(min(count, (reader.bytes.count - reader.end) / layout.byteCount))
        for place in 0..<count {
            sealed.append(try layout.next(&reader, into: blank))
            // At the end of all numbers there is none that it could be.
            try reader.expect(layout.segment, first + UInt64(place))
        }
        return sealed
    }
}

/// What a stretch of expired segments left, as the manifest knows it: their counters and ledger, and the names and
/// keys that they introduced.
package struct ExpiredEntry: Hashable, Sendable {
    /// Of the table `expired`.
    package var run: RunEntry
    /// Of the table `expiredNames`.
    package var names: NamesRunEntry

    package init(run: RunEntry, names: NamesRunEntry) {
        self.run = run
        self.names = names
    }
    package var span: LogSpan { run.span }
    package var fileNames: [FileName] { [run.fileName, names.fileName] }
}

/// A run of a counter table as the manifest knows it.
package struct RunEntry: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .id("table", \.table, in: tables), .reserved(3),
        .id("first segment", \.span.firstSegment), .id("last segment", \.span.end.segment),
        .int("last block count", \.span.end.blockCount), .id("file number", \.fileNumber),
        .int("file byte count", \.byteCount, in: 0...UInt64(Limits.runByteCountMax)),
        .int("row count", \.rowCount, in: 0...UInt64(Limits.runRowCountMax)),
        .int("checksum", \.checksum), .reserved(4, "reserved end"))
    /// What `table` can be: never names.
    static let tables = UInt64(TableKind.rewards.rawValue)...UInt64(TableKind.expired.rawValue)

    package var table: TableKind
    package var fileNumber: FileNumber
    package var byteCount: UInt64
    /// `RunHeader.checksum`: through it every byte of the file is covered.
    package var checksum: UInt32
    package var span: LogSpan
    package var rowCount: UInt64

    package var fileName: FileName { .run(table, fileNumber) }
}

/// A names run as the manifest knows it.
package struct NamesRunEntry: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .id("file number", \.fileNumber),
        .int("file byte count", \.byteCount, in: 0...UInt64(Limits.namesRunByteCountMax)),
        .range("first name", "next name", \.names, max: Limits.nameCountMax + 1),
        .range("first key", "next key", \.keys, max: Limits.keyCountMax),
        .int("checksum", \.checksum), .id("table", \.table, in: tables), .reserved(3))
    /// What `table` can be.
    static let tables = UInt64(TableKind.names.rawValue)...UInt64(TableKind.expiredNames.rawValue)

    package var table = TableKind.names
    package var fileNumber: FileNumber
    package var byteCount: UInt64
    /// `NamesRun.Header.checksum`: through it every byte of the file is covered.
    package var checksum: UInt32
    package var names: Range<UInt32>
    package var keys: Range<UInt32>

    package var fileName: FileName { .run(table, fileNumber) }
}

/// An unclean stop that a start found: what was received and not yet durable then is unknown.
package struct UncleanStop: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .int("found at", \.foundAt), .id("segment", \.position.segment),
        .int(
            "block count", \.position.blockCount, in: 0...UInt64(Limits.segmentBlockCountMax)))

    /// When the next start found it, microseconds since 1970.
    package var foundAt: Int64
    /// The end of what survived.
    package var position: LogPosition
    package init(foundAt: Int64, position: LogPosition) {
        self.foundAt = foundAt
        self.position = position
    }

    /// Reads `count` stops, by position.
    /// **Errors** `torn`, `corrupt`; the caller has held `count` against a limit.
    static func decode(
        _ reader: inout FieldReader, count: Int
    ) throws(FormatError) -> [UncleanStop] {
        let blank = UncleanStop(foundAt: 0, position: .start)
        var stops: [UncleanStop] = []
        for _ in 0..<count {
            let stop = try layout.next(&reader, into: blank)
            if let last = stops.last, last.position > stop.position {
                throw reader.corrupt(
                    layout.segment, .atLeast(last.position.segment.rawValue))
            }
            stops.append(stop)
        }
        return stops
    }
}

extension [UncleanStop] {
    /// Adds an unclean stop. Over `Limits.manifestUncleanStopCountMax` the oldest but one goes, so that
    /// since when something is unknown stays known.
    mutating func note(_ stop: UncleanStop) {
        if count >= Limits.manifestUncleanStopCountMax { remove(at: 1) }
        append(stop)
    }
}

/// Where one shard's log stands. There is one shard today.
package struct ShardState: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .int("shard", \.shard, in: 0...0), .reserved(6), .id("cut segment", \.cut.segment),
        .int(
            "cut block count", \.cut.blockCount, in: 0...UInt64(Limits.segmentBlockCountMax)),
        .int("commit epoch", \.commitEpoch), .int("last block checksum", \.lastBlockChecksum),
        .int("next name", \.nextName, in: Limits.nextNames),
        .int("next key", \.nextKey, in: Limits.nextKeys), .reserved(4, "reserved end"))

    package var shard: UInt16 = 0
    /// The end of the last sealed segment: everything up to here is in the runs, nothing after it is.
    package var cut: LogPosition = .start
    /// The next ordinals to be given at the cut.
    package var nextName: UInt32 = 1
    package var nextKey: UInt32 = 0
    /// The commit epoch and the header checksum of the last block before the cut; 0 at the start.
    package var commitEpoch: UInt64 = 0
    package var lastBlockChecksum: UInt32 = 0
    /// Of all sealed segments.
    package var totals = LogTotals()
    package init() {}
}

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
    package func overlaps(_ other: LogSpan) -> Bool {
        firstSegment <= other.lastSegment && other.firstSegment <= lastSegment
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
