// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters.
import IngestFormat
import IngestStorage

/// Rows of counters by (item, day), wherever they are: in the footer of a segment, in a run, or
/// recounted in memory.
struct RowSource: Sendable {
    /// The file.
    let name: FileName
    /// Where its pages begin, and how many rows each has: what windows are planned by.
    let pages: [(item: UInt32, rowCount: Int)]
    /// Of all rows, where it is known.
    var fingerprint: Fingerprint?
    /// Gives the rows of some items in order, page by page.
    let read:
        @Sendable (ClosedRange<UInt32>, CounterPage, (CounterPage) -> Void) throws(StorageError)
            -> Void
}

extension RowSource {
    /// A run, or the table of a segment's footer.
    init<Files>(_ run: RunReader<Files>, name: FileName) {
        let pages = run.index.entries.map { (item: $0.firstKey, rowCount: $0.rowCount) }
        self.init(name: name, pages: pages) { (items, page, body) throws(StorageError) in
            var cursor = run.makeCursor(keys: items)
            while try cursor.nextPage(into: page) { body(page) }
        }
    }

    /// Rows that were counted again, all of them.
    init(_ rows: CountedRows, name: FileName) {
        self.init(name: name, pages: rows.pages) { (items, page, body) throws(StorageError) in
            rows.read(items, page, body)
        }
    }
}

/// Counters of some rows, summed.
struct CounterSum: Equatable {
    private(set) var counters = CounterRow()
    /// A bit for each column whose sum passed 64 bits, so that what stands there is not the sum.
    private(set) var overflows: UInt32 = 0

    mutating func add(_ other: CounterRow) {
        for column in 0..<CounterRow.columnCount where other.values[column] != 0 {
            let (sum, overflow) = counters.values[column].addingReportingOverflow(
                other.values[column])
            counters.values[column] = sum
            if overflow { overflows |= 1 << UInt32(column) }
        }
    }

    mutating func add(_ other: CounterSum) {
        add(other.counters)
        overflows |= other.overflows
    }

    /// How many events are counted.
    var grossRowCount: UInt64 {
        CounterColumn.allCases.reduce(0) { $1.isOfGross ? $0.saturatingSum(counters[$1]) : $0 }
    }
}

extension CounterColumn {
    /// Whether every row is counted in exactly one such column.
    var isOfGross: Bool {
        switch self {
        case .viewableImpressions, .undeterminedImpressions, .uncheckedEvents, .revenueMicros,
            .spendMicros:
            false
        default: true
        }
    }
}
