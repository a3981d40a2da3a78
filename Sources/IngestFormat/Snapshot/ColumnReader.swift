// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// Reads the parts of coded columns, and throws where a value cannot be. It does not own the bytes, which
/// must stay where they are while it is used.
///
/// **Errors** `torn` where the bytes end, `corrupt` where a value is out of its range; each with the part's
/// name and offset.
@safe struct ColumnReader {
    private let bytes: UnsafeRawBufferPointer
    private(set) var offset = 0

    @unsafe init(_ bytes: UnsafeRawBufferPointer) { unsafe self.bytes = bytes }

    var remainingByteCount: Int { unsafe bytes.count &- offset }

    mutating func u8(_ part: String, in range: ClosedRange<UInt8>) throws(FormatError) -> UInt8 {
        let at = offset
        guard remainingByteCount > 0 else { throw torn(part, 1) }
        // SAFETY: a byte remains.
        let found = unsafe bytes[at]
        offset = at &+ 1
        try Self.check(
            UInt64(found), UInt64(range.lowerBound)...UInt64(range.upperBound), part, at)
        return found
    }

    mutating func varint(
        _ part: String, in range: ClosedRange<UInt64>
    ) throws(FormatError) -> UInt64 {
        let at = offset
        // Nearly all are of one byte.
        // SAFETY: a byte remains where it is looked at.
        if remainingByteCount > 0, unsafe bytes[at] < 0x80 {
            offset = at &+ 1
            let found = unsafe UInt64(bytes[at])
            try Self.check(found, range, part, at)
            return found
        }
        // SAFETY: the reader lives no longer than this call.
        var reader = unsafe ByteReader(bytes)
        guard reader.seek(to: at), let found = reader.readVarint() else { throw torn(part, 1) }
        offset = reader.offset
        try Self.check(found, range, part, at)
        return found
    }

    /// Goes past the next `count` packed values of `width` bits.
    /// - Returns: where they begin; `BitPacking.byteCount(count, width: width)` bytes are there.
    @inline(__always)
    mutating func packed(
        _ part: String, count: Int, width: Int
    ) throws(FormatError) -> UnsafeRawPointer {
        let byteCount = BitPacking.byteCount(count, width: width)
        guard byteCount <= remainingByteCount, let base = unsafe bytes.baseAddress else {
            throw torn(part, byteCount)
        }
        defer { offset &+= byteCount }
        // SAFETY: offset + byteCount ≤ the bytes' count.
        return unsafe base + offset
    }

    private func torn(_ part: String, _ byteCount: Int) -> FormatError {
        unsafe .torn(part, at: offset, available: bytes.count, needed: offset + byteCount)
    }

    @inline(__always)
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
