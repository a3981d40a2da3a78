// packet → socket → [ack] → summary

import ArgumentParser
import IngestClient

/// What became of the events at the receiver: their fields of the summary, and what to do where some do not count.
enum Outcome {
    /// Of the summary, with a comma before the first.
    static func fields(_ counts: EventSender.ReceiverCounts?) -> String {
        func text<Value>(_ value: Value?) -> String { value.map { "\($0)" } ?? "null" }
        let reason = counts?.reason.map { "\"\($0)\"" }
        return ",\"counted\":\(text(counts?.counted)),\"repeated\":\(text(counts?.repeated))"
            + ",\"not_counted\":\(text(counts?.notCounted)),\"reason\":\(text(reason))"
    }

    /// Says on stderr which events do not count, and what to do; throws the exit code where that shall end the run.
    ///
    /// - Parameter continuesEpoch: whether an earlier run has begun it: the receiver tells of all of it.
    static func tell(
        _ totals: EventSender.Totals, isAcked: Bool, continuesEpoch: Bool, failsOnRefused: Bool
    ) throws(ExitCode) {
        guard let counts = totals.receiver else {
            guard isAcked, totals.eventsAcked > 0 else { return }
            printToStandardError(
                "ingest-send: every event is durable, but the receiver did not say how many of them count, "
                    + "ingest-reader ledger shows it")
            if failsOnRefused { throw ExitCode(69) }
            return
        }
        guard counts.notCounted > 0 else { return }
        let all = counts.counted + counts.repeated + counts.notCounted
        let isLonger = continuesEpoch || all > totals.eventsAcked
        printToStandardError(
            "ingest-send: \(grouped(counts.notCounted)) of \(grouped(all)) events "
                + (isLonger ? "of this epoch, which an earlier run has begun, " : "")
                + "not counted: \(counts.reason ?? "a reason of a later version"); "
                + advice(counts.reason))
        if failsOnRefused { throw ExitCode(1) }
    }

    /// What to do about the reason for most of them (docs/counting.md).
    private static func advice(_ reason: String?) -> String {
        switch reason {
        case "too_old": "to load history start ingestd with --max-event-age-seconds 0"
        case "too_early":
            "compare the clocks by 'ingest-send check', and see whether times are milliseconds since 1970, or "
                + "ISO 8601 with the right zone"
        case "wrong_business":
            "send them with a key that may add to this business, or give their rewards an owner by "
                + "--reward-owners of ingestd"
        case "malformed": "compare them with proto/ingest/v1/events.proto"
        case "no_consent":
            "their users have opted out, or with --count-consent-not-set no of ingestd have said nothing"
        case "not_viewable":
            "they were seen less than the standard asks for; ingest-reader shows them in columns of their own"
        case "undetermined":
            "send their viewability, or start ingestd with --count-undetermined yes"
        case "invalid_traffic":
            "they are marked as such, or a session had too many; ingest-reader explain names the rule"
        case "outside_window":
            "they are older than the ids that are known; start ingestd with --outside-dedup-window count"
        default: "ingest-reader ledger has all reasons"
        }
    }

    /// `20,080`.
    static func grouped(_ number: UInt64) -> String {
        let digits = Array(String(number))
        return digits.indices.map { place in
            (place > 0 && (digits.count - place) % 3 == 0 ? "," : "") + String(digits[place])
        }.joined()
    }
}
