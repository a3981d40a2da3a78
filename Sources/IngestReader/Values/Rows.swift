// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// A row of counters as queries make it: names as bytes, of which only those make texts who ask for them.
package struct ListedRow: Sendable, Equatable {
    /// The reward; in `days` the business.
    package var id: [UInt8] = []
    package var business: [UInt8] = []
    /// Of `rewards`: how many businesses the counters span.
    package var businessCount = 0
    /// Of `days` and `reward-days`.
    package var day: Int32 = 0
    package var counters = CounterRow()

    package init() {}

    init(_ id: [UInt8], _ business: [UInt8], _ day: (day: Int32, counters: CounterRow)) {
        self.id = id
        self.business = business
        self.day = day.day
        counters = day.counters
    }
}

/// The counters of one reward, over all its businesses or (where the query names one) of one.
public struct RewardRow: CounterListedRow, Equatable {
    package var row: ListedRow

    package init(_ row: ListedRow) { self.row = row }

    /// The reward id; `(lost:N)` where the block that held the name was lost.
    public var id: String { String(decoding: row.id, as: UTF8.self) }
    /// The business; of several the bytewise smallest.
    public var businessID: String { String(decoding: row.business, as: UTF8.self) }
    /// How many businesses the counters span; at least 1.
    public var businessCount: Int { row.businessCount }
    public var counters: Counters { Counters(row.counters) }
}

/// The counters of one business on one day.
public struct DayRow: CounterListedRow, Equatable {
    package var row: ListedRow

    package init(_ row: ListedRow) { self.row = row }

    /// `{businessId}#{YYYY-MM-DD}`.
    public var id: String { "\(businessID)#\(date)" }
    public var businessID: String { String(decoding: row.business, as: UTF8.self) }
    public var date: CivilDay { CivilDay(dayNumber: row.day) }
    public var counters: Counters { Counters(row.counters) }
}

/// The counters of one reward at one business on one day.
public struct RewardDayRow: CounterListedRow, Equatable {
    package var row: ListedRow

    package init(_ row: ListedRow) { self.row = row }

    /// The reward id.
    public var id: String { String(decoding: row.id, as: UTF8.self) }
    public var businessID: String { String(decoding: row.business, as: UTF8.self) }
    public var date: CivilDay { CivilDay(dayNumber: row.day) }
    public var counters: Counters { Counters(row.counters) }
}

/// The counters of one reward at one business, of the events with one campaign and one source.
public struct CampaignRow: Sendable, Equatable {
    package let idText: [UInt8]
    package let businessText: [UInt8]
    /// `nil`: none.
    package let campaignText: [UInt8]?
    package let sourceText: [UInt8]?
    /// Whether they are of campaigns and sources beyond the bound, for which `(other)` stands.
    public let isOverflow: Bool
    package let row: CounterRow

    /// Takes each row; `false` ends the listing.
    package typealias Body = (CampaignRow) -> Bool

    package init(
        id: [UInt8] = [], business: [UInt8] = [], campaign: [UInt8]? = nil, source: [UInt8]? = nil,
        isOverflow: Bool = false, counters: CounterRow = CounterRow()
    ) {
        (idText, businessText) = (id, business)
        (campaignText, sourceText) = (campaign, source)
        self.isOverflow = isOverflow
        row = counters
    }

    /// The reward id.
    public var id: String { String(decoding: idText, as: UTF8.self) }
    public var businessID: String { String(decoding: businessText, as: UTF8.self) }
    /// `nil`: the events have none.
    public var campaign: String? { campaignText.map { String(decoding: $0, as: UTF8.self) } }
    public var source: String? { sourceText.map { String(decoding: $0, as: UTF8.self) } }
    public var counters: Counters { Counters(row) }
}

/// The place in the log up to which an answer counts: every block of the segments before `segment`,
/// and the first `block` blocks of it. A greater cut never shows smaller counters.
public struct Cut: Sendable, Hashable, Comparable {
    /// Segment number, from 1; 0 where the log is empty.
    public let segment: UInt32
    /// Blocks of that segment.
    public let block: UInt32

    public init(segment: UInt32, block: UInt32) {
        self.segment = segment
        self.block = block
    }

    public static func < (a: Self, b: Self) -> Bool {
        (a.segment, a.block) < (b.segment, b.block)
    }
}

/// What the visitor of a row wants next.
public enum Iteration: Sendable, Equatable {
    case next
    /// The listing ends, which is no error.
    case stop
}

