// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

// The three listings: what their units are, and in which order.

import IngestFormat

extension RewardsQuery: CounterListing {
    package typealias Row = RewardRow

    /// Gives rewards bytewise by id, or the greatest first.
    ///
    /// **Cost** By id: a pass over the names in their stored order, and over the table one for each
    /// `Limits.queryRowCountMax` rewards; memory is that of `RangeListing` and `KeyGroups`, whatever the number
    /// of rows. The greatest: that of `TopRewards`.
    package func forEachUnlimited(
        in query: CounterQuery, _ body: ListedRange.Body
    ) throws(ReaderError) {
        guard case .some(let wanted) = try query.ordinal(ofBusiness: business) else { return }
        let top = try order.map { (order) throws(ReaderError) in
            try TopRewards(query, days, business: wanted, by: order, countMax: limit ?? .max)
                .rewards
        }
        if let top, top.count <= TopRewards.pointCountMax {
            _ = try body(ListedRange(try rows(of: top, in: query, business: wanted)))
            return
        }
        let groups = try KeyGroups(query.names, business: wanted)
        var listing = listing(of: groups, in: query)
        /// Enters a reward, unless none of its keys is asked for.
        func enter(
            _ group: UInt32, _ appendText: (inout [UInt8]) -> Void
        ) throws(ReaderError) -> Bool {
            let places = groups.places(ofGroup: group)
            if places.isEmpty { return true }
            // Of nearly all rewards the key says everything.
            let tag = places.count == 1 ? groups.key(places.lowerBound) : group | Self.groupBit
            return try listing.enter(tag, ordinals: places.lazy.map(groups.key), body, appendText)
        }
        if let top {
            for reward in top {
                guard let group = reward.name?.rawValue ?? groups.group(ofLostKey: reward.lostKey)
                else { throw .impossibleRow }
                guard try enter(group, { $0 += reward.text }) else { return }
            }
        } else {
            var walk = try groups.walk(query.names)
            while try walk.next({ listing.touch(groups.firstKeys(ofGroups: $0)) }) {
                guard try enter(walk.number, { walk.appendName(to: &$0) }) else { return }
            }
        }
        _ = try listing.give(body)
    }

    /// Of a unit's tag: it is a group of several keys, and not the one key of a group.
    private static let groupBit: UInt32 = 1 << 31

    /// A listing whose units are rewards, each over all its keys that are asked for.
    private func listing(of groups: KeyGroups, in query: CounterQuery) -> RangeListing {
        let businesses = BusinessOrder(query.names)
        return RangeListing(
            query, days.isBounded ? .rewardDays : .rewards, days, isByDay: false,
            ordinalCount: groups.businessOfKey.count
        ) { (tag, isSeen) throws(ReaderError) in
            if tag < Self.groupBit {
                guard isSeen[Int(tag)] else { return nil }
                return .init(business: groups.businessOfKey[Int(tag)], businessCount: 1)
            }
            var shown = RangeListing.Completion()
            for place in groups.places(ofGroup: tag ^ Self.groupBit) {
                let key = groups.key(place)
                if !isSeen[Int(key)] { continue }
                let business = groups.businessOfKey[Int(key)]
                shown.businessCount += 1
                if let least = shown.business {
                    let all = groups.businessOfKey
                    let rank = try businesses.rank(business, among: all)
                    if try rank >= businesses.rank(least, among: all) { continue }
                }
                shown.business = business
            }
            return shown.businessCount == 0 ? nil : shown
        }
    }

    /// The rows of a few rewards, by point reads.
    private func rows(
        of top: [TopRewards.Reward], in query: CounterQuery, business: NameOrdinal?
    ) throws(ReaderError) -> [ListedRow] {
        var rows: [ListedRow] = []
        for reward in top {
            let keys =
                try reward.name.map { (name) throws(ReaderError) in
                    try query.names.keys(ofReward: name)
                } ?? [KeyOrdinal(rawValue: reward.lostKey)]
            guard var row = try query.sum(of: keys, business: business, days: days) else {
                continue
            }
            row.id = reward.text
            rows.append(row)
        }
        return rows
    }
}

