// packet → decode → ring → admit → [block] → [segment] → compaction → snapshot → [query]

/// Reads the parts of a section of varints one after the other, and says which of them is wrong.
struct SectionReader {
    var reader: ByteReader
    /// Begins each error.
    let section: String
    /// Where the reader's first byte lies, for errors.
    var start = 0

    func fault(_ part: String, got: UInt64, expected: UInt64 = 0) -> FormatError {
        .corrupt(
            "\(section): \(part)", at: start + reader.offset, got: got,
            expected: .exactly(expected))
    }

    mutating func u8(_ part: String) throws(FormatError) -> UInt8 {
        guard let value = reader.readU8() else { throw fault(part, got: 0, expected: 1) }
        return value
    }

    mutating func u64(_ part: String) throws(FormatError) -> UInt64 {
        guard let value = reader.readU64() else {
            throw fault(part, got: UInt64(reader.remainingByteCount), expected: 8)
        }
        return value
    }

    mutating func varint(_ part: String, max: UInt64 = .max) throws(FormatError) -> UInt64 {
        let offset = start + reader.offset
        guard let value = reader.readVarint() else {
            throw fault(part, got: UInt64(reader.remainingByteCount))
        }
        guard value <= max else {
            throw .corrupt("\(section): \(part)", at: offset, got: value, expected: .atMost(max))
        }
        return value
    }

    /// How many things follow that have at least so many bytes each: a false count takes no memory.
    mutating func count(
        _ part: String, max: Int, leastByteCount: Int
    ) throws(FormatError) -> Int {
        let value = try varint(part, max: UInt64(max))
        guard value <= UInt64(reader.remainingByteCount / leastByteCount) else {
            throw fault(part, got: value)
        }
        return Int(value)
    }
}
