// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Which reward keys a query asks for.
package struct KeyFilter {
    private let reward: NameOrdinal?
    private let business: NameOrdinal?
    /// Set where the reward asked for is `(lost:N)`, no name is meant, and N is a key.
    private let lostKey: UInt32?
    private let names: NameTable

    /// `nil` where a name was never seen, so that nothing can match.
    package init?(reward: String?, business: String?, in names: NameTable) {
        self.names = names
        var lostKey: UInt32?
        var rewardOrdinal: NameOrdinal?
        if let reward {
            rewardOrdinal = names.ordinal(of: reward)
            lostKey =
                rewardOrdinal == nil
                ? NameTable.lostOrdinal(reward).flatMap(UInt32.init(exactly:)) : nil
            if rewardOrdinal == nil && lostKey == nil { return nil }
        }
        self.reward = rewardOrdinal
        self.lostKey = lostKey
        guard let business else {
            self.business = nil
            return
        }
        guard let ordinal = names.ordinal(of: business) else { return nil }
        self.business = ordinal
    }

    package func admits(_ key: UInt32) -> Bool {
        if reward == nil && business == nil && lostKey == nil { return true }
        let pair = names.names(of: KeyOrdinal(rawValue: key))
        if let business, pair.business != business { return false }
        if reward == nil && lostKey == nil { return true }
        if pair.reward == .none { return lostKey == key }
        return pair.reward == reward
    }
}
