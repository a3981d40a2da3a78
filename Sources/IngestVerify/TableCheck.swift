// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters.
import IngestFormat
import IngestStorage

/// Rows of counters by (item, day), wherever they are: in the footer of a segment, in a run, in the footers of expired
/// segments, or recounted in memory.
struct RowSource: Sendable {
    /// The file.
    let name: FileName
    /// Where its pages begin, and how many rows each has: what windows are planned by.
    let pages: [(item: UInt32, rowCount: Int)]
    /// Adds the rows of some items.
    let add: @Sendable (ClosedRange<UInt32>, CounterPage, RowSums) throws(StorageError) -> Void

    /// A run; also of expired footers, and of a segment's.
    init<Files>(_ run: RunReader<Files>, name: FileName) {
        self.name = name
        pages = run.index.entries.map { ($0.firstKey, $0.rowCount) }
        add = { (items, page, sums) throws(StorageError) in
            var cursor = run.makeCursor(keys: items)
            while try cursor.nextPage(into: page) { sums.add(page) }
        }
    }

    /// Rows that were counted again.
    init(_ count: RowCount, name: FileName) {
        self.name = name
        pages = stride(from: 0, to: count.keyEnd, by: CounterPage.capacity).map {
            ($0, CounterPage.capacity)
        }
        add = { (items, _, sums) throws(StorageError) in count.add(items, to: sums) }
    }

    /// Sums, in memory.
    init(_ sums: RowSums) {
        // It never fails, and so is never named.
        name = .lock
        let slots = sums.sortedSlots()
        pages = stride(from: 0, to: slots.count, by: CounterPage.capacity).map {
            (UInt32(sums.order(slots[$0]) >> 32), CounterPage.capacity)
        }
        add = { (items, _, target) throws(StorageError) in
            target.add(sums, slots: sums.slots(of: items))
        }
    }
}

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

