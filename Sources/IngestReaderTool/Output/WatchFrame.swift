// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// What `watch` knows at one time.
package struct WatchSample {
    /// Microseconds since 1970 UTC.
    package let wallMicroseconds: Int64
    /// Of a clock that only goes on.
    package let seconds: Double
    package let cut: Cut
    package let totals: LogTotals
    package let rows: [RewardRow]

    package init(
        wallMicroseconds: Int64, seconds: Double, cut: Cut, totals: LogTotals, rows: [RewardRow]
    ) {
        self.wallMicroseconds = wallMicroseconds
        self.seconds = seconds
        self.cut = cut
        self.totals = totals
        self.rows = rows
    }
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
