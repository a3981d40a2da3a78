// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Glibc
import IngestFormat

/// The bytewise order of texts. Swift's own order of strings is another one: it follows canonical
/// equivalence, and so the version of Unicode.
package enum NameOrder {
    /// The place of each text among all of them; equal texts keep their order.
    ///
    /// **Cost** That of `NameSort`, and a copy of the texts.
    package static func ranks(of texts: [[UInt8]]) -> [UInt32] {
        var bytes: [UInt8] = []
        var ends: [UInt32] = []
        for text in texts {
            bytes += text
            ends.append(UInt32(bytes.count))
        }
        var ranks = [UInt32](repeating: 0, count: texts.count)
        for (rank, place) in NameSort.order(bytes: bytes, ends: ends).enumerated() {
            ranks[Int(place)] = UInt32(rank)
        }
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
}
