// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

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
        for index in 0..<min(a.count, b.count) where a[index] != b[index] {
            return a[index] < b[index]
        }
        return a.count == b.count ? nil : a.count < b.count
    }

    /// Bytes that compare as the pair does: by `first`, then by `second`.
    ///
    /// Two zero bytes end the first, less than any byte that could go on; its own zeros become 0 1.
    package static func pair(_ first: [UInt8], _ second: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(first.count + 2 + second.count)
        for byte in first {
            bytes.append(byte)
            if byte == 0 { bytes.append(1) }
        }
        return bytes + [0, 0] + second
    }

    /// Big-endian, so that integers compare as the bytes do; a shorter text is filled up with zeros.
    private static func prefix(_ text: [UInt8]) -> UInt64 {
        var value: UInt64 = 0
        for index in 0..<8 { value = value << 8 | (index < text.count ? UInt64(text[index]) : 0) }
        return value
    }
}
