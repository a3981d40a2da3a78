// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters.
import IngestFormat
import IngestStorage

/// A counter, or a whole row, that is not the expected one.
struct CounterDifference: Sendable, Equatable {
    let place: RowPlace
    /// `nil` for the whole row.
    var column: CounterColumn?
    let got: String
    let expected: String
}

/// The first differences, as many as are shown of one file, and how many there are.
struct DifferenceList: Sendable {
    /// So that one file's do not hide another's.
    static let shownCountMax = 100

    private(set) var first: [CounterDifference] = []
    private(set) var count = 0

    mutating func add(_ difference: @autoclosure () -> CounterDifference) {
        if first.count < Self.shownCountMax { first.append(difference()) }
        count += 1
    }

    mutating func add(_ other: DifferenceList) {
        first += other.first.prefix(Self.shownCountMax - first.count)
        count += other.count
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

    /// Those that may be of rows that are lost apart: what is counted more than expected, and how many events that is.
    private struct Found: Sendable {
        var less = DifferenceList()
        var more = DifferenceList()
        var moreRowCount: UInt64 = 0

        mutating func add(_ rowCount: UInt64, moreAt place: RowPlace) {
            // An attributed event is counted under its key too.
            if place.pair == 0 { moreRowCount = moreRowCount.saturatingSum(rowCount) }
        }

        mutating func add(_ other: Found) {
            less.add(other.less)
            more.add(other.more)
            moreRowCount = moreRowCount.saturatingSum(other.moreRowCount)
        }
    }

    let tables: [Table]
    /// By (key, day), of all that the runs cover; `nil` where they are not all known, and the runs are only read.
    let expected: [RowSource]?
    /// The business of a key.
    let business: @Sendable (UInt32) -> UInt32
    let hash: CounterHash
    let workerCount: Int
    let meter: WorkMeter

    /// - Parameter wait: asks the caller whether to go on; with `false` the outcome has no meaning.
    /// - Returns: what came of the tables, in their order, and why sources cannot be read, each once.
    func run(wait: () -> Bool) -> (outcomes: [Outcome], failures: [StorageError]) {
        var outcomes = tables.map { Outcome(table: $0) }
        var failures: [StorageError] = []
        func note(_ error: StorageError) {
            if !failures.contains(where: { $0.fileName == error.fileName }) {
                failures.append(error)
            }
        }
        let differing = differing(wait, note)
        for index in failures.isEmpty ? differing : [] {
            let (found, lostRowCount) = (
                compareRows(of: tables[index], wait, note), tables[index].lostRowCount
            )
            outcomes[index].differences = found.less
            if found.moreRowCount <= lostRowCount && lostRowCount > 0 {
                outcomes[index].lostRowCount = found.moreRowCount
            } else {
                outcomes[index].differences.add(found.more)
            }
        }
        // Without all rows, what is missing says nothing.
        return (failures.isEmpty ? outcomes : tables.map { Outcome(table: $0) }, failures)
    }

    // MARK: By fingerprints

    /// A part of a source that is read by itself, and the fingerprints of which it is a part: of a table, by its
    /// place, or behind these of the expected rows.
    private typealias Piece = (source: RowSource, items: ClosedRange<UInt32>, sum: Int)

    private static let pieceRowCount = 64 << 10

    /// The tables that have not the fingerprints that they must have.
    private func differing(_ wait: () -> Bool, _ note: (StorageError) -> Void) -> [Int] {
        // The table of reward-days has fewer rows than what it was made of, and stands for that in the comparison with
        // the others.
        let basis = tables.firstIndex { $0.kind == .rewardDays } ?? tables.count
        var sums = [Fingerprints](repeating: Fingerprints(), count: tables.count + 1)
        var sources = tables.indices.flatMap { index in tables[index].runs.map { ($0, index) } }
        for source in expected ?? [] {
            if let known = source.fingerprint, basis < tables.count {
                sums[tables.count].rows.add(known)
            } else {
                sources.append((source, tables.count))
            }
        }
        let pieces: [Piece] = sources.flatMap { source, sum in
            Self.windows(of: [source], rowCount: Self.pieceRowCount).map { (source, $0, sum) }
        }
        let folds = tables.contains { $0.kind != .rewardDays }
        typealias Work = OrderedWork<Result<Fingerprints, StorageError>>
        Work.run(pieces.count, workerCount: workerCount, wait: wait) { [self] in
            let page = CounterPage()
            return { index in
                let (source, items, sum) = pieces[index]
                var prints = Fingerprints()
                return Result { () throws(StorageError) in
                    if meter.isStopped { return prints }
                    try source.read(items, page) {
                        hash.add(
                            $0, of: $1, to: &prints, folds: folds && sum == basis,
                            business: business)
                    }
                    return prints
                }
            }
        } take: { index, piece in
            switch piece {
            case .success(let prints): sums[pieces[index].sum].add(prints)
            case .failure(let error): note(error)
            }
        }
        let (wanted, folded) = (sums[tables.count], sums[basis])
        let isFolded =
            folded.rows.value == wanted.rows.value && folded.rows.isPlain && wanted.rows.isPlain
        return tables.indices.filter { index in
            let (kind, found) = (tables[index].kind, sums[index].rows)
            guard expected != nil else { return !found.isPlain }
            let print =
                kind == .rewards ? folded.rewards : kind == .days ? folded.days : wanted.rows
            return !isFolded || !found.isPlain || found.value != print.value
        }
    }

    // MARK: Row by row

    private typealias Sums = [RowPlace: CounterSum]

    /// Goes through a table window by window; that of days has rows of any key in each of its own.
    private func compareRows(
        of table: Table, _ wait: () -> Bool, _ note: (StorageError) -> Void
    ) -> Found {
        let (expected, kind) = (expected ?? [], table.kind)
        let windows =
            kind == .days
            ? [0...UInt32.max]
            : Self.windows(of: expected + table.runs, rowCount: Self.windowRowCount)
        var all = Found()
        typealias Work = OrderedWork<Result<Found, StorageError>>
        Work.run(windows.count, workerCount: workerCount, wait: wait) { [self] in
            let page = CounterPage()
            return { index in
                Result { () throws(StorageError) in
                    let wanted = try sum(expected, windows[index], page, kind) {
                        place($0, in: kind)
                    }
                    let found = try sum(table.runs, windows[index], page, kind) { $0 }
                    return compare(
                        found, to: kind == .days ? Self.settled(wanted, by: found) : wanted)
                }
            }
        } take: { _, window in
            switch window {
            case .success(let found): all.add(found)
            case .failure(let error): note(error)
            }
        }
        return all
    }

    /// Where the rows of a key and a day are counted in a table.
    private func place(_ order: UInt64, in kind: TableKind) -> UInt64 {
        switch kind {
        case .rewards: order & ~0xFFFF_FFFF | CounterPage.order(key: 0, day: 0)
        case .days: UInt64(business(UInt32(order >> 32))) << 32 | order & 0xFFFF_FFFF
        default: order
        }
    }

    /// Expected days, with the counters of keys whose names are lost where the table has them: it was made when their
    /// businesses were known, which now stand as 0.
    private static func settled(_ expected: Sums, by found: Sums) -> Sums {
        var settled = expected
        for (place, sum) in found where place.order >> 32 != 0 {
            let lost = RowPlace(order: place.order & 0xFFFF_FFFF)
            guard var rest = settled[lost], rest.fits, sum.fits else { continue }
            var own = settled[place] ?? CounterSum()
            own.take(upTo: sum, from: &rest)
            if own != CounterSum() { settled[place] = own }
            settled[lost] = rest == CounterSum() ? nil : rest
        }
        return settled
    }

    /// Sums the rows of some items by the place where they are counted; attributed ones are in no other table.
    private func sum(
        _ sources: [RowSource], _ items: ClosedRange<UInt32>, _ page: CounterPage,
        _ kind: TableKind, place: (UInt64) -> UInt64
    ) throws(StorageError) -> Sums {
        var sums: Sums = [:]
        for source in sources where !meter.isStopped {
            try source.read(items, page) { page, attributions in
                if attributions != nil && kind != .rewardDays { return }
                for row in 0..<page.rowCount {
                    let (key, day) = (page.key(row), page.day(row))
                    var its = RowPlace(order: place(CounterPage.order(key: key, day: day)))
                    if let entries = attributions?.entries {
                        let entry = entries[Int(key - CounterKeys.firstAttributed)]
                        its = RowPlace(
                            order: CounterPage.order(key: entry.key, day: day), pair: entry.pair)
                    }
                    sums[its, default: CounterSum()].add(page.counters(row))
                }
            }
        }
        return sums
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

    /// Holds sums against those that they must be; where these are not known, days must be such that there are.
    private func compare(_ found: Sums, to wanted: Sums) -> Found {
        var list = Found()
        if found == wanted && found.values.allSatisfy(\.fits) { return list }
        for place in Set(found.keys).union(wanted.keys).sorted() {
            func row(_ got: String, _ expected: String) -> CounterDifference {
                CounterDifference(place: place, got: got, expected: expected)
            }
            switch (found[place], wanted[place]) {
            case _ where expected == nil:
                if Limits.businessDays.contains(place.day) { continue }
                list.less.add(row("a row of day \(place.day)", "a day that there is"))
            case (let got?, let expected?): compare(place, got, expected, &list)
            case (let got?, nil):
                list.more.add(row("a row", "no event"))
                list.add(got.grossRowCount, moreAt: place)
            default: list.less.add(row("no row", "a row"))
            }
        }
        return list
    }

    private func compare(
        _ place: RowPlace, _ found: CounterSum, _ wanted: CounterSum, _ list: inout Found
    ) {
        for column in CounterSum.columns {
            func difference(_ got: String, _ expected: String) -> CounterDifference {
                CounterDifference(place: place, column: column, got: got, expected: expected)
            }
            let (got, expected) = (found[column], wanted[column])
            if !found.fits(column) || !wanted.fits(column) {
                list.less.add(difference("a sum that does not fit", "one that does"))
            } else if got < expected {
                list.less.add(difference("\(got)", "\(expected)"))
            } else if got > expected {
                list.more.add(difference("\(got)", "\(expected)"))
                if column.isOfGross { list.add(UInt64(clamping: got - expected), moreAt: place) }
            }
        }
    }
}
