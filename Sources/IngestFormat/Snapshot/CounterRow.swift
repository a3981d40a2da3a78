// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The counters of a row, in the order in which footers and runs store them. `gross…` is the sum of the
/// disjoint outcomes of its type and is derived, not stored.
@frozen public enum CounterColumn: Int, CaseIterable, Sendable {
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

/// One row of counters: 21 columns of u64. A plain value of 168 bytes, no allocation. Inlinable, because a
/// listing reads every column of every row in other modules; a call each would copy the row.
@frozen public struct CounterRow: Equatable, Sendable {
    public static let columnCount = 21
    public var values: InlineArray<21, UInt64>

    @inlinable public init() { values = InlineArray(repeating: 0) }

    @inlinable public subscript(_ column: CounterColumn) -> UInt64 {
        get { values[column.rawValue] }
        set { values[column.rawValue] = newValue }
    }

    /// The disjoint outcomes of one type of event together; saturates at 2^64 − 1.
    /// - Parameter type: 0 impressions, 1 clicks, 2 redemptions.
    @inlinable public func gross(ofType type: Int) -> UInt64 {
        precondition(type >= 0 && type < 3)
        func value(_ first: CounterColumn) -> UInt64 { values[first.rawValue &+ type] }
        let refused = value(.refusedImpressions).saturatingSum(value(.conflictImpressions))
        let marked = value(.duplicateImpressions).saturatingSum(value(.invalidImpressions))
        let sum = value(.impressions).saturatingSum(refused).saturatingSum(marked)
        return type == 0 ? sum.saturatingSum(self[.notViewableImpressions]) : sum
    }

    public static func == (a: Self, b: Self) -> Bool {
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

extension UInt64 {
    /// The sum, or the greatest value where it would not fit.
    @inlinable @inline(__always)
    public func saturatingSum(_ other: UInt64) -> UInt64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}
