// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// A set of counters: which columns of a table a reader asks for. The others are passed over by their
/// heads, which is what makes a question about one column cheap.
package struct CounterColumnSet: OptionSet, Hashable, Sendable, BitwiseCopyable {
    /// Bit `column.rawValue`.
    package let rawValue: UInt32

    package static let all = CounterColumnSet(rawValue: (1 << CounterRow.columnCount) - 1)

    package init(rawValue: UInt32) {
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
    @inline(__always)
    mutating func popFirst() -> Int? {
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
