// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters.
import IngestFormat
import IngestStorage

/// In what found counters differ from the expected ones.
enum CounterDifference: Sendable {
    case counter(order: UInt64, CounterColumn, got: UInt64, expected: UInt64)
    /// A sum that does not fit 64 bits, on either side: no sound log and no sound run has one.
    case overflow(order: UInt64, CounterColumn)
    /// A row of which there is no event.
    case surplus(order: UInt64)
    case missing(order: UInt64)
    /// A row of a day that no event can have.
    case impossible(order: UInt64)
}

/// The first differences, as many as are shown of one file, and how many there are; those that may be of rows that are
/// lost apart.
struct DifferenceList: Sendable {
    /// So that one file's do not hide another's.
    static let shownCountMax = 100

    private(set) var first: [CounterDifference] = []
    private(set) var count = 0
    /// What is counted more than expected, and how many events that is.
    private var more: [CounterDifference] = []
    private var moreCount = 0
    private var moreRowCount: UInt64 = 0

    mutating func add(_ difference: CounterDifference) {
        if first.count < Self.shownCountMax { first.append(difference) }
        count += 1
    }

    mutating func add(more difference: CounterDifference, rowCount: UInt64) {
        if more.count < Self.shownCountMax { more.append(difference) }
        moreCount += 1
        moreRowCount = moreRowCount.saturatingSum(rowCount)
    }

    mutating func add(_ other: DifferenceList) {
        first += other.first.prefix(Self.shownCountMax - first.count)
        count += other.count
        more += other.more.prefix(Self.shownCountMax - more.count)
        moreCount += other.moreCount
        moreRowCount = moreRowCount.saturatingSum(other.moreRowCount)
    }

    /// Makes differences of what is counted more than expected, unless it can be of events whose rows are lost.
    /// - Parameter lostRowCount: of how many events they may be that were counted when they were still there.
    /// - Returns: how many events are counted whose rows are lost.
    mutating func judgeMore(lostRowCount: UInt64) -> UInt64 {
        if moreRowCount <= lostRowCount && lostRowCount > 0 { return moreRowCount }
        first += more.prefix(Self.shownCountMax - first.count)
        count += moreCount
        return 0
    }
}

/// Holds the rows of some tables against the rows that they must have been made of, footers and recounts on one side,
/// runs on the other: by their fingerprints, and where these differ row by row, a window of items after the other.
///
/// **Cost** Reads each run once, and of the expected sources those whose fingerprint is not known; 15 ns a row. Row by
/// row some 500 ns a row of all sources, the sums of a window for each thread, and those of the table of days.
struct TableCheck: Sendable {
    /// A table, and what is held against the expected rows.
    struct Table: Sendable {
        let kind: TableKind
        let runs: [RowSource]
        /// Of how many events of the stretch the rows are recorded as lost.
        var lostRowCount: UInt64 = 0
    }

    struct Outcome: Sendable {
        let table: Table
        var differences = DifferenceList()
        /// How many events are counted whose rows are lost.
        var lostRowCount: UInt64 = 0
    }

    /// What is wrong with the bytes of a source, or `io`.
    typealias Failure = (file: FileName, error: StorageError)

    let tables: [Table]
    /// By (key, day), of all that the runs cover; `nil` where they are not all known, and the runs are only read.
    let expected: [RowSource]?
    /// The business of a key.
    let business: @Sendable (UInt32) -> UInt32
    let hash: CounterHash
    let workerCount: Int
    let meter: WorkMeter

    /// - Parameter wait: asks the caller whether to go on; with `false` the outcome has no meaning.
    /// - Returns: what came of the tables, in their order, and each source that cannot be read, once.
    func run(wait: () -> Bool) -> (outcomes: [Outcome], failures: [Failure]) {
        var outcomes = tables.map { Outcome(table: $0) }
        var failures: [Failure] = []
        if areSame(&failures, wait) || !failures.isEmpty { return (outcomes, failures) }
        compareRows(&outcomes, &failures, wait)
        for index in outcomes.indices {
            if failures.isEmpty {
                outcomes[index].lostRowCount = outcomes[index].differences.judgeMore(
                    lostRowCount: tables[index].lostRowCount)
            } else {
                // Without all rows, what is missing says nothing.
                outcomes[index].differences = DifferenceList()
            }
        }
        return (outcomes, failures)
    }

    // MARK: By fingerprints

    /// A part of a source that is read by itself, and the fingerprints of which it is a part: of a table, by its
    /// place, or behind these of the expected rows.
    private typealias Piece = (source: RowSource, items: ClosedRange<UInt32>, sum: Int)

