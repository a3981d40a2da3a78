// packet → decode → ring → admit → block → segment → compaction → [snapshot] → query
// Part of `verify`: shares no code with what folds and merges counters.

import IngestFormat

/// Whether sorted counters, the sums of several tables or runs, are exactly what a tally says: the answer for every
/// sound file, and quick. What is wrong where they are not, `TallyComparison` finds.
///
/// The rows ascend, so each is of another place; so if each is a place's row, and there are as many rows as places,
/// none is missing.
///
/// **Cost** 180 KiB a source; about 20 ns a row, of which decoding the pages is half.
struct TallyMatch<Source: CounterPageSource> {
    private let expected: TallyComparison<Source>.Expected
    private var tally: Tally { expected.tally }
    private var inputs: [Input]
    /// What ended a source early, and which.
    private(set) var failure: (source: Int, error: Source.Failure)?
    /// The first place that had no row so far.
    private var next = 0

    init(_ sources: [Source], _ expected: TallyComparison<Source>.Expected) {
        self.expected = expected
        let dayMask: UInt64 = expected.areDaysFolded ? 0xFFFF_FFFF : 0
        inputs = sources.enumerated().map { Input($1, number: $0, dayMask: dayMask) }
    }

    /// A source and where it stands.
    private final class Input {
        private var source: Source
        let number: Int
        let page = CounterPage()
        var row = 0

        /// The bits of the day, where days are folded.
        private let dayMask: UInt64

        init(_ source: Source, number: Int, dayMask: UInt64) {
            self.source = source
            self.number = number
            self.dayMask = dayMask
        }

        /// Of the row at hand, as of day 0 where days are folded; above all orders behind the page.
        var order: UInt64 {
            guard row < page.rowCount else { return .max }
            // SAFETY: the row is one of the page.
            let order = unsafe page.order[row]
            return dayMask == 0 ? order : order & ~dayMask | 0x8000_0000
        }

        /// Whether several rows may have one order.
        var mayRepeat: Bool { dayMask != 0 && !page.hasEachKeyOnce }

        /// Goes on to the next page; `false` at the end.
        func advance() throws(Source.Failure) -> Bool {
            row = 0
            return try source.nextPage(into: page)
        }
    }

    /// Reads the sources up to the first row that is not as it must be.
    /// - Returns: whether there is none; `false` also where a source cannot be read to its end.
    mutating func run() -> Bool {
        guard start() else { return false }
        while inputs.count > 0 {
            let (first, bound, isShared) = least()
            let isEqual = isShared ? checkSum(of: bound) : checkRows(of: inputs[first], to: bound)
            guard isEqual, dropFinished() else { return false }
        }
        return next == tally.placeCount
    }

    private mutating func start() -> Bool {
        var begun: [Input] = []
        for input in inputs {
            guard let hasRows = advance(input) else { return false }
            if hasRows { begun.append(input) }
        }
        inputs = begun
        return true
    }

    private mutating func advance(_ input: Input) -> Bool? {
        if expected.meter?.isStopped == true { return nil }
        do throws(Source.Failure) { return try input.advance() } catch {
            failure = (input.number, error)
            return nil
        }
    }

    /// Takes out the inputs that are at their end, and goes on to the next page of those at the end of one.
    private mutating func dropFinished() -> Bool {
        for index in inputs.indices.reversed()
        where inputs[index].row >= inputs[index].page.rowCount {
            guard let hasRows = advance(inputs[index]) else { return false }
            if !hasRows { inputs.remove(at: index) }
        }
        return true
    }

    /// The input whose row is the least, and the next row of another; or the least row, if several rows have it.
    private func least() -> (input: Int, bound: UInt64, isShared: Bool) {
        var (first, order, bound) = (0, UInt64.max, UInt64.max)
        for (index, input) in inputs.enumerated() {
            let other = input.order
            if index == 0 || other < order {
                (first, bound) = (index, order)
                order = other
            } else {
                bound = min(bound, other)
            }
        }
        let isShared = inputs.count > 1 && bound == order
        return isShared || !inputs[first].mayRepeat
            ? (first, bound, isShared) : (first, order, true)
    }

    // MARK: Rows

