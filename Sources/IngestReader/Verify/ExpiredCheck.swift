// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
// Part of `verify`: shares no code with what folds footers.

import IngestFormat
import IngestStorage

/// Checks a file of expired footers byte by byte, and takes what it attests: its rows are gone, so nobody can count
/// them again. Its counters and its ledger were summed apart from each other, and must say the same.
struct ExpiredCheck<Files: FileSystem>: Sendable {
    let reader: ExpiredFooterReader<Files>
    let meter: WorkMeter

    /// What a file attests.
    struct Outcome: Sendable {
        let sums: ExpiredSums
        let file: String
        var report = VerifyReport()
        var tally = Tally()
        var totals = TotalsRecount()
        var ledger = LedgerRecount()
        /// Why it could not be read.
        var failure: StorageError?
    }

    /// Reads all of the file; on any thread.
    func run() -> Outcome {
        var outcome = Outcome(
            sums: reader.header.sums, file: FileName.expired(reader.header.fileNumber).text)
        do throws(StorageError) {
            try addCounters(&outcome)
            let ledger = try reader.readLedger()
            outcome.totals.add(ledger, rowCount: outcome.sums.rowCount)
            outcome.ledger.add(ledger, at: nil)
            checkSums(&outcome)
        } catch { outcome.failure = error }
        return outcome
    }

    private func addCounters(_ outcome: inout Outcome) throws(StorageError) {
        let page = CounterPage()
        var cursor = reader.counters.makeCursor()
        var builder = TallyBuilder(capacity: 0)
        while !meter.isStopped, try cursor.nextPage(into: page) {
            for row in 0..<page.rowCount {
                guard page.key(row) < outcome.sums.nextKey else {
                    throw .corrupt(
                        path: outcome.file, offset: UInt64(ExpiredHeader.byteCount),
                        detail: "a row of key \(page.key(row)), which was given later")
                }
                builder.append(
                    CheckedRow(counters: page.counters(row)),
                    at: Tally.Place(item: page.key(row), day: page.day(row)))
            }
        }
        outcome.tally = builder.finish()
    }

    /// Holds counters, ledger and row count against each other: every row is of one verdict, and of one
    /// column of those that gross is the sum of.
    private func checkSums(_ outcome: inout Outcome) {
        var sums = CheckedRow()
        for index in 0..<outcome.tally.placeCount { sums.add(outcome.tally.row(at: index)) }
        let events = outcome.totals.events
        func sum(_ columns: [CounterColumn]) -> UInt64 {
            columns.reduce(0) { $0.saturatingSum(sums.counters[$1]) }
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
            outcome.report.add(
                Finding(
                    .difference, file: outcome.file, what: "events \(pair.what) in the counters",
                    got: "\(pair.got)", expected: "\(pair.expected), as in the ledger"))
        }
        let rowCount = pairs.reduce(UInt64(0)) { $0.saturatingSum($1.got) }
        if rowCount != outcome.sums.rowCount || sums.overflows != 0 {
            outcome.report.add(
                Finding(
                    .difference, file: outcome.file, what: "rows in the header",
                    got: "\(outcome.sums.rowCount)", expected: "\(rowCount)"))
        }
    }
}

extension LogRecount {
    /// Takes what the next expired stretch of the log attests; `nil` if its file could not be read.
    mutating func attest<Files>(
        _ entry: ExpiredEntry, _ outcome: ExpiredCheck<Files>.Outcome?
    ) {
        guard let outcome, outcome.failure == nil else { return missExpired(entry) }
        report.append(outcome.report)
        if entry.missingCount > 0 {
            report.add(
                Finding(
                    .evidenceLost, file: outcome.file,
                    what: "\(entry.missingCount) segments without a footer, missing when they "
                        + "expired: what was counted of them is attested by nothing"))
        }
        windows.add(
            attested: outcome.ledger, hasLosses: hasLosses(in: outcome.sums.span),
            in: outcome.file, &report)
        add(attested: outcome.tally, outcome.totals, of: outcome.sums)
    }

    /// Notes what was recorded as lost of segments that have expired since.
    mutating func noteLosses(of manifest: Manifest) {
        let file = FileName.manifest(manifest.generation).text
        for range in manifest.lost where range.segment <= manifest.lastExpired {
            let count = range.rowCount.map { "\($0) events" } ?? "an unknown number of events"
            report.add(
                Finding(
                    .evidenceLost, file: file,
                    what: "\(count) in \(range.blockCount) blocks from block \(range.firstBlock) "
                        + "of segment \(range.segment.rawValue) on, which has expired"))
            addLost(range.rowCount ?? .max, of: range.segment)
        }
        for entry in manifest.expired where entry.missingCount > 0 {
            addLost(.max, of: entry.span.lastSegment)
        }
    }
}
