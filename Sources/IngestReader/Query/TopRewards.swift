// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The rewards with the greatest counters, greatest first, equal ones bytewise by id: found without sorting
/// all, and without asking for the names of those that are not among them.
///
/// One pass over the table, by all cores, sums one counter (of `ctr` two) by key; where a reward has several
/// keys, they are joined. Bounded heaps find the least sum that is still among the greatest; those above it
/// are in, and of those that equal it the first by name.
///
/// **Cost** That of `KeyScores`; 16 bytes and a name for each reward that is asked for; 5 bytes a name where many
/// are asked for, or many are equal.
struct TopRewards {
    /// Up to so many names are read one by one; for more, all are gone through in their order.
    static let pointCountMax = 4096

    struct Reward {
        /// The first of its keys.
        let key: UInt32
        /// `nil` of a lost key.
        let name: NameOrdinal?
        fileprivate let score: Score
        /// Where its text is in `texts`.
        fileprivate let textRange: Range<Int>
    }

    private let names: any NameSource
    private let parts: KeyParts
    private let scores: KeyScores
    private var texts: [UInt8] = []
    /// In the order asked for.
    private(set) var rewards: [Reward] = []

    /// The bytes of a reward's id as it is shown.
    func text(of reward: Reward) -> [UInt8] { Array(texts[reward.textRange]) }

    /// - Parameter countMax: how many are asked for, from 1.
    init(
        _ query: CounterQuery, _ days: DayRange, business: NameOrdinal?,
        by order: RewardsQuery.Order, countMax: Int
    ) throws(ReaderError) {
        names = query.names
        parts = KeyParts(
            keyCount: Int(names.nextKey), partKeyCountMin: query.partKeyCountMin)
        scores = try ScorePass(query.source, parts, days, business, order).run(
            nextName: names.nextName)
        let least = try leastScore(countMax)
        if countMax <= Self.pointCountMax {
            try selectByPoints(least, countMax)
        } else {
            try selectByWalk(least, countMax)
        }
    }

    /// The least of the `countMax` greatest scores, and how many are greater; `nil` if all are among them.
    private func leastScore(
        _ countMax: Int
    ) throws(ReaderError) -> (score: Score, greaterCount: Int)? {
        if countMax > scores.keyCount { return nil }
        let (parts, scores) = (parts, scores)
        let found = try parts.map { (number) throws(ReaderError) in
            var heap = BoundedHeap<Score>(capacity: countMax)
            var bound = KeyScores.Bound(isOpen: true)
            scores.forEachKey(in: parts.parts[number], &bound) { _, score, bound in
                heap.insert(score)
                if heap.count == countMax { bound.least = heap.least }
            }
            return heap.elements
        }
        var heap = BoundedHeap<Score>(capacity: countMax)
        for part in found { for score in part { heap.insert(score) } }
        guard heap.count == countMax, let least = heap.least else { return nil }
        return (least, heap.elements.count { least < $0 })
    }

    private mutating func selectByWalk(
        _ least: (score: Score, greaterCount: Int)?, _ countMax: Int
    ) throws(ReaderError) {
        var equalCount = least.map { countMax - $0.greaterCount } ?? .max
        var walk = try KeyWalk(names, scores)
        while let key = try walk.next() {
            let score = scores.score(key)
            if let least, score < least.score { continue }
            if let least, !(least.score < score) {
                guard equalCount > 0 else { continue }
                equalCount -= 1
            }
            append(key) { walk.appendName(to: &$0) }
        }
        // In bytewise order by now: the place decides between equal ones.
        let order = rewards.indices.sorted { a, b in
            if rewards[b].score < rewards[a].score { return true }
            return rewards[a].score < rewards[b].score ? false : a < b
        }
        rewards = order.map { rewards[$0] }
    }

    private mutating func append(_ key: Int, _ appendName: (inout [UInt8]) -> Void) {
        let start = texts.count
        appendName(&texts)
        rewards.append(
            Reward(
                key: UInt32(key), name: scores.name(ofKey: key), score: scores.score(key),
                textRange: start..<texts.count))
    }

