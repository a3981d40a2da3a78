// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// The names as the log itself introduced them, each distinct text once, so that counts are by what a
/// name says and not by its ordinal.
struct RecountNames {
    /// Each distinct name; a lost one stands under bytes that no name can have.
    private var texts: [[UInt8]] = []
    private var textIndices: [[UInt8]: UInt32] = [:]
    /// By index of the text: the first ordinal that a block gave it; 0 = none.
    private var firstOrdinals: [UInt32] = []
    /// By name ordinal and by key ordinal; `nil` for what no block introduced.
    private var textOfName: [UInt32?] = []
    private var pairOfKey: [UInt32?] = []
    /// By key ordinal, as its block said.
    private var keys: [UInt32: RewardKey] = [:]
    /// What names runs say, for ordinals that no block introduced because theirs cannot be read.
    private var copiedNames: [UInt32: [UInt8]] = [:]
    private var copiedKeys: [UInt32: RewardKey] = [:]
    /// Distinct (reward text, business text).
    private var pairs: [(reward: UInt32, business: UInt32)] = []
    private var pairIndices: [UInt64: UInt32] = [:]

    /// 0xFF begins no UTF-8 text.
    private static let lostMark: UInt8 = 0xFF

    /// Enters a name that a block introduced.
    /// - Returns: an ordinal that has the same name, if there is one: names are given once.
    mutating func enter(name ordinal: UInt32, _ bytes: [UInt8]) -> UInt32? {
        let index = Int(ordinal)
        guard index <= Limits.nameCountMax else { return nil }
        Self.grow(&textOfName, to: index)
        let text = textIndex(bytes)
        textOfName[index] = text
        let first = firstOrdinals[Int(text)]
        if first == 0 { firstOrdinals[Int(text)] = ordinal }
        return first == 0 || first == ordinal ? nil : first
    }

    mutating func enter(key ordinal: UInt32, _ pair: RewardKey) {
        guard Int(ordinal) < Limits.keyCountMax else { return }
        Self.grow(&pairOfKey, to: Int(ordinal))
        keys[ordinal] = pair
        pairOfKey[Int(ordinal)] = pairIndex(
            reward: text(ofName: pair.reward.rawValue),
            business: text(ofName: pair.business.rawValue))
    }

    /// Keeps what a names run says. It is used for names of blocks that cannot be read, and no other.
    mutating func keep(_ run: NamesRun) {
        for ordinal in run.names {
            let name = run.name(NameOrdinal(rawValue: ordinal))
            if !name.isEmpty { copiedNames[ordinal] = Array(name) }
        }
        for ordinal in run.keys {
            copiedKeys[ordinal] = run.key(KeyOrdinal(rawValue: ordinal))
        }
    }

    /// What a block introduced under an ordinal; `nil` if none did.
    func name(_ ordinal: UInt32) -> [UInt8]? {
        guard Int(ordinal) < textOfName.count, let text = textOfName[Int(ordinal)] else {
            return nil
        }
        return texts[Int(text)].first == Self.lostMark ? nil : texts[Int(text)]
    }

    /// What a block introduced under a key ordinal; `nil` if none did.
    func key(_ ordinal: UInt32) -> RewardKey? { keys[ordinal] }

    /// The distinct text of a name ordinal; of a lost one, a text of its own.
    mutating func text(ofName ordinal: UInt32) -> UInt32 {
        if Int(ordinal) < textOfName.count, let text = textOfName[Int(ordinal)] { return text }
        if let copied = copiedNames[ordinal] { return textIndex(copied) }
        return textIndex([Self.lostMark, 0] + Array("(lost:\(ordinal))".utf8))
    }

    /// The distinct pair of a key ordinal; of a lost one, a pair of its own.
    mutating func pair(ofKey ordinal: UInt32) -> UInt32 {
        if Int(ordinal) < pairOfKey.count, let pair = pairOfKey[Int(ordinal)] { return pair }
        let pair: UInt32
        if let copied = copiedKeys[ordinal] {
            pair = pairIndex(
                reward: text(ofName: copied.reward.rawValue),
                business: text(ofName: copied.business.rawValue))
        } else {
            let reward = textIndex([Self.lostMark, 1] + Array("(lost:\(ordinal))".utf8))
            pair = pairIndex(reward: reward, business: text(ofName: 0))
        }
        if Int(ordinal) < Limits.keyCountMax {
            Self.grow(&pairOfKey, to: Int(ordinal))
            pairOfKey[Int(ordinal)] = pair
        }
        return pair
    }

    func business(ofPair pair: UInt32) -> UInt32 { pairs[Int(pair)].business }

    /// For messages.
    func describe(pair: UInt32) -> String {
        "reward \(shown(pairs[Int(pair)].reward)) business \(shown(pairs[Int(pair)].business))"
    }

    func describe(text: UInt32) -> String { "business \(shown(text))" }

    private func shown(_ text: UInt32) -> String {
        let bytes = texts[Int(text)]
        return String(
            decoding: bytes.first == Self.lostMark ? bytes.dropFirst(2) : bytes[...], as: UTF8.self)
    }

    private mutating func textIndex(_ bytes: [UInt8]) -> UInt32 {
        if let index = textIndices[bytes] { return index }
        let index = UInt32(texts.count)
        texts.append(bytes)
        firstOrdinals.append(0)
        textIndices[bytes] = index
        return index
    }

    private mutating func pairIndex(reward: UInt32, business: UInt32) -> UInt32 {
        let key = UInt64(reward) << 32 | UInt64(business)
        if let index = pairIndices[key] { return index }
        let index = UInt32(pairs.count)
        pairs.append((reward, business))
        pairIndices[key] = index
        return index
    }

    private static func grow(_ list: inout [UInt32?], to index: Int) {
        if index >= list.count {
            list.append(contentsOf: repeatElement(nil, count: index + 1 - list.count))
        }
    }
}
