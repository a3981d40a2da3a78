// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// Reads the parts of coded columns, and throws where a value cannot be.
///
/// **Errors** `torn` where the bytes end, `corrupt` where a value is out of its range; each with the part's
/// name and offset.
struct ColumnReader {
    private var reader: ByteReader

    init(_ reader: ByteReader) { self.reader = reader }

    var offset: Int { reader.offset }
    var remainingByteCount: Int { reader.remainingByteCount }

    mutating func u8(_ part: String, in range: ClosedRange<UInt8>) throws(FormatError) -> UInt8 {
        let at = offset
        guard let found = reader.readU8() else { throw torn(part, 1) }
        try Self.check(
            UInt64(found), UInt64(range.lowerBound)...UInt64(range.upperBound), part, at)
        return found
    }

    mutating func varint(
        _ part: String, in range: ClosedRange<UInt64>
    ) throws(FormatError) -> UInt64 {
        let at = offset
        guard let found = reader.readVarint() else { throw torn(part, 1) }
        try Self.check(found, range, part, at)
        return found
    }

    /// The next `count` packed values of `width` bits, in place; the bits behind them must be zero.
    mutating func packed(
        _ part: String, count: Int, width: Int
    ) throws(FormatError) -> UnsafeRawPointer {
        let byteCount = BitPacking.byteCount(count, width: width)
        let at = offset
        guard let bytes = unsafe reader.readBytes(byteCount), let base = bytes.baseAddress else {
            throw torn(part, byteCount)
        }
        // SAFETY: base begins byteCount bytes, which is what count values of width take.
        guard unsafe BitPacking.isPaddingZero(count: count, width: width, from: base) else {
            throw .corrupt(part, at: at + byteCount - 1, got: 1, expected: .exactly(0))
        }
        return unsafe base
    }

    private func torn(_ part: String, _ byteCount: Int) -> FormatError {
        .torn(part, at: offset, available: reader.byteCount, needed: offset + byteCount)
    }

    private static func check(
        _ found: UInt64, _ range: ClosedRange<UInt64>, _ part: String, _ offset: Int
    ) throws(FormatError) {
        if found < range.lowerBound {
            throw .corrupt(part, at: offset, got: found, expected: .atLeast(range.lowerBound))
        }
        if found > range.upperBound {
            throw .corrupt(part, at: offset, got: found, expected: .atMost(range.upperBound))
        }
    }
}
