// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// A listing as a table with a line of totals. Columns that say nothing in any row are left out.
///
/// **Cost** Two passes over the rows, some microseconds a row each; constant memory.
struct TableListing {
    private let kind: ListingKind
    private var table: TableText
    private var rowCount = 0
    /// By counter: whether it is shown.
    private var isShown = Counters.columns.indices.map { $0 < Counters.mainColumnCount }
    /// `nil` where a sum does not fit 64 bits.
    private var totals: CounterRow? = CounterRow()

    init(_ kind: ListingKind) {
        self.kind = kind
        table = TableText(columns: kind.columns)
    }

    mutating func write(_ rows: RowFormatter.Rows, to output: OutputBuffer) throws {
        try rows { measure($0) }
        let footer = footer
        table.measureFooter(footer)
        let shown =
            Array(0..<ListingKind.identityColumnCount)
            + isShown.indices.filter { isShown[$0] }.map { $0 + ListingKind.identityColumnCount }
        table.appendHeader(shown, to: &output.bytes)
        try rows { row in
            table.append(cells(row), shown, to: &output.bytes)
            try output.drain()
        }
        table.appendFooter(footer, shown, to: &output.bytes)
    }

    private func cells(_ row: ListedRow) -> [Cell] {
        kind.identityCells(row) + Counters(row.counters).cells
    }

    private mutating func measure(_ row: ListedRow) {
        let cells = cells(row)
        let counters = Counters(row.counters)
        for column in isShown.indices where !isShown[column] {
            isShown[column] = !counters.isSilent(
                column: column, cell: cells[column + ListingKind.identityColumnCount])
        }
        table.measure(cells)
        rowCount += 1
        if var sum = totals { totals = sum.add(row.counters) ? sum : nil }
    }

    private var footer: [Cell] {
        let sums =
            totals.map { Counters($0).cells } ?? Counters.columns.map { _ in .text("overflow") }
        return [.text("total of \(rowCount)")]
            + Array(repeating: .text(""), count: ListingKind.identityColumnCount - 1) + sums
    }
}
