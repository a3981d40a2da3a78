// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

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
