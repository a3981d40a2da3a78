// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

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

    /// Makes room for a row that is to be appended later: all are measured before the first is written.
    package mutating func measure(_ cells: [Cell]) {
        for (index, cell) in cells.enumerated() where cell.isNumeric { isRight[index] = true }
        measureFooter(cells)
    }

    /// Makes room for the footer, which does not say how a column is aligned.
    package mutating func measureFooter(_ cells: [Cell]) {
        for (index, cell) in cells.enumerated() {
            widths[index] = max(widths[index], TerminalText.width(cell.tableText))
        }
    }

    /// - Parameter shown: the columns to write; of the others nothing is.
    package func appendHeader(_ shown: [Int], to bytes: inout [UInt8]) {
        append(line: header, shown, to: &bytes)
    }

    package func append(_ cells: [Cell], _ shown: [Int], to bytes: inout [UInt8]) {
        append(line: cells.map(\.tableText), shown, to: &bytes)
    }

    /// A rule, and the last line below it.
    package func appendFooter(_ cells: [Cell], _ shown: [Int], to bytes: inout [UInt8]) {
        let ruleWidth = shown.reduce(0) { $0 + widths[$1] } + 2 * max(0, shown.count - 1)
        bytes.append(contentsOf: repeatElement(UInt8(ascii: "-"), count: ruleWidth))
        bytes.append(0x0A)
        append(cells, shown, to: &bytes)
    }

    /// A line for each value: its name, then the value.
    package static func append(vertical fields: [Field], to bytes: inout [UInt8]) {
        let width = fields.map { TerminalText.width($0.name) }.max() ?? 0
        for field in fields {
            let gap = String(repeating: " ", count: width + 2 - TerminalText.width(field.name))
            bytes.append(contentsOf: "\(field.name)\(gap)\(field.cell.tableText)\n".utf8)
        }
    }

    private func append(line: [String], _ shown: [Int], to bytes: inout [UInt8]) {
        for index in shown {
            let text = line[index]
            if index != shown.first { bytes.append(contentsOf: "  ".utf8) }
            let gap = repeatElement(
                UInt8(ascii: " "), count: widths[index] - TerminalText.width(text))
            if isRight[index] { bytes.append(contentsOf: gap) }
            bytes.append(contentsOf: text.utf8)
            // Nothing follows the last column, so that lines do not end in spaces.
            if !isRight[index] && index != shown.last { bytes.append(contentsOf: gap) }
        }
        bytes.append(0x0A)
    }
}
