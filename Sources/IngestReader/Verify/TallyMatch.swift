// packet → decode → ring → admit → block → segment → compaction → [snapshot] → query
// Part of `verify`: shares no code with what folds and merges counters.

import CIngestLinux
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
    /// How many places, or items if days are folded, had a row.
    private var foundCount = 0

    init(_ sources: [Source], _ expected: TallyComparison<Source>.Expected) {
        self.expected = expected
        inputs = sources.enumerated().map { Input($1, number: $0) }
    }

    /// A source and where it stands.
    private final class Input {
        private var source: Source
        let number: Int
        let page = CounterPage()
        var row = 0

        init(_ source: Source, number: Int) {
            self.source = source
            self.number = number
        }

        /// Of the row at hand.
        var order: UInt64 {
            // SAFETY: the row at hand is one of the page.
            unsafe page.order[row]
        }

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
        return foundCount == (expected.areDaysFolded ? tally.itemCount : tally.placeCount)
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

    /// The input whose row is the least, and the next row of another; or the least row, if several have it.
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
        return (first, bound, inputs.count > 1 && bound == order)
    }

    // MARK: Rows

    /// Checks the sum of all rows at `order`.
    private mutating func checkSum(of order: UInt64) -> Bool {
        var sum = CheckedRow()
        for input in inputs where input.order == order {
            sum.add(CheckedRow(counters: input.page.counters(input.row)))
            input.row += 1
        }
        guard let found = expectedRow(at: Tally.Place(order: order)) else { return false }
        return sum.overflows == 0 && found.overflows == 0 && sum.counters == found.counters
    }

    /// What the sums of a place must be, or of an item, if days are folded.
    private mutating func expectedRow(at place: Tally.Place) -> CheckedRow? {
        foundCount += 1
        guard expected.areDaysFolded else { return tally.find(place).map { tally.row(at: $0) } }
        guard place.day == 0, tally.hasPlaces(of: Int(place.item)) else { return nil }
        return tally.sumOfDays(of: place.item)
    }

    /// Checks the rows of an input before `bound`, on its page.
    private mutating func checkRows(of input: Input, to bound: UInt64) -> Bool {
        let page = input.page
        let rare = page.nonzero.subtracting(Self.plainColumns)
        while input.row < page.rowCount, input.order < bound || inputs.count == 1 {
            prefetch(page, input.row &+ 16)
            let place = Tally.Place(order: input.order)
            let row = input.row
            input.row += 1
            if let slot = plainSlot(place), Self.isZero(rare, page, row) {
                foundCount += 1
                guard isPlainRow(tally.lines[slot], page, row) else { return false }
                continue
            }
            guard let found = expectedRow(at: place), found.overflows == 0,
                page.counters(row) == found.counters
            else { return false }
        }
        return true
    }

    /// The slot of the place, if all that is expected of the row is in its line and its money.
    private func plainSlot(_ place: Tally.Place) -> Int? {
        guard Int(place.item) < tally.heads.count else { return nil }
        let head = Int(tally.heads[Int(place.item)])
        let line = tally.lines[head]
        guard head != 0, tally.isPlain(line) else { return nil }
        if expected.areDaysFolded {
            return line[Tally.Lane.next] == UInt32(head) && place.day == 0 ? head : nil
        }
        return line[Tally.Lane.day] == UInt32(bitPattern: place.day) ? head : nil
    }

    /// The columns that kinds of rows add to, and money.
    private static var plainColumns: CounterColumnSet {
        CounterColumnSet([
            .impressions, .clicks, .redemptions, .viewableImpressions, .undeterminedImpressions,
            .notViewableImpressions, .invalidImpressions, .duplicateImpressions, .uncheckedEvents,
            .revenueMicros, .spendMicros,
        ])
    }

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

    private func isPlainRow(_ line: Tally.Line, _ page: CounterPage, _ row: Int) -> Bool {
        @inline(__always) func rows(_ kind: Tally.Kind) -> UInt64 {
            UInt64(line[Tally.Lane.kinds &+ kind.rawValue])
        }
        @inline(__always) func differs(_ column: CounterColumn, _ expected: UInt64) -> UInt64 {
            Self.value(column, page, row) ^ expected
        }
        let viewable = rows(.viewable) &+ rows(.viewableUnchecked)
        let undetermined = rows(.undetermined) &+ rows(.undeterminedUnchecked)
        let unchecked =
            rows(.viewableUnchecked) &+ rows(.undeterminedUnchecked) &+ rows(.clickUnchecked)
            &+ rows(.redemptionUnchecked)
        let money = tally.money(of: line)
        var difference = differs(.impressions, viewable &+ undetermined)
        difference |= differs(.viewableImpressions, viewable)
        difference |= differs(.undeterminedImpressions, undetermined)
        difference |= differs(.clicks, rows(.click) &+ rows(.clickUnchecked))
        difference |= differs(.redemptions, rows(.redemption) &+ rows(.redemptionUnchecked))
        difference |= differs(.notViewableImpressions, rows(.notViewable))
        difference |= differs(.duplicateImpressions, rows(.duplicateImpression))
        difference |= differs(.invalidImpressions, rows(.invalidImpression))
        difference |= differs(.uncheckedEvents, unchecked)
        difference |= differs(.revenueMicros, money.revenue)
        difference |= differs(.spendMicros, money.spend)
        return difference == 0
    }

    /// Asks for the line that a row further on will be held against.
    private func prefetch(_ page: CounterPage, _ row: Int) {
        guard row < page.rowCount, Int(page.key(row)) < tally.heads.count else { return }
        let slot = Int(tally.heads[Int(page.key(row))])
        unsafe tally.lines.withUnsafeBufferPointer { lines in
            guard let base = lines.baseAddress else { return }
            // SAFETY: a prefetch reads nothing.
            unsafe ingest_prefetch(base + slot)
        }
    }
}

extension Tally {
    /// The sum over the days of an item that has places.
    func sumOfDays(of item: UInt32) -> CheckedRow {
        var sum = CheckedRow()
        let first = Int(heads[Int(item)])
        var slot = first
        repeat {
            sum.add(row(at: slot))
            slot = Int(lines[slot][Lane.next])
        } while slot != first
        return sum
    }
}