/// Everything that is counted of one reward, business-day or reward-day.
///
/// Outcomes are disjoint, so that for each type of event
/// `gross = counted + notViewable (impressions) + invalid + duplicate + conflict + refused`.
/// `viewableImpressions` and `undeterminedImpressions` say more about impressions that stand in one of
/// those columns already.
public struct Counters: Sendable, Equatable {
    package var row: CounterRow

    package init(_ row: CounterRow) { self.row = row }

    /// The three types of event.
    public enum Kind: Sendable, CaseIterable { case impressions, clicks, redemptions }

    /// Events counted.
    public var impressions: UInt64 { row[.impressions] }
    public var clicks: UInt64 { row[.clicks] }
    public var redemptions: UInt64 { row[.redemptions] }

    /// clicks / impressions; `nil` at 0 impressions.
    public var ctr: Rate? { row.ctr }

    /// Money of the events counted; sums have 128 bits.
    public var revenue: Money { Money(micros: row.sum(.revenueMicros)) }
    public var spend: Money { Money(micros: row.sum(.spendMicros)) }

    /// Impressions counted and measured at or above the threshold.
    public var viewableImpressions: UInt64 { row[.viewableImpressions] }
    /// Impressions that were not measured.
    public var undeterminedImpressions: UInt64 { row[.undeterminedImpressions] }
    /// Impressions measured below the threshold: not counted.
    public var notViewableImpressions: UInt64 { row[.notViewableImpressions] }

    /// Of the impressions that came to the rule of viewability, those that were measured: (viewable + not viewable)
    /// / (viewable + not viewable + undetermined); `nil` where none came to it.
    public var measuredRate: Rate? { row.measuredRate }
    /// viewable / measured; `nil` where none was measured.
    public var viewableRate: Rate? { row.viewableRate }

    /// Events counted of one kind.
    public func counted(_ kind: Kind) -> UInt64 {
        row[kind.of(.impressions, .clicks, .redemptions)]
    }
    /// Marked by the sender or a rule as invalid traffic: not counted.
    public func invalid(_ kind: Kind) -> UInt64 {
        row[kind.of(.invalidImpressions, .invalidClicks, .invalidRedemptions)]
    }
    /// Repeats of an event already counted: not counted again.
    public func duplicate(_ kind: Kind) -> UInt64 {
        row[kind.of(.duplicateImpressions, .duplicateClicks, .duplicateRedemptions)]
    }
    /// The same event id with other contents: not counted.
    public func conflict(_ kind: Kind) -> UInt64 {
        row[kind.of(.conflictImpressions, .conflictClicks, .conflictRedemptions)]
    }
    /// Refused for another reason: too old, too early, no consent, …
    public func refused(_ kind: Kind) -> UInt64 {
        row[kind.of(.refusedImpressions, .refusedClicks, .refusedRedemptions)]
    }
    /// Every event of the kind that is stored, whatever became of it. Saturates at 2^64 − 1.
    public func gross(_ kind: Kind) -> UInt64 {
        row.gross(ofType: kind.of(.impressions, .clicks, .redemptions).rawValue)
    }

    /// Counted, but repeats cannot be told: older than the window of ids, without id and session, or of a session of which
    /// not all is known.
    public var uncheckedEvents: UInt64 { row[.uncheckedEvents] }
    /// Counted, but no impression of the reward had been counted in the session before; unknown without a session.
    public var orphanClicks: UInt64 { row[.orphanClicks] }
    public var orphanRedemptions: UInt64 { row[.orphanRedemptions] }
    /// Counted of rewards beyond the limit of their business: in its row `(other)`.
    public var overflowEvents: UInt64 { row[.overflowEvents] }
}

/// The rates of `Counters`.
extension CounterRow {
    package var ctr: Rate? { Rate(self[.clicks], of: self[.impressions]) }
    package var measuredRate: Rate? {
        let measured = measuredImpressions
        return Rate(measured, of: measured.saturatingSum(self[.undeterminedImpressions]))
    }
    package var viewableRate: Rate? { Rate(self[.viewableImpressions], of: measuredImpressions) }
}

extension Counters.Kind {
    fileprivate func of(
        _ impressions: CounterColumn, _ clicks: CounterColumn, _ redemptions: CounterColumn
    ) -> CounterColumn {
        switch self {
        case .impressions: impressions
        case .clicks: clicks
        case .redemptions: redemptions
        }
    }
}
