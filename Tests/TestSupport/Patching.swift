import IngestFormat

// Bytes of files and packets of which a test changes some and sets checksums right again, so that only a check
// of the values can find it. All numbers are little-endian.

extension Array<UInt8> {
    package func number(_ field: FormatField, at start: Int = 0) -> UInt64 {
        (0..<field.byteCount).reduce(0) {
            $0 | UInt64(self[start + field.offset + $1]) << UInt64(8 * $1)
        }
    }

    package mutating func put(_ value: some FixedWidthInteger, at place: Int) {
        put(UInt64(truncatingIfNeeded: value), FormatField("", place, value.bitWidth / 8))
    }

    package mutating func put(_ value: UInt64, _ field: FormatField, at start: Int = 0) {
        for i in 0..<Swift.min(field.byteCount, 8) {
            self[start + field.offset + i] = UInt8(truncatingIfNeeded: value >> UInt64(8 * i))
        }
    }

    /// The same bytes with a field changed.
    package func with(_ field: FormatField, _ value: UInt64, at start: Int = 0) -> [UInt8] {
        var copy = self
        copy.put(value, field, at: start)
        return copy
    }

    /// The same bytes with the CRC of `range` written at `place`.
    package func withChecksum(of range: Range<Int>, at place: Int) -> [UInt8] {
        var copy = self
        copy.put(Checksum.crc32c(self[range]), at: place)
        return copy
    }

    /// The same image of `byteCount` bytes with the checksum in its last four bytes set right.
    /// - Parameter zeros: bytes that the checksum takes for zeros.
    package func sealed(_ byteCount: Int, without zeros: Range<Int> = 0..<0) -> [UInt8] {
        var summed = Array(self[..<(byteCount - 4)])
        for place in zeros { summed[place] = 0 }
        var copy = self
        copy.put(Checksum.crc32c(summed), at: byteCount - 4)
        return copy
    }

    /// The same packet with the checksum of its header and payload set right.
    package func sealedPacket() -> [UInt8] {
        let field = 36
        let head = Checksum.crc32c(self[..<field])
        var copy = self
        copy.put(
            Checksum.crc32c(self[(field + 4)...], seed: head), at: field)
        return copy
    }
}