extension RewardDaysQuery: CounterListing {
    /// Gives reward-days, bytewise by reward, then business, then date.
    ///
    /// **Cost** Of one reward: point reads, and the memory of its rows. Of all: a pass over the names in
    /// their stored order, one over the table to count the rows of each key, then one for each
    /// `Limits.queryRowCountMax` rows; memory is that of `RangeListing` and `KeyGroups`, and 4 bytes a key.
    package func forEachUnlimited(
        in query: CounterQuery, _ body: ListedRange.Body
    ) throws(ReaderError) {
        guard case .some(let wanted) = try query.ordinal(ofBusiness: business) else { return }
        if let reward {
            _ = try body(ListedRange(try rows(of: reward, in: query, business: wanted)))
            return
        }
        let counts = try query.rowCounts(of: .rewardDays, Int(query.names.nextKey), days).counts
        let groups = try KeyGroups(query.names, business: wanted, rowCounts: counts)
        let businesses = BusinessOrder(query.names)
        var listing = RangeListing(
            query, .rewardDays, days, isByDay: true, ordinalCount: counts.count
        ) { key, _ in .init(business: groups.businessOfKey[Int(key)]) }
        var walk = try groups.walk(query.names)
        while try walk.next({ listing.touch(groups.firstKeys(ofGroups: $0), and: counts) }) {
            let goesOn = try groups.forEachKey(ofGroup: walk.number, by: businesses) {
                (key) throws(ReaderError) in
                try listing.enter(
                    key, rowCount: Int(counts[Int(key)]), ordinals: CollectionOfOne(key), body
                ) { walk.appendName(to: &$0) }
            }
            guard goesOn else { return }
        }
        _ = try listing.give(body)
    }

    private func rows(
        of reward: String, in query: CounterQuery, business: NameOrdinal?
    ) throws(ReaderError) -> [ListedRow] {
        var keys: [(key: UInt32, business: [UInt8])] = []
        for key in try query.keys(ofReward: reward) {
            let pair = try query.names.names(of: key)
            if let business, business != pair.business { continue }
            keys.append((key.rawValue, try query.names.shownBytes(of: pair.business)))
        }
        var rows = [[ListedRow]](repeating: [], count: keys.count)
        for (index, rank) in NameOrder.ranks(of: keys.map(\.business)).enumerated() {
            rows[Int(rank)] = try query.rowsByDay(of: .rewardDays, ordinal: keys[index].key, days)
                .map { ListedRow(Array(reward.utf8), keys[index].business, $0) }
        }
        return rows.flatMap { $0 }
    }
}

extension DaysQuery: CounterListing {
    package typealias Row = DayRow

    /// Gives business-days, bytewise by `{businessId}#{date}`.
    ///
    /// **Cost** Of one business: point reads, and the memory of its rows. Of all: a pass over the table to count the rows
    /// of each business, then one for each `Limits.queryRowCountMax` rows; memory is that of `RangeListing`, the names
    /// of the businesses, and 4 bytes a name.
    package func forEachUnlimited(
        in query: CounterQuery, _ body: ListedRange.Body
    ) throws(ReaderError) {
        if let business {
            guard let ordinal = try query.names.ordinal(of: business) else { return }
            let text = Array(business.utf8)
            let found = try query.rowsByDay(of: .days, ordinal: ordinal.rawValue, days)
            _ = try body(ListedRange(found.map { ListedRow(text, text, $0) }))
            return
        }
        let (counts, seenDays) = try query.rowCounts(
            of: .days, max(1, Int(query.names.nextName)), days)
        let ordinals = counts.indices.filter { counts[$0] > 0 }.map { UInt32($0) }
        let order = DayOrder(try query.names.texts(of: ordinals))
        var listing = RangeListing(
            query, .days, days, isByDay: true, ordinalCount: counts.count
        ) { _, _ in .init() }
        for (number, stretch) in order.stretches.enumerated() {
            let rowCount = min(
                Int(counts[Int(stretch.ordinal)]), seenDays.count(in: stretch.days))
            if rowCount == 0 { continue }
            let goesOn = try listing.enter(
                0, rowCount: rowCount, days: stretch.days,
                ordinals: CollectionOfOne(stretch.ordinal), body
            ) { $0 += order.text(ofStretch: number) }
            guard goesOn else { return }
        }
        _ = try listing.give(body)
    }
}

extension CounterQuery {
    /// By ordinal: the most days that it can have rows of, and the days of the table.
    fileprivate func rowCounts(
        of table: TableKind, _ ordinalCount: Int, _ days: DayRange
    ) throws(ReaderError) -> (counts: [UInt32], days: SeenDays) {
        var counts = [UInt32](repeating: 0, count: ordinalCount)
        let isPossible = Limits.businessDays
        var isSeen = [Bool](repeating: false, count: isPossible.count)
        try forEachPage(of: table, []) { (page) throws(ReaderError) in
            var ofOrdinal = counts.mutableSpan
            var ofDay = isSeen.mutableSpan
            try page.withOrders { (orders) throws(ReaderError) in
                for row in orders.indices {
                    let (ordinal, day) = (RowOrder.ordinal(orders[row]), RowOrder.day(orders[row]))
                    guard ordinal < ofOrdinal.count, isPossible.contains(day) else {
                        throw .impossibleRow
                    }
                    guard days.contains(day), ofOrdinal[ordinal] < .max else { continue }
                    ofOrdinal[ordinal] &+= 1
                    ofDay[Int(day &- isPossible.lowerBound)] = true
                }
            }
        }
        let seen = SeenDays(isSeen)
        let dayCount = UInt32(seen.count(in: RangeListing.allDays))
        for ordinal in counts.indices { counts[ordinal] = min(counts[ordinal], dayCount) }
        return (counts, seen)
    }
}

