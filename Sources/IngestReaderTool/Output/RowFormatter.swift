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

    /// Gives the cells of all rows; the same ones at each call.
    package typealias CellRows = (([Cell]) throws -> Void) throws -> Void

    /// A listing of any columns, written as its rows come; returns how many there were.
    ///
    /// **Cost** Constant memory, some microseconds a row. A table of more rows than `keptRowCountMax` goes through them twice,
    /// for its widths first.
    @discardableResult
    package func list(_ columns: [String], _ rows: CellRows) throws -> Int {
        var table = TableText(columns: columns)
        let shown = Array(columns.indices)
        var kept: [[Cell]]?
        if format == .table {
            kept = try measured(rows, for: &table)
            table.appendHeader(shown, to: &output.bytes)
        } else if format == .csv {
            CSVText.append(record: columns, to: &output.bytes)
        }
        var count = 0
        func write(_ cells: [Cell]) throws {
            switch format {
            case .json, .ndjson:
                let fields = zip(columns, cells).map { Field($0, $1) } + cutFields
                let separator = count == 0 ? "[" : ","
                if format == .json { output.bytes.append(contentsOf: separator.utf8) }
                JSONText.append(fields, to: &output.bytes)
                if format == .ndjson { output.bytes.append(0x0A) }
            case .csv: CSVText.append(record: cells.map(\.plainText), to: &output.bytes)
            case .table: table.append(cells, shown, to: &output.bytes)
            }
            count += 1
            try output.drain()
        }
        if let kept {
            for cells in kept { try write(cells) }
        } else {
            try rows { cells in try write(cells) }
        }
        if format == .json { output.bytes.append(contentsOf: (count == 0 ? "[]\n" : "]\n").utf8) }
        try output.drain()
        return count
    }

    /// Rows that a table keeps while it measures them: a search of the whole log gives few, and is not made twice for them.
    package static var keptRowCountMax: Int { 4_096 }

    /// Makes room for all rows.
    /// - Returns: the rows, or `nil` if there are too many to keep.
    private func measured(_ rows: CellRows, for table: inout TableText) throws -> [[Cell]]? {
        var kept: [[Cell]]? = []
        try rows { cells in
            table.measure(cells)
            if let count = kept?.count, count < Self.keptRowCountMax {
                kept?.append(cells)
            } else {
                kept = nil
            }
        }
        return kept
    }

    /// Gives all rows of a listing; the same ones at each call.
    package typealias Rows = ((ListedRow) throws -> Void) throws -> Void

    /// A listing, written as its rows come: a JSON array, a JSON object a line, CSV, or a table with a line of
    /// totals.
    ///
    /// **Cost** `RowTemplate` a row, in constant memory. A table goes through the rows twice, for its widths
    /// first, and takes some microseconds a row.
    package func list(_ kind: ListingKind, _ rows: Rows) throws {
        switch format {
        case .json, .ndjson: try writeJSON(kind, rows)
        case .csv: try writeCSV(kind, rows)
        case .table:
            var table = TableListing(kind)
            try table.write(rows, to: output)
        }
        try output.drain()
    }

    private func writeJSON(_ kind: ListingKind, _ rows: Rows) throws {
        var end: [UInt8] = []
        if let cut {
            end = Array(",\"cut\":".utf8)
            JSONText.append(cut.cell, to: &end)
        }
        guard format == .json else {
            let template = RowTemplate(kind, isJSON: true, end: end + Array("}\n".utf8))
            try write(rows, template)
            return
        }
        output.bytes.append(UInt8(ascii: "["))
        let template = RowTemplate(kind, isJSON: true, end: end + Array("}".utf8))
        let count = try write(rows, template, before: "\n", between: ",\n")
        output.bytes.append(contentsOf: (count == 0 ? "]\n" : "\n]\n").utf8)
    }

    private func writeCSV(_ kind: ListingKind, _ rows: Rows) throws {
        CSVText.append(record: kind.columns, to: &output.bytes)
        try write(rows, RowTemplate(kind, isJSON: false, end: [0x0D, 0x0A]))
    }

    /// Gives all events of a listing.
    package typealias Events = ((ListedEvent) throws -> Void) throws -> Void

    /// Events, written as they come: NDJSON or CSV.
    ///
    /// **Cost** `EventText` an event, in constant memory.
    package func listEvents(_ events: Events) throws {
        if format == .csv { CSVText.append(record: EventText.columns, to: &output.bytes) }
        try write(events, EventText(isJSON: format != .csv))
        try output.drain()
    }

    /// Writes rows as they come; returns how many.
    /// - Parameters: what stands before the first row, and before each that follows.
    @discardableResult
    private func write<Text: RowText>(
        _ rows: ((Text.Row) throws -> Void) throws -> Void, _ text: Text,
        before: String = "", between: String = ""
    ) throws -> Int {
        var text = text
        var separator = Array(before.utf8)
        let bytes = RowBytes()
        var count = 0
        try rows { row in
            bytes.removeAll()
            bytes.put(separator)
            text.put(row, to: bytes)
            bytes.append(to: output)
            if count == 0 { separator = Array(between.utf8) }
            count += 1
            try output.drain()
        }
        return count
    }

    private var cutFields: [Field] {
        guard let cut else { return [] }
        return [Field("cut", cut.cell)]
    }
}

extension Cut {
    package var cell: Cell {
        .fields([Field("segment", .count(UInt64(segment))), Field("block", .count(UInt64(block)))])
    }
}
