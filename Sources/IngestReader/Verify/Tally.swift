// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// Counters by (item, day), item being the ordinal of a reward key or of a business: sorted lines, one a place, which
/// nobody changes any more. `RowGather` makes them of rows, `TallyBuilder` of anything that ascends.
///
/// **Layout** A *place* is an (item, day). Its *line* has its order, the number of its *extra*, and how many rows of
/// each of ten kinds it has, of which nearly all are. An extra has money, the rows of an eleventh kind, and the number of
/// a *wide row* of 21 counters, for what other rows add and what passes 15 bits. A counter is the sum of all three.
///
/// **Cost** 32 bytes a place, 32 more for one with money, 168 more for one with rare outcomes or with 32,768 rows of a
/// kind.
struct Tally: Sendable {
    struct Place: Hashable, Sendable {
        /// Item in the upper half, day + 2^31 in the lower: one integer to sort by.
        let order: UInt64

        init(order: UInt64) { self.order = order }

        init(item: UInt32, day: Int32) {
            order = UInt64(item) << 32 | UInt64(UInt32(bitPattern: day) ^ 0x8000_0000)
        }
        var item: UInt32 { UInt32(truncatingIfNeeded: order >> 32) }
        var day: Int32 { Int32(bitPattern: UInt32(truncatingIfNeeded: order) ^ 0x8000_0000) }
    }

    /// What there is of a place.
    ///
    /// **Layout** Words, from the lowest bit on: order; place in `extras` + 1 in 32 bits, 0 = none, then two numbers of
    /// rows in 16 bits; four; four. A number of a finished line is below 2^15: so sums of two do not reach the next.
    struct Line: BitwiseCopyable, Sendable {
        var order: UInt64
        var first: UInt64 = 0
        var second: UInt64 = 0
        var third: UInt64 = 0

        /// How many bytes before the number of rows of the first kind.
        static let kindOffset = 12
        static let countMax: UInt16 = 0x7FFF

        /// Whether a number of rows is larger than a finished line has.
        var isLarge: Bool {
            (first & ~0xFFFF_FFFF | second | third) & 0x8000_8000_8000_8000 != 0
        }

        var extra: Int { Int(truncatingIfNeeded: first & 0xFFFF_FFFF) }

        func rowCount(_ lane: Int) -> UInt64 {
            let lane = lane &+ 2
            let word = lane < 4 ? first : lane < 8 ? second : third
            return word &>> UInt64(truncatingIfNeeded: (lane & 3) &* 16) & 0xFFFF
        }

        mutating func set(extra: Int) {
            first = first & ~0xFFFF_FFFF | UInt64(UInt32(truncatingIfNeeded: extra))
        }

        mutating func set(_ lane: Int, to rowCount: UInt16) {
            let shift = UInt64(((lane + 2) & 3) * 16)
            let (mask, bits) = (~(UInt64(0xFFFF) << shift), UInt64(rowCount) << shift)
            switch (lane + 2) / 4 {
            case 0: first = first & mask | bits
            case 1: second = second & mask | bits
            default: third = third & mask | bits
            }
        }
    }

    /// What a line has no room for.
    struct Extra: BitwiseCopyable, Sendable {
        var revenue: UInt64 = 0
        var spend: UInt64 = 0
        /// Rows of the kind that has no number in the line.
        var unlinedRowCount: UInt32 = 0
        /// Row in `wide` + 1; 0 = none.
        var wide: UInt32 = 0
        /// A bit a column: its sum passed 64 bits, and what stands there is not the sum.
        var overflows: UInt32 = 0
    }

    static let columnCount = CounterRow.columnCount

    /// Items are ordinals of keys or of names.
    static let itemCountMax = max(Limits.keyCountMax, Limits.nameCountMax + 1)

    var lines: TallyLines
    let extras: [Extra]
    /// Rows of `columnCount` counters.
    let wide: [UInt64]

    /// Without places.
    init() { self.init(lines: .none, extras: [], wide: []) }

