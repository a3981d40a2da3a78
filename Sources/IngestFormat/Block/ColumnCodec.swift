// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]
// What column encoder and decoder share: the forms, the encoding byte, powers of ten, fixed parts.

/// How the values of a column lie in a section, before LZ4. Raw values are on disk.
///
/// **Layout** All but `raw` speak of *quotients*: value = base + quotient × 10^exponent, where base is
/// the least value (i64) and the exponent is in the encoding byte.
///
///     constant    base                                                  parameter 0
///     packed      base | quotients                                      parameter their width
///     dictionary  base | count u16 | width u8 | 0 | entries | codes     parameter the codes' width
///     patched     base | window u64 | count u16 | width u8 | 0 | positions u16 … | exceptions | codes
///                                                                       parameter the codes' width
///
/// `entries` and `exceptions` are quotients of the given width; a dictionary code is the place of an
/// entry; a patched code is the quotient less `window`, 0 at the positions of the exceptions.
package enum ColumnForm: UInt8, Sendable, CaseIterable {
    case raw = 0
    case constant = 1
    case packed = 2
    case dictionary = 3
    case patched = 4
}

/// The encoding byte of a section: bits 0–3 form, 4–6 exponent of ten, 7 compressed by LZ4.
package struct SectionEncoding: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    init(_ form: ColumnForm, exponent: Int = 0) {
        rawValue = form.rawValue | UInt8(truncatingIfNeeded: exponent) << 4
    }

    package var form: ColumnForm? { ColumnForm(rawValue: rawValue & 15) }
    package var exponent: Int { Int(rawValue >> 4 & 7) }
    package var isCompressed: Bool { rawValue & 0x80 != 0 }
    var compressed: SectionEncoding { SectionEncoding(rawValue: rawValue | 0x80) }
}

enum ColumnLayout {
    static let baseByteCount = 8
    /// Base, entry count, entry width, a zero.
    static let dictionaryByteCount = 12
    /// Base, window, exception count, exception width, a zero.
    static let patchedByteCount = 20
    static let dictionaryEntryCountMax = 4096
    static let dictionaryCodeWidthMax = 12
}

/// The powers of ten that the values of a column may all be multiples of, over their least: times in
/// whole milliseconds or seconds, money in whole cents, shares in whole percent.
enum PowerOfTen {
    static let exponentMax = 6

    @inline(__always)
    static func value(_ exponent: Int) -> UInt64 {
        switch exponent {
        case 1: 10
        case 2: 100
        case 3: 1_000
        case 4: 10_000
        case 5: 100_000
        case 6: 1_000_000
        default: 1
        }
    }

    /// The inverse of 5^exponent modulo 2^64: division of a multiple is a shift and a multiplication.
    @inline(__always)
    static func inverseOfFives(_ exponent: Int) -> UInt64 {
        let fives = value(exponent) &>> UInt64(truncatingIfNeeded: exponent)
        // Newton's iteration doubles the right low bits: 3, 6, 12, 24, 48, 96.
        var inverse = fives
        for _ in 0..<5 { inverse = inverse &* (2 &- fives &* inverse) }
        return inverse
    }

    /// Whether a number is a multiple of a power of ten, without a division.
    struct Test {
        private let exponent: UInt64
        private let inverse: UInt64
        private let quotientMax: UInt64

        @inline(__always)
        init(_ exponent: Int) {
            self.exponent = UInt64(truncatingIfNeeded: exponent)
            inverse = inverseOfFives(exponent)
            quotientMax = ~0 / (value(exponent) &>> self.exponent)
        }

        @inline(__always)
        func divides(_ number: UInt64) -> Bool {
            (number &>> exponent) &<< exponent == number
                && (number &>> exponent) &* inverse <= quotientMax
        }
    }
}

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
