// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → query

/// Names and keys that are in no run yet, taken by ordinal and given back in the orders of a names run. Owned by one
/// stage.
///
/// **Cost** The names' bytes and 28 bytes a name, 24 bytes a key. Sorting: about 130 ns a name with its key; names
/// come into a run by sorting once, and are only merged after that.
package struct FreshNames {
    package let firstName: UInt32
    package let firstKey: UInt32
    private let hash: KeyedHash
    private var bytes: [UInt8] = []
    /// End of each name in `bytes`.
    private var ends: [UInt32] = []
    private var hashes: [UInt64] = []
    private var keys: [UInt64] = []

    /// Where each order stands: a place by `NamesPageKind`.
    private var taken = [Int](repeating: 0, count: NamesPageKind.allCases.count)
    private var order: [UInt32] = []
    private var rewards: [UInt64] = []

    /// - Parameter hash: the directory's.
    package init(firstName: NameOrdinal, firstKey: KeyOrdinal, hash: KeyedHash) {
        self.firstName = firstName.rawValue
        self.firstKey = firstKey.rawValue
        self.hash = hash
    }

    /// The ordinals taken so far.
    package var names: Range<UInt32> { firstName..<firstName + UInt32(ends.count) }
    package var keyRange: Range<UInt32> { firstKey..<firstKey + UInt32(keys.count) }

    /// The next name, or (empty) the gap of one that was lost.
    /// - Parameter name: at most `Limits.nameByteCountMax` bytes.
    package mutating func append(name: ArraySlice<UInt8>) {
        precondition(name.count <= Limits.nameByteCountMax)
        let ordinal = names.upperBound
        bytes.append(contentsOf: name)
        ends.append(UInt32(bytes.count))
        hashes.append(PairBatch.word(Self.half(hash, name), ordinal))
    }

    /// What a hash page holds of a name: the upper half of its hash; 0 for one that was lost.
    static func half(_ hash: KeyedHash, _ name: ArraySlice<UInt8>) -> UInt32 {
        guard !name.isEmpty else { return 0 }
        return unsafe name.withUnsafeBytes { name in
            guard let base = name.baseAddress else { return 0 }
            // SAFETY: at most 128 bytes, valid inside the closure.
            return UInt32(truncatingIfNeeded: unsafe hash.name(base, name.count) >> 32)
        }
    }

    /// The next key, or (`nil`) the gap of one that was lost.
    package mutating func append(key: RewardKey?) {
        let ordinal = keyRange.upperBound
        let (reward, business) = (key?.reward.rawValue ?? 0, key?.business.rawValue ?? 0)
        keys.append(PairBatch.word(reward, business))
        rewards.append(PairBatch.word(reward, ordinal))
    }

    /// Sorts what was taken; nothing is appended afterwards.
    package mutating func sort() {
        order = NameSort.order(bytes: bytes, ends: ends)
        hashes.sort()
        rewards.sort()
    }

    /// The next names in order, as many as fit. `false` at the end.
    package mutating func nextNames(into batch: NameBatch) -> Bool {
        let kind = NamesPageKind.names.rawValue
        let first = taken[kind]
        taken[kind] = min(order.count, first + NameBatch.capacity)
        batch.removeAll()
        // SAFETY: the buffer is used inside the closure only; ends are within the bytes.
        unsafe bytes.withUnsafeBytes { bytes in
            for place in first..<taken[kind] {
                let name = Int(order[place])
                let start = name == 0 ? 0 : Int(ends[name - 1])
                unsafe batch.append(
                    UnsafeRawBufferPointer(rebasing: bytes[start..<Int(ends[name])]),
                    ordinal: firstName + order[place])
            }
        }
        return batch.count > 0
    }

    /// The next pairs of a kind (keys, hashes, rewards), as many as fit. `false` at the end.
    package mutating func nextPairs(_ kind: NamesPageKind, into batch: PairBatch) -> Bool {
        let first = taken[kind.rawValue]
        let end: Int
        batch.removeAll()
        switch kind {
        case .keys: end = Self.copy(keys, from: first, to: batch)
        case .hashes: end = Self.copy(hashes, from: first, to: batch)
        case .rewards: end = Self.copy(rewards, from: first, to: batch)
        case .names, .ranks: end = first
        }
        taken[kind.rawValue] = end
        return batch.count > 0
    }

    private static func copy(_ words: [UInt64], from first: Int, to batch: PairBatch) -> Int {
        let end = min(words.count, first + batch.capacity)
        for place in first..<end { batch.append(words[place]) }
        return end
    }
}

/// Sorts names bytewise, eight bytes at a time: names that begin alike are told apart by the eight that follow.
enum NameSort {
    private struct Item {
        var word: UInt64
        var name: UInt32
    }

    /// The places of the names in the order of their bytes, then of their places.
    static func order(bytes: [UInt8], ends: [UInt32]) -> [UInt32] {
        var items = (0..<UInt32(ends.count)).map { Item(word: 0, name: $0) }
        // Ranges of names that are alike up to a depth; their items are in the order of their places.
        var waiting = [(range: 0..<items.count, depth: 0)]
        while let (range, depth) = waiting.popLast() {
            guard range.count > 1 else { continue }
            for place in range {
                items[place].word = word(Int(items[place].name), depth, bytes, ends)
            }
            sort(&items, range) { a, b in a.word == b.word ? a.name < b.name : a.word < b.word }
            var start = range.lowerBound
            for place in range
            where place + 1 == range.upperBound
                || items[place + 1].word != items[place].word
            {
                let alike = start..<place + 1
                start = place + 1
                guard alike.count > 1 else { continue }
                if depth + 8 < Limits.nameByteCountMax,
                    alike.contains(where: { byteCount(Int(items[$0].name), ends) > depth + 8 })
                {
                    waiting.append((alike, depth + 8))
                } else {
                    // Alike but for zero bytes at the end, where the shorter comes first.
                    sort(&items, alike) { a, b in
                        let left = byteCount(Int(a.name), ends)
                        let right = byteCount(Int(b.name), ends)
                        return left == right ? a.name < b.name : left < right
                    }
                }
            }
        }
        return items.map(\.name)
    }

    /// Sorts a part in place, which a slice of an array does not.
    private static func sort(
        _ items: inout [Item], _ range: Range<Int>, by isBefore: (Item, Item) -> Bool
    ) {
        unsafe items.withUnsafeMutableBufferPointer { items in
            // SAFETY: the range is within the array.
            var part = unsafe UnsafeMutableBufferPointer(rebasing: items[range])
            unsafe part.sort(by: isBefore)
        }
    }

    private static func byteCount(_ name: Int, _ ends: [UInt32]) -> Int {
        Int(ends[name]) - (name == 0 ? 0 : Int(ends[name - 1]))
    }

    /// Eight bytes of a name from `depth` on, the first of them uppermost, zeros behind its end.
    private static func word(
        _ name: Int, _ depth: Int, _ bytes: [UInt8], _ ends: [UInt32]
    ) -> UInt64 {
        let start = (name == 0 ? 0 : Int(ends[name - 1])) + depth
        let end = min(Int(ends[name]), start + 8)
        var word: UInt64 = 0
        for place in start..<max(start, end) { word = word << 8 | UInt64(bytes[place]) }
        return end > start ? word << UInt64(8 * (8 - (end - start))) : 0
    }
}
