// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The questions, answered from one source of rows. All listings are complete passes over one table;
/// filters apply while rows are gathered, sorting comes last.
package struct CounterQuery {
    private let source: any CounterSource
    private var names: NameTable { source.names }

    package init(_ source: any CounterSource) { self.source = source }

    // MARK: Rewards

    /// One reward; `nil` if no event of it is stored (of that business, where one is given).
    package func reward(_ id: String, business: String?) throws(ReaderError) -> RewardRow? {
        guard let filter = KeyFilter(reward: id, business: business, in: names) else { return nil }
        let groups = try rewardGroups(filter, .all)
        return groups.first.map { row(of: $0) }
    }

    package func rewards(_ query: RewardsQuery) throws(ReaderError) -> [RewardRow] {
        guard let filter = KeyFilter(reward: nil, business: query.business, in: names) else {
            return []
        }
        let groups = try rewardGroups(filter, query.days)
        let order = Self.order(groups, by: query.order, in: names)
        return order.prefix(max(0, query.top ?? .max)).map { row(of: groups[$0]) }
    }

    private func rewardGroups(
        _ filter: KeyFilter, _ days: DayRange
    ) throws(ReaderError) -> [RewardGroups.Group] {
        var groups = RewardGroups(names: names)
        let isBounded = days.isBounded
        try source.forEachRow(
            of: isBounded ? .rewardDays : .rewards,
            where: { key, day in filter.admits(key) && (!isBounded || days.contains(day)) },
            { (key, _, row) throws(ReaderError) in
                guard groups.add(key: key, row) else { throw .overflow }
            })
        return groups.groups
    }

    /// Indices of `groups` in the order asked for.
    private static func order(
        _ groups: [RewardGroups.Group], by order: RewardsQuery.Order?, in names: NameTable
    ) -> [Int] {
        let ranks = NameOrder.ranks(of: groups.map { names.shownRewardBytes(of: $0.key) })
        var byName = Array(groups.indices)
        for (index, rank) in ranks.enumerated() { byName[Int(rank)] = index }
        guard let order else { return byName }
        // Sorting is stable in fact but not by promise, so the rank decides between equal ones.
        return byName.sorted { a, b in
            switch compare(groups[a].counters, groups[b].counters, by: order) {
            case .some(let isGreater): isGreater
            case nil: ranks[a] < ranks[b]
            }
        }
    }

    /// Whether `a` comes before `b`, greatest first; `nil` where they are equal.
    private static func compare(
        _ a: CounterRow, _ b: CounterRow, by order: RewardsQuery.Order
    ) -> Bool? {
        func greater(_ x: UInt64, _ y: UInt64) -> Bool? { x == y ? nil : x > y }
        switch order {
        case .impressions: return greater(a[.impressions], b[.impressions])
        case .clicks: return greater(a[.clicks], b[.clicks])
        case .redemptions: return greater(a[.redemptions], b[.redemptions])
        case .ctr:
            switch (Counters(a).ctr, Counters(b).ctr) {
            case (let x?, let y?): return x < y ? false : y < x ? true : nil
            case (nil, nil): return nil
            case (let x, _): return x != nil
            }
        }
    }

    private func row(of group: RewardGroups.Group) -> RewardRow {
        RewardRow(
            id: String(decoding: names.shownRewardBytes(of: group.key), as: UTF8.self),
            businessID: String(decoding: names.shownBytes(of: group.business), as: UTF8.self),
            businessCount: group.businessCount, counters: Counters(group.counters))
    }

    // MARK: Days

    /// One business-day; `nil` if no event of it is stored.
    package func day(business: String, date: CivilDay) throws(ReaderError) -> DayRow? {
        try days(DaysQuery(business: business, days: DayRange(from: date, to: date))).first
    }

    package func days(_ query: DaysQuery) throws(ReaderError) -> [DayRow] {
        var wanted: NameOrdinal?
        if let business = query.business {
            guard let ordinal = names.ordinal(of: business) else { return [] }
            wanted = ordinal
        }
        var gathered = GatheredRows()
        try source.forEachRow(
            of: .days,
            where: { business, day in
                (wanted == nil || wanted?.rawValue == business) && query.days.contains(day)
            },
            { (business, day, row) throws(ReaderError) in try gathered.add(business, day, row) })
        let texts = gathered.ordinals.map { names.shownBytes(of: NameOrdinal(rawValue: $0)) }
        let rows = gathered.sorted(byRanks: NameOrder.ranks(of: texts))
        return Self.sortedByID(
            rows.map { (texts[$0.ordinalIndex], CivilDay(dayNumber: $0.day), $0.counters) })
    }

    /// By the bytes of `{businessId}#{date}`, which is not the order of (business, date) where one
    /// business's name is the beginning of another's.
    private static func sortedByID(_ rows: [([UInt8], CivilDay, CounterRow)]) -> [DayRow] {
        let ranks = NameOrder.ranks(of: rows.map { $0.0 + Array("#\($0.1)".utf8) })
        var places = Array(rows.indices)
        for (index, rank) in ranks.enumerated() { places[Int(rank)] = index }
        return places.map {
            DayRow(
                businessID: String(decoding: rows[$0].0, as: UTF8.self), date: rows[$0].1,
                counters: Counters(rows[$0].2))
        }
    }

    // MARK: Reward-days

    package func rewardDays(_ query: RewardDaysQuery) throws(ReaderError) -> [RewardDayRow] {
        guard let filter = KeyFilter(reward: query.reward, business: query.business, in: names)
        else { return [] }
        var gathered = GatheredRows()
        try source.forEachRow(
            of: .rewardDays, where: { key, day in query.days.contains(day) && filter.admits(key) },
            { (key, day, row) throws(ReaderError) in try gathered.add(key, day, row) })
        let keys = gathered.ordinals.map { KeyOrdinal(rawValue: $0) }
        let rewards = keys.map { names.shownRewardBytes(of: $0) }
        let businesses = keys.map { names.shownBytes(of: names.names(of: $0).business) }
        let ranks = NameOrder.ranks(
            of: keys.indices.map { NameOrder.pair(rewards[$0], businesses[$0]) })
        return gathered.sorted(byRanks: ranks).map { row in
            RewardDayRow(
                id: String(decoding: rewards[row.ordinalIndex], as: UTF8.self),
                businessID: String(decoding: businesses[row.ordinalIndex], as: UTF8.self),
                date: CivilDay(dayNumber: row.day), counters: Counters(row.counters))
        }
    }
}

extension ReaderError {
    /// Sums of checked files cannot pass 64 bits, but files with fixed-up checksums can.
    static let overflow = ReaderError(
        kind: .corrupt, what: "a sum of counters does not fit 64 bits, or a key is over the limit",
        path: "counters of this cut", advice: "run ingest-reader verify to find the file")
}