    init(lines: TallyLines, extras: [Extra], wide: [UInt64]) {
        self.lines = lines
        self.extras = extras
        self.wide = wide
    }

    var placeCount: Int { lines.count }
    var isEmpty: Bool { lines.count == 0 }
    /// How many places have a wide row.
    var wideRowCount: Int { wide.count / Self.columnCount }

    func place(at index: Int) -> Place { Place(order: lines[index].order) }

    func extra(of line: Line) -> Extra { line.extra == 0 ? Extra() : extras[line.extra - 1] }

    /// All revenue and spend; at most 2^64 − 1.
    var moneyMicros: UInt64 {
        extras.reduce(0) { $0.saturatingSum($1.revenue).saturatingSum($1.spend) }
    }

    /// The counters of a place.
    func row(at index: Int) -> CheckedRow {
        var row = CheckedRow()
        let line = lines[index]
        for kind in Kind.allCases where kind.rawValue < Kind.linedCount {
            let rowCount = line.rowCount(kind.rawValue)
            if rowCount != 0 { kind.forEachColumn { row.counters[$0] += rowCount } }
        }
        guard line.extra != 0 else { return row }
        let extra = extras[line.extra - 1]
        row.counters[.revenueMicros] = extra.revenue
        row.counters[.spendMicros] = extra.spend
        Kind.unlined.forEachColumn { row.counters[$0] += UInt64(extra.unlinedRowCount) }
        if extra.wide != 0 {
            let base = (Int(extra.wide) - 1) * Self.columnCount
            for column in 0..<Self.columnCount { row.add(wide[base + column], to: column) }
        }
        row.overflows |= extra.overflows
        return row
    }
}

/// Counters with a note of which of them passed 64 bits on the way: what stands there is not the sum.
struct CheckedRow: Sendable {
    var counters = CounterRow()
    /// A bit a column.
    var overflows: UInt32 = 0

    mutating func add(_ amount: UInt64, to column: Int) {
        let (sum, overflow) = counters.values[column].addingReportingOverflow(amount)
        counters.values[column] = sum
        if overflow { overflows |= 1 << UInt32(column) }
    }

    mutating func add(_ other: CheckedRow) {
        for column in 0..<CounterRow.columnCount { add(other.counters.values[column], to: column) }
        overflows |= other.overflows
    }
}

extension Tally {
    /// The kinds of rows that have a number of their own.
    enum Kind: Int, CaseIterable {
        case viewable, undetermined, click, redemption, notViewable
        case viewableUnchecked, undeterminedUnchecked, clickUnchecked
        case duplicateImpression, invalidImpression
        // Comes with money nearly always, and so has an extra.
        case redemptionUnchecked

        /// So many have it in the line.
        static let linedCount = 10
        static let unlined = redemptionUnchecked

        /// What a row of the kind adds one to.
        var columns: [CounterColumn] {
            var columns: [CounterColumn] = []
            forEachColumn { columns.append($0) }
            return columns
        }

        /// Calls `body` with what a row of the kind adds one to.
        func forEachColumn(_ body: (CounterColumn) -> Void) {
            switch self {
            case .viewable, .viewableUnchecked:
                body(.impressions)
                body(.viewableImpressions)
            case .undetermined, .undeterminedUnchecked:
                body(.impressions)
                body(.undeterminedImpressions)
            case .click, .clickUnchecked: body(.clicks)
            case .redemption, .redemptionUnchecked: body(.redemptions)
            case .notViewable: body(.notViewableImpressions)
            case .duplicateImpression: body(.duplicateImpressions)
            case .invalidImpression: body(.invalidImpressions)
            }
            if isUnchecked { body(.uncheckedEvents) }
        }

        private var isUnchecked: Bool {
            switch self {
            case .viewableUnchecked, .undeterminedUnchecked, .clickUnchecked, .redemptionUnchecked:
                true
            default: false
            }
        }
    }
}
