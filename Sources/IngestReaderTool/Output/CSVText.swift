// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// Cells → CSV by RFC 4180: CRLF, quotes only where they are needed, a header line first.
package enum CSVText {
    package static func append(record: [String], to bytes: inout [UInt8]) {
        for (index, text) in record.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            append(field: text, to: &bytes)
        }
        bytes.append(0x0D)
        bytes.append(0x0A)
    }

    /// What stands before each field of a record.
    package static func separators(_ names: [String]) -> [[UInt8]] {
        names.indices.map { $0 == 0 ? [] : [UInt8(ascii: ",")] }
    }

    /// Puts one field, with quotes where it needs them.
    package static func put(_ text: [UInt8], to bytes: RowBytes) {
        // All bytes and not up to the first: so several are looked at in one step.
        var found: UInt8 = 0
        for byte in text { found |= needsQuotes(byte) ? 1 : 0 }
        guard found != 0 else { return bytes.put(text) }
        bytes.put(UInt8(ascii: "\""))
        for byte in text {
            if byte == UInt8(ascii: "\"") { bytes.put(byte) }
            bytes.put(byte)
        }
        bytes.put(UInt8(ascii: "\""))
    }

    private static func needsQuotes(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: ",") || byte == UInt8(ascii: "\"") || byte == 0x0D || byte == 0x0A
    }

    private static func append(field text: String, to bytes: inout [UInt8]) {
        guard text.utf8.contains(where: needsQuotes) else {
            bytes.append(contentsOf: text.utf8)
            return
        }
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            if byte == UInt8(ascii: "\"") { bytes.append(byte) }
            bytes.append(byte)
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
