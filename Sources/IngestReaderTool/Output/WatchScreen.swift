// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Glibc
import IngestFormat
import IngestReader
import SystemPackage

/// Standard output as something that is drawn again and again: a terminal's second screen, line over line, so that
/// nothing flickers; or, where it is no terminal, one text after the other.
struct WatchScreen {
    struct Extent: Equatable {
        var columnCount: Int
        var lineCount: Int
    }

    /// So much is written once there is room for anything: a pipe takes it whole then.
    private static let pieceByteCount = Int(PIPE_BUF)
    private static let lookMilliseconds: Int32 = 100

    let isTerminal = StandardOutput.isTerminal
    private let signals: HeldSignals

    init(signals: HeldSignals) { self.signals = signals }

    /// `nil` where there is no terminal.
    var extent: Extent? {
        guard isTerminal else { return nil }
        var window = winsize()
        // SAFETY: the structure is a local that the call fills.
        guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &window) == 0, window.ws_col > 0,
            window.ws_row > 0
        else { return Extent(columnCount: 80, lineCount: 24) }
        return Extent(columnCount: Int(window.ws_col), lineCount: Int(window.ws_row))
    }

    /// Second screen, no cursor.
    func begin() throws {
        if isTerminal { _ = try write("\u{1b}[?1049h\u{1b}[?25l") }
    }

    /// Draws over what was drawn before. Lines are no longer than the screen, and no more than it has.
    /// - Returns: `false` if a signal asked to stop, with the rest not drawn.
    func draw(_ lines: [String]) throws -> Bool {
        guard isTerminal else { return try write(lines.map { $0 + "\n" }.joined() + "\n") }
        // Between the two marks a terminal that knows them shows nothing half drawn; others pass them over.
        let text = lines.joined(separator: "\u{1b}[K\r\n")
        return try write("\u{1b}[?2026h\u{1b}[H\(text)\u{1b}[K\u{1b}[J\u{1b}[?2026l")
    }

    /// Gives the first screen back, and leaves the last drawing on it.
    func end(_ lines: [String]) throws {
        guard isTerminal else { return }
        let text = lines.map { $0 + "\r\n" }.joined()
        _ = try write("\u{1b}[?25h\u{1b}[?1049l\(text)")
    }

    /// Writes when there is room, so that a stop is seen also where nobody takes what is written.
    private func write(_ text: String) throws -> Bool {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            var room = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
            // SAFETY: one structure, a local.
            guard unsafe poll(&room, 1, Self.lookMilliseconds) > 0 else {
                if signals.next(within: .zero) == .stop { return false }
                continue
            }
            let piece = rest.prefix(Self.pieceByteCount)
            do { try FileDescriptor.standardOutput.writeAll(piece) } catch {
                // The terminal is gone, and with it who would have stopped this.
                if isTerminal, error as? Errno == .ioError { return false }
                throw error
            }
            rest = rest.dropFirst(piece.count)
        }
        return true
    }

    /// Microseconds since 1970 UTC.
    static var wallMicroseconds: Int64 {
        var now = timespec()
        // SAFETY: the structure is a local that the call fills.
        unsafe clock_gettime(CLOCK_REALTIME, &now)
        return Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000
    }
}

/// The signals that ask a program that draws to stop, or tell it that its terminal has another size: held back, and
/// waited for between two drawings, so that no drawing ends in the middle and the terminal is left as it was found.
///
/// **Source** sigtimedwait(2): nothing runs in a handler.
struct HeldSignals {
    enum Event { case stop, resize }

    private static let stops = [SIGINT, SIGTERM, SIGHUP]
    private var set = sigset_t()

