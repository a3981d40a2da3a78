// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The counters of a row, in the order in which footers and runs store them. `gross…` is the sum of the
/// disjoint outcomes of its type and is derived, not stored.
package enum CounterColumn: Int, CaseIterable, Sendable {
    case impressions, clicks, redemptions
    /// Of the impressions counted: those measured at or above the threshold.
    case viewableImpressions
    /// Impressions without both viewability numbers, counted or (by policy) not.
    case undeterminedImpressions
    case notViewableImpressions
    case invalidImpressions, invalidClicks, invalidRedemptions
    case duplicateImpressions, duplicateClicks, duplicateRedemptions
    case conflictImpressions, conflictClicks, conflictRedemptions
    case refusedImpressions, refusedClicks, refusedRedemptions
    case uncheckedEvents
    case revenueMicros, spendMicros
}

/// One row of counters: 21 columns of u64. A plain value of 168 bytes, no allocation.
package struct CounterRow: Equatable, Sendable {
    package static let columnCount = 21
    package var values: InlineArray<21, UInt64>

    package init() { values = InlineArray(repeating: 0) }

    package subscript(_ column: CounterColumn) -> UInt64 {
        get { values[column.rawValue] }
        set { values[column.rawValue] = newValue }
    }

    package static func == (a: Self, b: Self) -> Bool {
        for i in 0..<columnCount where a.values[i] != b.values[i] { return false }
        return true
    }

    /// Adds `other` column by column; `false`, with nothing changed, if a sum would not fit 64 bits.
    package mutating func add(_ other: CounterRow) -> Bool {
        var sums = values
        for i in 0..<Self.columnCount {
            let (sum, overflow) = sums[i].addingReportingOverflow(other.values[i])
            if overflow { return false }
            sums[i] = sum
        }
        values = sums
        return true
    }
}