    private static let pieceRowCount = 64 << 10

    /// The table of reward-days, if there is one. It has fewer rows than what it was made of, and stands for that in the
    /// comparison with the others.
    private var basis: Int? { tables.firstIndex { $0.kind == .rewardDays } }

    /// Whether all tables have the fingerprints that they must have.
    private func areSame(_ failures: inout [Failure], _ wait: () -> Bool) -> Bool {
        var sums = [Fingerprints](repeating: Fingerprints(), count: tables.count + 1)
        var unknown: [RowSource] = []
        for source in expected ?? [] {
            if let known = source.fingerprint, basis != nil {
                sums[tables.count].rows.add(known)
            } else {
                unknown.append(source)
            }
        }
        let pieces = pieces(and: unknown)
        var taken = 0
        OrderedWork<CounterPage, (prints: Fingerprints, failure: Failure?)>(
            count: pieces.count, workerCount: workerCount
        ).run(
            makeMemory: { CounterPage() },
            work: { [self] index, page in
                meter.isStopped ? (Fingerprints(), nil) : read(pieces[index], page)
            }, wait: wait
        ) { prints, failure in
            sums[pieces[taken].sum].add(prints)
            taken += 1
            if let failure { Self.note(failure, in: &failures) }
            return true
        }
        let arePlain = sums.allSatisfy(\.rows.isPlain)
        guard expected != nil, arePlain else { return arePlain }
        let (wanted, folded) = (sums[tables.count], sums[basis ?? tables.count])
        return zip(tables, sums).allSatisfy { table, found in
            switch table.kind {
            case .rewards: found.rows.value == folded.rewards.value
            case .days: found.rows.value == folded.days.value
            default: found.rows.value == wanted.rows.value
            }
        }
    }

    private func pieces(and expected: [RowSource]) -> [Piece] {
        let sources =
            tables.enumerated().flatMap { index, table in table.runs.map { ($0, index) } }
            + expected.map { ($0, tables.count) }
        return sources.flatMap { source, sum in
            Self.windows(of: [source], rowCount: Self.pieceRowCount).map { (source, $0, sum) }
        }
    }

    private func read(_ piece: Piece, _ page: CounterPage) -> (Fingerprints, Failure?) {
        let folds =
            piece.sum == basis ?? tables.count && tables.contains { $0.kind != .rewardDays }
        var prints = Fingerprints()
        do throws(StorageError) {
            try piece.source.read(piece.items, page) {
                hash.add($0, to: &prints, folds: folds, business: business)
            }
        } catch { return (prints, (piece.source.name, error)) }
        return (prints, nil)
    }

    private static func note(_ failure: Failure, in failures: inout [Failure]) {
        if !failures.contains(where: { $0.file == failure.file }) { failures.append(failure) }
    }

    // MARK: Row by row

    /// By order.
    private typealias Sums = [UInt64: CounterSum]

    private struct Window: Sendable {
        var differences: [DifferenceList] = []
        var days: Sums = [:]
        var failures: [Failure] = []
    }

    /// Goes through all windows of the tables by key, and then through that of days, which is summed on the way.
    private func compareRows(
        _ outcomes: inout [Outcome], _ failures: inout [Failure], _ wait: () -> Bool
    ) {
        let byKey = tables.indices.filter { tables[$0].kind != .days }
        let windows = Self.windows(
            of: (expected ?? []) + byKey.flatMap { tables[$0].runs }, rowCount: Self.windowRowCount)
        var days: Sums = [:]
        OrderedWork<CounterPage, Window>(count: windows.count, workerCount: workerCount).run(
            makeMemory: { CounterPage() },
            work: { [self] index, page in
                meter.isStopped ? Window() : check(windows[index], byKey, page)
            }, wait: wait
        ) { window in
            for (index, list) in zip(byKey, window.differences) {
                outcomes[index].differences.add(list)
            }
            for (order, sum) in window.days { days[order, default: CounterSum()].add(sum) }
            for failure in window.failures { Self.note(failure, in: &failures) }
            return true
        }
        for index in tables.indices where tables[index].kind == .days {
            let found = Self.read(tables[index].runs, 0...UInt32.max, CounterPage(), &failures)
            compare(found, to: days, &outcomes[index].differences)
        }
    }

