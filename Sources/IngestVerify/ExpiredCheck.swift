// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
// Part of `verify`: shares no code with what folds footers.
import IngestFormat
import IngestStorage

/// What an expired run attests: its rows are gone, so nobody can count them again. Its counters and its
/// ledger were summed apart from each other, and must say the same.
struct ExpiredOutcome: Sendable {
    /// `nil` if the file could not be read.
    var segments: ExpiredSegments?
    let file: FileName
    var report = VerifyReport()
    /// `nil` if the file could not be read.
    var rows: RowSource?
    var totals = TotalsRecount()
    var ledger = LedgerRecount()
    /// Why it could not be read.
    var failure: StorageError?

    /// Checks all of a file byte by byte; on any thread.
    init<Files>(_ run: RunReader<Files>, _ meter: WorkMeter) {
        file = .run(.expired, run.header.fileNumber)
        do throws(StorageError) {
            let segments = try run.readExpired()
            let columns = try Self.columns(of: run, segments, meter)
            ledger.add(segments.ledger, at: nil)
            totals = TotalsRecount(ledger, rowCount: segments.rowCount)
            compare(columns, segments)
            rows = try RowSource(run, name: file)
            self.segments = segments
        } catch { failure = error }
    }

    /// The sums of all rows.
    private static func columns<Files>(
        of run: RunReader<Files>, _ segments: ExpiredSegments, _ meter: WorkMeter
    ) throws(StorageError) -> CounterSum {
        let page = CounterPage()
        var columns = CounterSum()
        // Attributed rows are of the same events.
        var cursor = run.makeCursor(keys: CounterKeys.rewards)
        while !meter.isStopped, try cursor.nextPage(into: page) {
            for row in 0..<page.rowCount where page.key(row) >= segments.nextKey {
                throw .corrupt(
                    path: run.path, offset: UInt64(RunHeader.byteCount),
                    detail: "a row of key \(page.key(row)), which was given later")
            }
            for row in 0..<page.rowCount { columns.add(page.counters(row)) }
        }
        return columns
    }

    /// Holds counters, ledger and row count against each other: every row is of one verdict, and of one
    /// column of those that gross is the sum of.
    private mutating func compare(_ columns: CounterSum, _ segments: ExpiredSegments) {
        let events = totals.events
        func sum(_ wanted: [CounterColumn]) -> UInt64 {
            wanted.reduce(0) { $0.saturatingSum(columns.counters[$1]) }
        }
        func sum(_ verdicts: [Verdict]) -> UInt64 {
            verdicts.reduce(0) { $0.saturatingSum(events[Int($1.rawValue)]) }
        }
        // Of refused events only some are rows.
        let refusals: [(what: String, got: UInt64, most: UInt64)] = [
            ("not viewable", sum([.notViewableImpressions]), sum([.notViewable])),
            (
                "invalid", sum([.invalidImpressions, .invalidClicks, .invalidRedemptions]),
                sum([.invalidTraffic])
            ),
            (
                "refused", sum([.refusedImpressions, .refusedClicks, .refusedRedemptions]),
                sum([.undetermined, .tooOld, .tooEarly, .outsideWindow, .noConsent])
            ),
        ]
        let refused = refusals.map { ($0.what, $0.got, min($0.got, $0.most)) }
        let pairs: [(what: String, got: UInt64, expected: UInt64)] =
            [
                ("counted", sum([.impressions, .clicks, .redemptions]), sum([.counted])),
                (
                    "duplicate",
                    sum([.duplicateImpressions, .duplicateClicks, .duplicateRedemptions]),
                    sum([.duplicate, .sessionRepeat])
                ),
                (
                    "conflict", sum([.conflictImpressions, .conflictClicks, .conflictRedemptions]),
                    sum([.conflict])
                ),
            ] + refused
        for pair in pairs where pair.got != pair.expected {
            report.add(
                .difference, "events \(pair.what) in the counters", in: file.text,
                got: "\(pair.got)",
                expected: "\(pair.expected), as in the ledger")
        }
        let rowCount = pairs.reduce(UInt64(0)) { $0.saturatingSum($1.got) }
        if rowCount != segments.rowCount || columns.overflows != 0 {
            report.add(
                .difference, "rows in the metadata", in: file.text, got: "\(segments.rowCount)",
                expected: "\(rowCount)")
        }
    }
}
