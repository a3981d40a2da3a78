// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// How values are written as bytes: JSON by RFC 8259, CSV by RFC 4180.
package enum ValueText: Sendable {
    case json, csv
    /// CSV for spreadsheets: an apostrophe stands before a text that one would run as a formula (`=`, `+`, `-`, `@`, tab or
    /// carriage return in front). Source: OWASP, *CSV Injection*.
    case safeCSV

    /// A value that is not there.
    var absent: String { self == .json ? "null" : "" }

    /// What stands between a row's values: `{"id":` or nothing, then `,"businessId":` or a comma.
    func separator(before name: String, isFirst: Bool, to output: OutputBuffer) {
        guard self == .json else {
            if !isFirst { output.put(UInt8(ascii: ",")) }
            return
        }
        output.put(UInt8(ascii: isFirst ? "{" : ","))
        put(Array(name.utf8), to: output)
        output.put(UInt8(ascii: ":"))
    }

    /// Puts a text: in JSON a string with only those escapes that it asks for (`"`, `\` and U+0000 … U+001F), in CSV a
    /// field that has quotes only where it needs them.
    package func put(_ text: [UInt8], to output: OutputBuffer) {
        switch self {
        case .json:
            output.put(UInt8(ascii: "\""))
            if Self.needsEscapes(text) { Self.putEscaped(text, output) } else { output.put(text) }
            output.put(UInt8(ascii: "\""))
        case .csv, .safeCSV:
            let mark = self == .safeCSV && Self.isFormula(text) ? "'" : ""
            guard Self.needsQuotes(text) else {
                output.put(mark)
                return output.put(text)
            }
            output.put("\"" + mark)
            for byte in text {
                if byte == UInt8(ascii: "\"") { output.put(byte) }
                output.put(byte)
            }
            output.put(UInt8(ascii: "\""))
        }
    }

    package func put(_ cell: Cell, to output: OutputBuffer) {
        guard self == .json else {
            let style = if case .text = cell { self } else { ValueText.csv }
            return style.put(Array(cell.plainText.utf8), to: output)
        }
        switch cell {
        case .text(let text), .decimal(let text): put(Array(text.utf8), to: output)
        case .count(let count): output.put(count)
        case .number(let text): output.put(text)
        case .flag(let isSet): output.put(isSet ? "true" : "false")
        case .none: output.put("null")
        case .fields(let fields): put(fields, to: output)
        case .list(let cells):
            output.put(UInt8(ascii: "["))
            for (index, cell) in cells.enumerated() {
                if index > 0 { output.put(UInt8(ascii: ",")) }
                put(cell, to: output)
            }
            output.put(UInt8(ascii: "]"))
        }
    }

    /// `{"name":value,…}`, or a record without its end.
    package func put(_ fields: [Field], to output: OutputBuffer) {
        for (index, field) in fields.enumerated() {
            separator(before: field.name, isFirst: index == 0, to: output)
            put(field.cell, to: output)
        }
        if self == .json { output.put(fields.isEmpty ? "{}" : "}") }
    }

    /// The first line of CSV, or another of texts alone.
    package static func putRecord(_ texts: [String], to output: OutputBuffer) {
        ValueText.csv.put(texts.map { Field("", .text($0)) }, to: output)
        output.put("\r\n")
    }

    // All bytes are looked at, and not those up to the first that counts: so several are in one step.

    private static func needsEscapes(_ text: [UInt8]) -> Bool {
        var found: UInt8 = 0
        for byte in text {
            found |= byte < 0x20 ? 1 : 0
            found |= byte == UInt8(ascii: "\"") ? 1 : 0
            found |= byte == UInt8(ascii: "\\") ? 1 : 0
        }
        return found != 0
    }

    private static func isFormula(_ text: [UInt8]) -> Bool {
        text.first.map("=+-@\t\r".utf8.contains) ?? false
    }

    private static func needsQuotes(_ text: [UInt8]) -> Bool {
        var found: UInt8 = 0
        for byte in text {
            found |= byte == UInt8(ascii: ",") ? 1 : 0
            found |= byte == UInt8(ascii: "\"") ? 1 : 0
            found |= byte == 0x0D || byte == 0x0A ? 1 : 0
        }
        return found != 0
    }

    private static func putEscaped(_ text: [UInt8], _ output: OutputBuffer) {
        for byte in text {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                output.put(UInt8(ascii: "\\"))
                output.put(byte)
            case 0x08: output.put("\\b")
            case 0x09: output.put("\\t")
            case 0x0A: output.put("\\n")
            case 0x0C: output.put("\\f")
            case 0x0D: output.put("\\r")
            case 0..<0x20: output.put((byte < 0x10 ? "\\u000" : "\\u00") + String(byte, radix: 16))
            default: output.put(byte)
            }
        }
    }
}

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
