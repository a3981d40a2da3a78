// file → [lines] → send → packet → socket

import Glibc
import IngestClient

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
