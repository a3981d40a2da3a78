// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import Glibc
import IngestFormat
import IngestReader

/// What an export writes: one table of one cut, or a part of it.
package struct ExportJob {
    package enum Table: String, CaseIterable, ExpressibleByArgument {
        case rewards, days
        case rewardDays = "reward-days"
        case campaigns, events
    }

    package let table: Table
    /// Of reward-days, campaigns and events.
    package let reward: String?
    package let business: String?
    package let days: DayRange
    package let reader: IngestReader

    /// At least as many rows as will come; `nil` where only a part is asked for, and nobody knows.
    package var rowCountMax: UInt64? {
        if reward != nil || business != nil || days.isBounded { return nil }
        switch table {
        case .rewards: return reader.rowCountMax(of: .rewards)
        case .days: return reader.rowCountMax(of: .days)
        case .rewardDays: return reader.rowCountMax(of: .rewardDays)
        // Nobody has counted them.
        case .campaigns: return nil
        case .events: return try? reader.eventCount()
        }
    }

    /// Gives the rows of the table.
    /// - Parameter onRows: is told how many, as they come.
    package func give(to visitor: some RowVisitor, _ onRows: (Int) -> Void) throws {
        func give<Batch: RowBatch>(_ rows: @escaping Rows<Batch>) throws {
            try withoutActuallyEscaping(onRows) { onRows in
                try visitor.visit { body in
                    try rows { batch in
                        onRows(batch.rowCount)
                        try body(batch)
                    }
                }
            }
        }
        switch table {
        case .rewards: try give(reader.rows(of: RewardsQuery(business: business, days: days)))
        case .days: try give(reader.rows(of: DaysQuery(business: business, days: days)))
        case .rewardDays:
            let query = RewardDaysQuery(reward: reward, business: business, days: days)
            try give(reader.rows(of: query))
        case .campaigns:
            let query = CampaignsQuery(reward: reward, business: business, days: days)
            try give(reader.rows(of: query))
        case .events:
            let query = EventsQuery(reward: reward, business: business, days: days)
            try give(reader.rows(of: query))
        }
    }
}

/// What writes the rows of an export.
package protocol RowVisitor {
    func visit<Batch: RowBatch>(_ rows: Rows<Batch>) throws
}

extension RowFormatter: RowVisitor {
    package func visit<Batch: RowBatch>(_ rows: Rows<Batch>) throws { try list(rows) }
}

/// Writes a job's rows into the SQLite file at `path`, which is there and empty, and says how many. Only
/// `ingest-reader-sqlite` has one: what it is linked with takes longer to load than a query to answer
/// (docs/decisions/0029-sqlite-beside.md).
package typealias SQLiteWriter = (
    _ job: ExportJob, _ path: String, _ onRows: (Int) -> Void
) throws -> Void

/// The rows of an export so far, on stderr where that is a terminal: as a bar where it is known how many are to
/// come.
package struct ExportProgress {
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

    mutating func add(_ count: Int) {
        rowCount += UInt64(count)
        guard isShown else { return }
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
