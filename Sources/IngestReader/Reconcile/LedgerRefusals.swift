// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestRules

/// The refusals that stand in the ledger alone, since names of the event or their combination were not known
/// (docs/counting.md, *Conservation*): as many lines without a row may be of these. Owned by one reconciliation.
///
/// A line is taken for one if the rules of a segment refuse it whatever the time, or if these are not known to this day,
/// so that it cannot have counted. One that was refused for its time or its rate, before its names were known, is not.
struct LedgerRefusals {
    /// By reason: those that no line was taken for.
    private var counts: [Verdict: UInt64]
    private var count: UInt64
    private let policies: [CountingPolicy]

    /// - Parameters:
    ///   - totals: of the log.
    ///   - rowCounts: rows of the log by verdict, of the days and businesses of the file.
    ///   - policies: of its segments.
    ///   - optedOutCount: lines of the file that are in the ledger for that.
    init(
        _ totals: LogTotals, _ rowCounts: [Verdict: UInt64], _ policies: Set<CountingPolicy>,
        optedOutCount: UInt64
    ) {
        var counts = Verdict.counts(totals.events).filter {
            $0.key.isRefusal || $0.key == .conflict
        }
        // Nobody but those who opted out is refused for consent where events whose consent is not set count.
        let isOptOut = policies.allSatisfy(\.countsConsentNotSet)
        let never: [Verdict] = [.malformed, .wrongBusiness] + (isOptOut ? [.noConsent] : [])
        let neverRows = never.reduce(UInt64(0)) {
            $0 + (counts.removeValue(forKey: $1) ?? 0)
        }
        for (verdict, count) in counts {
            counts[verdict] = count - min(count, rowCounts[verdict] ?? 0)
        }
        let optedOut = min(optedOutCount, counts[.noConsent] ?? 0)
        counts[.noConsent]? -= optedOut
        let all = totals.events.reduce(UInt64(0)) { $0.saturatingSum($1) }
        let others = neverRows.saturatingSum(optedOut).saturatingSum(totals.rowCount)
        count = all - min(all, others)
        self.counts = counts
        self.policies = policies.map { policy in
            var policy = policy
            (policy.ageMicrosecondsMax, policy.leadMicrosecondsMax) = (nil, .max)
            return policy
        }
    }

    var isEmpty: Bool { count == 0 }

    /// Takes some of `lineCount` equal lines.
    ///
    /// - Parameter areNamesKnown: whether the log has all of its names and their combination.
    /// - Returns: of how many, at least one, and for which reason; `nil` where it is of none.
    mutating func take(
        _ lineCount: UInt64, of event: EventDescriptor,
        areNamesKnown: () throws(ReaderError) -> Bool
    ) throws(ReaderError) -> (reason: Verdict, count: UInt64)? {
        let judged = JudgedEvent(PacketRow(event))
        var reasons = policies.map {
            $0.verdict(on: judged, admissionTime: event.timestampMicroseconds)
        }.filter(\.isRefusal)
        if reasons.isEmpty, try areNamesKnown() { return nil }
        // What comes first may have refused it all the same.
        reasons += [.tooOld, .tooEarly, .invalidTraffic, .outsideWindow, .conflict]
        for reason in reasons {
            let taken = min(lineCount, counts[reason] ?? 0, count)
            if taken == 0 { continue }
            counts[reason]? -= taken
            count -= taken
            return (reason, taken)
        }
        return nil
    }
}
