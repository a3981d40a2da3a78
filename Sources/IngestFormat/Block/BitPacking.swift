// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]
import CIngestLinux

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
