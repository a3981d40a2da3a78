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

/// `CountingRule` as tables for the loop over rows: attributes → class → what to add.
///
/// The columns are split by how often rows add to them: eight *hot* ones are added as one vector, the
/// *rare* ones have a lane each in a line of their own. Every class adds to at most one rare column.
///
/// **Cost** 1 KiB for the classes, 1 KiB for what they add, 8 KiB for what is added to lanes; of these the few that rows
/// have stay in the first-level cache.
@safe final class CountingTable {
    static let hotColumns: [CounterColumn] = [
        .impressions, .viewableImpressions, .undeterminedImpressions, .clicks, .redemptions,
        .uncheckedEvents, .notViewableImpressions, .duplicateImpressions,
    ]
    static let rareColumns: [CounterColumn] = [
        .invalidImpressions, .invalidClicks, .invalidRedemptions, .duplicateClicks,
        .duplicateRedemptions, .conflictImpressions, .conflictClicks, .conflictRedemptions,
        .refusedImpressions, .refusedClicks, .refusedRedemptions,
    ]
    static let hotCount = 8
    static let rareCount = 11
    static let noLane: UInt8 = 0xFF

    /// What one class of rows adds.
    struct Class: Equatable {
        var hot: SIMD8<UInt32> = SIMD8(repeating: 0)
        /// Place in `rareColumns`, or `noLane`.
        var rareLane = CountingTable.noLane
    }

    private static let indexCount = 1 << 10
    private static let classCountMax = 32

    /// Class by `index(attributes)`.
    let classes: UnsafeMutablePointer<UInt8>
    /// What rows of a class add to the hot columns, and which rare one.
    let hot: UnsafeMutablePointer<SIMD8<UInt32>>
    let rareLanes: UnsafeMutablePointer<UInt8>
    /// By `index(attributes)`, what is added to a word of `DayLanes`; 0 where a rare column is added to.
    let additions: UnsafeMutablePointer<UInt64>

    init() {
        unsafe classes = .allocate(capacity: Self.indexCount)
        unsafe hot = .allocate(capacity: Self.classCountMax)
        unsafe rareLanes = .allocate(capacity: Self.classCountMax)
        unsafe additions = .allocate(capacity: Self.indexCount)
        var known: [Class] = []
        for index in 0..<Self.indexCount {
            let found = Self.addition(CountingRule.columns(of: Self.attributes(index)))
            let place = known.firstIndex(of: found) ?? known.count
            if place == known.count { known.append(found) }
            precondition(place < Self.classCountMax)
            // SAFETY: index < indexCount, place < classCountMax, 32 and so a u8.
            unsafe classes[index] = UInt8(place)
            unsafe hot[place] = found.hot
            unsafe rareLanes[place] = found.rareLane
            unsafe additions[index] =
                found.rareLane == Self.noLane ? Self.addition(found.hot) : 0
        }
    }

    deinit {
        unsafe classes.deallocate()
        unsafe hot.deallocate()
        unsafe rareLanes.deallocate()
        unsafe additions.deallocate()
    }

    /// What the rule looks at (type, verdict, measured, event id, session, outside the window), moved
    /// together to ten bits.
    @inline(__always)
    static func index(_ attributes: UInt16) -> Int {
        Int(attributes & 0x3F | attributes >> 4 & 0x1C0 | attributes >> 6 & 0x200)
    }

    /// Attributes of that index, with the first consent and format.
    private static func attributes(_ index: Int) -> RowAttributes {
        let bits = UInt16(index)
        return RowAttributes(rawValue: bits & 0x3F | (bits & 0x1C0) << 4 | (bits & 0x200) << 6)
    }

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
                precondition(found.rareLane == noLane)
                found.rareLane = UInt8(lane)
            }
        }
        return found
    }
}
