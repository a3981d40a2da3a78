// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// The names and keys as the log itself introduced them, and a check that each was given once.
///
/// **Cost** The bytes of the names, 16 a name and 16 a key; about 50 ns for each that is entered.
struct RecountNames: Sendable {
    private var texts = NameTexts()
    /// By key ordinal; without names for what no block introduced.
    private var keys: [RewardKey] = []
    private var nameSet = OrdinalSet()
    private var keySet = OrdinalSet()
    private let keySeed = UInt64.random(in: 0...UInt64.max)
    /// What names runs say, for ordinals that no block introduced because theirs cannot be read.
    private let copies: NameCopies
    /// Those of expired segments.
    private let attested: AttestedNames

    private static let noKey = RewardKey(reward: .none, business: .none)

    /// - Parameter copies: used for names of blocks that cannot be read, and no other.
    init(copies: NameCopies = NameCopies(), attested: AttestedNames = AttestedNames()) {
        self.copies = copies
        self.attested = attested
    }

    // MARK: Entering

    /// Enters a name that a block introduced.
    /// - Returns: an ordinal that has the same name, if there is one: names are given once.
    mutating func enter(name ordinal: UInt32, _ bytes: ArraySlice<UInt8>) -> UInt32? {
        guard Int(ordinal) <= Limits.nameCountMax else { return nil }
        texts.set(ordinal, bytes)
        let texts = texts
        return nameSet.insert(ordinal, hash: texts.hash(bytes)) { texts.text($0) == bytes }
    }

    /// Enters a key that a block introduced.
    /// - Returns: an ordinal that has the same pair of names, if there is one: keys are given once.
    mutating func enter(key ordinal: UInt32, _ pair: RewardKey) -> UInt32? {
        guard Int(ordinal) < Limits.keyCountMax else { return nil }
        keys.set(pair, at: Int(ordinal), filling: Self.noKey)
        let keys = keys
        return keySet.insert(ordinal, hash: hash(pair)) { keys[Int($0)] == pair }
    }

    /// Both ordinals are of the log's own giving, so a product spreads them well enough; the seed is of this process.
    private func hash(_ key: RewardKey) -> UInt32 {
        let word = UInt64(key.reward.rawValue) << 32 | UInt64(key.business.rawValue)
        let product = (word ^ keySeed).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        return UInt32(truncatingIfNeeded: product.high ^ product.low)
    }

    // MARK: What blocks introduced

    /// The bytes of a name; `nil` if no block introduced it.
    func name(_ ordinal: UInt32) -> ArraySlice<UInt8>? { texts.text(ordinal) }

    /// `nil` if no block introduced it.
    func key(_ ordinal: UInt32) -> RewardKey? {
        guard Int(ordinal) < keys.count, keys[Int(ordinal)] != Self.noKey else { return nil }
        return keys[Int(ordinal)]
    }

    /// Whether the block that introduced a name has expired.
    func isAttested(name ordinal: UInt32) -> Bool { ordinal < attested.nextName }

    /// Whether the block that introduced a key has expired.
    func isAttested(key ordinal: UInt32) -> Bool { ordinal < attested.nextKey }

    // MARK: What is known

    /// The business of a key, from its block or else from a names run; 0 of one that is lost.
    func business(ofKey ordinal: UInt32) -> UInt32 {
        let business = pair(ofKey: ordinal)?.business.rawValue ?? 0
        return business <= Limits.nameCountMax ? business : 0
    }

    private func pair(ofKey ordinal: UInt32) -> RewardKey? {
        if let key = key(ordinal) { return key }
        if Int(ordinal) < attested.keys.count { return attested.keys[Int(ordinal)] }
        return copies.key(KeyOrdinal(rawValue: ordinal))
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
        guard let copy = copies.name(NameOrdinal(rawValue: ordinal)) else {
            return NamesRun.lostText(ordinal)
        }
        return String(decoding: copy, as: UTF8.self)
    }
}

/// The names and keys of expired segments: names runs are the only ones to say what they are.
struct AttestedNames: Sendable {
    /// The first that are not among them.
    var nextName: UInt32 = 0
    var nextKey: UInt32 = 0
    /// By key ordinal; none for those that were lost.
    var keys: [RewardKey] = []
}

/// Names and keys as the names runs have them, looked up one by one; `nil` for what is not there or cannot
/// be read, which is reported elsewhere.
struct NameCopies: Sendable {
    var name: @Sendable (NameOrdinal) -> [UInt8]? = { _ in nil }
    var key: @Sendable (KeyOrdinal) -> RewardKey? = { _ in nil }
}

/// The bytes of names, back to back, by ordinal.
private struct NameTexts: Sendable {
    private var bytes: [UInt8] = []
    /// By ordinal: start in `bytes` × 256 + byte count; 0 = none.
    private var places: [UInt64] = []
    private let keyedHash = KeyedHash(key: InlineArray { _ in UInt8.random(in: 0...255) })

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

    /// With a key of this process, so that no names can be made to collide.
    func hash(_ text: ArraySlice<UInt8>) -> UInt32 {
        // SAFETY: the bytes are valid inside the closure, and no more than a name has.
        unsafe text.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress, bytes.count <= Limits.nameByteCountMax else {
                return 0
            }
            return unsafe UInt32(truncatingIfNeeded: keyedHash.name(base, bytes.count))
        }
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
/// **Cost** 8 bytes a place, of which at most three of four are taken. A look compares what an ordinal stands for only
/// where 32 bits of hash are the same.
private struct OrdinalSet: Sendable {
    /// Hash in the upper half, ordinal + 1 in the lower; 0 = free.
    private var table: [UInt64] = []
    private var count = 0

    /// Adds an ordinal, unless one that stands for the same is there already.
    /// - Parameter isSame: whether another ordinal stands for the same.
    /// - Returns: the one that is there.
    mutating func insert(
        _ ordinal: UInt32, hash: UInt32, isSame: (UInt32) -> Bool
    ) -> UInt32? {
        if 4 * (count + 1) > 3 * table.count { grow() }
        var place = Int(hash) & (table.count - 1)
        while table[place] != 0 {
            let other = UInt32(truncatingIfNeeded: table[place]) &- 1
            if table[place] >> 32 == UInt64(hash), isSame(other) {
                return other == ordinal ? nil : other
            }
            place = (place + 1) & (table.count - 1)
        }
        table[place] = UInt64(hash) << 32 | UInt64(ordinal) + 1
        count += 1
        return nil
    }

    private mutating func grow() {
        let old = table
        table = Array(repeating: 0, count: max(64, 2 * old.count))
        for entry in old where entry != 0 {
            var place = Int(entry >> 32) & (table.count - 1)
            while table[place] != 0 { place = (place + 1) & (table.count - 1) }
            table[place] = entry
        }
    }
}
