// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat

/// The dictionary of one cut, wherever it is kept: names and reward keys by ordinal, and back.
///
/// Ordinals whose block was lost have no entry. They are shown as `(lost:N)` (`LostText`), N being the
/// ordinal of the name, or of the key where the pair itself is unknown; the business of such a key is
/// `(lost:0)`. N is so of two kinds: who asks for `(lost:N)` gets a stored name that reads like that, else
/// the lost name, else the lost key.
///
/// Owned by one query at a time: it may keep what it has read.
///
/// **Errors** All of `ReaderError`: parts of it are read when they are asked for.
package protocol NameSource {
    /// One more than the greatest ordinal given. Every row's ordinal is below it, or is damage.
    var nextName: UInt32 { get }
    var nextKey: UInt32 { get }

    /// The ordinal of a name that is stored.
    func storedOrdinal(of name: [UInt8]) throws(ReaderError) -> NameOrdinal?
    /// The bytes of a name; empty where it was lost.
    func bytes(of name: NameOrdinal) throws(ReaderError) -> [UInt8]
    /// The names of a key; both `.none` where it was lost.
    func names(of key: KeyOrdinal) throws(ReaderError) -> RewardKey
    /// The keys of a reward, in any order.
    func keys(ofReward reward: NameOrdinal) throws(ReaderError) -> [KeyOrdinal]

    /// Gives some keys in their order, in pieces without gaps.
    /// - Parameters:
    ///   - keys: below `nextKey`.
    ///   - body: takes pairs from the key `first` on, each with the reward in its upper half and the
    ///     business in the lower, 0 for a lost key.
    func forEachKeys(
        in keys: Range<UInt32>,
        _ body: (_ first: UInt32, _ pairs: Span<UInt64>) throws(ReaderError) -> Void
    ) throws(ReaderError)
    /// How many keys were lost. **Cost** That of one look-up a part, and of reading those.
    func lostKeyCount() throws(ReaderError) -> Int
    /// The ordinals from 1 on that have no name, ascending.
    func lostNames() throws(ReaderError) -> [UInt32]
    /// The stored names, in bytewise order within each cursor; together they give each once.
    func makeCursors() throws(ReaderError) -> [NameCursor]
}

/// Names in bytewise order: fills a batch with the next ones, at least one; `false` at the end, with the batch empty. A
/// name without bytes is one that was lost.
package typealias NameCursor = (NameBatch) throws(ReaderError) -> Bool

extension NameSource {
    /// The bytes of a name as it is shown.
    package func shownBytes(of name: NameOrdinal) throws(ReaderError) -> [UInt8] {
        let stored = name == .none ? [] : try bytes(of: name)
        return stored.isEmpty ? LostText.bytes(name.rawValue) : stored
    }

    /// The ordinal of a stored name, or of the lost one that the text means.
    package func ordinal(of name: String) throws(ReaderError) -> NameOrdinal? {
        let wanted = Array(name.utf8)
        guard !wanted.isEmpty, wanted.count <= Limits.nameByteCountMax else { return nil }
        if let stored = try storedOrdinal(of: wanted) { return stored }
        guard let lost = LostText.ordinal(wanted), lost < nextName else { return nil }
        let ordinal = NameOrdinal(rawValue: lost)
        if ordinal == .none { return ordinal }
        return try bytes(of: ordinal).isEmpty ? ordinal : nil
    }
}

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
