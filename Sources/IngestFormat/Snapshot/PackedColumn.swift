// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// A column of 32-bit values in a page of a names run, of which any one can be read by itself.
///
/// **Layout** base u32: the smallest value; width u8 (0–32): the bits of the largest value less the base; then
/// all values less the base, `width` bits each, padded with zero bits to a whole byte.
///
/// **Cost** 1 ns a value either way, 2 ns for one value by itself.
struct PackedColumn {
    private static let headByteCount = 5
    static let widthMax = 32
    /// The most that a column of `count` values takes.
    static func byteCountMax(_ count: Int) -> Int { headByteCount + 4 * count }

    private let base: UInt64
    private let width: Int
    private let count: Int
    /// Of the packed values, and of the byte behind them.
    private let start: Int
    let end: Int

    /// The column of `count` values that begins at `offset`.
    /// **Errors** `torn` where the bytes end, `corrupt` for a width over 32 and padding that is not zero.
    init(
        _ bytes: UnsafeRawBufferPointer, at offset: Int, count: Int
    ) throws(FormatError) {
        start = offset + Self.headByteCount
        guard bytes.count >= start else {
            throw .torn("column head", at: offset, available: bytes.count, needed: start)
        }
        // SAFETY: the head's five bytes lie inside, by the check above.
        base = UInt64(
            UInt32(
                littleEndian: unsafe bytes.loadUnaligned(
                    fromByteOffset: offset, as: UInt32.self)))
        width = Int(unsafe bytes[offset + 4])
        guard width <= Self.widthMax else {
            throw .corrupt("column width", at: offset + 4, got: width, expected: .atMost(32))
        }
        self.count = count
        end = start + BitPacking.byteCount(count, width: width)
        guard bytes.count >= end else {
            throw .torn("column values", at: start, available: bytes.count, needed: end)
        }
        guard end > start, let base = bytes.baseAddress else { return }
        // SAFETY: the packed values lie inside, by the check above.
        guard unsafe BitPacking.isPaddingZero(count: count, width: width, from: base + start) else {
            throw .corrupt("column values", at: end - 1, got: 1, expected: .exactly(0))
        }
    }

    /// A column that is not stored: nothing but zeros.
    init(zeros count: Int, at offset: Int) {
        (base, width, self.count, start, end) = (0, 0, count, offset, offset)
    }

    /// **Errors** `corrupt` unless the column is the last part of its page.
    func expectEnd(of byteCount: Int) throws(FormatError) {
        if end == byteCount { return }
        throw .corrupt(
            "column byte count", at: end, got: byteCount - end, expected: .exactly(0))
    }

    /// One value; up to 2^33, so that it never wraps: its user holds it against what it can be.
    /// - Parameters:
    ///   - place: 0 ..< count.
    ///   - bytes: those that the column was found in.
    @inline(__always)
    func value(_ place: Int, in bytes: UnsafeRawBufferPointer) -> UInt64 {
        let bit = place &* width
        let offset = start &+ bit &>> 3
        let shift = UInt64(truncatingIfNeeded: bit & 7)
        var word: UInt64 = 0
        if offset &+ 8 <= bytes.count {
            // SAFETY: offset + 8 is inside, by the condition.
            word = unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self).littleEndian
        } else {
            // Near the end of the page; what is behind the column is masked away.
            for i in 0..<max(0, bytes.count &- offset) {
                word |= UInt64(unsafe bytes[offset &+ i]) &<< UInt64(8 &* i)
            }
        }
        return base &+ (word &>> shift & BitPacking.mask(width: width))
    }

    /// All values in order, as `value` gives them.
    ///
    /// **Cost** 0.2 ns a value, 1 ns without AVX2.
    /// - Parameter target: room for as many as the column has.
    func unpack(_ bytes: UnsafeRawBufferPointer, into target: UnsafeMutablePointer<UInt64>) {
        guard width > 0, let first = bytes.baseAddress else {
            return unsafe target.update(repeating: base, count: count)
        }
        // SAFETY: the packed values lie inside `bytes`, checked when the column was found in them.
        unsafe BitPacking.unpack(
            count: count, width: width, from: first + start, base: base, into: target)
    }

    /// The first place of a value that is not below `wanted`, in a column that ascends.
    func lowerBound(_ wanted: UInt64, in bytes: UnsafeRawBufferPointer) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if unsafe value(middle, in: bytes) < wanted { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Appends the column of `value(0) ..< value(count)` to a page.
    @inline(__always)
    static func append(count: Int, to page: inout [UInt8], _ value: (Int) -> UInt32) {
        var base = count == 0 ? 0 : UInt32.max
        var top: UInt32 = 0
        for place in 0..<count {
            base = min(base, value(place))
            top = max(top, value(place))
        }
        let width = BitPacking.width(max: UInt64(count == 0 ? 0 : top &- base))
        for shift in [0, 8, 16, 24] as [UInt32] {
            page.append(UInt8(truncatingIfNeeded: base >> shift))
        }
        page.append(UInt8(truncatingIfNeeded: width))
        let start = page.count
        let byteCount = BitPacking.byteCount(count, width: width)
        page.append(
            contentsOf: repeatElement(0, count: byteCount + BitPacking.slackByteCount))
        unsafe page.withUnsafeMutableBytes { target in
            guard width > 0, let first = target.baseAddress else { return }
            // SAFETY: the page was made byteCount and the packer's slack longer than `start`.
            _ = unsafe BitPacking.pack(count: count, width: width, to: first + start) {
                UInt64(value($0) &- base)
            }
        }
        page.removeLast(BitPacking.slackByteCount)
    }
}
