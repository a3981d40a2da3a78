// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

extension Snapshot {
    package func forEachEvent(
        _ query: EventsQuery, _ body: ListedEvent.Body
    ) throws(ReaderError) {
        var limit = RowLimit(query.limit)
        if limit.isReached { return }
        func limited(_ event: ListedEvent) -> Bool { limit.goesOn(body(event)) }
        var listing = EventListing(query, makeNames())
        let days = query.days
        // Events that were refused from far away have the day of their admission, all others that of their time.
        let blocks = CutBlocks(files: files, manifest: manifest, end: tail.position) { block in
            block.rowCount > 0
                && (days.mayHold(timestamps: block.minTimestamp, block.maxTimestamp)
                    || days.mayHold(timestamps: block.admissionTime, block.admissionTime))
        }
        let mayHold = { (entry: SealedSegment) in
            entry.rowCount > 0
                && (days.mayHold(timestamps: entry.minTimestamp, entry.maxTimestamp)
                    || days.mayHoldRefused(timestamps: entry.minTimestamp, entry.maxTimestamp))
        }
        try blocks.forEach(whereSealed: mayHold) { (header, buffer) throws(ReaderError) in
            try listing.give(header, buffer, path: files.path, limited)
        }
    }

    package var totals: LogTotals {
        var totals = manifest.shard.totals
        totals.add(tail.totals)
        return totals
    }

    package var hasExpiredRows: Bool { !manifest.expired.isEmpty }

    package var eventCount: UInt64 {
        let counted = manifest.shard.liveTotals.rowCount.saturatingSum(tail.totals.rowCount)
        return manifest.sealed.reduce(counted) { $0.saturatingSum($1.rowCount) }
    }

    package func rowCountMax(of table: TableKind) -> UInt64 {
        var count = tail.tables.reduce(0) { $0 + UInt64($1.rowCount) }
        for entry in manifest.runs(of: table) {
            count = count.saturatingSum(entry.rowCount)
        }
        return table == .rewards ? min(count, UInt64(makeNames().nextKey)) : count
    }
}

extension IngestReader {
    /// Gives events in the order of the log, from the oldest that retention has left.
    ///
    /// **Errors** As all queries; `io` also where rows expired before it was their turn.
    /// **Cost** One pass over the blocks that may hold a wanted day, in constant memory: a microsecond an event, six
    /// where its names have to be read.
    /// - Parameters:
    ///   - query: which of them, and of which days.
    ///   - body: takes each event, and says whether it wants another.
    public func forEachEvent(
        _ query: EventsQuery = EventsQuery(), _ body: (EventRow) -> Iteration
    ) throws(ReaderError) {
        try snapshot.forEachEvent(query) { body(EventRow($0)) == .next }
    }

    /// As the one above, for a body that may throw: its error comes out as it is.
    public func forEachEvent(
        _ query: EventsQuery = EventsQuery(), _ body: (EventRow) throws -> Iteration
    ) throws {
        var taker = Taker()
        try forEachEvent(query) { event in taker.hold { try body(event) } }
        try taker.release()
    }

    /// What the whole log of the cut adds up to, also what retention has removed since.
    package var totals: LogTotals { snapshot.totals }

    /// Whether retention has removed rows.
    package var hasExpiredRows: Bool { snapshot.hasExpiredRows }

    /// How many events there are to list.
    package var eventCount: UInt64 { snapshot.eventCount }

    /// At least as many rows as a listing of the whole table has.
    package func rowCountMax(of table: TableKind) -> UInt64 { snapshot.rowCountMax(of: table) }
}
