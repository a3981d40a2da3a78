// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
// Part of `verify`: shares no code with what folds footers.
import IngestFormat
import IngestStorage

/// What a file of expired footers attests: its rows are gone, so nobody can count them again. Its counters and its
/// ledger were summed apart from each other, and must say the same.
struct ExpiredOutcome: Sendable {
    let sums: ExpiredSums
    let file: FileName
    var report = VerifyReport()
    /// `nil` if the file could not be read.
    var rows: RowSource?
    var totals = TotalsRecount()
    var ledger = LedgerRecount()
    /// All revenue and spend; at most 2^64 − 1.
    var moneyMicros: UInt64 = 0
    /// Why it could not be read.
    var failure: StorageError?

    /// Checks all of a file byte by byte; on any thread.
    init<Files>(_ reader: ExpiredFooterReader<Files>, _ meter: WorkMeter) {
        sums = reader.header.sums
        file = .expired(reader.header.fileNumber)
        do throws(StorageError) {
            let columns = try Self.columns(of: reader, meter)
            let entries = try reader.readLedger()
            ledger.add(entries, at: nil)
            totals = TotalsRecount(ledger, rowCount: sums.rowCount)
            moneyMicros = columns.counters[.revenueMicros].saturatingSum(
                columns.counters[.spendMicros])
            compare(columns)
            rows = RowSource(reader.counters, name: file)
        } catch { failure = error }
    }

    /// The sums of all rows.
    private static func columns<Files>(
        of reader: ExpiredFooterReader<Files>, _ meter: WorkMeter
    ) throws(StorageError) -> CounterSum {
        let page = CounterPage()
        var columns = CounterSum()
        var cursor = reader.counters.makeCursor()
        while !meter.isStopped, try cursor.nextPage(into: page) {
            for row in 0..<page.rowCount where page.key(row) >= reader.header.sums.nextKey {
                throw .corrupt(
                    path: FileName.expired(reader.header.fileNumber).text,
                    offset: UInt64(ExpiredHeader.byteCount),
                    detail: "a row of key \(page.key(row)), which was given later")
            }
            for row in 0..<page.rowCount { columns.add(page.counters(row)) }
        }
        return columns
    }

    /// Holds counters, ledger and row count against each other: every row is of one verdict, and of one
    /// column of those that gross is the sum of.
    private mutating func compare(_ columns: CounterSum) {
        let events = totals.events
        func sum(_ wanted: [CounterColumn]) -> UInt64 {
            wanted.reduce(0) { $0.saturatingSum(columns.counters[$1]) }
        }
        func sum(_ verdicts: [Verdict]) -> UInt64 {
            verdicts.reduce(0) { $0.saturatingSum(events[Int($1.rawValue)]) }
        }
        // Of events without consent only some are rows.
        let refused = sum([.undetermined, .tooOld, .tooEarly, .outsideWindow, .wrongBusiness])
        let refusedRows = sum([.refusedImpressions, .refusedClicks, .refusedRedemptions])
        let withoutConsent = min(
            events[Int(Verdict.noConsent.rawValue)], refusedRows - min(refused, refusedRows))
        let pairs: [(what: String, got: UInt64, expected: UInt64)] = [
            ("counted", sum([.impressions, .clicks, .redemptions]), sum([.counted])),
            ("not viewable", sum([.notViewableImpressions]), sum([.notViewable])),
            (
                "invalid", sum([.invalidImpressions, .invalidClicks, .invalidRedemptions]),
                sum([.invalidTraffic])
            ),
            (
                "duplicate", sum([.duplicateImpressions, .duplicateClicks, .duplicateRedemptions]),
                sum([.duplicate, .sessionRepeat])
            ),
            (
                "conflict", sum([.conflictImpressions, .conflictClicks, .conflictRedemptions]),
                sum([.conflict])
            ),
            ("refused", refusedRows, refused.saturatingSum(withoutConsent)),
        ]
        for pair in pairs where pair.got != pair.expected {
            report.add(
                .difference, "events \(pair.what) in the counters", in: file.text,
                got: "\(pair.got)",
                expected: "\(pair.expected), as in the ledger")
        }
        let rowCount = pairs.reduce(UInt64(0)) { $0.saturatingSum($1.got) }
        if rowCount != sums.rowCount || columns.overflows != 0 {
            report.add(
                .difference, "rows in the header", in: file.text, got: "\(sums.rowCount)",
                expected: "\(rowCount)")
        }
    }
}
