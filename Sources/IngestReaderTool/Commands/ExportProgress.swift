// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Glibc

/// The rows of an export so far, on stderr where that is a terminal: as a bar where it is known how many are to
/// come.
package struct ExportProgress {
    private static let stride = 1 << 14
    private static let interval = Duration.milliseconds(200)
    private static let barWidth = 24

    private let isShown: Bool
    private let clock = ContinuousClock()
    private let startedAt = ContinuousClock().now
    private let rowCountMax: UInt64?
    private var shownAt: ContinuousClock.Instant?
    private(set) var rowCount: UInt64 = 0

    /// - Parameters:
    ///   - rowCountMax: at least as many rows as will come.
    ///   - isSilent: where the rows themselves may be on the terminal.
    init(rowCountMax: UInt64?, isSilent: Bool) {
        self.rowCountMax = rowCountMax
        isShown = !isSilent && isatty(STDERR_FILENO) == 1
    }

    mutating func addRow() {
        rowCount += 1
        guard isShown, rowCount % UInt64(Self.stride) == 0 else { return }
        let now = clock.now
        if let shownAt, now - shownAt < Self.interval { return }
        shownAt = now
        let line = Self.line(
            rowCount: rowCount, of: rowCountMax, seconds: (now - startedAt) / .seconds(1))
        ReaderProgram.standardError("\r\(line)\u{1b}[K")
    }

    /// Takes the line away.
    func end() {
        if shownAt != nil { ReaderProgram.standardError("\r\u{1b}[K") }
    }

    /// `[######                  ]  25 %, 1048576 rows, 524288/s, 6 s left`.
    package static func line(
        rowCount: UInt64, of rowCountMax: UInt64?, seconds: Double
    ) -> String {
        let rate = Double(rowCount) / max(seconds, 0.001)
        let counts = "\(rowCount) rows, \(Int(rate))/s"
        guard let rowCountMax, rowCountMax >= rowCount, rowCount > 0 else { return counts }
        let share = Double(rowCount) / Double(rowCountMax)
        let filled = Int(share * Double(barWidth))
        let bar =
            String(repeating: "#", count: filled)
            + String(repeating: " ", count: barWidth - filled)
        let percent = String(Int(share * 100))
        let gap = String(repeating: " ", count: 3 - percent.utf8.count)
        let left = Int((Double(rowCountMax - rowCount) / rate).rounded(.up))
        return "[\(bar)] \(gap)\(percent) %, \(counts), \(left) s left"
    }
}
