// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The directory's dictionary as of one cut: names and reward keys by ordinal.
///
/// Ordinals whose block was lost have no entry. They are shown as `(lost:N)`, N being the ordinal of
/// the name, or of the key where the pair itself is unknown; the business of such a key is `(lost:0)`. N is so
/// of two kinds: who asks for `(lost:N)` gets a stored name that reads like that, else the lost name, else
/// the lost key.
///
/// **Cost** The bytes of all names, 8 bytes a name and 8 bytes a key.
package struct NameTable: Sendable {
    /// All names, one after another.
    private var bytes: [UInt8] = []
    /// By name ordinal: offset into `bytes` × 256 + byte count; 0 = lost (names are never empty).
    private var places: [UInt64] = [0]
    private var keys: [RewardKey] = []
    /// Names and keys that are known.
    package private(set) var nameCount = 0
    package private(set) var keyCount = 0

    private static let lostKey = RewardKey(reward: .none, business: .none)

    package init() {}

    /// One more than the greatest ordinal that has an entry.
    package var nextName: UInt32 { UInt32(places.count) }
    package var nextKey: UInt32 { UInt32(keys.count) }

    /// Enters a name; the first entry of an ordinal stays. `false` if the limits forbid it.
    package mutating func enter(name ordinal: NameOrdinal, bytes name: some Collection<UInt8>)
        -> Bool
    {
        let index = Int(ordinal.rawValue)
        guard index > 0, index <= Limits.nameCountMax, !name.isEmpty,
            name.count <= Limits.nameByteCountMax
        else { return false }
        if index >= places.count {
            places.append(contentsOf: repeatElement(0, count: index + 1 - places.count))
        }
        guard places[index] == 0 else { return true }
        places[index] = UInt64(bytes.count) << 8 | UInt64(name.count)
        bytes.append(contentsOf: name)
        nameCount += 1
        return true
    }

    /// Enters a reward key; the first entry of an ordinal stays. `false` if the limits forbid it.
    package mutating func enter(key ordinal: KeyOrdinal, _ key: RewardKey) -> Bool {
        let index = Int(ordinal.rawValue)
        guard index < Limits.keyCountMax, key != Self.lostKey else { return false }
        if index >= keys.count {
            keys.append(contentsOf: repeatElement(Self.lostKey, count: index + 1 - keys.count))
        }
        guard keys[index] == Self.lostKey else { return true }
        keys[index] = key
        keyCount += 1
        return true
    }

    /// The names of a key; both `.none` where it was lost.
    package func names(of key: KeyOrdinal) -> RewardKey {
        key.rawValue < keys.count ? keys[Int(key.rawValue)] : Self.lostKey
    }

    /// The bytes of a name; empty where it was lost.
    package func bytes(of name: NameOrdinal) -> ArraySlice<UInt8> {
        guard name.rawValue < places.count else { return [] }
        let place = places[Int(name.rawValue)]
        let start = Int(place >> 8)
        return bytes[start..<(start + Int(place & 255))]
    }

    /// The bytes of the name as it is shown.
    package func shownBytes(of name: NameOrdinal) -> [UInt8] {
        let slice = bytes(of: name)
        return slice.isEmpty ? Array(Self.lostText(name.rawValue).utf8) : Array(slice)
    }

    /// The bytes of a key's reward as they are shown: `(lost:N)` with the key's ordinal where it was lost.
    package func shownRewardBytes(of key: KeyOrdinal) -> [UInt8] {
        let reward = names(of: key).reward
        return reward == .none ? Array(Self.lostText(key.rawValue).utf8) : shownBytes(of: reward)
    }

    package static func lostText(_ ordinal: UInt32) -> String { "(lost:\(ordinal))" }

    /// The ordinal of a name, or the one that a text `(lost:N)` means. **Cost** One pass over all names.
    package func ordinal(of name: String) -> NameOrdinal? {
        let wanted = Array(name.utf8)
        guard !wanted.isEmpty, wanted.count <= Limits.nameByteCountMax else { return nil }
        for index in places.indices where Int(places[index] & 255) == wanted.count {
            let start = Int(places[index] >> 8)
            if bytes[start..<(start + wanted.count)] == wanted[...] {
                return NameOrdinal(rawValue: UInt32(index))
            }
        }
        guard let lost = Self.lostOrdinal(name), lost < places.count, places[lost] == 0 else {
            return nil
        }
        return NameOrdinal(rawValue: UInt32(lost))
    }

    /// N of a text `(lost:N)`.
    package static func lostOrdinal(_ text: String) -> Int? {
        guard text.hasPrefix("(lost:"), text.hasSuffix(")") else { return nil }
        return Int(text.dropFirst(6).dropLast())
    }
}
