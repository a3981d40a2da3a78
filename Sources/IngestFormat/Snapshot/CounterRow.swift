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
    @inlinable public static var columnCount: Int { 21 }
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

/// A set of counters: which columns of a table a reader asks for. The others are passed over by their
/// heads, which is what makes a question about one column cheap.
package struct CounterColumnSet: OptionSet, Hashable, Sendable, BitwiseCopyable {
    /// Bit `column.rawValue`.
    package let rawValue: UInt32

    package static let all = CounterColumnSet(rawValue: (1 << CounterRow.columnCount) - 1)

    @inlinable package init(rawValue: UInt32) {
        self.rawValue = rawValue & (1 << UInt32(CounterRow.columnCount) - 1)
    }

    package init(_ columns: [CounterColumn]) {
        self.init(rawValue: columns.reduce(0) { $0 | 1 << UInt32($1.rawValue) })
    }

    package var count: Int { rawValue.nonzeroBitCount }

    package func contains(_ column: CounterColumn) -> Bool { contains(column.rawValue) }

    /// - Parameter column: 0 ..< `CounterRow.columnCount`.
    @inline(__always)
    func contains(_ column: Int) -> Bool {
        rawValue &>> UInt32(truncatingIfNeeded: column) & 1 != 0
    }

    @inline(__always)
    mutating func insert(_ column: Int) { self = union(CounterColumnSet(number: column)) }

    @inline(__always)
    mutating func remove(_ column: Int) { self = subtracting(CounterColumnSet(number: column)) }

    /// Takes the first column out of the set; `nil` if it is empty.
    @inlinable @inline(__always)
    package mutating func popFirst() -> Int? {
        guard rawValue != 0 else { return nil }
        let column = rawValue.trailingZeroBitCount
        self = CounterColumnSet(rawValue: rawValue & (rawValue &- 1))
        return column
    }

    /// The set of one column.
    @inline(__always)
    init(number: Int) {
        self.init(rawValue: 1 &<< UInt32(truncatingIfNeeded: number))
    }
}
