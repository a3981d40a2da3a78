// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters.
import IngestFormat
import IngestStorage

/// Rows of counters by (item, day), wherever they are: in the footer of a segment, in a run, or
/// recounted in memory. Items are keys or businesses; behind the rows of some keys come those of their attributions.
struct RowSource: Sendable {
    /// Takes a page of rows of items, or of places in the list.
    typealias Body = (CounterPage, AttributionList?) -> Void
    /// Gives the rows of some items in order, page by page.
    typealias Read =
        @Sendable (ClosedRange<UInt32>, CounterPage, Body) throws(StorageError) -> Void

    /// The file.
    let name: FileName
    /// Where its pages begin, and how many rows each has: what windows are planned by.
    let pages: [(item: UInt32, rowCount: Int)]
    /// Of all rows, where it is known.
    var fingerprint: Fingerprint?
    let read: Read

    private init(_ index: CounterPageIndex, _ name: FileName, read: @escaping Read) {
        (self.name, self.read) = (name, read)
        pages = index.entries.filter { CounterKeys.rewards.contains($0.firstKey) }
            .map { (item: $0.firstKey, rowCount: $0.rowCount) }
    }

    /// A run, or the table of a segment's footer.
    /// **Errors** `corrupt` for attributions that cannot be read, and with these rows of others.
    init<Files>(_ run: RunReader<Files>, name: FileName) throws(StorageError) {
        let list = try run.readAttributions()
        self.init(run.index, name) { (items, page, body) throws(StorageError) in
            for part in Self.parts(items, list) {
                var cursor = run.makeCursor(keys: part.keys)
                while try cursor.nextPage(into: page) { body(page, part.list) }
            }
            if items.upperBound < .max { return }
            let unlisted = CounterKeys.firstAttributed + UInt32(list.count)
            var cursor = run.makeCursor(columns: [], keys: unlisted...UInt32.max)
            if try cursor.nextPage(into: page) {
                throw .corrupt(
                    path: run.path, offset: 0,
                    detail: "a row of an attribution that is not listed")
            }
        }
    }

    /// A table in memory.
    init(
        _ table: CounterTable, _ attributions: AttributionList, name: FileName,
        _ fingerprint: Fingerprint? = nil
    ) {
        self.init(table.index, name) { (items, page, body) throws(StorageError) in
            try StorageError.decoding(name.text) { () throws(FormatError) in
                for part in Self.parts(items, attributions) {
                    var cursor = table.makeCursor(keys: part.keys)
                    while try cursor.nextPage(into: page) { body(page, part.list) }
                }
            }
        }
        self.fingerprint = fingerprint
    }

    /// The rows of some items and those of their attributions, by the keys that they have in the table.
    private static func parts(
        _ items: ClosedRange<UInt32>, _ list: AttributionList
    ) -> [(keys: ClosedRange<UInt32>, list: AttributionList?)] {
        let attributed = CounterKeys.attributed(list.places(ofKeys: items))
        return [(items.clamped(to: CounterKeys.rewards), nil)]
            + (attributed.map { [($0, list)] } ?? [])
    }
}

extension CounterHash {
    /// The fingerprint of all rows.
    func fingerprint(
        of rows: RowSource, _ page: CounterPage
    ) throws(StorageError) -> Fingerprint {
        var prints = Fingerprints()
        try rows.read(CounterKeys.all, page) {
            add($0, of: $1, to: &prints, folds: false) { _ in 0 }
        }
        return prints.rows
    }
}

/// Counters of some rows, summed.
struct CounterSum: Equatable {
    private(set) var counters = CounterRow()
    /// A bit for each column whose sum did not fit, so that what stands there is not the sum.
    private(set) var overflows: UInt32 = 0

    mutating func add(_ other: CounterRow) {
        for column in 0..<CounterRow.columnCount where other.values[column] != 0 {
            let (sum, overflow) = counters.values[column].addingReportingOverflow(
                other.values[column])
            counters.values[column] = sum
            guard overflow else { continue }
            let high = CounterColumn(rawValue: column)?.high?.rawValue
            if let high, counters.values[high] < .max {
                counters.values[high] += 1
            } else {
                overflows |= 1 << UInt32(high ?? column)
            }
        }
    }

    func overflows(_ column: CounterColumn) -> Bool {
        overflows >> UInt32((column.high ?? column).rawValue) & 1 != 0
    }

    mutating func add(_ other: CounterSum) {
        add(other.counters)
        overflows |= other.overflows
    }

    /// Takes from others what this lacks of some sums, as far as they have it.
    mutating func take(upTo sums: CounterSum, from others: inout CounterSum) {
        for column in CounterColumn.allCases where !column.isHigh {
            let (own, wanted) = (counters.sum(column), sums.counters.sum(column))
            let left = others.counters.sum(column)
            let part = min(left, wanted > own ? wanted - own : 0)
            counters.set(own + part, column)
            others.counters.set(left - part, column)
        }
    }

    /// How many events are counted.
    var grossRowCount: UInt64 {
        CounterColumn.allCases.reduce(0) { $1.isOfGross ? $0.saturatingSum(counters[$1]) : $0 }
    }
}

extension CounterRow {
    fileprivate mutating func set(_ sum: UInt128, _ column: CounterColumn) {
        values[column.rawValue] = UInt64(truncatingIfNeeded: sum)
        if let high = column.high { values[high.rawValue] = UInt64(truncatingIfNeeded: sum >> 64) }
    }
}

extension CounterColumn {
    /// Whether every row is counted in exactly one such column.
    var isOfGross: Bool {
        switch self {
        case .viewableImpressions, .undeterminedImpressions, .uncheckedEvents, .revenueMicros,
            .spendMicros, .revenueMicrosHigh, .spendMicrosHigh:
            false
        default: true
        }
    }
}
