// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Glibc

/// The bytewise order of texts. Swift's own order of strings is another one: it follows canonical
/// equivalence, and so the version of Unicode.
package enum NameOrder {
    private struct Entry {
        /// The first eight bytes, so that most comparisons are of one integer.
        let prefix: UInt64
        let index: Int
    }

    /// The place of each text among all of them; equal texts keep their order.
    ///
    /// **Cost** n log n comparisons, most of them of one integer.
    package static func ranks(of texts: [[UInt8]]) -> [UInt32] {
        var entries = texts.indices.map { Entry(prefix: prefix(texts[$0]), index: $0) }
        entries.sort { a, b in
            if a.prefix != b.prefix { return a.prefix < b.prefix }
            return precedes(texts[a.index], texts[b.index]) ?? (a.index < b.index)
        }
        var ranks = [UInt32](repeating: 0, count: texts.count)
        for (rank, entry) in entries.enumerated() { ranks[entry.index] = UInt32(rank) }
        return ranks
    }

    /// `nil` where both are equal.
    package static func precedes(_ a: [UInt8], _ b: [UInt8]) -> Bool? {
        precedes(a, a.indices, b, b.indices)
    }

    /// Compares a part of `a` with one of `b`; `nil` where they are equal.
    /// - Parameters: ranges inside their arrays.
    static func precedes(
        _ a: [UInt8], _ aRange: Range<Int>, _ b: [UInt8], _ bRange: Range<Int>
    ) -> Bool? {
        precondition(aRange.lowerBound >= 0 && aRange.upperBound <= a.count)
        precondition(bRange.lowerBound >= 0 && bRange.upperBound <= b.count)
        let count = min(aRange.count, bRange.count)
        let order =
            count == 0
            ? 0
            : unsafe a.withUnsafeBufferPointer { a in
                // SAFETY: both ranges were found to be inside, and count is that of the shorter.
                unsafe b.withUnsafeBufferPointer { b in
                    unsafe memcmp(
                        a.baseAddress! + aRange.lowerBound, b.baseAddress! + bRange.lowerBound,
                        count)
                }
            }
        if order != 0 { return order < 0 }
        return aRange.count == bRange.count ? nil : aRange.count < bRange.count
    }

    /// Big-endian, so that integers compare as the bytes do; a shorter text is filled up with zeros.
    private static func prefix(_ text: [UInt8]) -> UInt64 {
        var value: UInt64 = 0
        for index in 0..<8 { value = value << 8 | (index < text.count ? UInt64(text[index]) : 0) }
        return value
    }
}
