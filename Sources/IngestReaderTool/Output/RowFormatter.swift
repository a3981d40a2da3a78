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
    private let csv: ValueText

    /// - Parameter isCSVSafe: whether CSV is for spreadsheets.
    package init(
        format: OutputFormat, cut: Cut?, output: OutputBuffer, isCSVSafe: Bool = false
    ) {
        self.format = format
        self.cut = cut
        self.output = output
        csv = isCSVSafe ? .safeCSV : .csv
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
            csv.put(fields, to: output)
            output.put("\r\n")
        case .table: TableText.put(vertical: fields, to: output)
        }
        try output.drain()
    }

    /// A listing, written as its rows come: a JSON array, a JSON object a line, CSV, or a table, with a line of totals
    /// where its rows have counters.
    ///
    /// **Cost** `RowWriter` a row, on all cores, in constant memory. A table takes some microseconds a row, and goes through
    /// more than `TableListing.keptRowCountMax` of them twice.
    /// - Parameter tableColumns: what a table shows, in this order; `nil` is all that says anything.
    /// - Returns: how many rows there were.
    @discardableResult
    package func list<Batch: RowBatch>(
        _ rows: Rows<Batch>, tableColumns: [String]? = nil
    ) throws -> Int {
        let count: Int
        let columns = Batch.Row.columns
        switch format {
        case .table:
            var table = TableListing<Batch>(tableColumns)
            count = try table.write(rows, to: output)
        case .csv:
            ValueText.putRecord(columns.map(\.name), to: output)
            count = try write(rows, RowTemplate(columns, csv, end: "\r\n"))
        case .ndjson: count = try write(rows, RowTemplate(columns, .json, end: "\(cutText)}\n"))
        case .json:
            output.put("[")
            count = try write(
                rows, RowTemplate(columns, .json, between: ",\n", end: "\(cutText)}"), before: "\n")
            output.put(count == 0 ? "]\n" : "\n]\n")
        }
        try output.drain()
        return count
    }

    private var cutText: String {
        cut.map { #","cut":{"segment":\#($0.segment),"block":\#($0.block)}"# } ?? ""
    }

    /// Rows that are formatted at a time, by one core.
    private static var partRowCount: Int { 1 << 8 }

    /// Writes rows as they come; returns how many.
    /// - Parameter before: what stands before the first row.
    private func write<Batch: RowBatch>(
        _ rows: Rows<Batch>, _ template: RowTemplate, before: String = ""
    ) throws -> Int {
        var count = 0
        try rows { batch in
            if batch.rowCount == 0 { return }
            let isFirst = count == 0
            if isFirst { output.put(before) }
            count += batch.rowCount
            if batch.rowCount <= Self.partRowCount {
                Self.put(batch, 0..<batch.rowCount, template, isFirst: isFirst, to: output)
                return try output.drain()
            }
            let partCount = (batch.rowCount - 1) / Self.partRowCount + 1
            let texts = try inParallel(partCount) { part in
                let start = part * Self.partRowCount
                let rows = start..<min(start + Self.partRowCount, batch.rowCount)
                return OutputBuffer.bytes(capacity: rows.count * template.rowByteCount) {
                    Self.put(batch, rows, template, isFirst: isFirst && part == 0, to: $0)
                }
            }
            for text in texts { try output.write(piece: text) }
        }
        return count
    }

    private static func put<Batch: RowBatch>(
        _ batch: Batch, _ rows: Range<Int>, _ template: RowTemplate, isFirst: Bool,
        to output: OutputBuffer
    ) {
        var writer = RowWriter(template, to: output)
        var isFirst = isFirst
        batch.forEachRow(in: rows) { row in
            writer.write(row, isFirst: isFirst)
            isFirst = false
        }
    }
}
