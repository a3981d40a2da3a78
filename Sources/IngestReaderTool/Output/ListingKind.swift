// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// What the rows of a listing are.
package enum ListingKind: Sendable, CaseIterable {
    case rewards, days, rewardDays

    package var columns: [String] {
        switch self {
        case .rewards: RewardRow.columns
        case .days: DayRow.columns
        case .rewardDays: RewardDayRow.columns
        }
    }

    /// The first columns, which name a row, as a table shows them.
    package func identityCells(_ row: ListedRow) -> [Cell] {
        switch self {
        case .rewards: RewardRow(row).identityCells
        case .days: DayRow(row).identityCells
        case .rewardDays: RewardDayRow(row).identityCells
        }
    }

    /// How many they are: the same of each kind.
    package static let identityColumnCount = 3
}

extension RewardDayRow {
    package var listed: ListedRow {
        var row = ListedRow()
        row.id = Array(id.utf8)
        row.business = Array(businessID.utf8)
        row.day = date.dayNumber
        row.counters = counters.row
        return row
    }
}

extension DayRow {
    package var listed: ListedRow {
        var row = ListedRow()
        row.id = Array(businessID.utf8)
        row.business = row.id
        row.day = date.dayNumber
        row.counters = counters.row
        return row
    }
}

extension RewardRow {
    package var listed: ListedRow {
        var row = ListedRow()
        row.id = Array(id.utf8)
        row.business = Array(businessID.utf8)
        row.businessCount = businessCount
        row.counters = counters.row
        return row
    }
}
