// file → [lines] → send → packet → socket

import Glibc
import IngestClient

/// A line on stderr that is written over again and again, only where stderr is a terminal.
struct Progress {
    private static let intervalNanoseconds: UInt64 = 200_000_000
    /// Lines between two looks at the clock.
    private static let lineStride = 64

    private let isShown = isatty(STDERR_FILENO) == 1
    private let startedAt = SenderClock.monotonicNanoseconds()
    private var shownAt: UInt64 = 0
    private var lineCount = 0

    mutating func update(_ sender: any LineSender) {
        lineCount += 1
        guard isShown, lineCount % Self.lineStride == 0 else { return }
        let now = SenderClock.monotonicNanoseconds()
        guard now >= shownAt + Self.intervalNanoseconds else { return }
        shownAt = now
        show(sender.result, now: now)
    }

    /// Leaves the last state standing and goes to a new line.
    func end(_ result: EventSender.Result) {
        guard isShown, shownAt > 0 else { return }
        show(result, now: SenderClock.monotonicNanoseconds())
        write("\n")
    }

    private func show(_ result: EventSender.Result, now: UInt64) {
        let seconds = Double(now - startedAt) / 1_000_000_000
        let rate = Int(Double(result.sent) / max(seconds, 0.001))
        write("\r\u{1B}[K\(result.sent) events sent, \(rate)/s, \(result.refused) refused")
    }
}

func printToStandardError(_ line: String) { write(line + "\n") }

private func write(_ text: String) {
    var text = text
    text.withUTF8 { bytes in
        // SAFETY: the buffer is the string's own. A short or failed write to stderr loses the message,
        // nothing else.
        _ = unsafe Glibc.write(STDERR_FILENO, bytes.baseAddress, bytes.count)
    }
}
