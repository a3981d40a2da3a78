// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// How answers are written.
package enum OutputFormat: String, Sendable, CaseIterable { case table, json, ndjson, csv }

/// Gives all rows of a listing; the same ones at each call.
package typealias Rows<Row> = ((Row) throws -> Void) throws -> Void

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
        try one(zip(Row.columns, row.cells).map { Field($0.name, $1) })
    }

    package func one(_ fields: [Field]) throws {
        switch format {
        case .json, .ndjson:
            let cutFields = cut.map { [Field("cut", $0.cell)] } ?? []
            ValueText.json.put(fields + cutFields, to: output)
            output.put(UInt8(ascii: "\n"))
        case .csv:
            ValueText.putRecord(fields.map(\.name), to: output)
            ValueText.csv.put(fields, to: output)
            output.put("\r\n")
        case .table: TableText.put(vertical: fields, to: output)
        }
        try output.drain()
    }

    /// A listing, written as its rows come: a JSON array, a JSON object a line, CSV, or a table, with a line of totals
    /// where its rows have counters.
    ///
    /// **Cost** `RowWriter` a row, in constant memory. A table takes some microseconds a row, and goes through more than
    /// `TableListing.keptRowCountMax` of them twice.
    /// - Parameter tableColumns: what a table shows, in this order; `nil` is all that says anything.
    /// - Returns: how many rows there were.
    @discardableResult
    package func list<Row: OutputRow>(
        _ type: Row.Type, tableColumns: [String]? = nil, _ rows: Rows<Row>
    ) throws -> Int {
        let count: Int
        switch format {
        case .table:
            var table = TableListing<Row>(tableColumns)
            count = try table.write(rows, to: output)
        case .csv:
            ValueText.putRecord(Row.columns.map(\.name), to: output)
            count = try write(rows, RowWriter(Row.columns, .csv, end: [0x0D, 0x0A], to: output))
        case .ndjson: count = try write(rows, jsonWriter(Row.columns, end: "}\n"))
        case .json:
            output.put("[")
            count = try write(
                rows, jsonWriter(Row.columns, end: "}"), before: "\n", between: ",\n")
            output.put(count == 0 ? "]\n" : "\n]\n")
        }
        try output.drain()
        return count
    }

    private func jsonWriter(_ columns: [OutputColumn], end: String) -> RowWriter {
        let cutText = cut.map { cut in
            OutputBuffer.bytes {
                $0.put(",\"cut\":")
                ValueText.json.put(cut.cell, to: $0)
            }
        }
        return RowWriter(columns, .json, end: (cutText ?? []) + Array(end.utf8), to: output)
    }

    /// Writes rows as they come; returns how many.
    /// - Parameters: what stands before the first row, and before each that follows.
    private func write<Row: OutputRow>(
        _ rows: Rows<Row>, _ writer: RowWriter, before: String = "", between: String = ""
    ) throws -> Int {
        var writer = writer
        var separator = before
        var count = 0
        try rows { row in
            output.put(separator)
            writer.write(row)
            if count == 0 { separator = between }
            count += 1
            try output.drain()
        }
        return count
    }
}
