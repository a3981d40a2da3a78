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

    private static func append(field text: String, to bytes: inout [UInt8]) {
        let needsQuotes = text.utf8.contains { byte in
            byte == UInt8(ascii: ",") || byte == UInt8(ascii: "\"") || byte == 0x0D || byte == 0x0A
        }
        guard needsQuotes else {
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
