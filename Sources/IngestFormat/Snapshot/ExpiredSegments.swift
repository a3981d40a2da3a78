// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

/// What is left of a stretch of expired segments beside their counters and names: the metadata of an expired run.
///
/// **Layout** docs/format/run.md: a fixed head, lost ranges, unclean stops, the ledger as in a segment's footer.
package struct ExpiredSegments: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .int("expired row count", \.rowCount), .int("min timestamp", \.minTimestamp),
        .int("max timestamp", \.maxTimestamp), .int("commit epoch", \.commitEpoch),
        .int("next commit epoch", \.nextCommitEpoch),
        .int("last block checksum", \.lastBlockChecksum),
        .int("missing count", \.missingCount), .int("next name", \.nextName, in: Limits.nextNames),
        .int("next key", \.nextKey, in: Limits.nextKeys),
        .derived("lost range count", 4) { UInt64($0.lost.count) },
        .derived("unclean stop count", 4) { UInt64($0.uncleanStops.count) },
        .derived("ledger entry count", 4) { UInt64($0.ledger.count) },
        .derived("attribution count", 4) { UInt64($0.attributions.count) })

    /// Whole segments, up to the end of the last one, whose footer could be read.
    package var span: LogSpan
    /// Segments of which no footer could be read when they expired: their events are in the runs and cannot be
    /// verified any more. Fewer than there are.
    package var missingCount: UInt32
    /// Of the footers of the others.
    package var rowCount: UInt64
    /// Event times of those rows, microseconds; both 0 without rows.
    package var minTimestamp: Int64
    package var maxTimestamp: Int64
    /// Of the last segment's last block.
    package var commitEpoch: UInt64
    package var lastBlockChecksum: UInt32
    /// What the first block behind the stretch begins with.
    package var nextCommitEpoch: UInt64
    package var nextName: UInt32
    package var nextKey: UInt32
    /// By (segment, block).
    package var lost: [LostRange] = []
    /// Found when one of the segments was begun, by position.
    package var uncleanStops: [UncleanStop] = []
    /// What each sender added, by sender key; of too many those of the oldest epochs are one entry (`LedgerSum`).
    package var ledger: [LedgerEntry] = []
    /// Of the attributed rows of the run.
    package var attributions = AttributionList()

    /// Of one segment.
    /// - Parameters:
    ///   - firstSegment: where the stretch begins; before the segment, if those between are missing.
    ///   - nextCommitEpoch: what the next segment begins with.
    package init(
        _ footer: SegmentFooter, from firstSegment: SegmentNumber, nextCommitEpoch: UInt64
    ) {
        span = LogSpan(firstSegment: firstSegment, end: footer.end)
        missingCount = UInt32(span.segmentCount - 1)
        rowCount = footer.rowCount
        minTimestamp = footer.minTimestamp
        maxTimestamp = footer.maxTimestamp
        commitEpoch = footer.commitEpoch
        lastBlockChecksum = footer.lastBlockChecksum
        self.nextCommitEpoch = nextCommitEpoch
        nextName = footer.names.upperBound
        nextKey = footer.keys.upperBound
        lost = footer.lost
    }

    /// Of this stretch and the next one together, but for ledger and attributions, which are empty; `nil` if they do not
    /// touch, or are of no log that can be.
    package func joined(with next: ExpiredSegments) -> ExpiredSegments? {
        guard let span = span.joined(with: next.span) else { return nil }
        let (rows, isTooMany) = rowCount.addingReportingOverflow(next.rowCount)
        if isTooMany { return nil }
        var joined = next
        joined.span = span
        joined.missingCount = missingCount + next.missingCount
        joined.rowCount = rows
        let filled = [self, next].filter { $0.rowCount > 0 }
        joined.minTimestamp = filled.map(\.minTimestamp).min() ?? 0
        joined.maxTimestamp = filled.map(\.maxTimestamp).max() ?? 0
        joined.lost = lost + next.lost
        joined.uncleanStops = uncleanStops
        for stop in next.uncleanStops { joined.uncleanStops.note(stop) }
        joined.ledger = []
        joined.attributions = AttributionList()
        return joined
    }

    package func encode() -> [UInt8] {
        var writer = FieldWriter()
        Self.layout.append(self, to: &writer)
        for range in lost { LostRange.layout.append(range, to: &writer) }
        for stop in uncleanStops { UncleanStop.layout.append(stop, to: &writer) }
        var entries = ByteWriter()
        LedgerCodec.encode(ledger, into: &entries)
        attributions.encode(into: &entries)
        return writer.bytes + entries.bytes
    }

    /// **Errors** `torn`, `corrupt`, for counts that are over their limit or do not fit the span; places are in `bytes`.
    package static func decode(
        _ bytes: [UInt8], of span: LogSpan
    ) throws(FormatError) -> ExpiredSegments {
        var reader = FieldReader(bytes)
        var found = try layout.next(
            &reader, into: ExpiredSegments(blankOf: span))
        _ = try reader.load(layout.missingCount, in: 0...span.segmentCount - 1)
        guard found.rowCount > 0 || (found.minTimestamp, found.maxTimestamp) == (0, 0) else {
            throw reader.corrupt(layout.maxTimestamp, .exactly(0))
        }
        guard found.minTimestamp <= found.maxTimestamp else {
            throw reader.corrupt(layout.maxTimestamp, .atLeast(found.minTimestamp))
        }
        // The bytes that are there bound it.
        let lostCount = try reader.count(layout.lostRangeCount, max: Limits.footerByteCountMax)
        let stopCount = try reader.count(
            layout.uncleanStopCount, max: Limits.manifestUncleanStopCountMax)
        let entryCount = try reader.count(
            layout.ledgerEntryCount, max: Limits.segmentSenderCountMax)
        let attributionCount = try reader.count(
            layout.attributionCount, max: AttributionList.countMax)
        found.lost = try LostRange.decode(&reader, count: lostCount)
        found.uncleanStops = try UncleanStop.decode(&reader, count: stopCount)
        let start = reader.end
        (found.ledger, found.attributions) = try ByteReader.reading(Array(bytes[start...])) {
            (rest) throws(FormatError) in
            let entries = try LedgerCodec.decode(
                &rest, entryCount: entryCount,
                rangeCountMax: Limits.segmentSequenceRangeCountMax, at: start)
            let list = try AttributionList.decode(
                &rest, count: attributionCount, nextKey: found.nextKey, nextName: found.nextName,
                at: start)
            guard rest.isAtEnd else {
                throw .corrupt(
                    "metadata", at: start + rest.offset, got: bytes.count,
                    expected: .exactly(start + rest.offset))
            }
            return (entries, list)
        }
        return found
    }

    private init(blankOf span: LogSpan) {
        self.span = span
        (missingCount, rowCount, minTimestamp, maxTimestamp) = (0, 0, 0, 0)
        (commitEpoch, lastBlockChecksum, nextCommitEpoch, nextName, nextKey) = (0, 0, 0, 1, 0)
    }
}