/// The days of a table.
///
/// **Cost** 4 bytes a day that there can be: 0.4 MB.
private struct SeenDays {
    /// By day that there can be, and behind them: how many before it there are.
    private var before: [Int32] = [0]

    /// - Parameter isSeen: by day that there can be.
    init(_ isSeen: [Bool]) {
        before.reserveCapacity(isSeen.count + 1)
        for isThere in isSeen { before.append(before[before.count - 1] + (isThere ? 1 : 0)) }
    }

    /// - Parameter days: that there can be.
    func count(in days: Range<Int32>) -> Int {
        let first = Limits.businessDays.lowerBound
        return Int(before[Int(days.upperBound - first)] - before[Int(days.lowerBound - first)])
    }
}

/// A range of days, both ends included; an end that is `nil` is open.
public struct DayRange: Sendable, Hashable {
    public var from: CivilDay?
    public var to: CivilDay?

    public init(from: CivilDay? = nil, to: CivilDay? = nil) {
        self.from = from
        self.to = to
    }

    public static let all = DayRange()

    /// Whether the range leaves any day out.
    public var isBounded: Bool { from != nil || to != nil }

    public func contains(_ day: CivilDay) -> Bool { contains(day.dayNumber) }

    /// Whether the range has the day of a row.
    /// **Errors** `impossibleRow` for one that no event can have.
    func admits(_ day: Int32) throws(ReaderError) -> Bool {
        guard Limits.businessDays.contains(day) else { throw .impossibleRow }
        return contains(day)
    }

    package func contains(_ dayNumber: Int32) -> Bool {
        dayNumber >= from?.dayNumber ?? .min && dayNumber <= to?.dayNumber ?? .max
    }

    /// `nil` where no day is in the range.
    package var dayNumbers: ClosedRange<Int32>? {
        let (first, last) = (from?.dayNumber ?? .min, to?.dayNumber ?? .max)
        return first <= last ? first...last : nil
    }
}

/// Which rewards to list, and how.
public struct RewardsQuery: Sendable {
    /// Greatest first; equal ones bytewise by id. A reward without impressions has no `ctr`, comes last.
    public enum Order: String, Sendable, CaseIterable {
        case impressions, clicks, redemptions, ctr, revenue, spend
    }

    /// Only this business's counts; `nil` for all.
    public var business: String?
    /// Only events of these days.
    public var days: DayRange
    /// `nil`: bytewise by id.
    public var order: Order?
    /// Maximum number of rows, the greatest by `order` or else the first by id; `nil` for all, below 0 none.
    public var limit: Int?

    public init(
        business: String? = nil, days: DayRange = .all, order: Order? = nil, limit: Int? = nil
    ) {
        self.business = business
        self.days = days
        self.order = order
        self.limit = limit
    }
}

/// Which business-days to list.
public struct DaysQuery: Sendable {
    public var business: String?
    public var days: DayRange
    /// Maximum number of rows; `nil` for all, below 0 none.
    public var limit: Int?

    public init(business: String? = nil, days: DayRange = .all, limit: Int? = nil) {
        self.business = business
        self.days = days
        self.limit = limit
    }
}

/// Which rows of one kind to list, of a reward, a business and some days.
public struct ListingQuery<Row>: Sendable {
    /// Only this reward's; `nil` for all.
    public var reward: String?
    /// Only this business's; `nil` for all.
    public var business: String?
    /// Only events of these business-days.
    public var days: DayRange
    /// Maximum number of rows, the first of the listing's order; `nil` for all, below 0 none.
    public var limit: Int?

    public init(
        reward: String? = nil, business: String? = nil, days: DayRange = .all, limit: Int? = nil
    ) {
        self.reward = reward
        self.business = business
        self.days = days
        self.limit = limit
    }
}

/// Which reward-days to list.
public typealias RewardDaysQuery = ListingQuery<RewardDayRow>
/// Which counters by campaign and source to list.
public typealias CampaignsQuery = ListingQuery<CampaignRow>
/// Which events to list: of a limit, the oldest in the log.
public typealias EventsQuery = ListingQuery<EventRow>