    private func check(
        _ items: ClosedRange<UInt32>, _ indices: [Int], _ page: CounterPage
    ) -> Window {
        var window = Window()
        let rows = Self.read(expected ?? [], items, page, &window.failures)
        if tables.contains(where: { $0.kind == .days }) {
            window.days = Self.fold(rows) { order in
                UInt64(business(UInt32(order >> 32))) << 32 | order & 0xFFFF_FFFF
            }
        }
        for index in indices {
            var (list, wanted) = (DifferenceList(), rows)
            if tables[index].kind == .rewards {
                wanted = Self.fold(rows) { $0 & ~0xFFFF_FFFF | CounterPage.order(key: 0, day: 0) }
            }
            let found = Self.read(tables[index].runs, items, page, &window.failures)
            compare(found, to: wanted, &list)
            window.differences.append(list)
        }
        return window
    }

    /// Sums the rows of some items.
    private static func read(
        _ sources: [RowSource], _ items: ClosedRange<UInt32>, _ page: CounterPage,
        _ failures: inout [Failure]
    ) -> Sums {
        var sums: Sums = [:]
        for source in sources {
            do throws(StorageError) {
                try source.read(items, page) { page in
                    for row in 0..<page.rowCount {
                        let order = CounterPage.order(key: page.key(row), day: page.day(row))
                        sums[order, default: CounterSum()].add(page.counters(row))
                    }
                }
            } catch { failures.append((source.name, error)) }
        }
        return sums
    }

    private static func fold(_ rows: Sums, _ order: (UInt64) -> UInt64) -> Sums {
        var folded: Sums = [:]
        for (key, sum) in rows { folded[order(key), default: CounterSum()].add(sum) }
        return folded
    }

    /// Finds in what a footer says otherwise than what was counted.
    static func compare(
        _ footer: RowSource, to counted: RowSource
    ) throws(StorageError) -> DifferenceList {
        var (list, failures) = (DifferenceList(), [Failure]())
        let page = CounterPage()
        for items in windows(of: [footer, counted], rowCount: windowRowCount) {
            let found = read([footer], items, page, &failures)
            compare(found, to: read([counted], items, page, &failures), &list)
        }
        if let failure = failures.first { throw failure.error }
        _ = list.judgeMore(lostRowCount: 0)
        return list
    }

    // MARK: Windows

    /// Rows of a window: so many, or a page of each source, within bounds of memory.
    private static let windowRowCount = 64 << 10
    private static let windowRowCountMax = 1 << 20

    /// All items in parts, in order.
    static func windows(of sources: [RowSource], rowCount: Int) -> [ClosedRange<UInt32>] {
        let pages = sources.flatMap(\.pages).sorted { $0.item < $1.item }
        let rowCount = max(
            rowCount, min(windowRowCountMax, sources.count * CounterPage.capacity))
        var windows: [ClosedRange<UInt32>] = []
        var (first, count): (UInt32, Int) = (0, 0)
        for page in pages {
            if count >= rowCount && page.item > first {
                windows.append(first...page.item - 1)
                (first, count) = (page.item, 0)
            }
            count += page.rowCount
        }
        return windows + [first...UInt32.max]
    }

    // MARK: Comparing

    private func compare(_ found: Sums, to wanted: Sums, _ list: inout DifferenceList) {
        if expected != nil { return Self.compare(found, to: wanted, &list) }
        // Rows that there is nothing to hold against can be of a day that there is.
        for order in found.keys.sorted()
        where !Limits.businessDays.contains(CounterPage.day(ofOrder: order)) {
            list.add(.impossible(order: order))
        }
    }

    /// Holds sums against those that they must be.
    private static func compare(_ found: Sums, to wanted: Sums, _ list: inout DifferenceList) {
        if found == wanted && found.values.allSatisfy({ $0.overflows == 0 }) { return }
        for order in Set(found.keys).union(wanted.keys).sorted() {
            switch (found[order], wanted[order]) {
            case (let got?, let expected?): compare(order, got, expected, &list)
            case (let got?, nil):
                list.add(more: .surplus(order: order), rowCount: got.grossRowCount)
            default: list.add(.missing(order: order))
            }
        }
    }

    private static func compare(
        _ order: UInt64, _ got: CounterSum, _ expected: CounterSum, _ list: inout DifferenceList
    ) {
        for column in CounterColumn.allCases {
            let (found, wanted) = (got.counters[column], expected.counters[column])
            if (got.overflows | expected.overflows) >> UInt32(column.rawValue) & 1 != 0 {
                list.add(.overflow(order: order, column))
            } else if found != wanted {
                let difference = CounterDifference.counter(
                    order: order, column, got: found, expected: wanted)
                if found < wanted {
                    list.add(difference)
                } else {
                    list.add(more: difference, rowCount: column.isOfGross ? found - wanted : 0)
                }
            }
        }
    }
}
