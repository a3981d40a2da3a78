// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// Cells → JSON (RFC 8259), bytes straight into a buffer.
package enum JSONText {
    /// `{"name":value,…}`.
    package static func append(_ fields: [Field], to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "{"))
        for (index, field) in fields.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            append(string: field.name, to: &bytes)
            bytes.append(UInt8(ascii: ":"))
            append(field.cell, to: &bytes)
        }
        bytes.append(UInt8(ascii: "}"))
    }

    /// What stands before each value of a row: `{"id":`, `,"businessId":`, …
    package static func keys(_ names: [String]) -> [[UInt8]] {
        names.enumerated().map { index, name in
            var bytes = [UInt8(ascii: index == 0 ? "{" : ",")]
            append(string: name, to: &bytes)
            bytes.append(UInt8(ascii: ":"))
            return bytes
        }
    }

    package static func append(_ cell: Cell, to bytes: inout [UInt8]) {
        switch cell {
        case .text(let text), .decimal(let text): append(string: text, to: &bytes)
        case .count(let count): append(integer: count, to: &bytes)
        case .number(let text): bytes.append(contentsOf: text.utf8)
        case .flag(let isSet): bytes.append(contentsOf: (isSet ? "true" : "false").utf8)
        case .none: bytes.append(contentsOf: "null".utf8)
        case .fields(let fields): append(fields, to: &bytes)
        case .list(let cells):
            bytes.append(UInt8(ascii: "["))
            for (index, cell) in cells.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                append(cell, to: &bytes)
            }
            bytes.append(UInt8(ascii: "]"))
        }
    }

    /// A string with only those escapes that JSON asks for: `"`, `\` and U+0000 … U+001F.
    package static func append(string: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        append(content: string.utf8, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Puts a string as `append(string:)` does.
    package static func put(_ text: [UInt8], to bytes: RowBytes) {
        bytes.put(UInt8(ascii: "\""))
        if needsEscapes(text) {
            var escaped: [UInt8] = []
            append(content: text, to: &escaped)
            bytes.put(escaped)
        } else {
            bytes.put(text)
        }
        bytes.put(UInt8(ascii: "\""))
    }

    /// Looks at all bytes and not for the first: so several are looked at in one step.
    private static func needsEscapes(_ text: [UInt8]) -> Bool {
        var found: UInt8 = 0
        for byte in text {
            found |= byte < 0x20 ? 1 : 0
            found |= byte == UInt8(ascii: "\"") ? 1 : 0
            found |= byte == UInt8(ascii: "\\") ? 1 : 0
        }
        return found != 0
    }

    private static func isEscaped(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    private static func append(content: some Sequence<UInt8>, to bytes: inout [UInt8]) {
        for byte in content {
            if byte < 0x20 {
                append(control: byte, to: &bytes)
            } else {
                if isEscaped(byte) { bytes.append(UInt8(ascii: "\\")) }
                bytes.append(byte)
            }
        }
    }

    private static func append(control byte: UInt8, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case 0x08: bytes.append(UInt8(ascii: "b"))
        case 0x09: bytes.append(UInt8(ascii: "t"))
        case 0x0A: bytes.append(UInt8(ascii: "n"))
        case 0x0C: bytes.append(UInt8(ascii: "f"))
        case 0x0D: bytes.append(UInt8(ascii: "r"))
        default:
            bytes.append(contentsOf: byte < 0x10 ? "u000".utf8 : "u00".utf8)
            bytes.append(contentsOf: String(byte, radix: 16).utf8)
        }
    }

    private static func append(integer: UInt64, to bytes: inout [UInt8]) {
        if integer >= 10 { append(integer: integer / 10, to: &bytes) }
        bytes.append(UInt8(ascii: "0") + UInt8(integer % 10))
    }
}
