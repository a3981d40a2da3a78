// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

/// What is kept of a stretch of expired segments beside their counters and ledger: how far it goes, what it
/// held, and what the log goes on from behind it.
package struct ExpiredSums: Hashable, Sendable {
    /// Whole segments, up to the end of the last one.
    package var span: LogSpan
    /// Segments whose footers were folded, and those of which none could be read: the events of these are in
    /// the runs and cannot be verified any more.
    package var footerCount: UInt32
    package var missingCount: UInt32
    /// Of the segment files.
    package var logByteCount: UInt64
    /// Of the footers that were folded.
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

    /// Of one segment.
    /// - Parameters:
    ///   - firstSegment: where the stretch begins; before the segment, if those between are missing.
    ///   - missingCount: how many are.
    ///   - byteCount: of the segment's file.
    ///   - nextCommitEpoch: what the next segment begins with.
    package init(
        _ footer: SegmentFooter, from firstSegment: SegmentNumber, missingCount: UInt32,
        byteCount: UInt64, nextCommitEpoch: UInt64
    ) {
        span = LogSpan(
            firstSegment: firstSegment,
            end: LogPosition(segment: footer.segment, blockCount: footer.blockCount))
        footerCount = 1
        self.missingCount = missingCount
        logByteCount = byteCount
        rowCount = footer.rowCount
        minTimestamp = footer.minTimestamp
        maxTimestamp = footer.maxTimestamp
        commitEpoch = footer.commitEpoch
        lastBlockChecksum = footer.lastBlockChecksum
        self.nextCommitEpoch = nextCommitEpoch
        nextName = footer.names.upperBound
        nextKey = footer.keys.upperBound
    }

    /// Of this stretch and the next one together; `nil` if they do not touch, or are of no log that can be.
    package func joined(with next: ExpiredSums) -> ExpiredSums? {
        guard let span = span.joined(with: next.span) else { return nil }
        let (footers, tooMany) = footerCount.addingReportingOverflow(next.footerCount)
        let (missing, tooManyMissing) = missingCount.addingReportingOverflow(next.missingCount)
        let (bytes, tooLong) = logByteCount.addingReportingOverflow(next.logByteCount)
        let (rows, tooManyRows) = rowCount.addingReportingOverflow(next.rowCount)
        if tooMany || tooManyMissing || tooLong || tooManyRows { return nil }
        var joined = next
        joined.span = span
        joined.footerCount = footers
        joined.missingCount = missing
        joined.logByteCount = bytes
        joined.rowCount = rows
        let filled = [self, next].filter { $0.rowCount > 0 }
        joined.minTimestamp = filled.map(\.minTimestamp).min() ?? 0
        joined.maxTimestamp = filled.map(\.maxTimestamp).max() ?? 0
        return joined
    }

    /// Segments folded, and those that are missing.
    package var segmentCount: UInt64 { UInt64(footerCount) + UInt64(missingCount) }
}
