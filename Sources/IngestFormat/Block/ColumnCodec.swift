// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]
import CIngestLinux

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

    /// That packed values, from `offset` on, and the codes of all rows behind them fill the section.
    /// - Returns: where the codes begin.
    @inline(__always)
    func requireCodes(
        codeWidth: Int, behind valueCount: Int, valueWidth: Int, at offset: Int
    ) throws(FormatError) -> Int {
        let codeStart = offset + BitPacking.byteCount(valueCount, width: valueWidth)
        try unsafe require(
            "raw byte count", byteCount,
            is: codeStart + BitPacking.byteCount(count, width: codeWidth))
        try unsafe requirePadding(valueCount, width: valueWidth, at: offset)
        try unsafe requirePadding(count, width: codeWidth, at: codeStart)
        return codeStart
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

/// Unsigned integers of one width back to back, without gaps: value `i` is bits `i * width ..<
/// (i + 1) * width` of the little-endian bit string; the bits after the last value, up to a whole byte,
/// are zero.
///
/// **Cost** With AVX2 0.1 ns a value to unpack, 0.3 above 25 bits; else about 1 ns a value either way, whatever the
/// width: one unaligned load or store a value (a store for two or four narrow values), no branch in the loop.
enum BitPacking {
    /// Bytes that a packer may write beyond its result, all of them zero.
    static let slackByteCount = 8

    /// How many bytes `count` values of `width` bits take.
    @inline(__always)
    static func byteCount(_ count: Int, width: Int) -> Int { (count &* width &+ 7) >> 3 }

    /// The bits that `max` needs: 0 … 64.
    @inline(__always)
    static func width(max: UInt64) -> Int { 64 &- max.leadingZeroBitCount }

    @inline(__always)
    static func mask(width: Int) -> UInt64 {
        width == 0 ? 0 : ~0 &>> UInt64(truncatingIfNeeded: 64 &- width)
    }

    /// Packs `value(0) ..< value(count)`, each below 2^width.
    /// - Parameter target: room for the result and `slackByteCount` more.
    /// - Returns: the bytes of the result.
    @inline(__always)
    static func pack(
        count: Int, width: Int, to target: UnsafeMutableRawPointer, _ value: (Int) -> UInt64
    ) -> Int {
        var sink = unsafe BitSink(target: target)
        let step = UInt64(truncatingIfNeeded: width)
        var i = 0
        if width <= 14 {
            while i &+ 4 <= count {
                let low = value(i) | value(i &+ 1) &<< step
                let high = value(i &+ 2) | value(i &+ 3) &<< step
                unsafe sink.append(low | high &<< (2 &* step), width: 4 &* step)
                i &+= 4
            }
        } else if width <= 28 {
            while i &+ 2 <= count {
                unsafe sink.append(value(i) | value(i &+ 1) &<< step, width: 2 &* step)
                i &+= 2
            }
        }
        while i < count {
            let bits = value(i)
            if width <= 56 {
                unsafe sink.append(bits, width: step)
            } else {
                unsafe sink.append(bits & 0xffff_ffff, width: 32)
                unsafe sink.append(bits &>> 32, width: step &- 32)
            }
            i &+= 1
        }
        return byteCount(count, width: width)
    }

    /// Unpacks all values, each as base + value × factor, modulo 2^64 and without the bits that do not fit.
    /// - Parameters:
    ///   - source: exactly `byteCount(count, width: width)` bytes; nothing beyond is read.
    ///   - target: room for `count` values.
    /// - Returns: the least and the greatest value as they are packed; 2^64 − 1 and 0 where there are none.
    @discardableResult
    static func unpack<Value: FixedWidthInteger & BitwiseCopyable>(
        count: Int, width: Int, from source: UnsafeRawPointer, base: UInt64 = 0,
        factor: UInt64 = 1, into target: UnsafeMutablePointer<Value>
    ) -> (least: UInt64, greatest: UInt64) {
        var (least, greatest) = (UInt64.max, UInt64(0))
        if width == 0 && count > 0 {
            unsafe target.update(repeating: Value(truncatingIfNeeded: base), count: count)
            return (0, 0)
        }
        // SAFETY: so many values are there, and room for them, as the caller says.
        if unsafe ingest_unpack(
            target, MemoryLayout<Value>.size, source, count, UInt32(width), base, factor, &least,
            &greatest)
        {
            return (least, greatest)
        }
        unsafe unpack(count: count, width: width, from: source) { i, bits in
            least = min(least, bits)
            greatest = max(greatest, bits)
            unsafe target[i] = Value(truncatingIfNeeded: base &+ bits &* factor)
        }
        return (least, greatest)
    }

    /// Calls `body` with each value's place and bits, in order.
    /// - Parameter source: exactly `byteCount(count, width: width)` bytes; nothing beyond is read.
    @inline(__always)
    static func unpack(
        count: Int, width: Int, from source: UnsafeRawPointer, _ body: (Int, UInt64) -> Void
    ) {
        guard count > 0 else { return }
        let mask = mask(width: width)
        let total = byteCount(count, width: width)
        let reach = width <= 57 ? 8 : 9
        // How many values can be loaded whole words at a time without reading beyond `total`.
        let wide =
            total < reach || width == 0
            ? 0 : min(count, ((total &- reach) &* 8 &+ 7) / width &+ 1)
        if width <= 57 {
            for i in 0..<wide {
                let bit = i &* width
                // SAFETY: i < wide, so bit / 8 + 8 ≤ total.
                let word = unsafe source.loadUnaligned(fromByteOffset: bit &>> 3, as: UInt64.self)
                body(i, word &>> UInt64(truncatingIfNeeded: bit & 7) & mask)
            }
        } else {
            for i in 0..<wide {
                let bit = i &* width
                let shift = UInt64(truncatingIfNeeded: bit & 7)
                // SAFETY: i < wide, so bit / 8 + 9 ≤ total.
                let low = unsafe source.loadUnaligned(fromByteOffset: bit &>> 3, as: UInt64.self)
                let high = unsafe source.load(fromByteOffset: bit &>> 3 &+ 8, as: UInt8.self)
                body(i, (low &>> shift | (UInt64(high) &<< 1) &<< (63 &- shift)) & mask)
            }
        }
        guard wide < count else { return }
        // The rest begins less than a word before the end, so one word holds all of it.
        let start = (wide &* width) &>> 3
        let rest = unsafe partialWord(source + start, byteCount: total &- start)
        for i in wide..<count {
            body(i, rest &>> UInt64(truncatingIfNeeded: i &* width &- start &* 8) & mask)
        }
    }

    /// The bits of one value, without those before it.
    /// - Parameters:
    ///   - i: 0 ..< count.
    ///   - source: exactly `byteCount(count, width: width)` bytes; nothing beyond is read.
    @inline(__always)
    static func value(_ i: Int, count: Int, width: Int, from source: UnsafeRawPointer) -> UInt64 {
        let bit = i &* width
        let start = bit &>> 3
        let left = byteCount(count, width: width) &- start
        let shift = UInt64(truncatingIfNeeded: bit & 7)
        // SAFETY: start + 8 ≤ the byte count, or only what is left is read.
        let low =
            unsafe left >= 8
            ? source.loadUnaligned(fromByteOffset: start, as: UInt64.self)
            : partialWord(source + start, byteCount: left)
        var bits = low &>> shift
        if Int(shift) &+ width > 64 {
            // SAFETY: the value reaches into a ninth byte, which is therefore there.
            let high = unsafe source.load(fromByteOffset: start &+ 8, as: UInt8.self)
            bits |= UInt64(high) &<< (64 &- shift)
        }
        return bits & mask(width: width)
    }

    /// Whether the bits after the last value are zero.
    static func isPaddingZero(count: Int, width: Int, from source: UnsafeRawPointer) -> Bool {
        let used = (count &* width) & 7
        guard used != 0 else { return true }
        // SAFETY: the byte that holds the last value.
        let last = unsafe source.load(
            fromByteOffset: byteCount(count, width: width) &- 1, as: UInt8.self)
        return last &>> UInt8(truncatingIfNeeded: used) == 0
    }

    /// Up to 8 bytes as a little-endian word.
    private static func partialWord(_ source: UnsafeRawPointer, byteCount: Int) -> UInt64 {
        var word: UInt64 = 0
        for i in 0..<byteCount {
            // SAFETY: i < byteCount.
            let byte = unsafe source.load(fromByteOffset: i, as: UInt8.self)
            word |= UInt64(byte) &<< UInt64(truncatingIfNeeded: 8 &* i)
        }
        return word
    }
}

/// Where a packer stands: fewer than 8 bits wait in `bits`; all before `target` is written.
@unsafe private struct BitSink {
    var target: UnsafeMutableRawPointer
    var bits: UInt64 = 0
    var count: UInt64 = 0

    init(target: UnsafeMutableRawPointer) { unsafe self.target = target }

    /// - Parameter width: at most 56, so that with the waiting bits it fits a word.
    @inline(__always)
    mutating func append(_ value: UInt64, width: UInt64) {
        unsafe bits |= value &<< count
        unsafe count &+= width
        // SAFETY: the packer's target has slack for a whole word after the last byte.
        unsafe target.storeBytes(of: bits.littleEndian, as: UInt64.self)
        unsafe target += Int(truncatingIfNeeded: count &>> 3)
        unsafe bits &>>= count & ~7
        unsafe count &= 7
    }
}
