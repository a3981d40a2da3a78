// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat

/// `(lost:N)`: what is shown in place of a name whose block was lost.
package enum LostText {
    private static let head = Array("(lost:".utf8)
    private static let tail = UInt8(ascii: ")")
    /// Digits of the greatest ordinal.
    private static let digitCountMax = 10

    package static func bytes(_ ordinal: UInt32) -> [UInt8] {
        head + Array(String(ordinal).utf8) + [tail]
    }

    /// N, if the text reads just as it would be shown.
    package static func ordinal(_ text: [UInt8]) -> UInt32? {
        guard text.count <= head.count + digitCountMax + 1, text.starts(with: head),
            text.last == tail,
            let value = UInt32(String(decoding: text[head.count..<text.count - 1], as: UTF8.self))
        else { return nil }
        return bytes(value) == text ? value : nil
    }

    /// Compares as the texts do: the digits from the left, and the bracket before any digit.
    static func order(_ ordinal: UInt32) -> UInt64 {
        var rest = UInt64(ordinal)
        var width: UInt64 = 1
        var digitCount = 1
        while width * 10 <= rest {
            width *= 10
            digitCount += 1
        }
        // A digit is 1 … 10, nothing 0: base 11 from the left, ten places.
        var order: UInt64 = 0
        for _ in 0..<digitCount {
            order = order * 11 + rest / width + 1
            rest %= width
            width = max(1, width / 10)
        }
        for _ in digitCount..<digitCountMax { order *= 11 }
        return order
    }
}

extension LostText {
    /// Lost ordinals as names in bytewise order.
    /// - Parameters:
    ///   - names: lost names, which stand under their own ordinals.
    ///   - keys: lost keys, which stand under `firstNumber` and those after it; behind a name whose text is
    ///     the same.
    static func cursor(
        names: [UInt32], keys: [UInt32] = [], firstNumber: UInt32 = 0
    ) -> NameCursor {
        var entries = names.map { (shown: $0, number: $0) }
        for (index, key) in keys.enumerated() {
            entries.append((shown: key, number: firstNumber + UInt32(index)))
        }
        entries.sort {
            $0.shown == $1.shown ? $0.number < $1.number : order($0.shown) < order($1.shown)
        }
        var rest = entries[...]
        return { batch in
            batch.removeAll()
            for entry in rest.prefix(NameBatch.capacity) {
                batch.append(bytes(entry.shown)[...], ordinal: entry.number)
            }
            rest = rest.dropFirst(batch.count)
            return batch.count > 0
        }
    }
}