    private mutating func selectByPoints(
        _ least: (score: Score, greaterCount: Int)?, _ countMax: Int
    ) throws(ReaderError) {
        let (parts, scores) = (parts, scores)
        let found = try parts.map { (number) throws(ReaderError) in
            Selection(scores, parts.parts[number], least?.score)
        }
        var chosen = found.flatMap { $0.greater }
        let equalCount = found.reduce(0) { $0 + $1.equalCount }
        let missing = countMax - chosen.count
        if equalCount <= Self.pointCountMax {
            chosen += try inOrder(found.flatMap { $0.equal }).prefix(missing)
        } else if let least {
            chosen += try firstByName(with: least.score, missing)
        }
        for key in try inOrder(chosen) {
            let text = try text(ofKey: key)
            append(key) { $0 += text }
        }
    }

    /// The keys of a part with a score above the least, and those with the least.
    private struct Selection: Sendable {
        var greater: [Int] = []
        /// The first of them: where there are more, they are looked for by name.
        var equal: [Int] = []
        var equalCount = 0

        init(_ scores: KeyScores, _ keys: Range<Int>, _ least: Score?) {
            var bound = KeyScores.Bound(least: least)
            scores.forEachKey(in: keys, &bound) { key, score, _ in
                if let least, !(least < score) {
                    equalCount += 1
                    if equalCount <= TopRewards.pointCountMax { equal.append(key) }
                } else {
                    greater.append(key)
                }
            }
        }
    }

    /// The first so many by name of those with a score.
    private func firstByName(
        with score: Score, _ count: Int
    ) throws(ReaderError) -> [Int] {
        var found: [Int] = []
        var walk = try KeyWalk(names, scores)
        while found.count < count, let key = try walk.next() {
            let other = scores.score(key)
            if !(other < score || score < other) { found.append(key) }
        }
        return found
    }

    /// Greatest first, equal ones by name; of equal names a reward before a lost key.
    private func inOrder(_ keys: [Int]) throws(ReaderError) -> [Int] {
        let keys =
            keys.filter { scores.name(ofKey: $0) != nil }
            + keys.filter { scores.name(ofKey: $0) == nil }
        var texts: [[UInt8]] = []
        for key in keys { texts.append(try text(ofKey: key)) }
        let ranks = NameOrder.ranks(of: texts)
        return keys.indices.sorted { a, b in
            let (x, y) = (scores.score(keys[a]), scores.score(keys[b]))
            if y < x { return true }
            return x < y ? false : ranks[a] < ranks[b]
        }.map { keys[$0] }
    }

    private func text(ofKey key: Int) throws(ReaderError) -> [UInt8] {
        guard let name = scores.name(ofKey: key) else { return LostText.bytes(UInt32(key)) }
        return try names.shownBytes(of: name)
    }
}

/// The keys that count, in bytewise order of their rewards' names as they are shown.
///
/// **Cost** 5 bytes a name.
private struct KeyWalk {
    private static let none = UInt32.max

    /// By number of `NameSource.walk`.
    private var keys: [UInt32]
    private var walk: NameWalk

    init(_ names: any NameSource, _ scores: KeyScores) throws(ReaderError) {
        var keys = [UInt32](repeating: Self.none, count: Int(names.nextName))
        var lostKeys: [UInt32] = []
        var all = KeyScores.Bound()
        scores.forEachKey(in: 0..<scores.keyCount, &all) { key, _, _ in
            if let name = scores.name(ofKey: key) {
                keys[Int(name.rawValue)] = UInt32(key)
            } else {
                lostKeys.append(UInt32(key))
            }
        }
        keys += lostKeys
        self.keys = keys
        walk = try names.walk(lostKeys: lostKeys, where: keys.map { $0 != Self.none })
    }

    /// The next key.
    mutating func next() throws(ReaderError) -> Int? {
        while try walk.next() {
            let key = keys[Int(walk.number)]
            if key != Self.none { return Int(key) }
        }
        return nil
    }

