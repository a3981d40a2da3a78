// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// The bytes of one column's section, after checksum and LZ4, and what must hold for them.
@unsafe struct ColumnSource {
    var bytes: UnsafeRawPointer
    var byteCount: Int
    var encoding: SectionEncoding
    var parameter: Int
    /// How many values; 1 … `Limits.blockEventCountMax`.
    var count: Int
    /// Every value lies in it.
    var domain: ClosedRange<Int64>
    /// For errors: the section's name, and where it starts in the block.
    var name: String
    var offset: Int

    func fault(
        _ part: String, got: some BinaryInteger, expected: FormatFault.Expectation
    ) -> FormatError {
        unsafe .corrupt("\(name): \(part)", at: offset, got: got, expected: expected)
    }

    /// Refuses all but exactly `expected`.
    func require(
        _ part: String, _ got: some BinaryInteger, is expected: some BinaryInteger
    ) throws(FormatError) {
        if got != expected { throw unsafe fault(part, got: got, expected: .exactly(expected)) }
    }

    /// Refuses what is below `min` or above `max`, which may be the lower of the two.
    func require(_ part: String, _ got: Int, min: Int, max: Int) throws(FormatError) {
        if got < min { throw unsafe fault(part, got: got, expected: .atLeast(min)) }
        if got > max { throw unsafe fault(part, got: got, expected: .atMost(max)) }
    }

    func load<Value: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int, as type: Value.Type
    ) -> Value {
        // SAFETY: callers stay below the byte count that `requireFixedPart` checked.
        unsafe Value(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: type))
    }

    func requireFixedPart(_ byteCount: Int) throws(FormatError) {
        if unsafe self.byteCount < byteCount {
            throw unsafe fault(
                "raw byte count", got: self.byteCount, expected: .atLeast(byteCount))
        }
    }

    func requirePadding(_ count: Int, width: Int, at offset: Int) throws(FormatError) {
        if unsafe !BitPacking.isPaddingZero(count: count, width: width, from: bytes + offset) {
            throw unsafe fault("padding bits", got: 1, expected: .exactly(0))
        }
    }
}
