// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The counters of a row. The raw value is the id of the column in footers and runs. `gross…` is the sum of
/// the disjoint outcomes of its type and is derived, not stored.
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
    /// The low 64 bits of sums of 128, of which the others are in the next two columns.
    case revenueMicros, spendMicros
    case revenueMicrosHigh, spendMicrosHigh
    /// Counted, but no impression of the reward had been counted in the session.
    case orphanClicks, orphanRedemptions
    /// Counted of rewards beyond the limit of their business.
    case overflowEvents

    /// The column that takes the carries of this one; of the others, whose sums have 64 bits, `nil`.
    @inlinable public var high: CounterColumn? {
        switch self {
        case .revenueMicros: .revenueMicrosHigh
        case .spendMicros: .spendMicrosHigh
        default: nil
        }
    }

    /// Whether it has the high bits of another one's sum.
    @inlinable public var isHigh: Bool { self == .revenueMicrosHigh || self == .spendMicrosHigh }
}

/// One row of counters: 26 columns of u64. A plain value of 208 bytes, no allocation. Inlinable, because a
/// listing reads every column of every row in other modules; a call each would copy the row.
@frozen public struct CounterRow: Equatable, Sendable {
    @inlinable public static var columnCount: Int { 26 }
    public var values: InlineArray<26, UInt64>

    @inlinable public init() { values = InlineArray(repeating: 0) }

    @inlinable public subscript(_ column: CounterColumn) -> UInt64 {
        get { values[column.rawValue] }
        set { values[column.rawValue] = newValue }
    }

    /// The whole sum of a column, with the high bits of one that has them.
    @inlinable @inline(__always)
    public func sum(_ column: CounterColumn) -> UInt128 {
        let low = UInt128(self[column])
        return column.high.map { UInt128(self[$0]) << 64 | low } ?? low
    }

    /// The disjoint outcomes of one type of event together; saturates at 2^64 − 1.
    /// - Parameter type: 0 impressions, 1 clicks, 2 redemptions.
    @inlinable @inline(__always)
    public func gross(ofType type: Int) -> UInt64 {
        precondition(type >= 0 && type < 3)
        // The columns of an outcome are one after the other, by type.
        let refused = values[CounterColumn.refusedImpressions.rawValue &+ type]
            .saturatingSum(values[CounterColumn.conflictImpressions.rawValue &+ type])
        let marked = values[CounterColumn.duplicateImpressions.rawValue &+ type]
            .saturatingSum(values[CounterColumn.invalidImpressions.rawValue &+ type])
        let counted = values[CounterColumn.impressions.rawValue &+ type]
        let sum = counted.saturatingSum(refused).saturatingSum(marked)
        return type == 0 ? sum.saturatingSum(self[.notViewableImpressions]) : sum
    }

    /// Impressions that the rule of viewability judged; saturates at 2^64 − 1.
    @inlinable public var measuredImpressions: UInt64 {
        self[.viewableImpressions].saturatingSum(self[.notViewableImpressions])
    }

    public static func == (a: Self, b: Self) -> Bool {
        for i in 0..<columnCount where a.values[i] != b.values[i] { return false }
        return true
    }

    /// Adds `other` column by column; `false`, with nothing changed, if a sum would not fit.
    package mutating func add(_ other: CounterRow) -> Bool {
        var sums = values
        for i in 0..<Self.columnCount {
            let (sum, overflow) = sums[i].addingReportingOverflow(other.values[i])
            sums[i] = sum
            guard overflow else { continue }
            guard let high = CounterColumn(rawValue: i)?.high, sums[high.rawValue] < .max else {
                return false
            }
            sums[high.rawValue] += 1
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

extension Range<Int> {
    /// The first place that `isBehind` holds for, and so for all after it; the end if it holds for none.
    ///
    /// **Cost** A binary search.
    @inlinable @inline(__always)
    package func firstPlace(where isBehind: (Int) -> Bool) -> Int {
        var (low, high) = (lowerBound, upperBound)
        while low < high {
            let middle = low &+ (high &- low) / 2
            if isBehind(middle) { high = middle } else { low = middle &+ 1 }
        }
        return low
    }
}

/// A set of counters: which columns of a table a reader asks for. The others are passed over by their
/// heads, which is what makes a question about one column cheap.
package struct CounterColumnSet: OptionSet, Hashable, Sendable, BitwiseCopyable {
    /// Ids of columns are below: so many bits has a set.
    @inlinable package static var idCount: Int { 32 }

    /// Bit `column.rawValue`.
    package let rawValue: UInt32

    /// Every column that a table can have, those of later releases among them: what merges ask for.
    package static let all = CounterColumnSet(rawValue: .max)
    /// Those of `CounterColumn`.
    package static let known = CounterColumnSet(rawValue: 1 << UInt32(CounterRow.columnCount) - 1)

    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

    package init(_ columns: [CounterColumn]) {
        self.init(rawValue: columns.reduce(0) { $0 | 1 << UInt32($1.rawValue) })
    }

    package func contains(_ column: CounterColumn) -> Bool { contains(column.rawValue) }

    /// - Parameter column: 0 ..< `idCount`.
    @inline(__always)
    package func contains(_ column: Int) -> Bool {
        rawValue &>> UInt32(truncatingIfNeeded: column) & 1 != 0
    }

    @inline(__always)
    package mutating func insert(_ column: Int) { self = union(CounterColumnSet(number: column)) }

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
