// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The rewards with the greatest counters, greatest first, equal ones bytewise by id: found without sorting
/// all, and without asking for the names of those that are not among them.
///
/// One pass over the table sums one counter (of `ctr` two) by reward. A bounded heap finds the least sum that
/// is still among the greatest; those above it are in, and of those that equal it the first by name.
///
/// **Cost** 9 bytes (17 for `ctr`) a name of the directory; 16 bytes and a name for each that is asked for.
struct TopRewards {
    /// Up to so many names are read one by one; for more, all are gone through in their order.
    static let pointCountMax = 4096

    struct Reward {
        let group: UInt32
        fileprivate let score: Score
        /// Where its text is in `texts`.
        fileprivate let textRange: Range<Int>
    }

    private let names: any NameSource
    private let groups: KeyGroups
    private var sums: GroupSums
    private var texts: [UInt8] = []
    /// In the order asked for.
    private(set) var rewards: [Reward] = []

    /// The bytes of a reward's id as it is shown.
    func text(of reward: Reward) -> [UInt8] { Array(texts[reward.textRange]) }

    /// - Parameter countMax: how many are asked for, from 1.
    init(
        _ query: CounterQuery, _ groups: KeyGroups, _ days: DayRange,
        by order: RewardsQuery.Order, countMax: Int
    ) throws(ReaderError) {
        names = query.names
        self.groups = groups
        sums = GroupSums(groups, days, by: order)
        try query.forEachPage(of: days.isBounded ? .rewardDays : .rewards, sums.columns) {
            (page) throws(ReaderError) in try sums.add(page)
        }
        let least = leastScore(countMax)
        if countMax <= Self.pointCountMax {
            try selectByPoints(least, countMax)
        } else {
            try selectByWalk(least, countMax)
        }
        sums.removeAll()
    }

    /// The least of the `countMax` greatest scores, and how many are greater; `nil` if all are among them.
    private func leastScore(_ countMax: Int) -> (score: Score, greaterCount: Int)? {
        var heap = BoundedHeap<Score>(capacity: min(countMax, groups.groupCount))
        for group in 0..<groups.groupCount where sums.isSeen[group] {
            heap.insert(sums.score(group))
        }
        guard heap.count == countMax, let least = heap.least else { return nil }
        return (least, heap.elements.count { least < $0 })
    }

    private mutating func selectByWalk(
        _ least: (score: Score, greaterCount: Int)?, _ countMax: Int
    ) throws(ReaderError) {
        var equalCount = least.map { countMax - $0.greaterCount } ?? .max
        let walk = try names.walk(groups, where: sums.isSeen)
        while try walk.next() {
            guard sums.isSeen[Int(walk.number)] else { continue }
            let score = sums.score(Int(walk.number))
            if let least, score < least.score { continue }
            if let least, !(least.score < score) {
                guard equalCount > 0 else { continue }
                equalCount -= 1
            }
            let start = texts.count
            walk.appendName(to: &texts)
            rewards.append(
                Reward(group: walk.number, score: score, textRange: start..<texts.count))
        }
        // In bytewise order by now: the place decides between equal ones.
        let order = rewards.indices.sorted { a, b in
            if rewards[b].score < rewards[a].score { return true }
            return rewards[a].score < rewards[b].score ? false : a < b
        }
        rewards = order.map { rewards[$0] }
    }

    private mutating func selectByPoints(
        _ least: (score: Score, greaterCount: Int)?, _ countMax: Int
    ) throws(ReaderError) {
        var chosen: [UInt32] = []
        var equal: [UInt32] = []
        var equalCount = 0
        for group in 0..<groups.groupCount where sums.isSeen[group] {
            let score = sums.score(group)
            if let least, score < least.score { continue }
            if let least, !(least.score < score) {
                equalCount += 1
                if equalCount <= Self.pointCountMax { equal.append(UInt32(group)) }
            } else {
                chosen.append(UInt32(group))
            }
        }
        let missing = countMax - chosen.count
        if equalCount <= Self.pointCountMax {
            chosen += try inOrder(equal).prefix(missing)
        } else if let least {
            chosen += try firstByName(with: least.score, missing)
        }
        for group in try inOrder(chosen) {
            let start = texts.count
            texts += try text(of: group)
            rewards.append(
                Reward(
                    group: group, score: sums.score(Int(group)),
                    textRange: start..<texts.count))
        }
    }

