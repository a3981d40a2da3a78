// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

extension CounterQuery {
    /// Gives reward-days, bytewise by reward, then business, then date.
    ///
    /// **Cost** Of one reward: point reads, and the memory of one key's rows. Of all: a pass over the names in
    /// their stored order, one over the table to count the rows of each key, then one for each
    /// `Limits.queryRowCountMax` rows; memory is that of `DayRowRange` and `KeyGroups`, and 12 bytes a key.
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
        var listing = try RewardDayListing(self, business: business, query.days)
        try listing.give(limited)
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
}

/// A listing of reward-days: keys are entered in their order until a range is full, then their rows are
/// folded and given. Owned by one query.
private struct RewardDayListing {
    private let query: CounterQuery
    private let days: DayRange
    private let groups: KeyGroups
    /// By key: its rows that are asked for, of all parts.
    private var rowCounts: [UInt32]
    /// Keys with rows, by group; those of group g are `firstKeys[g] ..< firstKeys[g + 1]`.
    private var keys: [UInt32] = []
    private var firstKeys: [UInt32] = []
    private var businesses: BusinessOrder
    private var shown: ShownNames

    private var range: DayRowRange
    /// By key: its unit + 1, 0 = not in this range.
    private var unitOfKey: [UInt32]
    /// By unit: the key, and where the reward's text is.
    private var units: [(key: UInt32, text: Range<Int>)] = []
    private var texts: [UInt8] = []

    init(
        _ query: CounterQuery, business: NameOrdinal?, _ days: DayRange
    ) throws(ReaderError) {
        self.query = query
        self.days = days
        let groups = try KeyGroups(query.names, business: business)
        self.groups = groups
        var counts = [UInt32](repeating: 0, count: groups.groupOfKey.count)
        var total = 0
        try query.forEachPage(of: .rewardDays, []) { (page) throws(ReaderError) in
            try page.withOrders { (orders) throws(ReaderError) in
                for row in orders.indices {
                    let key = RowOrder.ordinal(orders[row])
                    guard key < counts.count else { throw .impossibleRow }
                    guard groups.groupOfKey[key] != KeyGroups.none,
                        try days.admits(RowOrder.day(orders[row])), counts[key] < .max
                    else { continue }
                    counts[key] += 1
                    total += 1
                }
            }
        }
        rowCounts = counts
        businesses = BusinessOrder(query.names)
        shown = ShownNames(query.names)
        range = DayRowRange(rowCount: total, rowCountMax: query.rowCountMax)
        unitOfKey = Array(repeating: 0, count: counts.count)
        sortKeys()
    }

    /// Fills `keys` and `firstKeys`: two passes of counting.
    private mutating func sortKeys() {
        firstKeys = Array(repeating: 0, count: groups.groupCount + 1)
        for key in rowCounts.indices where rowCounts[key] > 0 {
            firstKeys[Int(groups.groupOfKey[key]) + 1] += 1
        }
        for group in 0..<groups.groupCount { firstKeys[group + 1] += firstKeys[group] }
        keys = Array(repeating: 0, count: Int(firstKeys[groups.groupCount]))
        var next = firstKeys
        for key in rowCounts.indices where rowCounts[key] > 0 {
            let group = Int(groups.groupOfKey[key])
            keys[Int(next[group])] = UInt32(key)
            next[group] += 1
        }
    }

    mutating func give(_ body: ListedRow.Body) throws(ReaderError) {
        let isWanted = (0..<groups.groupCount).map { firstKeys[$0] < firstKeys[$0 + 1] }
        var walk = try query.names.walk(lostKeys: groups.lostKeys) { isWanted[$0] }
        while try walk.next() {
            guard isWanted[Int(walk.number)] else { continue }
            let start = texts.count
            walk.appendName(to: &texts)
            var text = start..<texts.count
            for key in try keysByBusiness(ofGroup: Int(walk.number)) {
                if !range.hasRoom(for: Int(rowCounts[Int(key)])) {
                    let name = Array(texts[text])
                    guard try giveRange(body) else { return }
                    texts = name
                    text = 0..<name.count
                }
                range.enterUnit(rowCount: Int(rowCounts[Int(key)]))
                units.append((key, text))
                unitOfKey[Int(key)] = UInt32(units.count)
            }
        }
        _ = try giveRange(body)
    }

    private mutating func keysByBusiness(ofGroup group: Int) throws(ReaderError) -> [UInt32] {
        let all = keys[Int(firstKeys[group])..<Int(firstKeys[group + 1])]
        if all.count == 1 { return Array(all) }
        var ranked: [UInt64] = []
        for key in all {
            let business = groups.businessOfKey[Int(key)]
            let rank = try businesses.rank(business, among: groups.businessOfKey)
            ranked.append(UInt64(rank) << 32 | UInt64(key))
        }
        ranked.sort()
        return ranked.map { UInt32(truncatingIfNeeded: $0) }
    }

    /// Folds and gives the keys entered; none are entered then.
    private mutating func giveRange(_ body: ListedRow.Body) throws(ReaderError) -> Bool {
        if units.isEmpty { return true }
        try query.forEachPage(of: .rewardDays) { (page) throws(ReaderError) in try fold(page) }
        var row = ListedRow()
        var goesOn = true
        for (number, unit) in units.enumerated() {
            unitOfKey[Int(unit.key)] = 0
            guard goesOn else { continue }
            row.id.removeAll(keepingCapacity: true)
            row.id.append(contentsOf: texts[unit.text])
            row.business = try shown.bytes(of: groups.businessOfKey[Int(unit.key)])
            goesOn = try range.forEachRow(of: number) { day, counters in
                row.day = day
                row.counters = counters
                return body(row)
            }
        }
        range.removeAll()
        units.removeAll(keepingCapacity: true)
        texts.removeAll(keepingCapacity: true)
        return goesOn
    }

    private mutating func fold(_ page: CounterPage) throws(ReaderError) {
        let wanted = days
        let columns = CounterSlab.Columns(of: page)
        try page.withOrders { (orders) throws(ReaderError) in
            for row in orders.indices {
                let key = RowOrder.ordinal(orders[row])
                guard key < unitOfKey.count else { throw .impossibleRow }
                let unit = unitOfKey[key]
                guard unit != 0 else { continue }
                let day = RowOrder.day(orders[row])
                guard try wanted.admits(day) else { continue }
                try range.add(row, of: page, columns, day: day, to: Int(unit) - 1)
            }
        }
    }
}
