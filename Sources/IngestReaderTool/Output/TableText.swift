// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat

/// Cells → an aligned table for a person: texts to the left, numbers to the right.
package struct TableText {
    private let header: [String]
    private var isRight: [Bool]
    private var widths: [Int]

    package init(columns: [String]) {
        header = columns
        isRight = Array(repeating: false, count: columns.count)
        widths = columns.map(TerminalText.width)
    }

    /// Makes room for a row that is to be put later: all are measured before the first is written.
    /// - Parameter isFooter: one that does not say how a column is aligned.
    package mutating func measure(_ cells: [Cell], isFooter: Bool = false) {
        for (index, cell) in cells.enumerated() {
            if !isFooter && cell.isNumeric { isRight[index] = true }
            widths[index] = max(widths[index], TerminalText.width(cell.tableText))
        }
    }

    /// - Parameter shown: the columns to write; of the others nothing is.
    package func putHeader(_ shown: [Int], to output: OutputBuffer) {
        put(line: header, shown, to: output)
    }

    package func put(_ cells: [Cell], _ shown: [Int], to output: OutputBuffer) {
        put(line: cells.map(\.tableText), shown, to: output)
    }

    /// A rule, and the last line below it.
    package func putFooter(_ cells: [Cell], _ shown: [Int], to output: OutputBuffer) {
        let ruleWidth = shown.reduce(0) { $0 + widths[$1] } + 2 * max(0, shown.count - 1)
        output.put(String(repeating: "-", count: ruleWidth) + "\n")
        put(cells, shown, to: output)
    }

    /// A line for each value: its name, then the value.
    package static func put(vertical fields: [Field], to output: OutputBuffer) {
        let width = fields.map { TerminalText.width($0.name) }.max() ?? 0
        for field in fields {
            let gap = String(repeating: " ", count: width + 2 - TerminalText.width(field.name))
            output.put("\(field.name)\(gap)\(field.cell.tableText)\n")
        }
    }

    private func put(line: [String], _ shown: [Int], to output: OutputBuffer) {
        for index in shown {
            let text = line[index]
            if index != shown.first { output.put("  ") }
            let gap = String(repeating: " ", count: widths[index] - TerminalText.width(text))
            if isRight[index] { output.put(gap) }
            output.put(text)
            // Nothing follows the last column, so that lines do not end in spaces.
            if !isRight[index] && index != shown.last { output.put(gap) }
        }
        output.put("\n")
    }
}

/// A listing as a table, with a line of totals where its rows have counters. Columns that say nothing in any row are
/// left out.
///
/// **Cost** Some microseconds a row; the memory of the rows that are kept.
struct TableListing<Batch: RowBatch> {
    private typealias Row = Batch.Row

    /// Rows that are kept while they are measured: a search of the whole log gives few, and is not made twice for them.
    static var keptRowCountMax: Int { 4_096 }

    private let columns = Row.columns
    /// In their order; `nil` is all that say anything.
    private let wanted: [Int]?
    private var table: TableText
    private var isTelling: [Bool]
    private var kept: [[Cell]] = []
    private var rowCount = 0
    /// `nil` where a sum does not fit.
    private var totals: CounterRow? = CounterRow()

    init(_ tableColumns: [String]?) {
        let names = columns.map(\.name)
        wanted = tableColumns.map { $0.compactMap { names.firstIndex(of: $0) } }
        table = TableText(columns: names)
        isTelling = columns.map { !$0.isDetail }
    }

    /// - Returns: how many rows there were.
    mutating func write(_ rows: Rows<Batch>, to output: OutputBuffer) throws -> Int {
        try rows { batch in batch.forEachRow { measure($0) } }
        let footer = footer
        table.measure(footer, isFooter: true)
        let shown = wanted ?? isTelling.indices.filter { isTelling[$0] }
        table.putHeader(shown, to: output)
        if rowCount <= Self.keptRowCountMax {
            for cells in kept { table.put(cells, shown, to: output) }
        } else {
            try rows { batch in
                try batch.forEachRow { row in
                    table.put(row.cells, shown, to: output)
                    try output.drain()
                }
            }
        }
        if !footer.isEmpty { table.putFooter(footer, shown, to: output) }
        return rowCount
    }

    private mutating func measure(_ row: Row) {
        var sink = CellSink()
        row.give(to: &sink)
        table.measure(sink.cells)
        for column in sink.tellingColumns { isTelling[column] = true }
        rowCount += 1
        if rowCount <= Self.keptRowCountMax { kept.append(sink.cells) }
        guard let counters = row.summed, var sum = totals else { return }
        totals = sum.add(counters) ? sum : nil
    }

    /// Empty where there is nothing to sum.
    private var footer: [Cell] {
        guard let zero = Row.empty.summed else { return [] }
        var sink = CellSink()
        (totals ?? zero).give(to: &sink)
        let sums = totals == nil ? sink.cells.map { _ in .text("overflow") } : sink.cells
        let gap = Array(repeating: Cell.text(""), count: columns.count - sums.count - 1)
        return [.text("total of \(rowCount)")] + gap + sums
    }
}

/// Text from outside, made fit for a terminal. Ids come from whoever sends events: one may hold escape
/// sequences that move the cursor, or marks that turn the direction of what follows.
package enum TerminalText {
    /// `text` with everything that a terminal would act on escaped as `\n`, `\t` or `\u{1b}`.
    package static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isActedOn) else { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": escaped += "\\n"
            case "\r": escaped += "\\r"
            case "\t": escaped += "\\t"
            case _ where isActedOn(scalar):
                escaped += "\\u{\(String(scalar.value, radix: 16))}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// Lines of CSV or JSON with the same escaped in their values, as `\u{9b}` or, so that JSON is what it was, `\u009b`.
    package static func escaped(_ lines: [UInt8], _ format: OutputFormat) -> [UInt8] {
        var escaped = ""
        for scalar in String(decoding: lines, as: UTF8.self).unicodeScalars {
            if scalar == "\n" || scalar == "\r" || !isActedOn(scalar) {
                escaped.unicodeScalars.append(scalar)
            } else if format == .csv {
                escaped += Self.escaped(String(scalar))
            } else {
                for unit in UTF16.encode(scalar)! {
                    escaped += "\\u" + String(UInt32(unit) + 0x1_0000, radix: 16).dropFirst()
                }
            }
        }
        return Array(escaped.utf8)
    }

    private static func isActedOn(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.value >= 0x20 && scalar.value < 0x7F { return false }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: return true
        default: return false
        }
    }

    /// How many columns of a terminal the text takes.
    package static func width(_ text: String) -> Int {
        text.unicodeScalars.reduce(0) { $0 + width($1) }
    }

    /// As much of the beginning as fits into so many columns.
    package static func prefix(_ text: String, width limit: Int) -> String {
        if text.utf8.count <= limit { return text }
        var kept = String.UnicodeScalarView()
        var taken = 0
        for scalar in text.unicodeScalars {
            taken += width(scalar)
            if taken > limit { break }
            kept.append(scalar)
        }
        return String(kept)
    }

    private static func width(_ scalar: Unicode.Scalar) -> Int {
        if scalar.value < 0x300 { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }
}