/// Holds the rows of some tables against the rows that they must have been made of, a window of items after the other:
/// footers and recounts on one side, runs on the other.
///
/// **Cost** Reads each source once, and again the pages in which a window begins; 30 to 40 ns a row of all sources. The
/// sums of a window for each thread, and those of the table of days.
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
    let workerCount: Int
    let meter: WorkMeter

    /// What a thread needs for one window after the other.
    final class Memory {
        let page = CounterPage()
        let expected = RowSums()
        let folded = RowSums()
        let got = RowSums()
    }

    private struct Window: Sendable {
        var differences: [DifferenceList]
        var days: RowSums?
        var failures: [Failure] = []
    }

    /// - Parameter wait: asks the caller whether to go on; with `false` the outcome has no meaning.
    /// - Returns: what came of the tables, in their order, and each source that cannot be read, once.
    func run(wait: () -> Bool) -> (outcomes: [Outcome], failures: [Failure]) {
        var outcomes = tables.map { Outcome(table: $0) }
        var failures: [Failure] = []
        let byKey = tables.indices.filter { tables[$0].kind != .days || expected != nil }
        let days = RowSums()
        pass(byKey, expected, days, &outcomes, &failures, wait)
        if let index = tables.firstIndex(where: { $0.kind == .days }) {
            let source = expected.map { _ in [RowSource(days)] }
            pass([index], source, nil, &outcomes, &failures, wait)
        }
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

    /// Goes through all windows of some tables. The table of days is summed where it is one of others.
    private func pass(
        _ indices: [Int], _ expected: [RowSource]?, _ days: RowSums?, _ outcomes: inout [Outcome],
        _ failures: inout [Failure], _ wait: () -> Bool
    ) {
        let compared = indices.filter { tables[$0].kind != .days || days == nil }
        let needsDays = compared.count < indices.count
        if compared.isEmpty && !needsDays { return }
        let sources = (expected ?? []) + compared.flatMap { tables[$0].runs }
        let windows = Self.windows(of: sources)
        let work = OrderedWork<Memory, Window>(count: windows.count, workerCount: workerCount)
        work.run(
            makeMemory: { Memory() },
            work: { [self] index, memory in
                guard !meter.isStopped else { return Window(differences: []) }
                return check(windows[index], compared, expected, needsDays, memory)
            }, wait: wait
        ) { window in
            for (index, list) in zip(compared, window.differences) {
                outcomes[index].differences.add(list)
            }
            if let sums = window.days { days?.add(sums) }
            for failure in window.failures
            where !failures.contains(where: { $0.file == failure.file }) {
                failures.append(failure)
            }
            return true
        }
    }

    private func check(
        _ items: ClosedRange<UInt32>, _ indices: [Int], _ expected: [RowSource]?,
        _ needsDays: Bool, _ memory: Memory
    ) -> Window {
        var window = Window(differences: [])
        Self.read(expected ?? [], items, memory.page, memory.expected, &window.failures)
        if needsDays {
            let days = RowSums()
            days.add(memory.expected) { order in
                UInt64(business(UInt32(order >> 32))) << 32 | order & RowSums.dayMask
            }
            window.days = days
        }
        for index in indices {
            let table = tables[index]
            memory.got.foldsDays = table.kind == .rewards
            Self.read(table.runs, items, memory.page, memory.got, &window.failures)
            var sums = memory.expected
            if table.kind == .rewards {
                memory.folded.foldsDays = true
                memory.folded.removeAll()
                memory.folded.add(memory.expected)
                sums = memory.folded
            }
            var list = DifferenceList()
            if expected == nil {
                Self.checkDays(memory.got, &list)
            } else {
                Self.compare(memory.got, to: sums, &list)
            }
            window.differences.append(list)
        }
        return window
    }

    /// Sums the rows of some items.
    private static func read(
        _ sources: [RowSource], _ items: ClosedRange<UInt32>, _ page: CounterPage,
        _ sums: RowSums, _ failures: inout [Failure]
    ) {
        sums.removeAll()
        for source in sources {
            do throws(StorageError) { try source.add(items, page, sums) } catch {
                failures.append((source.name, error))
            }
        }
    }

    // MARK: Windows

    /// As many rows of each source as make the pages that are read twice few, within bounds of memory.
    private static let sourceRowCount = 8 << 10
    private static let rowCountMax = 2 << 20

    /// All items in parts, in order.
    static func windows(of sources: [RowSource]) -> [ClosedRange<UInt32>] {
        let pages = sources.flatMap(\.pages).sorted { $0.item < $1.item }
        let rowCount = min(rowCountMax, sourceRowCount * max(1, sources.count))
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

    /// Holds sums against those that they must be.
    static func compare(_ got: RowSums, to expected: RowSums, _ list: inout DifferenceList) {
        if got.isSame(as: expected) { return }
        let (left, right) = (got.sortedSlots(), expected.sortedSlots())
        var (i, j) = (0, 0)
        while i < left.count || j < right.count {
            let found = i < left.count ? got.order(left[i]) : UInt64.max
            let wanted = j < right.count ? expected.order(right[j]) : UInt64.max
            let (isFound, isWanted) = (
                i < left.count && (found <= wanted || j == right.count),
                j < right.count && (wanted <= found || i == left.count)
            )
            if isFound && isWanted {
                compare(got, left[i], expected, right[j], &list)
            } else if isFound {
                list.add(more: .surplus(order: found), rowCount: grossRowCount(got, left[i]))
            } else {
                list.add(.missing(order: wanted))
            }
            i += isFound ? 1 : 0
            j += isWanted ? 1 : 0
        }
    }

    private static func compare(
        _ got: RowSums, _ slot: Int, _ expected: RowSums, _ other: Int,
        _ list: inout DifferenceList
    ) {
        let overflows = (got.overflows[slot] ?? 0) | (expected.overflows[other] ?? 0)
        let order = got.order(slot)
        for column in CounterColumn.allCases {
            let (found, wanted) = (
                got.value(column.rawValue, slot), expected.value(column.rawValue, other)
            )
            if overflows >> UInt32(column.rawValue) & 1 != 0 {
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

    /// Rows that there is nothing to hold against can be of a day that there is.
    private static func checkDays(_ got: RowSums, _ list: inout DifferenceList) {
        for slot in got.sortedSlots() where !got.foldsDays {
            let day = Int32(bitPattern: UInt32(truncatingIfNeeded: got.order(slot) ^ RowSums.noDay))
            if !Limits.businessDays.contains(day) { list.add(.impossible(order: got.order(slot))) }
        }
    }

    /// How many events are counted in the row.
    private static func grossRowCount(_ sums: RowSums, _ slot: Int) -> UInt64 {
        CounterColumn.allCases.reduce(0) { sum, column in
            column.isOfGross ? sum.saturatingSum(sums.value(column.rawValue, slot)) : sum
        }
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
