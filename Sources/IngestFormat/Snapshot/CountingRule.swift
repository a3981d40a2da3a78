// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]

/// Which counters one row adds to: the one place that says so for footers and snapshots. (`verify` recounts
/// by code of its own.)
///
/// By type, and by verdict first:
///
///     counted                    impressions, clicks or redemptions; money
///     notViewable                notViewableImpressions
///     invalidTraffic             invalid…
///     duplicate, sessionRepeat   duplicate…
///     conflict                   conflict…
///     all others                 refused…
///
/// and beside that:
///
///     viewableImpressions        counted impressions that were measured (below the threshold they would
///                                not have been counted)
///     undeterminedImpressions    impressions not measured, counted or refused for it
///     uncheckedEvents            counted events of any type that are outside the window, or have neither
///                                event id nor session, and so could not be compared with others
///
/// `notViewable` speaks of impressions alone; a click or redemption with it, which no admission makes, is
/// refused.
package enum CountingRule {
    /// The counters that a row of these attributes adds one to; empty for attributes of no row.
    package static func columns(of attributes: RowAttributes) -> [CounterColumn] {
        guard attributes.isValid, let type = attributes.type, let verdict = attributes.verdict
        else {
            return []
        }
        var columns = [outcome(type, verdict)]
        if type == .impression && !attributes.isMeasured
            && (verdict == .counted || verdict == .undetermined)
        {
            columns.append(.undeterminedImpressions)
        }
        guard verdict == .counted else { return columns }
        if type == .impression && attributes.isMeasured { columns.append(.viewableImpressions) }
        if attributes.isOutsideWindow || !(attributes.hasEventID || attributes.hasSession) {
            columns.append(.uncheckedEvents)
        }
        return columns
    }

    /// The one of the disjoint outcomes; they sum up to `gross…`.
    private static func outcome(_ type: EventType, _ verdict: Verdict) -> CounterColumn {
        switch verdict {
        case .counted: pick(type, .impressions, .clicks, .redemptions)
        case .notViewable:
            pick(type, .notViewableImpressions, .refusedClicks, .refusedRedemptions)
        case .invalidTraffic:
            pick(type, .invalidImpressions, .invalidClicks, .invalidRedemptions)
        case .duplicate, .sessionRepeat:
            pick(type, .duplicateImpressions, .duplicateClicks, .duplicateRedemptions)
        case .conflict:
            pick(type, .conflictImpressions, .conflictClicks, .conflictRedemptions)
        case .undetermined, .tooOld, .tooEarly, .noConsent, .outsideWindow, .wrongBusiness,
            .malformed:
            pick(type, .refusedImpressions, .refusedClicks, .refusedRedemptions)
        }
    }

    private static func pick(
        _ type: EventType, _ impression: CounterColumn, _ click: CounterColumn,
        _ redemption: CounterColumn
    ) -> CounterColumn {
        switch type {
        case .impression: impression
        case .click: click
        case .redemption: redemption
        }
    }
}