    func appendName(to bytes: inout [UInt8]) { walk.appendName(to: &bytes) }
}

/// What rewards are ordered by: a counter, or a quotient of two. No quotient, where there is no impression, is
/// less than any.
struct Score: Comparable, Sendable {
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

/// The pass over the keys and over one table that makes `KeyScores`. Shared by its threads.
private struct ScorePass: Sendable {
    private let source: any CounterSource
    private let parts: KeyParts
    private let days: DayRange
    private let business: NameOrdinal?
    private let value: CounterColumn
    private let divisor: CounterColumn?

    init(
        _ source: any CounterSource, _ parts: KeyParts, _ days: DayRange,
        _ business: NameOrdinal?, _ order: RewardsQuery.Order
    ) {
        self.source = source
        self.parts = parts
        self.days = days
        self.business = business
        switch order {
        case .impressions: value = .impressions
        case .clicks, .ctr: value = .clicks
        case .redemptions: value = .redemptions
        }
        divisor = order == .ctr ? .impressions : nil
    }

    /// The rewards of a part's keys, as far as they ascend.
    private struct Ascent: Sendable {
        var first: UInt32 = 0
        /// `UInt32.max` where they do not.
        var last: UInt32 = 0
    }

    func run(nextName: UInt32) throws(ReaderError) -> KeyScores {
        let scores = KeyScores(keyCount: parts.keyCount, isQuotient: divisor != nil)
        let ascents = try parts.map { (number) throws(ReaderError) in
            try run(part: number, nextName, scores)
        }
        // New keys nearly always come with new rewards; then no reward has two.
        var last: UInt32 = 0
        for ascent in ascents where ascent.last > 0 {
            last = ascent.first > last ? ascent.last : .max
        }
        guard last != .max || scores.join(nextName: nextName) else { throw .overflow }
        return scores
    }

    private func run(
        part number: Int, _ nextName: UInt32, _ scores: KeyScores
    ) throws(ReaderError) -> Ascent {
        let names = source.makeNames()
        let keys = parts.parts[number]
        let ascent = try setOwners(of: keys, names, nextName, scores)
        guard let wanted = days.dayNumbers else { return ascent }
        let columns = CounterColumnSet([value] + (divisor.map { [$0] } ?? []))
        try source.forEachPage(
            of: days.isBounded ? .rewardDays : .rewards, columns, parts.keys(ofPart: number), names
        ) { (page) throws(ReaderError) in
            guard page.rowCount > 0 else { return }
            guard Int(page.key(page.rowCount - 1)) < keys.upperBound else { throw .impossibleRow }
            if days.isBounded {
                try page.withOrders { (orders) throws(ReaderError) in
                    for row in orders.indices { _ = try days.admits(RowOrder.day(orders[row])) }
                }
                page.keep(days: wanted)
            }
            guard scores.add(page, keys: keys, value: value, divisor: divisor) else {
                throw .overflow
            }
        }
        return ascent
    }

    private func setOwners(
        of keys: Range<Int>, _ names: any NameSource, _ nextName: UInt32, _ scores: KeyScores
    ) throws(ReaderError) -> Ascent {
        scores.begin(keys)
        var ascent = Ascent()
        var next = keys.lowerBound
        try names.forEachKeys(
            in: UInt32(keys.lowerBound)..<UInt32(keys.upperBound)
        ) { (first, pairs) throws(ReaderError) in
            guard first == next, pairs.count <= keys.upperBound - next else { throw .impossibleRow }
            if ascent.first == 0 {
                let known = pairs.indices.first { pairs[$0] >> 32 != 0 }
                ascent.first = known.map { UInt32(truncatingIfNeeded: pairs[$0] >> 32) } ?? 0
            }
            guard
                scores.setOwners(
                    from: next, pairs, business: business?.rawValue, nextName: nextName,
                    ascent: &ascent.last)
            else { throw .impossibleRow }
            next += pairs.count
        }
        guard next == keys.upperBound else { throw .impossibleRow }
        return ascent
    }
}
