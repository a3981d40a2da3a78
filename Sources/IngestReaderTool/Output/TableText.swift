// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// Cells → an aligned table for a person: texts to the left, numbers to the right.
package struct TableText {
    private let header: [String]
    private var rows: [[String]] = []
    private var isRight: [Bool]
    private var widths: [Int]
    private var footer: [String]?

    package init(columns: [String]) {
        header = columns
        isRight = Array(repeating: false, count: columns.count)
        widths = columns.map(TerminalText.width)
    }

    package mutating func append(_ cells: [Cell]) {
        for (index, cell) in cells.enumerated() where cell.isNumeric { isRight[index] = true }
        rows.append(widened(cells))
    }

    /// The last line, below a rule.
    package mutating func setFooter(_ cells: [Cell]) { footer = widened(cells) }

    private mutating func widened(_ cells: [Cell]) -> [String] {
        let texts = cells.map(\.tableText)
        for (index, text) in texts.enumerated() {
            widths[index] = max(widths[index], TerminalText.width(text))
        }
        return texts
    }

    package func append(to bytes: inout [UInt8]) {
        append(line: header, to: &bytes)
        for row in rows { append(line: row, to: &bytes) }
        guard let footer else { return }
        let ruleWidth = widths.reduce(0, +) + 2 * max(0, widths.count - 1)
        bytes.append(contentsOf: repeatElement(UInt8(ascii: "-"), count: ruleWidth))
        bytes.append(0x0A)
        append(line: footer, to: &bytes)
    }

    /// A line for each value: its name, then the value.
    package static func append(vertical fields: [Field], to bytes: inout [UInt8]) {
        let width = fields.map { TerminalText.width($0.name) }.max() ?? 0
        for field in fields {
            let gap = String(repeating: " ", count: width + 2 - TerminalText.width(field.name))
            bytes.append(contentsOf: "\(field.name)\(gap)\(field.cell.tableText)\n".utf8)
        }
    }

    private func append(line: [String], to bytes: inout [UInt8]) {
        for (index, text) in line.enumerated() {
            if index > 0 { bytes.append(contentsOf: "  ".utf8) }
            let gap = repeatElement(
                UInt8(ascii: " "), count: widths[index] - TerminalText.width(text))
            if isRight[index] { bytes.append(contentsOf: gap) }
            bytes.append(contentsOf: text.utf8)
            // Nothing follows the last column, so that lines do not end in spaces.
            if !isRight[index] && index + 1 < line.count { bytes.append(contentsOf: gap) }
        }
        bytes.append(0x0A)
    }
}
