// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
import IngestFormat

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
///     uncheckedEvents            counted events of any type that could not be compared with others, which admission
///                                marks: outside the window, or without event id and session
///     orphanClicks, orphanRedemptions   those counted and marked as orphans
///     overflowEvents             counted events of any type that are marked as of a reward beyond its business's limit
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
        if attributes.isUnchecked { columns.append(.uncheckedEvents) }
        if attributes.isOverflow { columns.append(.overflowEvents) }
        if attributes.isOrphan && type == .click { columns.append(.orphanClicks) }
        if attributes.isOrphan && type == .redemption { columns.append(.orphanRedemptions) }
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

/// `CountingRule` as tables for the loop over rows: attributes → class → what to add.
///
/// The columns are split by how often rows add to them: eight *hot* ones are added as one vector, the
/// *rare* ones have a lane each in a line of their own.
///
/// **Cost** 1 KiB for the classes, 6 KiB for what they add, 8 KiB for what is added to lanes; of these the few that rows
/// have stay in the first-level cache.
@safe final class CountingTable {
    static let hotColumns: [CounterColumn] = [
        .impressions, .viewableImpressions, .undeterminedImpressions, .clicks, .redemptions,
        .uncheckedEvents, .notViewableImpressions, .duplicateImpressions,
    ]
    static let rareColumns: [CounterColumn] = [
        .invalidImpressions, .invalidClicks, .invalidRedemptions, .duplicateClicks,
        .duplicateRedemptions, .conflictImpressions, .conflictClicks, .conflictRedemptions,
        .refusedImpressions, .refusedClicks, .refusedRedemptions, .orphanClicks,
        .orphanRedemptions, .overflowEvents,
    ]
    static let hotCount = 8
    static let rareCount = 14

    /// What one class of rows adds.
    struct Class: Equatable {
        var hot: SIMD8<UInt32> = SIMD8(repeating: 0)
        var rare: SIMD16<UInt32> = SIMD16(repeating: 0)
        var hasRare: Bool { rare != SIMD16(repeating: 0) }
    }

    private static let indexCount = Int(RowAttributes.countingMask) + 1
    private static let classCountMax = 64

    /// Class by `index(attributes)`.
    let classes: UnsafeMutablePointer<UInt8>
    /// What rows of a class add to the hot columns and to the rare ones; whether to any of these.
    let hot: UnsafeMutablePointer<SIMD8<UInt32>>
    let rare: UnsafeMutablePointer<SIMD16<UInt32>>
    let hasRare: UnsafeMutablePointer<Bool>
    /// By `index(attributes)`, what is added to a word of `DayLanes`; 0 where a rare column is added to.
    let additions: UnsafeMutablePointer<UInt64>

    init() {
        unsafe classes = .allocate(capacity: Self.indexCount)
        unsafe hot = .allocate(capacity: Self.classCountMax)
        unsafe rare = .allocate(capacity: Self.classCountMax)
        unsafe hasRare = .allocate(capacity: Self.classCountMax)
        unsafe additions = .allocate(capacity: Self.indexCount)
        var known: [Class] = []
        for index in 0..<Self.indexCount {
            let found = Self.addition(
                CountingRule.columns(of: RowAttributes(rawValue: UInt16(index))))
            let place = known.firstIndex(of: found) ?? known.count
            if place == known.count { known.append(found) }
            precondition(place < Self.classCountMax)
            // SAFETY: index < indexCount, place < classCountMax, 64 and so a u8.
            unsafe classes[index] = UInt8(place)
            unsafe hot[place] = found.hot
            unsafe rare[place] = found.rare
            unsafe hasRare[place] = found.hasRare
            unsafe additions[index] =
                found.hasRare ? 0 : Self.addition(found.hot)
        }
    }

    deinit {
        unsafe classes.deallocate()
        unsafe hot.deallocate()
        unsafe rare.deallocate()
        unsafe hasRare.deallocate()
        unsafe additions.deallocate()
    }

    /// What the rule looks at.
    @inline(__always)
    static func index(_ attributes: UInt16) -> Int { Int(attributes & RowAttributes.countingMask) }

    /// A byte a lane, the first in the lowest.
    private static func addition(_ hot: SIMD8<UInt32>) -> UInt64 {
        (0..<hotCount).reduce(0) { $0 | UInt64(hot[$1]) << UInt64(8 * $1) }
    }

    private static func addition(_ columns: [CounterColumn]) -> Class {
        var found = Class()
        for column in columns {
            if let lane = hotColumns.firstIndex(of: column) {
                found.hot[lane] = 1
            } else if let lane = rareColumns.firstIndex(of: column) {
                found.rare[lane] = 1
            }
        }
        return found
    }
}
