// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Reward keys folded into rewards: one group a reward, over the businesses that it was seen with.
///
/// A key whose names were lost is a group of its own.
///
/// **Cost** A byte a key, 4 bytes a name, a row a group; adding costs two array accesses.
package struct RewardGroups {
    package struct Group {
        package var counters: CounterRow
        /// The first key seen; a group has at least one.
        package let key: KeyOrdinal
        /// Bytewise smallest, and how many.
        package var business: NameOrdinal
        package var businessCount: Int
    }

    package private(set) var groups: [Group] = []
    private let names: NameTable
    /// By name ordinal: index of the reward's group + 1, 0 = none yet.
    private var groupOfReward: [UInt32]
    /// By key ordinal: index of the key's group + 1, 0 = not seen.
    private var groupOfKey: [UInt32]

    package init(names: NameTable) {
        self.names = names
        groupOfReward = Array(repeating: 0, count: Int(names.nextName))
        groupOfKey = Array(repeating: 0, count: Int(names.nextKey))
    }

    /// Adds the counters of one key; `false` if a sum would not fit 64 bits or there can be no such key.
    package mutating func add(key: UInt32, _ row: CounterRow) -> Bool {
        let index = Int(key)
        guard index < Limits.keyCountMax else { return false }
        if index >= groupOfKey.count {
            groupOfKey.append(contentsOf: repeatElement(0, count: index + 1 - groupOfKey.count))
        }
        if groupOfKey[index] == 0 { groupOfKey[index] = enter(KeyOrdinal(rawValue: key)) }
        return groups[Int(groupOfKey[index]) - 1].counters.add(row)
    }

    /// Enters a key that was not seen before; returns the index of its group + 1.
    private mutating func enter(_ key: KeyOrdinal) -> UInt32 {
        let pair = names.names(of: key)
        let reward = Int(pair.reward.rawValue)
        if reward > 0, reward < groupOfReward.count, groupOfReward[reward] != 0 {
            join(Int(groupOfReward[reward]) - 1, pair.business)
            return groupOfReward[reward]
        }
        groups.append(
            Group(counters: CounterRow(), key: key, business: pair.business, businessCount: 1))
        let place = UInt32(groups.count)
        if reward > 0, reward < groupOfReward.count { groupOfReward[reward] = place }
        return place
    }

    private mutating func join(_ index: Int, _ business: NameOrdinal) {
        groups[index].businessCount += 1
        let smallest = names.shownBytes(of: groups[index].business)
        if NameOrder.precedes(names.shownBytes(of: business), smallest) == true {
            groups[index].business = business
        }
    }
}
