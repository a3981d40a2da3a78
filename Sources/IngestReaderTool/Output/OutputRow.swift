// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// A row that can be written in every format: its columns in their order, and their cells.
package protocol OutputRow {
    static var columns: [String] { get }
    var identityCells: [Cell] { get }
    var counters: Counters { get }
}

extension OutputRow {
    package var cells: [Cell] { identityCells + counters.cells }
}

extension RewardRow: OutputRow {
    package static let columns = ["id", "businessId", "businessCount"] + Counters.columns
    package var identityCells: [Cell] {
        [.text(id), .text(businessID), .count(UInt64(businessCount))]
    }
}

extension DayRow: OutputRow {
    package static let columns = ["id", "businessId", "date"] + Counters.columns
    package var identityCells: [Cell] {
        let date = date.description
        return [.text("\(businessID)#\(date)"), .text(businessID), .text(date)]
    }
}

extension RewardDayRow: OutputRow {
    package static let columns = ["id", "businessId", "date"] + Counters.columns
    package var identityCells: [Cell] { [.text(id), .text(businessID), .text(date.description)] }
}

extension Counters {
    /// The names of the counters, the same in every table.
    package static let columns: [String] =
        [
            "impressions", "clicks", "redemptions", "ctr", "revenue", "spend",
            "viewableImpressions", "undeterminedImpressions", "notViewableImpressions",
        ]
        + Kind.allCases.flatMap { kind in
            ["gross", "invalid", "duplicate", "conflict", "refused"].map { "\($0)\(kind.suffix)" }
        } + ["uncheckedEvents"]

    /// How many of the first columns a table always shows.
    package static let mainColumnCount = 6

    /// The values of `columns`, in their order.
    package var cells: [Cell] {
        var cells: [Cell] = []
        cells.reserveCapacity(Self.columns.count)
        cells.append(.count(impressions))
        cells.append(.count(clicks))
        cells.append(.count(redemptions))
        cells.append(ctr.map { .number($0.description) } ?? .none)
        cells.append(.decimal(revenue.description))
        cells.append(.decimal(spend.description))
        cells.append(.count(viewableImpressions))
        cells.append(.count(undeterminedImpressions))
        cells.append(.count(notViewableImpressions))
        for kind in Kind.allCases {
            cells.append(.count(gross(kind)))
            cells.append(.count(invalid(kind)))
            cells.append(.count(duplicate(kind)))
            cells.append(.count(conflict(kind)))
            cells.append(.count(refused(kind)))
        }
        cells.append(.count(uncheckedEvents))
        return cells
    }

    /// Whether a table leaves out column `index` where this holds for every row: it says nothing that
    /// the main columns do not say.
    package func isSilent(column index: Int, cell: Cell) -> Bool {
        guard index >= Self.mainColumnCount else { return false }
        switch Self.columns[index] {
        case "grossImpressions": return gross(.impressions) == impressions
        case "grossClicks": return gross(.clicks) == clicks
        case "grossRedemptions": return gross(.redemptions) == redemptions
        default: return cell == .count(0)
        }
    }
}

extension Counters.Kind {
    fileprivate var suffix: String {
        switch self {
        case .impressions: "Impressions"
        case .clicks: "Clicks"
        case .redemptions: "Redemptions"
        }
    }
}
