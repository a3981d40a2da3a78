// packet → socket → [ack] → summary

import ArgumentParser
import Glibc
import IngestClient
import IngestFormat

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
        let all = counts.counted.saturatingSum(counts.repeated).saturatingSum(counts.notCounted)
        let isLonger = continuesEpoch || all > totals.eventsAcked
        printToStandardError(
            "ingest-send: \(grouped(counts.notCounted)) of \(grouped(all)) events "
                + (isLonger ? "of this epoch, which an earlier run has begun, " : "")
                + "not counted, most often \(counts.reason ?? "for a reason of a later version"); "
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

/// A line on stderr that is written over again and again, only where stderr is a terminal.
struct Progress {
    private static let intervalNanoseconds: UInt64 = 200_000_000
    private let isShown: Bool
    private let write: (String) -> Void
    private let startedAt: UInt64
    private var shownAt: UInt64?
    /// Bytes of the input that have been taken, and of all of it; `nil` where that is not known.
    var input: (taken: UInt64, all: UInt64?) = (0, nil)

    init(
        isShown: Bool = isatty(STDERR_FILENO) == 1,
        startedAt: UInt64 = SenderClock.monotonicNanoseconds(),
        write: @escaping (String) -> Void = writeToStandardError
    ) {
        self.isShown = isShown
        self.startedAt = startedAt
        self.write = write
    }

    /// After lines that were taken, and before whatever may take long: the pace, the input. Shows the state unless it was
    /// shown just now.
    mutating func look(_ sender: EventSender) {
        if isShown { show(sender.totals, now: SenderClock.monotonicNanoseconds()) }
    }

    /// As `look`, at a time of the caller's.
    mutating func show(_ totals: EventSender.Totals, now: UInt64) {
        guard isShown else { return }
        if let shownAt, now < shownAt + Self.intervalNanoseconds { return }
        shownAt = now
        write(line(totals, nanoseconds: now - startedAt))
    }

    /// Takes the line away, so that another can be printed in its place.
    func clear() {
        if isShown, shownAt != nil { write("\r\u{1B}[K") }
    }

    /// Leaves the last state standing and goes to a new line.
    func end(_ totals: EventSender.Totals) {
        guard isShown, shownAt != nil else { return }
        write(line(totals, nanoseconds: SenderClock.monotonicNanoseconds() - startedAt) + "\n")
    }

    /// `, 25 %, 6 s left` of an input whose size is known.
    private func share(seconds: Double) -> String {
        guard let all = input.all, all > 0 else { return "" }
        let taken = min(input.taken, all)
        let percent = Int(Double(taken) / Double(all) * 100)
        guard taken > 0, taken < all else { return ", \(percent) %" }
        let left = seconds * Double(all - taken) / Double(taken)
        return ", \(percent) %, \(Int(left.rounded(.up))) s left"
    }

    private func line(_ totals: EventSender.Totals, nanoseconds: UInt64) -> String {
        let seconds = Double(nanoseconds) / 1_000_000_000
        let rate = Int(Double(totals.eventsSent) / max(seconds, 0.001))
        let acked = totals.eventsAcked > 0 ? ", \(totals.eventsAcked) acked" : ""
        return
            "\r\u{1B}[K\(totals.eventsSent) events sent\(acked), \(rate)/s, "
            + "\(totals.eventsRefused) refused\(share(seconds: seconds))"
    }
}

func printToStandardError(_ line: String) { writeToStandardError(line + "\n") }

/// A short or failed write to stderr loses the message, nothing else.
func writeToStandardError(_ text: String) { _ = write(Array(text.utf8), to: STDERR_FILENO) }

/// The same of an agent, which has datagrams to take: a reader that has no room within a tenth of a second gets no line.
func tellStandardError(_ line: String) {
    var ready = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
    // SAFETY: the call reads and writes the one structure, which outlives it.
    if unsafe poll(&ready, 1, 100) == 1 { printToStandardError(line) }
}

/// Prints a line on standard output; who closed a pipe does not want it.
///
/// - Returns: as `writeOut`.
func printLine(_ line: String) -> Bool { writeOut(Array("\(line)\n".utf8), mayBeClosed: true) }

/// Writes to standard output; where that fails, stderr says why.
///
/// - Returns: whether all of it was written, or a pipe that may be closed is.
func writeOut(_ bytes: [UInt8], mayBeClosed: Bool = false) -> Bool {
    if write(bytes, to: STDOUT_FILENO) || mayBeClosed && errno == EPIPE { return true }
    // SAFETY: a C string of the library, or of this thread.
    let cause = unsafe String(cString: strerror(errno))
    printToStandardError(
        "ingest-send: cannot write to standard output: \(cause), check where it goes")
    return false
}

/// Whether all of it could be written.
func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    var start = 0
    while start < bytes.count {
        // SAFETY: the buffer is the array's own; `start` is inside it.
        let count = unsafe bytes.withUnsafeBytes {
            unsafe Glibc.write(descriptor, $0.baseAddress! + start, $0.count - start)
        }
        if count < 0, errno == EINTR { continue }
        if count <= 0 { return false }
        start += count
    }
    return true
}
