// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters.

import IngestFormat

/// In what found counters differ from the expected ones.
enum CounterDifference: Sendable {
    case counter(Tally.Place, CounterColumn, got: UInt64, expected: UInt64)
    /// A sum that does not fit 64 bits, on either side: no sound log and no sound run has one.
    case overflow(Tally.Place, CounterColumn)
    /// A row of which there is no event.
    case surplus(Tally.Place)
    case missing(Tally.Place)
    /// A row of a day that no event can have.
    case impossible(Tally.Place)
}

/// The first differences, as many as are shown of one file, and how many there are.
struct DifferenceList: Sendable {
    /// So that one file's do not hide another's.
    static let shownCountMax = 100

    private(set) var first: [CounterDifference] = []
    private(set) var count = 0

    mutating func add(_ difference: CounterDifference) {
        if first.count < Self.shownCountMax { first.append(difference) }
        count += 1
    }

    mutating func add(_ other: DifferenceList) {
        first += other.first.prefix(Self.shownCountMax - first.count)
        count += other.count
    }
}

/// Holds sorted counters against a tally, in one pass: the sums of several tables or runs, row by row.
///
/// **Cost** 180 KiB a source; about 100 ns a row, of which decoding the pages is a part.
struct TallyComparison<Source: CounterPageSource> {
    /// What the rows are held against.
    struct Expected {
        let tally: Tally
        /// Whether rows of an item are summed over all days: those of the tally are of day 0.
        var areDaysFolded = false
        /// Of how many events the rows may be lost that were counted when they were still there: by so many the
        /// counters may be more than expected.
        var lostRowCount: UInt64 = 0
        /// Ends the comparison, with no meaning, when it is stopped.
        var meter: WorkMeter?
    }

    private struct Input {
        var source: Source
        let page = CounterPage()
        var row = 0
        /// Of the row at hand; above all orders at the end.
        var order: UInt64 = .max
        var isAtEnd = false
    }

    private var inputs: [Input]
    private let expected: Expected
    private let compares: Bool
    private(set) var differences = DifferenceList()
    /// What is counted more than expected, and how many events that is; of use only if rows may be lost.
    private var more = DifferenceList()
    private(set) var lostRowCount: UInt64 = 0
    /// By place among the sources: what ended one of them early. Then the differences say nothing.
    private(set) var failures: [(source: Int, error: Source.Failure)] = []

    /// The first place that has not been dealt with.
    private var next = 0

    /// - Parameter expected: `nil` reads and checks the sources, and compares nothing.
    init(_ sources: [Source], to expected: Expected?) {
        inputs = sources.map { Input(source: $0) }
        self.expected = expected ?? Expected(tally: Tally())
        compares = expected != nil
    }

    /// Holds what `makeSources` gives against what is expected: quickly, and from the beginning once more where
    /// that says they are not the same.
    static func run(_ makeSources: () -> [Source], to expected: Expected?) -> TallyComparison {
        var failure: (source: Int, error: Source.Failure)?
        if let expected {
            var match = TallyMatch(makeSources(), expected)
            if match.run() { return TallyComparison([], to: nil) }
            failure = match.failure
        }
        var comparison = TallyComparison(makeSources(), to: expected)
        comparison.run()
        // What failed once and not again did fail.
        if let failure, comparison.failures.isEmpty { comparison.failures.append(failure) }
        return comparison
    }

    /// Reads all sources to their end.
    mutating func run() {
        for index in inputs.indices { advance(index) }
        defer { judgeMore() }
        while let order = leastOrder() {
            let place = Tally.Place(order: order)
            var row = CheckedRow()
            for index in inputs.indices {
                // More than once only where days are folded.
                while inputs[index].order == order && !inputs[index].isAtEnd {
                    let input = inputs[index]
                    row.add(CheckedRow(counters: input.page.counters(input.row)))
                    advance(index)
                }
            }
            if compares {
                compare(row, at: place)
            } else if !Limits.businessDays.contains(place.day) {
                differences.add(.impossible(place))
            }
        }
        while compares && next < expected.tally.placeCount { miss() }
    }

    /// What is counted more than expected is a difference, unless it can be of events whose rows are lost.
    private mutating func judgeMore() {
        guard lostRowCount > expected.lostRowCount || expected.lostRowCount == 0 else { return }
        differences.add(more)
        lostRowCount = 0
    }

    /// Notes a counter, or a row, that is more than expected.
    private mutating func add(more difference: CounterDifference, rowCount: UInt64) {
        more.add(difference)
        lostRowCount = lostRowCount.saturatingSum(rowCount)
    }

