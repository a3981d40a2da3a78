import Foundation
import IngestFormat

/// One page of docs/format, for tests that hold its tables and its worked example against the code.
package struct FormatPage {
    private let lines: [Substring]

    /// - Parameter name: without folder and extension.
    package init(_ name: String) throws {
        let url = Repository.root.appending(path: "docs/format/\(name).md")
        lines = try String(contentsOf: url, encoding: .utf8)
            .split(separator: "\n", omittingEmptySubsequences: false)
    }

    /// The rows of a table under a heading, the first or a later one, each a cell by the name of its
    /// column, without the marks of code.
    package func table(under heading: String, number: Int = 0) -> [[String: String]] {
        var rest = section(heading).drop { !$0.hasPrefix("|") }
        for _ in 0..<number {
            rest = rest.drop { $0.hasPrefix("|") }.drop { !$0.hasPrefix("|") }
        }
        let rows = rest.prefix { $0.hasPrefix("|") }
        guard let head = rows.first else { return [] }
        let names = cells(head)
        return rows.dropFirst(2).map { row in
            Dictionary(zip(names, cells(row)), uniquingKeysWith: { first, _ in first })
        }
    }

    /// The first number with a unit behind it in each row of a table, without its commas, by the cell of
    /// the column `what`; rows without one are left out.
    package func numbers(under heading: String, column: String) -> [String: String] {
        var numbers: [String: String] = [:]
        for row in table(under: heading) {
            let cell = row[column] ?? ""
            guard let match = cell.firstMatch(of: #/([\d,.]*\d) (?:[a-z]+)/#) else { continue }
            numbers[row["what"] ?? ""] = String(match.1.filter { $0 != "," })
        }
        return numbers
    }

    /// The columns `field`, `offset` and `size` of the table under a heading.
    package func fields(under heading: String) -> [FormatField] {
        table(under: heading).compactMap { row in
            guard let name = row["field"], let offset = Int(row["offset"] ?? ""),
                let byteCount = Int(row["size"] ?? "")
            else { return nil }
            return FormatField(name, offset, byteCount)
        }
    }

    /// The bytes of the first block of hex under a heading.
    package func hex(under heading: String) -> [UInt8] {
        let body = section(heading).drop { $0 != "```hex" }.dropFirst().prefix { $0 != "```" }
        return body.flatMap { $0.split(separator: " ") }.compactMap { UInt8($0, radix: 16) }
    }

    private func section(_ heading: String) -> ArraySlice<Substring> {
        guard let start = lines.firstIndex(where: { isHeading($0, heading) }) else { return [] }
        return lines[(start + 1)...].prefix { !$0.hasPrefix("#") }
    }

    private func isHeading(_ line: Substring, _ heading: String) -> Bool {
        line.hasPrefix("#") && line.drop { $0 == "#" }.dropFirst() == heading
    }

    private func cells(_ row: Substring) -> [String] {
        row.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false)
            .map { $0.trimmingCharacters(in: .whitespaces).replacing("`", with: "") }
    }
}