/// The sealed segments that a reward-days run covers, and what of them is lost, so that no manifest has to list them; and
/// the attributions of its rows: the metadata of that run.
///
/// **Layout** docs/format/run.md: three counts, the segments, the lost ranges, the attributions.
package struct SealedSegments: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .derived("sealed count", 4) { UInt64($0.entries.count) },
        .derived("lost range count", 4) { UInt64($0.lost.count) },
        .derived("attribution count", 4) { UInt64($0.attributions.count) })

    /// By number, without a gap; the last is where the run ends.
    package var entries: [SealedSegment] = []
    /// By (segment, block).
    package var lost: [LostRange] = []
    package var attributions = AttributionList()

    /// Those of a generation that are in a span.
    package init(
        of manifest: Manifest, in span: LogSpan, attributions: AttributionList = AttributionList()
    ) {
        entries = manifest.sealed.filter { span.contains($0.number) }
        lost = manifest.lost.filter { span.contains($0.segment) }
        self.attributions = attributions
    }

    package init() {}

    package func encode() -> [UInt8] {
        var writer = FieldWriter(
            capacity: Self.layout.byteCount + entries.count * SealedSegment.layout.byteCount)
        Self.layout.append(self, to: &writer)
        for entry in entries { SealedSegment.layout.append(entry, to: &writer) }
        writer.append(LostRange.encode(lost))
        writer.append(attributions.encode())
        return writer.bytes
    }

    /// - Parameter span: of the run. Segments at its beginning may have expired when it was written.
    /// **Errors** `torn`, `corrupt` for entries out of order, with a gap, or that end elsewhere; places are in `bytes`.
    package static func decode(
        _ bytes: [UInt8], of span: LogSpan
    ) throws(FormatError) -> SealedSegments {
        var reader = FieldReader(bytes)
        try reader.begin(layout.byteCount)
        let count = try reader.count(layout.sealedCount, max: Int(span.segmentCount))
        // The bytes that are there bound it.
        let lostCount = try reader.count(layout.lostRangeCount, max: Limits.footerByteCountMax)
        let attributionCount = try reader.count(
            layout.attributionCount, max: AttributionList.countMax)
        var found = SealedSegments()
        let first = UInt64(span.lastSegment.rawValue) + 1 - UInt64(count)
        found.entries = try SealedSegment.decode(&reader, count: count, from: first)
        if count > 0 { try reader.expect(SealedSegment.layout.blockCount, span.end.blockCount) }
        found.lost = try LostRange.decode(&reader, count: lostCount)
        found.attributions = try AttributionList.decode(
            whole: Array(bytes[reader.end...]), count: attributionCount, at: reader.end,
            of: "metadata")
        return found
    }
}
