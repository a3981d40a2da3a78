// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// How answers are written.
package enum OutputFormat: String, Sendable, CaseIterable { case table, json, ndjson, csv }

/// Rows → bytes in one of the formats.
package struct RowFormatter {
    package let format: OutputFormat
    /// Where it is given, a field of every JSON row; tables and CSV have no place for it.
    package let cut: Cut?
    package let output: OutputBuffer

    package init(format: OutputFormat, cut: Cut?, output: OutputBuffer) {
        self.format = format
        self.cut = cut
        self.output = output
    }

    /// One answer: a JSON object, a CSV record, or in a table a line for each value.
    package func one<Row: OutputRow>(_ row: Row) throws {
        try one(zip(Row.columns, row.cells).map { Field($0, $1) })
    }

    package func one(_ fields: [Field]) throws {
        switch format {
        case .json, .ndjson:
            JSONText.append(fields + cutFields, to: &output.bytes)
            output.bytes.append(0x0A)
        case .csv:
            CSVText.append(record: fields.map(\.name), to: &output.bytes)
            CSVText.append(record: fields.map(\.cell.plainText), to: &output.bytes)
        case .table:
            TableText.append(vertical: fields, to: &output.bytes)
        }
        try output.drain()
    }

    /// A listing: a JSON array, a JSON object a line, CSV, or a table with a line of totals.
    package func list<Row: OutputRow>(_ rows: [Row]) throws {
        switch format {
        case .json:
            output.bytes.append(contentsOf: "[".utf8)
            try jsonRows(rows, before: "\n", between: ",\n", after: rows.isEmpty ? "" : "\n")
            output.bytes.append(contentsOf: "]\n".utf8)
        case .ndjson: try jsonRows(rows, before: "", between: "\n", after: rows.isEmpty ? "" : "\n")
        case .csv: try csvRows(rows)
        case .table: try table(rows)
        }
        try output.drain()
    }

    private func jsonRows<Row: OutputRow>(
        _ rows: [Row], before: String, between: String, after: String
    ) throws {
        let keys = JSONText.keys(Row.columns)
        var end: [UInt8] = []
        if let cut {
            end = Array(",\"cut\":".utf8)
            JSONText.append(cut.cell, to: &end)
        }
        end.append(UInt8(ascii: "}"))
        for (index, row) in rows.enumerated() {
            output.bytes.append(contentsOf: (index == 0 ? before : between).utf8)
            for (key, cell) in zip(keys, row.cells) {
                output.bytes.append(contentsOf: key)
                JSONText.append(cell, to: &output.bytes)
            }
            output.bytes.append(contentsOf: end)
            try output.drain()
        }
        output.bytes.append(contentsOf: after.utf8)
    }

    private func csvRows<Row: OutputRow>(_ rows: [Row]) throws {
        CSVText.append(record: Row.columns, to: &output.bytes)
        for row in rows {
            CSVText.append(record: row.cells.map(\.plainText), to: &output.bytes)
            try output.drain()
        }
    }

    private var cutFields: [Field] {
        guard let cut else { return [] }
        return [Field("cut", cut.cell)]
    }

    /// Columns that say nothing in any row are left out.
    private func table<Row: OutputRow>(_ rows: [Row]) throws {
        let cells = rows.map(\.counters.cells)
        var isShown = Counters.columns.indices.map { $0 < Counters.mainColumnCount }
        for (row, cells) in zip(rows, cells) {
            for (column, cell) in cells.enumerated() where !isShown[column] {
                isShown[column] = !row.counters.isSilent(column: column, cell: cell)
            }
        }
        let shown = isShown.indices.filter { isShown[$0] }
        var table = TableText(
            columns: Row.columns.prefix(Row.identityColumnCount)
                + shown.map { Counters.columns[$0] })
        for (row, cells) in zip(rows, cells) {
            table.append(row.identityCells + shown.map { cells[$0] })
        }
        let totals = Self.totals(rows)
        table.setFooter(
            [.text("total of \(rows.count)")]
                + Array(repeating: .text(""), count: Row.identityColumnCount - 1)
                + shown.map { totals?[$0] ?? .text("overflow") })
        table.append(to: &output.bytes)
    }

    /// `nil` where a sum does not fit 64 bits.
    private static func totals(_ rows: [some OutputRow]) -> [Cell]? {
        var total = CounterRow()
        for row in rows where !total.add(row.counters.row) { return nil }
        return Counters(total).cells
    }
}

extension Cut {
    package var cell: Cell {
        .fields([Field("segment", .count(UInt64(segment))), Field("block", .count(UInt64(block)))])
    }
}
