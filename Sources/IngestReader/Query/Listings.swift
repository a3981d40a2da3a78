// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

// The three listings: what their units are, and in which order.
extension CounterQuery {
    /// Gives rewards bytewise by id, or the greatest first.
    ///
    /// **Cost** By id: a pass over the names in their stored order, and over the table one for each
    /// `Limits.queryRowCountMax` rewards; memory is that of `RangeListing` and `KeyGroups`, whatever the number
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
        var listing = RewardListing(self, groups, query.days, rowCount: groups.filledCount)
        func limited(_ row: ListedRow) -> Bool { limit.goesOn(body(row)) }
        var walk = try groups.walk(names)
        while try walk.next() {
            guard try listing.enter(walk.number, limited, { walk.appendName(to: &$0) }) else {
                return
            }
        }
        _ = try listing.give(limited)
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
                    } ?? [KeyOrdinal(rawValue: reward.lostKey)]
                guard var row = try sum(of: keys, business: business, days: query.days) else {
                    continue
                }
                row.id = reward.text
                guard body(row) else { return }
            }
            return
        }
        let groups = try KeyGroups(names, business: business)
        var listing = RewardListing(self, groups, query.days, rowCount: top.rewards.count)
        for reward in top.rewards {
            guard let group = reward.name?.rawValue ?? groups.group(ofLostKey: reward.lostKey)
            else { throw .impossibleRow }
            guard try listing.enter(group, body, { $0 += reward.text }) else { return }
        }
        _ = try listing.give(body)
    }

    /// Gives reward-days, bytewise by reward, then business, then date.
    ///
    /// **Cost** Of one reward: point reads, and the memory of one key's rows. Of all: a pass over the names in
    /// their stored order, one over the table to count the rows of each key, then one for each
    /// `Limits.queryRowCountMax` rows; memory is that of `RangeListing` and `KeyGroups`, and 4 bytes a key.
    package func forEachRewardDay(
        _ query: RewardDaysQuery, _ body: ListedRow.Body
    ) throws(ReaderError) {
        guard case .some(let business) = try ordinal(ofBusiness: query.business) else { return }
        var limit = RowLimit(query.limit)
        if limit.isReached { return }
        func limited(_ row: ListedRow) -> Bool { limit.goesOn(body(row)) }
        if let reward = query.reward {
            return try forEachDay(of: reward, business: business, query.days, limited)
        }
        let counts = try rowCounts(of: .rewardDays, Int(names.nextKey), query.days)
        let groups = try KeyGroups(names, business: business, rowCounts: counts)
        var businesses = BusinessOrder(names)
        var shown = ShownNames(names)
        var listing = RangeListing(
            self, .rewardDays, query.days, isByDay: true, ordinalCount: counts.count,
            rowCount: counts.reduce(0) { $0 + Int($1) })
        func give() throws(ReaderError) -> Bool {
            try listing.give(limited) { (row, key, _) throws(ReaderError) in
                row.business = try shown.bytes(of: groups.businessOfKey[Int(key)])
                return true
            }
        }
        var walk = try groups.walk(names)
        while try walk.next() {
            for key in try businesses.sorted(groups.keys(ofGroup: walk.number), groups) {
                let rowCount = Int(counts[Int(key)])
                if !listing.hasRoom(for: rowCount), try !give() { return }
                listing.enter(key, rowCount: rowCount, ordinals: CollectionOfOne(key)) {
                    walk.appendName(to: &$0)
                }
            }
        }
        _ = try give()
    }

    private func forEachDay(
        of reward: String, business: NameOrdinal?, _ days: DayRange, _ body: ListedRow.Body
    ) throws(ReaderError) {
        var keys: [KeyOrdinal] = []
        var texts: [[UInt8]] = []
        for key in try self.keys(ofReward: reward) {
            let pair = try names.names(of: key)
            if let business, business != pair.business { continue }
            keys.append(key)
            texts.append(try names.shownBytes(of: pair.business))
        }
        var places = Array(keys.indices)
        for (index, rank) in NameOrder.ranks(of: texts).enumerated() { places[Int(rank)] = index }
        var row = ListedRow()
        row.id = Array(reward.utf8)
        for place in places {
            row.business = texts[place]
            for day in try rowsByDay(of: .rewardDays, ordinal: keys[place].rawValue, days) {
                row.day = day.day
                row.counters = day.counters
                guard body(row) else { return }
            }
        }
    }

    /// Gives business-days, bytewise by `{businessId}#{date}`.
    ///
    /// **Cost** Of one business: point reads, and the memory of its rows. Of all: a pass over the table to count the rows
    /// of each business, then one for each `Limits.queryRowCountMax` rows; memory is that of `RangeListing`, the names
    /// of the businesses, and 4 bytes a name.
    package func forEachDay(_ query: DaysQuery, _ body: ListedRow.Body) throws(ReaderError) {
        var limit = RowLimit(query.limit)
        if limit.isReached { return }
        func limited(_ row: ListedRow) -> Bool { limit.goesOn(body(row)) }
        var row = ListedRow()
        if let business = query.business {
            guard let ordinal = try names.ordinal(of: business) else { return }
            row.id = Array(business.utf8)
            row.business = row.id
            for day in try rowsByDay(of: .days, ordinal: ordinal.rawValue, query.days) {
                row.day = day.day
                row.counters = day.counters
                guard limited(row) else { return }
            }
            return
        }
        let counts = try rowCounts(of: .days, max(1, Int(names.nextName)), query.days)
        let ordinals = counts.indices.filter { counts[$0] > 0 }.map { UInt32($0) }
        let order = DayOrder(try names.texts(of: ordinals))
        var listing = RangeListing(
            self, .days, query.days, isByDay: true, ordinalCount: counts.count,
            rowCount: order.stretches.reduce(0) { $0 + Int(counts[Int($1.ordinal)]) })
        func give() throws(ReaderError) -> Bool {
            try listing.give(limited) { row, _, _ in
                row.business = row.id
                return true
            }
        }
        for (number, stretch) in order.stretches.enumerated() {
            let rowCount = Int(counts[Int(stretch.ordinal)])
            if !listing.hasRoom(for: rowCount), try !give() { return }
            listing.enter(
                0, rowCount: rowCount, days: stretch.days,
                ordinals: CollectionOfOne(stretch.ordinal)
            ) { $0 += order.text(ofStretch: number) }
        }
        _ = try give()
    }

    /// By ordinal: its rows on the days, of all parts of the cut.
    private func rowCounts(
        of table: TableKind, _ ordinalCount: Int, _ days: DayRange
    ) throws(ReaderError) -> [UInt32] {
        var counts = [UInt32](repeating: 0, count: ordinalCount)
        try forEachPage(of: table, []) { (page) throws(ReaderError) in
            try page.withOrders { (orders) throws(ReaderError) in
                for row in orders.indices {
                    let ordinal = RowOrder.ordinal(orders[row])
                    guard ordinal < counts.count else { throw .impossibleRow }
                    guard try days.admits(RowOrder.day(orders[row])), counts[ordinal] < .max
                    else { continue }
                    counts[ordinal] += 1
                }
            }
        }
        return counts
    }
}