    /// Checks the sum of all rows at `order`.
    private mutating func checkSum(of order: UInt64) -> Bool {
        guard next < tally.placeCount, tally.lines[next].order == order else { return false }
        next += 1
        guard let plain = plainValues(at: next - 1) else { return checkRareSum(of: order) }
        var sum = PlainValues()
        var hasRare = false
        for input in inputs {
            while input.order == order {
                let (page, row) = (input.page, input.row)
                hasRare = hasRare || !Self.isZero(Self.rareColumns(of: page), page, row)
                sum.add(page, row)
                guard goOn(input) else { return false }
            }
        }
        return !hasRare && sum == plain
    }

    /// As `checkSum`, of a place with other columns than the plain ones.
    private mutating func checkRareSum(of order: UInt64) -> Bool {
        var sum = CheckedRow()
        for input in inputs {
            while input.order == order {
                sum.add(CheckedRow(counters: input.page.counters(input.row)))
                guard goOn(input) else { return false }
            }
        }
        let found = tally.row(at: next - 1)
        return sum.overflows == 0 && found.overflows == 0 && sum.counters == found.counters
    }

    /// Goes to the next row; of a source of which the next page may have the same order, to that page too.
    private mutating func goOn(_ input: Input) -> Bool {
        input.row += 1
        guard input.row >= input.page.rowCount, input.mayRepeat else { return true }
        return advance(input) != nil
    }

    /// Checks the rows of an input before `bound`, on its page: each is that of the next place.
    private mutating func checkRows(of input: Input, to bound: UInt64) -> Bool {
        let page = input.page
        let rare = Self.rareColumns(of: page)
        let isAlone = inputs.count == 1
        let lines = unsafe tally.lines.base
        let (count, end) = (tally.placeCount, page.rowCount)
        var (row, place) = (input.row, next)
        defer { (input.row, next) = (row, place) }
        while row < end {
            // SAFETY: rows below rowCount, places below placeCount.
            let order = unsafe page.order[row]
            guard isAlone || order < bound else { break }
            guard place < count else { return false }
            let line = unsafe lines[place]
            guard line.order == order else { return false }
            let isSame =
                Self.isZero(rare, page, row)
                ? isPlainRow(line, page, row) ?? isRow(at: place, page, row)
                : isRow(at: place, page, row)
            guard isSame else { return false }
            row &+= 1
            place &+= 1
        }
        return true
    }

    private func isRow(at place: Int, _ page: CounterPage, _ row: Int) -> Bool {
        let found = tally.row(at: place)
        return found.overflows == 0 && page.counters(row) == found.counters
    }

    /// The columns that kinds of rows add to, and money.
    private static var plainColumns: CounterColumnSet {
        CounterColumnSet([
            .impressions, .clicks, .redemptions, .viewableImpressions, .undeterminedImpressions,
            .notViewableImpressions, .invalidImpressions, .duplicateImpressions, .uncheckedEvents,
            .revenueMicros, .spendMicros,
        ])
    }

    @inline(__always)
    private static func isZero(_ columns: CounterColumnSet, _ page: CounterPage, _ row: Int) -> Bool
    {
        if columns.isEmpty { return true }
        return CounterColumn.allCases.allSatisfy {
            !columns.contains($0) || value($0, page, row) == 0
        }
    }

    @inline(__always)
    private static func value(_ column: CounterColumn, _ page: CounterPage, _ row: Int) -> UInt64 {
        // SAFETY: the row is one of the page, and each column is columnStride long.
        unsafe page.values[column.rawValue &* CounterPage.columnStride &+ row]
    }

    private static func rareColumns(of page: CounterPage) -> CounterColumnSet {
        page.nonzero.subtracting(plainColumns)
    }

    /// Whether the row is what the line says, and its extra; `nil` if that has a wide row.
    @inline(__always)
    private func isPlainRow(_ line: Tally.Line, _ page: CounterPage, _ row: Int) -> Bool? {
        guard let plain = plainValues(of: line) else { return nil }
        return PlainValues(page, row) == plain
    }

    private func plainValues(at place: Int) -> PlainValues? { plainValues(of: tally.lines[place]) }

