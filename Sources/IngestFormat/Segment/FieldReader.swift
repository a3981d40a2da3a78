// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// Reads the named fields of a checked image, and throws where a value cannot be: a checksum tells
/// chance from intent, not sense from nonsense.
///
/// **Errors** `torn` where the bytes end, `corrupt` where a value is out of its range, `notThisFile`
/// where an identity is another; each with the field's name and offset.
struct FieldReader {
    private var reader: ByteReader

    /// Reads `bytes`; the reader lives as long as the closure.
    static func reading<Result>(
        _ bytes: [UInt8], _ body: (inout FieldReader) throws(FormatError) -> Result
    ) throws(FormatError) -> Result {
        try ByteReader.reading(bytes) { (reader) throws(FormatError) in
            var fields = FieldReader(reader: reader)
            return try body(&fields)
        }
    }

    var offset: Int { reader.offset }
    var remainingByteCount: Int { reader.remainingByteCount }

    mutating func u8(_ field: String) throws(FormatError) -> UInt8 {
        try value(field, 1) { $0.readU8() }
    }
    mutating func u16(_ field: String) throws(FormatError) -> UInt16 {
        try value(field, 2) { $0.readU16() }
    }
    mutating func u32(_ field: String) throws(FormatError) -> UInt32 {
        try value(field, 4) { $0.readU32() }
    }
    mutating func u64(_ field: String) throws(FormatError) -> UInt64 {
        try value(field, 8) { $0.readU64() }
    }
    mutating func i64(_ field: String) throws(FormatError) -> Int64 {
        try value(field, 8) { $0.readI64() }
    }
    mutating func varint(_ field: String) throws(FormatError) -> UInt64 {
        try value(field, 1) { $0.readVarint() }
    }

    mutating func u32(
        _ field: String, in range: ClosedRange<UInt32>
    ) throws(FormatError) -> UInt32 {
        let at = offset
        let found = try u32(field)
        try Self.check(UInt64(found), UInt64(range.lowerBound)...UInt64(range.upperBound), field, at)
        return found
    }

    mutating func u64(
        _ field: String, in range: ClosedRange<UInt64>
    ) throws(FormatError) -> UInt64 {
        let at = offset
        let found = try u64(field)
        try Self.check(found, range, field, at)
        return found
    }

    /// A count that is 0 … `max`, as an `Int`; to be checked before memory is taken for it.
    mutating func count(_ field: String, max: Int) throws(FormatError) -> Int {
        Int(try u32(field, in: 0...UInt32(clamping: max)))
    }

    /// A varint that is 0 … `max`.
    mutating func varint(_ field: String, max: UInt64) throws(FormatError) -> UInt64 {
        let at = offset
        let found = try varint(field)
        try Self.check(found, 0...max, field, at)
        return found
    }

    mutating func segment(
        _ field: String, expected: SegmentNumber? = nil
    ) throws(FormatError) -> SegmentNumber {
        let at = offset
        let found = try u32(field, in: 1...UInt32.max)
        if let expected, expected.rawValue != found {
            throw .notThisFile(field, at: at, got: found, expected: .exactly(expected.rawValue))
        }
        return SegmentNumber(rawValue: found)
    }

    mutating func directory(
        _ field: String, expected: DirectoryID? = nil
    ) throws(FormatError) -> DirectoryID {
        let at = offset
        let found = try u64(field)
        if let expected, expected.rawValue != found {
            throw .notThisFile(field, at: at, got: found, expected: .exactly(expected.rawValue))
        }
        return DirectoryID(rawValue: found)
    }

    mutating func array(_ field: String, _ count: Int) throws(FormatError) -> [UInt8] {
        try value(field, count) { $0.readArray(count) }
    }

    mutating func skip(_ count: Int) throws(FormatError) {
        guard reader.skip(count) else {
            throw .torn("byte count", at: offset, available: remainingByteCount, needed: count)
        }
    }

    /// Reserved bytes up to `end`: zero or it is corrupt.
    mutating func zeros(_ field: String, upTo end: Int) throws(FormatError) {
        let at = offset
        guard end <= reader.byteCount else {
            throw .torn(field, at: at, available: remainingByteCount, needed: end - at)
        }
        guard reader.skipZeros(end - at) else {
            throw .corrupt(field, at: at, got: 1, expected: .exactly(0))
        }
    }

    static func check(
        _ found: UInt64, _ range: ClosedRange<UInt64>, _ field: String, _ offset: Int
    ) throws(FormatError) {
        if found < range.lowerBound {
            throw .corrupt(field, at: offset, got: found, expected: .atLeast(range.lowerBound))
        }
        if found > range.upperBound {
            throw .corrupt(field, at: offset, got: found, expected: .atMost(range.upperBound))
        }
    }

    private mutating func value<Value>(
        _ field: String, _ byteCount: Int, _ read: (inout ByteReader) -> Value?
    ) throws(FormatError) -> Value {
        let at = offset
        guard let found = read(&reader) else {
            throw .torn(field, at: at, available: remainingByteCount, needed: byteCount)
        }
        return found
    }
}