/// Rewards, each over all its keys that are asked for. Owned by one query.
private struct RewardListing {
    /// Of a unit's tag: it is a group of several keys, and not the one key of a group.
    private static let groupBit: UInt32 = 1 << 31

    private let groups: KeyGroups
    private var range: RangeListing
    private var businesses: BusinessOrder
    private var shown: ShownNames

    /// - Parameter rowCount: the rewards that will be entered.
    init(_ query: CounterQuery, _ groups: KeyGroups, _ days: DayRange, rowCount: Int) {
        self.groups = groups
        range = RangeListing(
            query, days.isBounded ? .rewardDays : .rewards, days, isByDay: false,
            ordinalCount: groups.businessOfKey.count, rowCount: rowCount)
        businesses = BusinessOrder(query.names)
        shown = ShownNames(query.names)
    }

    /// Enters a group, unless none of its keys is asked for; before it, gives a range that is full.
    /// - Returns: `false` if `body` did.
    mutating func enter(
        _ group: UInt32, _ body: ListedRow.Body, _ appendName: (inout [UInt8]) -> Void
    ) throws(ReaderError) -> Bool {
        let keys = groups.keys(ofGroup: group)
        if keys.isEmpty { return true }
        if !range.hasRoom(for: 1), try !give(body) { return false }
        // Of nearly all rewards the key says everything.
        let tag = keys.count == 1 ? keys[keys.startIndex] : group | Self.groupBit
        range.enter(tag, ordinals: keys, appendName)
        return true
    }

    mutating func give(_ body: ListedRow.Body) throws(ReaderError) -> Bool {
        let groups = groups
        var (businesses, shown) = (self.businesses, self.shown)
        defer { (self.businesses, self.shown) = (businesses, shown) }
        return try range.give(body) { (row, tag, isSeen) throws(ReaderError) in
            if tag < Self.groupBit {
                guard isSeen[Int(tag)] else { return false }
                row.businessCount = 1
                row.business = try shown.bytes(of: groups.businessOfKey[Int(tag)])
                return true
            }
            var least: UInt32 = 0
            row.businessCount = 0
            for key in groups.keys(ofGroup: tag ^ Self.groupBit) where isSeen[Int(key)] {
                let business = groups.businessOfKey[Int(key)]
                row.businessCount += 1
                if row.businessCount == 1 {
                    least = business
                } else if try businesses.rank(business, groups) < businesses.rank(least, groups) {
                    least = business
                }
            }
            if row.businessCount == 0 { return false }
            row.business = try shown.bytes(of: least)
            return true
        }
    }
}

extension BusinessOrder {
    fileprivate mutating func rank(
        _ business: UInt32, _ groups: KeyGroups
    ) throws(ReaderError) -> UInt32 {
        try rank(business, among: groups.businessOfKey)
    }

    /// Keys of one reward by their businesses.
    fileprivate mutating func sorted(
        _ keys: ArraySlice<UInt32>, _ groups: KeyGroups
    ) throws(ReaderError) -> [UInt32] {
        if keys.count <= 1 { return Array(keys) }
        var ranked: [UInt64] = []
        for key in keys {
            let rank = try rank(groups.businessOfKey[Int(key)], groups)
            ranked.append(UInt64(rank) << 32 | UInt64(key))
        }
        return ranked.sorted().map { UInt32(truncatingIfNeeded: $0) }
    }
}