    /// The first so many by name of those with a score.
    private func firstByName(
        with score: Score, _ count: Int
    ) throws(ReaderError) -> [UInt32] {
        var found: [UInt32] = []
        let walk = try names.walk(groups, where: sums.isSeen)
        while found.count < count, try walk.next() {
            guard sums.isSeen[Int(walk.number)] else { continue }
            let other = sums.score(Int(walk.number))
            if !(other < score || score < other) { found.append(walk.number) }
        }
        return found
    }

    /// Greatest first, equal ones by name; of equal names by number.
    private func inOrder(_ groups: [UInt32]) throws(ReaderError) -> [UInt32] {
        var texts: [[UInt8]] = []
        for group in groups { texts.append(try text(of: group)) }
        let ranks = NameOrder.ranks(of: texts)
        return groups.indices.sorted { a, b in
            let (x, y) = (sums.score(Int(groups[a])), sums.score(Int(groups[b])))
            if y < x { return true }
            return x < y ? false : ranks[a] < ranks[b]
        }.map { groups[$0] }
    }

    private func text(of group: UInt32) throws(ReaderError) -> [UInt8] {
        guard let name = groups.reward(group) else {
            return LostText.bytes(groups.lostKey(group))
        }
        return try names.shownBytes(of: name)
    }
}

/// What rewards are ordered by: a counter, or a quotient of two. No quotient, where there is no impression, is
/// less than any.
struct Score: Comparable {
    let value: UInt64
    /// 1 of a counter; 0 where there is no quotient.
    let divisor: UInt64

    static func < (a: Self, b: Self) -> Bool {
        if a.divisor == b.divisor { return a.divisor != 0 && a.value < b.value }
        if a.divisor == 0 || b.divisor == 0 { return a.divisor == 0 }
        return a.value.multipliedFullWidth(by: b.divisor)
            < b.value.multipliedFullWidth(by: a.divisor)
    }

    static func == (a: Self, b: Self) -> Bool { !(a < b) && !(b < a) }
}

/// One or two counters summed by group.
struct GroupSums {
    private let groups: KeyGroups
    private let days: DayRange
    private let column: CounterColumn
    private let isQuotient: Bool
    /// By group.
    private(set) var isSeen: [Bool]
    private var values: [UInt64]
    /// Impressions, where they divide.
    private var divisors: [UInt64]

    init(_ groups: KeyGroups, _ days: DayRange, by order: RewardsQuery.Order) {
        self.groups = groups
        self.days = days
        switch order {
        case .impressions: column = .impressions
        case .clicks, .ctr: column = .clicks
        case .redemptions: column = .redemptions
        }
        isQuotient = order == .ctr
        isSeen = Array(repeating: false, count: groups.groupCount)
        values = Array(repeating: 0, count: groups.groupCount)
        divisors = isQuotient ? Array(repeating: 0, count: groups.groupCount) : []
    }

    /// What pages must have.
    var columns: CounterColumnSet {
        CounterColumnSet(isQuotient ? [column, .impressions] : [column])
    }

    func score(_ group: Int) -> Score {
        Score(value: values[group], divisor: isQuotient ? divisors[group] : 1)
    }

    mutating func add(_ page: CounterPage) throws(ReaderError) {
        let loop = Loop(groupOfKey: groups.groupOfKey, days: days)
        try loop.add(page, column, to: &values, &isSeen)
        if isQuotient { try loop.add(page, .impressions, to: &divisors, &isSeen) }
    }

    /// The loop over a page's rows, over nothing but what it needs.
    private struct Loop {
        let groupOfKey: [UInt32]
        let days: DayRange

        func add(
            _ page: CounterPage, _ column: CounterColumn, to sums: inout [UInt64],
            _ isSeen: inout [Bool]
        ) throws(ReaderError) {
            let isBounded = days.isBounded
            try page.withOrders { (orders) throws(ReaderError) in
                try page.withColumn(column) { (values) throws(ReaderError) in
                    for row in orders.indices {
                        let key = RowOrder.ordinal(orders[row])
                        guard key < groupOfKey.count else { throw .impossibleRow }
                        let group = Int(groupOfKey[key])
                        guard group != Int(KeyGroups.none) else { continue }
                        if isBounded, try !days.admits(RowOrder.day(orders[row])) { continue }
                        isSeen[group] = true
                        let (sum, overflow) = sums[group].addingReportingOverflow(values[row])
                        guard !overflow else { throw .overflow }
                        sums[group] = sum
                    }
                }
            }
        }
    }

    mutating func removeAll() {
        isSeen = []
        values = []
        divisors = []
    }
}