    private func leastOrder() -> UInt64? {
        var least: UInt64?
        for input in inputs where !input.isAtEnd { least = min(least ?? .max, input.order) }
        return least
    }

    private mutating func advance(_ index: Int) {
        inputs[index].row += 1
        if inputs[index].row >= inputs[index].page.rowCount {
            inputs[index].row = 0
            if expected.meter?.isStopped == true {
                inputs[index].isAtEnd = true
                return
            }
            do throws(Source.Failure) {
                inputs[index].isAtEnd = try !inputs[index].source.nextPage(into: inputs[index].page)
            } catch {
                inputs[index].isAtEnd = true
                failures.append((index, error))
            }
        }
        guard !inputs[index].isAtEnd else { return }
        let (page, row) = (inputs[index].page, inputs[index].row)
        let day = expected.areDaysFolded ? 0 : page.day(row)
        inputs[index].order = Tally.Place(item: page.key(row), day: day).order
    }

    // MARK: Expected rows

    private mutating func compare(_ found: CheckedRow, at place: Tally.Place) {
        let tally = expected.tally
        while next < tally.placeCount, tally.lines[next].order < place.order { miss() }
        guard next < tally.placeCount, tally.lines[next].order == place.order else {
            return add(more: .surplus(place), rowCount: found.grossRowCount)
        }
        compare(found, to: tally.row(at: next), at: place)
        next += 1
    }

    private mutating func compare(
        _ found: CheckedRow, to expected: CheckedRow, at place: Tally.Place
    ) {
        let overflows = found.overflows | expected.overflows
        if overflows == 0 && found.counters == expected.counters { return }
        for column in CounterColumn.allCases {
            if overflows >> UInt32(column.rawValue) & 1 != 0 {
                differences.add(.overflow(place, column))
            } else {
                compare(found.counters[column], to: expected.counters[column], column, at: place)
            }
        }
    }

    private mutating func compare(
        _ got: UInt64, to expected: UInt64, _ column: CounterColumn, at place: Tally.Place
    ) {
        guard got != expected else { return }
        let difference = CounterDifference.counter(place, column, got: got, expected: expected)
        if got > expected {
            add(more: difference, rowCount: column.isOfGross ? got - expected : 0)
        } else {
            differences.add(difference)
        }
    }

    private mutating func miss() {
        differences.add(.missing(expected.tally.place(at: next)))
        next += 1
    }
}

extension CounterColumn {
    /// Whether every row is counted in exactly one such column.
    fileprivate var isOfGross: Bool {
        switch self {
        case .viewableImpressions, .undeterminedImpressions, .uncheckedEvents, .revenueMicros,
            .spendMicros:
            false
        default: true
        }
    }
}

extension CheckedRow {
    /// How many events are counted in the row.
    fileprivate var grossRowCount: UInt64 {
        CounterColumn.allCases.reduce(0) { sum, column in
            column.isOfGross ? sum.saturatingSum(counters[column]) : sum
        }
    }
}

extension Finding {
    /// - Parameters:
    ///   - source: what was held against the rows.
    ///   - hasDay: whether the rows are of one day each.
    ///   - describe: an item, for persons.
    init(
        _ difference: CounterDifference, file: String, offset: UInt64?, of source: String,
        hasDay: Bool, describe: (UInt32) -> String
    ) {
        func text(_ place: Tally.Place) -> String {
            let day = hasDay ? " day \(CivilDay(dayNumber: place.day))" : ""
            return describe(place.item) + day
        }
        switch difference {
        case .counter(let place, let column, let got, let expected):
            self.init(
                .difference, file: file, offset: offset,
                what: "\(column) of \(text(place)) in the \(source)", got: "\(got)",
                expected: "\(expected)")
        case .overflow(let place, let column):
            self.init(
                .difference, file: file, offset: offset,
                what: "\(column) of \(text(place)) in the \(source)",
                got: "a sum that does not fit 64 bits", expected: "one that does")
        case .surplus(let place):
            self.init(
                .difference, file: file, offset: offset, what: "\(text(place)) in the \(source)",
                got: "a row", expected: "no event")
        case .missing(let place):
            self.init(
                .difference, file: file, offset: offset, what: "\(text(place)) in the \(source)",
                got: "no row", expected: "a row")
        case .impossible(let place):
            self.init(
                .difference, file: file, offset: offset,
                what: "\(describe(place.item)) in the \(source)", got: "a row of day \(place.day)",
                expected: "a day that there is")
        }
    }
}
