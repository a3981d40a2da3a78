// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// The bytes of one row on their way into an `OutputBuffer`: numbers and texts are put behind one another
/// with no String or array of their own. Owned by one formatter.
///
/// **Cost** About a nanosecond a digit or 16 copied bytes; a row is checked against the room once a piece.
@safe package final class RowBytes {
    /// More than the longest row: two names of 128 bytes at six each, the keys and 28 values.
    package static let capacity = 16 << 10

    private let base: UnsafeMutablePointer<UInt8>
    /// Private, so that the compiler sees every access, and checks none of them while it runs.
    private var count = 0

    package init() { unsafe base = .allocate(capacity: Self.capacity) }

    deinit { unsafe base.deallocate() }

    package func removeAll() { count = 0 }

    /// What has been put so far, as a row of `output`.
    package func append(to output: OutputBuffer) {
        // SAFETY: count bytes were put.
        unsafe output.bytes.append(contentsOf: UnsafeBufferPointer(start: base, count: count))
    }

    package func put(_ byte: UInt8) {
        precondition(count < Self.capacity)
        // SAFETY: there is room for one.
        unsafe base[count] = byte
        count &+= 1
    }

    package func put(_ bytes: [UInt8]) { put(bytes, bytes.indices) }

    /// Puts a part of `bytes`.
    package func put(_ bytes: [UInt8], _ range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= bytes.count)
        precondition(range.count <= Self.capacity - count)
        unsafe bytes.withUnsafeBufferPointer { source in
            guard let from = source.baseAddress else { return }
            // SAFETY: the range is inside, and there is room for it.
            unsafe (base + count).update(from: from + range.lowerBound, count: range.count)
        }
        count &+= range.count
    }

    /// Puts a decimal number.
    package func put(_ value: UInt64) {
        if value < 10 { return put(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value)) }
        put(value, width: Self.digitCount(value))
    }

    /// Puts the last `width` digits of a number, with zeros in front.
    package func put(_ value: UInt64, width: Int) {
        precondition(width >= 0 && width <= Self.capacity - count)
        var rest = value
        for place in stride(from: width &- 1, through: 0, by: -1) {
            // SAFETY: there is room for width bytes.
            unsafe base[count &+ place] =
                UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        count &+= width
    }

    private static func digitCount(_ value: UInt64) -> Int {
        var count = 1
        var rest = value
        while rest >= 10 {
            rest /= 10
            count &+= 1
        }
        return count
    }
}
