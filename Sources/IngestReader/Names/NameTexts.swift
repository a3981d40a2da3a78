// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat

extension NameSource {
    /// Up to so many names are read one by one; for more, all of the directory are gone through.
    private static var pointCountMax: Int { 1 << 14 }

    /// Names as they are shown, in bytewise order.
    ///
    /// **Cost** A small read for each of a few names; for many, a pass over all names of the directory. The
    /// memory of the texts.
    /// - Parameter ordinals: ascending; 0 is the business of lost keys.
    func texts(
        of ordinals: [UInt32]
    ) throws(ReaderError) -> [(ordinal: UInt32, text: [UInt8])] {
        if ordinals.count > Self.pointCountMax { return try textsByWalk(ordinals) }
        var texts: [[UInt8]] = []
        for ordinal in ordinals {
            texts.append(try shownBytes(of: NameOrdinal(rawValue: ordinal)))
        }
        var sorted = ordinals.map { (ordinal: $0, text: [UInt8]()) }
        for (index, rank) in NameOrder.ranks(of: texts).enumerated() {
            sorted[Int(rank)] = (ordinals[index], texts[index])
        }
        return sorted
    }

    private func textsByWalk(
        _ ordinals: [UInt32]
    ) throws(ReaderError) -> [(ordinal: UInt32, text: [UInt8])] {
        var isWanted = [Bool](repeating: false, count: Int(nextName))
        for ordinal in ordinals where ordinal < nextName { isWanted[Int(ordinal)] = true }
        var lost = try lostNames().filter { isWanted[Int($0)] }
        if ordinals.first == 0 { lost.append(0) }
        var walk = NameWalk(try makeCursors() + [LostText.cursor(names: lost)])
        var found: [(ordinal: UInt32, text: [UInt8])] = []
        while try walk.next() {
            guard isWanted[Int(walk.number)] else { continue }
            var text: [UInt8] = []
            walk.appendName(to: &text)
            found.append((walk.number, text))
        }
        return found
    }
}

/// The places of a listing's businesses in bytewise order, as they are shown; found when they are first
/// asked for, since most rewards have one. Owned by one query.
///
/// **Cost** That of `NameSource.texts` once; then 4 bytes a name of the directory.
final class BusinessOrder {
    private let names: any NameSource
    private var ranks: [UInt32] = []

    init(_ names: any NameSource) { self.names = names }

    /// The place of one of a listing's businesses among them.
    /// - Parameter all: the businesses of the listing, with repetitions; the same at each call.
    func rank(_ business: UInt32, among all: [UInt32]) throws(ReaderError) -> UInt32 {
        if ranks.isEmpty { try rankAll(all) }
        return ranks[Int(business)]
    }

    private func rankAll(_ all: [UInt32]) throws(ReaderError) {
        ranks = Array(repeating: 0, count: max(1, Int(names.nextName)))
        for business in all { ranks[Int(business)] = 1 }
        let distinct = ranks.indices.filter { ranks[$0] != 0 }.map { UInt32($0) }
        for (rank, entry) in try names.texts(of: distinct).enumerated() {
            ranks[Int(entry.ordinal)] = UInt32(rank)
        }
    }
}

/// The names of businesses that were shown last: most rows have one of few.
struct ShownNames {
    static let slotCount = 4096

    private let names: any NameSource
    private var slots: [(ordinal: UInt32, bytes: [UInt8])]

    init(_ names: any NameSource) {
        self.names = names
        slots = Array(repeating: (UInt32.max, []), count: Self.slotCount)
    }

    mutating func bytes(of ordinal: UInt32) throws(ReaderError) -> [UInt8] {
        let slot = Int(ordinal) % Self.slotCount
        if slots[slot].ordinal != ordinal {
            slots[slot] = (
                ordinal, try names.shownBytes(of: NameOrdinal(rawValue: ordinal))
            )
        }
        return slots[slot].bytes
    }
}

/// All names of a cut in bytewise order: the stored orders of its parts, merged, lost ones left out. Owned by
/// one query.
///
/// **Cost** A batch of names a part, and one more; that of `PageMerge`.
struct NameWalk {
    private var merge: PageMerge<NameBatch, ReaderError>
    private let batch = NameBatch()
    private var place = -1

    /// - Parameter cursors: each in bytewise order; of equal names that of the earlier cursor comes first.
    init(_ cursors: [NameCursor]) { merge = PageMerge(cursors) }

    /// The ordinal or number of the present name.
    /// - Precondition: the last `next` was `true`; of `appendName` too.
    var number: UInt32 { batch.ordinal(place).rawValue }

    /// Adds the bytes of the present name to `bytes`.
    func appendName(to bytes: inout [UInt8]) { batch.appendName(place, to: &bytes) }

    /// Goes to the next name, at first to the first; `false` at the end.
    /// - Parameter prepare: takes the names that come next, some hundred at a time.
    mutating func next(
        _ prepare: (NameBatch) -> Void = { _ in }
    ) throws(ReaderError) -> Bool {
        repeat {
            place += 1
            if place >= batch.count {
                guard try merge.next(into: batch) else { return false }
                place = 0
                prepare(batch)
            }
        } while batch.isLost(place)
        return true
    }
}

/// What finds single names and keys: a dictionary, or a part of one.
package protocol NameLookUp {
    /// The ordinal of a name that is stored.
    func storedOrdinal(of name: [UInt8]) throws(ReaderError) -> NameOrdinal?
    /// The bytes of a name; empty where it was lost.
    func bytes(of name: NameOrdinal) throws(ReaderError) -> [UInt8]
    /// The names of a key; both `.none` where it was lost.
    func names(of key: KeyOrdinal) throws(ReaderError) -> RewardKey
    /// The keys of a reward, in any order.
    func keys(ofReward reward: NameOrdinal) throws(ReaderError) -> [KeyOrdinal]
}

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
package protocol NameSource: NameLookUp {
    /// One more than the greatest ordinal given. Every row's ordinal is below it, or is damage.
    var nextName: UInt32 { get }
    var nextKey: UInt32 { get }

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
