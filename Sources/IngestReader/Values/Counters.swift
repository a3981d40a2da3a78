// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

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
    public var ctr: Rate? { Rate(clicks, of: impressions) }

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
    public var measuredRate: Rate? {
        let measured = row.measuredImpressions
        return Rate(measured, of: measured.saturatingSum(undeterminedImpressions))
    }
    /// viewable / measured; `nil` where none was measured.
    public var viewableRate: Rate? { Rate(viewableImpressions, of: row.measuredImpressions) }

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
