// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import IngestFormat
import IngestReader

/// What an export writes: one table of one cut, or a part of it.
package struct ExportJob {
    package enum Table: String, CaseIterable, ExpressibleByArgument {
        case rewards, days
        case rewardDays = "reward-days"
        case events

        /// `nil` for events, which are no rows of counters.
        package var kind: ListingKind? {
            switch self {
            case .rewards: .rewards
            case .days: .days
            case .rewardDays: .rewardDays
            case .events: nil
            }
        }
    }

    package let table: Table
    /// Of reward-days and events.
    package let reward: String?
    package let business: String?
    package let days: DayRange
    package let reader: IngestReader

    package init(
        _ table: Table, reward: String? = nil, business: String?, days: DayRange,
        reader: IngestReader
    ) {
        self.table = table
        self.reward = reward
        self.business = business
        self.days = days
        self.reader = reader
    }

    /// At least as many rows as will come; `nil` where only a part is asked for, and nobody knows.
    package var rowCountMax: UInt64? {
        if reward != nil || business != nil || days.isBounded { return nil }
        switch table {
        case .rewards: return reader.rowCountMax(of: .rewards)
        case .days: return reader.rowCountMax(of: .days)
        case .rewardDays: return reader.rowCountMax(of: .rewardDays)
        case .events: return reader.eventCount
        }
    }

    /// Gives the rows of a table of counters; none of events.
    package func list(_ body: (ListedRow) throws -> Void) throws {
        switch table {
        case .rewards:
            try reader.listRewards(RewardsQuery(business: business, days: days), body)
        case .days:
            try reader.listDays(DaysQuery(business: business, days: days), body)
        case .rewardDays:
            try reader.listRewardDays(
                RewardDaysQuery(reward: reward, business: business, days: days), body)
        case .events: break
        }
    }

    package func listEvents(_ body: (ListedEvent) throws -> Void) throws {
        try reader.listEvents(EventsQuery(reward: reward, business: business, days: days), body)
    }
}

/// Writes a job's rows into the SQLite file at `path`, which is there and empty, and calls `onRow` for each. Only
/// `ingest-reader-sqlite` has one: what it is linked with takes longer to load than a query to answer
/// (docs/decisions/0029-sqlite-beside.md).
package typealias SQLiteWriter = (
    _ job: ExportJob, _ path: String, _ onRow: () -> Void
) throws -> Void
