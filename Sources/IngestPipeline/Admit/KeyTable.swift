// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// (reward, business) → key ordinal, for the businesses of a reward but its first. Owned by the `NameDictionary`,
/// whose entry of the reward holds that one, and so nearly all keys.
///
/// **Layout** Entries of 12 bytes, reward, business, key. Names start at 1, so a reward of 0 marks a free entry.
/// **Cost** One or two misses a lookup; 16–20 bytes a key.
@safe struct KeyTable: ~Copyable {
    private var table = GrowingTable<Entry>()

    struct Entry: TableEntry {
        var reward: UInt32 = 0
        var business: UInt32 = 0
        var key: UInt32 = 0

        var isFree: Bool { reward == 0 }
        var spread: UInt64 { KeyTable.spread(reward, business) }
    }

    /// Random in each process; nothing that is written depends on it.
    private static let seed = UInt64.random(in: 0...UInt64.max)

    /// Senders choose which pairs come, and can work out the ordinals, so only a secret keeps them from choosing pairs
    /// that all belong to one place.
    static func spread(_ reward: UInt32, _ business: UInt32) -> UInt64 {
        SplitMix.finish((UInt64(reward) << 32 | UInt64(business)) ^ seed)
    }

    func find(_ pair: RewardKey) -> KeyOrdinal? {
        let (reward, business) = (pair.reward.rawValue, pair.business.rawValue)
        let found = unsafe table.find(Self.spread(reward, business)) {
            unsafe $0.pointee.reward == reward && $0.pointee.business == business
        }
        // SAFETY: found this moment; nothing was inserted since.
        return unsafe found.map { KeyOrdinal(rawValue: unsafe $0.pointee.key) }
    }

    mutating func goOnGrowing() { table.goOnGrowing() }

    /// Adds a pair that is not in the table.
    mutating func insert(_ pair: RewardKey, _ key: KeyOrdinal) {
        _ = unsafe table.insert(
            Entry(
                reward: pair.reward.rawValue, business: pair.business.rawValue, key: key.rawValue))
    }
}
