// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// The names and keys as the log itself introduced them, and a check that each was given once.
///
/// **Cost** The bytes of the names, 16 a name and 16 a key; about 100 ns for each that is entered.
struct RecountNames: Sendable {
    private var texts = NameTexts()
    /// By key ordinal; without names for what no block introduced.
    private var keys: [RewardKey] = []
    private var nameSet = OrdinalSet()
    private var keySet = OrdinalSet()
    /// What names runs say, for ordinals that no block introduced because theirs cannot be read.
    private let copies: [NamesRun]

    private static let noKey = RewardKey(reward: .none, business: .none)

    /// - Parameter copies: used for names of blocks that cannot be read, and no other; by ordinal.
    init(copies: [NamesRun] = []) { self.copies = copies }

    // MARK: Entering

    /// Enters a name that a block introduced.
    /// - Returns: an ordinal that has the same name, if there is one: names are given once.
    mutating func enter(name ordinal: UInt32, _ bytes: ArraySlice<UInt8>) -> UInt32? {
        guard Int(ordinal) <= Limits.nameCountMax else { return nil }
        texts.set(ordinal, bytes)
        let texts = texts
        return nameSet.insert(
            ordinal, hashOf: { texts.hash($0) }, areSame: { texts.text($0) == texts.text($1) })
    }

    /// Enters a key that a block introduced.
    /// - Returns: an ordinal that has the same pair of names, if there is one: keys are given once.
    mutating func enter(key ordinal: UInt32, _ pair: RewardKey) -> UInt32? {
        guard Int(ordinal) < Limits.keyCountMax else { return nil }
        keys.set(pair, at: Int(ordinal), filling: Self.noKey)
        let keys = keys
        return keySet.insert(
            ordinal, hashOf: { keys[Int($0)].hashValue },
            areSame: { keys[Int($0)] == keys[Int($1)] })
    }

    // MARK: What blocks introduced

    /// The bytes of a name; `nil` if no block introduced it.
    func name(_ ordinal: UInt32) -> ArraySlice<UInt8>? { texts.text(ordinal) }

    /// `nil` if no block introduced it.
    func key(_ ordinal: UInt32) -> RewardKey? {
        guard Int(ordinal) < keys.count, keys[Int(ordinal)] != Self.noKey else { return nil }
        return keys[Int(ordinal)]
    }

    // MARK: What is known

    /// The business of a key, from its block or else from a names run; 0 of one that is lost.
    func business(ofKey ordinal: UInt32) -> UInt32 {
        let business = pair(ofKey: ordinal)?.business.rawValue ?? 0
        return business <= Limits.nameCountMax ? business : 0
    }

    private func pair(ofKey ordinal: UInt32) -> RewardKey? {
        if let key = key(ordinal) { return key }
        return copies.first { $0.keys.contains(ordinal) }?.key(KeyOrdinal(rawValue: ordinal))
    }

    /// For messages.
    func describe(key ordinal: UInt32) -> String {
        guard let pair = pair(ofKey: ordinal) else {
            return "reward \(NamesRun.lostText(ordinal)) business \(NamesRun.lostText(0))"
        }
        return "reward \(describe(name: pair.reward.rawValue)) "
            + "business \(describe(name: pair.business.rawValue))"
    }

    /// For messages.
    func describe(name ordinal: UInt32) -> String {
        if let name = name(ordinal) { return String(decoding: name, as: UTF8.self) }
        let copy = copies.first { $0.names.contains(ordinal) }?
            .name(NameOrdinal(rawValue: ordinal))
        guard let copy, !copy.isEmpty else { return NamesRun.lostText(ordinal) }
        return String(decoding: copy, as: UTF8.self)
    }
}

/// The bytes of names, back to back, by ordinal.
private struct NameTexts: Sendable {
    private var bytes: [UInt8] = []
    /// By ordinal: start in `bytes` × 256 + byte count; 0 = none.
    private var places: [UInt64] = []

    mutating func set(_ ordinal: UInt32, _ text: ArraySlice<UInt8>) {
        places.set(
            UInt64(bytes.count) << 8 | UInt64(text.count), at: Int(ordinal), filling: 0)
        bytes.append(contentsOf: text)
    }

    func text(_ ordinal: UInt32) -> ArraySlice<UInt8>? {
        guard Int(ordinal) < places.count, places[Int(ordinal)] != 0 else { return nil }
        let place = places[Int(ordinal)]
        let start = Int(place >> 8)
        return bytes[start..<start + Int(place & 255)]
    }

    /// With a seed of this process.
    func hash(_ ordinal: UInt32) -> Int {
        var hasher = Hasher()
        // SAFETY: the bytes are valid inside the closure.
        unsafe text(ordinal)?.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        return hasher.finalize()
    }
}

extension Array {
    /// Sets an element that may lie behind the end, and what lies before it too.
    fileprivate mutating func set(_ value: Element, at index: Int, filling filler: Element) {
        if index >= count {
            append(contentsOf: repeatElement(filler, count: index + 1 - count))
        }
        self[index] = value
    }
}

/// A set of ordinals by what they stand for, in an open table.
///
/// **Cost** 4 bytes a place, of which at most three of four are taken; a hash of one or two others a look.
private struct OrdinalSet: Sendable {
    /// An ordinal + 1; 0 = free.
    private var table: [UInt32] = []
    private var count = 0

    /// Adds an ordinal, unless one that stands for the same is there already.
    /// - Parameter hashOf: with a seed of this process, so that no names can be made to collide.
    /// - Returns: the one that is there.
    mutating func insert(
        _ ordinal: UInt32, hashOf: (UInt32) -> Int, areSame: (UInt32, UInt32) -> Bool
    ) -> UInt32? {
        if 4 * (count + 1) > 3 * table.count { grow(hashOf) }
        var place = hashOf(ordinal) & (table.count - 1)
        while table[place] != 0 {
            let other = table[place] - 1
            if areSame(other, ordinal) { return other == ordinal ? nil : other }
            place = (place + 1) & (table.count - 1)
        }
        table[place] = ordinal + 1
        count += 1
        return nil
    }

    private mutating func grow(_ hashOf: (UInt32) -> Int) {
        let old = table
        table = Array(repeating: 0, count: max(64, 2 * old.count))
        for entry in old where entry != 0 {
            var place = hashOf(entry - 1) & (table.count - 1)
            while table[place] != 0 { place = (place + 1) & (table.count - 1) }
            table[place] = entry
        }
    }
}