    /// What the line says, and its extra; `nil` if that has a wide row.
    @inline(__always)
    private func plainValues(of line: Tally.Line) -> PlainValues? {
        var extra = Tally.Extra()
        if line.extra != 0 {
            extra = tally.extras[line.extra &- 1]
            if extra.wide | extra.overflows != 0 { return nil }
        }
        return PlainValues(line, extra)
    }
}

/// The counters that kinds of rows add to, and money, without a loop over columns.
private struct PlainValues {
    private var impressions: UInt64 = 0
    private var viewable: UInt64 = 0
    private var undetermined: UInt64 = 0
    private var clicks: UInt64 = 0
    private var redemptions: UInt64 = 0
    private var notViewable: UInt64 = 0
    private var duplicate: UInt64 = 0
    private var invalid: UInt64 = 0
    private var unchecked: UInt64 = 0
    private var revenue: UInt64 = 0
    private var spend: UInt64 = 0
    /// Whether a sum did not fit.
    private var overflows = false

    init() {}

    @inline(__always)
    init(_ line: Tally.Line, _ extra: Tally.Extra) {
        func rows(_ kind: Tally.Kind) -> UInt64 { line.rowCount(kind.rawValue) }
        let unlined = UInt64(extra.unlinedRowCount)
        viewable = rows(.viewable) &+ rows(.viewableUnchecked)
        undetermined = rows(.undetermined) &+ rows(.undeterminedUnchecked)
        impressions = viewable &+ undetermined
        clicks = rows(.click) &+ rows(.clickUnchecked)
        redemptions = rows(.redemption) &+ unlined
        notViewable = rows(.notViewable)
        duplicate = rows(.duplicateImpression)
        invalid = rows(.invalidImpression)
        unchecked =
            rows(.viewableUnchecked) &+ rows(.undeterminedUnchecked) &+ rows(.clickUnchecked)
            &+ unlined
        revenue = extra.revenue
        spend = extra.spend
    }

    @inline(__always)
    init(_ page: CounterPage, _ row: Int) {
        func value(_ column: CounterColumn) -> UInt64 {
            // SAFETY: the row is one of the page, and each column is columnStride long.
            unsafe page.values[column.rawValue &* CounterPage.columnStride &+ row]
        }
        impressions = value(.impressions)
        viewable = value(.viewableImpressions)
        undetermined = value(.undeterminedImpressions)
        clicks = value(.clicks)
        redemptions = value(.redemptions)
        notViewable = value(.notViewableImpressions)
        duplicate = value(.duplicateImpressions)
        invalid = value(.invalidImpressions)
        unchecked = value(.uncheckedEvents)
        revenue = value(.revenueMicros)
        spend = value(.spendMicros)
    }

    mutating func add(_ page: CounterPage, _ row: Int) {
        let other = PlainValues(page, row)
        var overflows = overflows
        func add(_ amount: UInt64, to sum: inout UInt64) {
            let (total, overflow) = sum.addingReportingOverflow(amount)
            sum = total
            overflows = overflows || overflow
        }
        add(other.impressions, to: &impressions)
        add(other.viewable, to: &viewable)
        add(other.undetermined, to: &undetermined)
        add(other.clicks, to: &clicks)
        add(other.redemptions, to: &redemptions)
        add(other.notViewable, to: &notViewable)
        add(other.duplicate, to: &duplicate)
        add(other.invalid, to: &invalid)
        add(other.unchecked, to: &unchecked)
        add(other.revenue, to: &revenue)
        add(other.spend, to: &spend)
        self.overflows = overflows
    }

    @inline(__always)
    static func == (a: PlainValues, b: PlainValues) -> Bool {
        if a.overflows || b.overflows { return false }
        let first =
            (a.impressions ^ b.impressions) | (a.viewable ^ b.viewable)
            | (a.undetermined ^ b.undetermined) | (a.clicks ^ b.clicks)
        let second =
            (a.redemptions ^ b.redemptions) | (a.notViewable ^ b.notViewable)
            | (a.duplicate ^ b.duplicate) | (a.invalid ^ b.invalid)
        let third =
            (a.unchecked ^ b.unchecked) | (a.revenue ^ b.revenue) | (a.spend ^ b.spend)
        return first | second | third == 0
    }
}