    /// Holds the signals back from now on, in this thread and those that it makes.
    init() {
        // SAFETY: each call reads or writes the one set, which outlives it.
        unsafe sigemptyset(&set)
        for number in Self.stops + [SIGWINCH] { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// The next signal; `nil` if none comes in time.
    func next(within duration: Duration) -> Event? {
        let parts = max(.zero, duration).components
        var limit = timespec(
            tv_sec: Int(clamping: parts.seconds),
            tv_nsec: Int(parts.attoseconds / 1_000_000_000))
        var set = set
        // SAFETY: both are locals that the call reads.
        let number = unsafe sigtimedwait(&set, nil, &limit)
        if Self.stops.contains(number) { return .stop }
        return number == SIGWINCH ? .resize : nil
    }
}

/// What `watch` knows at one time.
package struct WatchSample {
    /// Microseconds since 1970 UTC.
    package let wallMicroseconds: Int64
    /// Of a clock that only goes on.
    package let seconds: Double
    package let cut: Cut
    package let totals: LogTotals
    package let rows: [RewardRow]
}

/// What `watch` shows: a line about the log, what became of events and of packets, the table.
package enum WatchFrame {
    /// Lines beside the rows of the table: what stands above it, its header, and an empty last one.
    package static let otherLineCount = 6

    private static let columns = [
        "id", "businessId", "impressions", "clicks", "redemptions", "per second", "ctr", "revenue",
        "spend",
    ]

    /// - Parameters:
    ///   - last: the sample before; without it there are no rates.
    ///   - columnCount: lines are cut to it.
    package static func lines(
        _ sample: WatchSample, since last: WatchSample?, directory: String, columnCount: Int?
    ) -> [String] {
        let second = TimeText.utc(sample.wallMicroseconds).prefix(19)
        let cut = "segment \(sample.cut.segment) block \(sample.cut.block)"
        let head = [
            "\(TerminalText.escaped(directory)) at \(second)Z, \(cut)",
            counts("events", sample, last, Verdict.allCases.map(\.name), \.events),
            counts("packets", sample, last, PacketResult.allCases.map(\.name), \.packets), "",
        ]
        let lines = head + table(sample, since: last)
        guard let columnCount else { return lines }
        return lines.map { TerminalText.prefix($0, width: columnCount) }
    }

    /// `events: 12 (3/s): counted 10, too_old 2`.
    private static func counts(
        _ what: String, _ sample: WatchSample, _ last: WatchSample?, _ names: [String],
        _ counts: KeyPath<LogTotals, [UInt64]>
    ) -> String {
        func sum(_ sample: WatchSample) -> UInt64 {
            sample.totals[keyPath: counts].reduce(0) { $0.saturatingSum($1) }
        }
        let rate = last.map { " (\(Self.rate(sum(sample), sum($0), sample, $0))/s)" } ?? ""
        let parts = zip(names, sample.totals[keyPath: counts]).filter { $1 > 0 }
            .map { "\($0) \($1)" }.joined(separator: ", ")
        return "\(what) \(sum(sample))\(rate)" + (parts.isEmpty ? "" : ": \(parts)")
    }

    /// Per second, to the nearest integer; counters never fall.
    private static func rate(
        _ now: UInt64, _ before: UInt64, _ sample: WatchSample, _ last: WatchSample
    ) -> UInt64 {
        guard now > before, sample.seconds > last.seconds else { return 0 }
        let rate = Double(now - before) / (sample.seconds - last.seconds)
        return UInt64(exactly: rate.rounded()) ?? .max
    }

    private static func table(_ sample: WatchSample, since last: WatchSample?) -> [String] {
        if sample.rows.isEmpty { return ["no rewards yet"] }
        let before = Dictionary(
            (last?.rows ?? []).map { ($0.id, counted($0)) }, uniquingKeysWith: { first, _ in first }
        )
        let rows = sample.rows.map { row in
            let counters = row.counters
            let rate = last.flatMap { last in
                before[row.id].map { Cell.count(Self.rate(counted(row), $0, sample, last)) }
            }
            return [
                .text(row.id), .text(businesses(row)), .count(counters.impressions),
                .count(counters.clicks), .count(counters.redemptions), rate ?? .none,
                counters.ctr.map { .number($0.description) } ?? .none,
                .decimal(counters.revenue.description), .decimal(counters.spend.description),
            ]
        }
        var text = TableText(columns: columns)
        for row in rows { text.measure(row) }
        let shown = Array(columns.indices)
        let bytes = OutputBuffer.bytes { output in
            text.putHeader(shown, to: output)
            for row in rows { text.put(row, shown, to: output) }
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// The first, and how many others have counters of the reward.
    private static func businesses(_ row: RewardRow) -> String {
        row.businessCount > 1 ? "\(row.businessID) +\(row.businessCount - 1)" : row.businessID
    }

    private static func counted(_ row: RewardRow) -> UInt64 {
        Counters.Kind.allCases.reduce(0) { $0.saturatingSum(row.counters.counted($1)) }
    }
}
