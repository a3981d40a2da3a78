// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

extension CounterQuery {
    /// Gives rewards bytewise by id, or the greatest first.
    ///
    /// **Cost** By id: a pass over the names in their stored order, and over the table one for each
    /// `Limits.queryRowCountMax` rewards; memory is that of `RewardRange` and `KeyGroups`, whatever the number
    /// of rows. The greatest: that of `TopRewards`.
    package func forEachReward(
        _ query: RewardsQuery, _ body: ListedRow.Body
    ) throws(ReaderError) {
        guard case .some(let business) = try ordinal(ofBusiness: query.business) else { return }
        var limit = RowLimit(query.limit)
        if limit.isReached { return }
        if let order = query.order {
            let top = try TopRewards(
                self, query.days, business: business, by: order, countMax: query.limit ?? .max)
            return try give(top, query, business, body)
        }
        let groups = try KeyGroups(names, business: business)
        let isWanted = groups.areWanted()
        var walk = try names.walk(lostKeys: groups.lostKeys) { isWanted[$0] }
        var range = RewardRange(
            self, groups, query.days, countMax: isWanted.count { $0 })
        func limited(_ row: ListedRow) -> Bool { limit.goesOn(body(row)) }
        while try walk.next() {
            guard isWanted[Int(walk.number)] else { continue }
            if range.isFull, try !range.give(limited) { return }
            range.enter(walk.number) { walk.appendName(to: &$0) }
        }
        _ = try range.give(limited)
    }

    /// Gives the rewards that `top` found: a few by point reads, many by passes over the table.
    private func give(
        _ top: TopRewards, _ query: RewardsQuery, _ business: NameOrdinal?, _ body: ListedRow.Body
    ) throws(ReaderError) {
        if top.rewards.count <= TopRewards.pointCountMax {
            for reward in top.rewards {
                let keys =
                    try reward.name.map { (name) throws(ReaderError) in
                        try names.keys(ofReward: name)
                    } ?? [KeyOrdinal(rawValue: reward.key)]
                guard var row = try sum(of: keys, business: business, days: query.days) else {
                    continue
                }
                row.id = top.text(of: reward)
                guard body(row) else { return }
            }
            return
        }
        let groups = try KeyGroups(names, business: business)
        var range = RewardRange(self, groups, query.days, countMax: top.rewards.count)
        for reward in top.rewards {
            if range.isFull, try !range.give(body) { return }
            range.enter(groups.groupOfKey[Int(reward.key)]) { $0 += top.text(of: reward) }
        }
        _ = try range.give(body)
    }
}
