// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The rewards with the greatest counters, greatest first, equal ones bytewise by id: found without sorting
/// all, and without asking for the names of those that are not among them.
///
/// All cores sum one counter (of `ctr` two) by key, a stretch of keys after the other. Bounded heaps find the
/// least sum that is still among the greatest; in a second pass those above it are taken, and of those that
/// equal it the first by name. Where a reward has several keys, or many are asked for, the sums of all keys are
/// held and joined instead.
///
/// **Cost** Two passes over a column; 2 MB a core, N scores a part, and 60 bytes and a name for each that is asked
/// for; a bit a name where many are equal. With all keys that of `KeyScores`, and 5 bytes a name.
struct TopRewards {
    /// Up to so many names are read one by one; for more, all are gone through in their order.
    static let pointCountMax = 4096

    struct Reward: Sendable {
        /// `nil` of a lost key.
        let name: NameOrdinal?
        /// The first of its keys, where more than `pointCountMax` are asked for; or the lost one.
        let key: UInt32
        fileprivate let score: Score
        /// Where its text is in `texts`.
        fileprivate var textRange = 0..<0
    }

    private let names: any NameSource
    private var pass: ScorePass
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
        let parts = KeyParts(
            keyCount: Int(names.nextKey), partKeyCountMin: query.partKeyCountMin)
        pass = ScorePass(query.source, names, parts, days, business, order)
        if countMax <= Self.pointCountMax {
            try selectByPoints(countMax)
        } else {
            try selectByWalk(countMax)
        }
        pass.removeAll()
    }

    /// The least of the `countMax` greatest scores, and how many are greater; `nil` if all are among them.
    private mutating func leastScore(
        _ countMax: Int
    ) throws(ReaderError) -> (score: Score, greaterCount: Int)? {
        if countMax > pass.parts.keyCount { return nil }
        let found = try pass.gather(BoundedHeap<Score>(capacity: countMax)) { heap, scores, keys in
            var bound = KeyScores.Bound(isOpen: true)
            if heap.count == countMax { bound.least = heap.least }
            scores.forEachKey(in: keys, &bound) { _, score, bound in
                heap.insert(score)
                if heap.count == countMax { bound.least = heap.least }
            }
        }
        var heap = BoundedHeap<Score>(capacity: countMax)
        for part in found { for score in part.elements { heap.insert(score) } }
        guard heap.count == countMax, let least = heap.least else { return nil }
        return (least, heap.elements.count { least < $0 })
    }

    private mutating func selectByWalk(_ countMax: Int) throws(ReaderError) {
        let scores = try pass.allKeys()
        let least = try leastScore(countMax)
        var equalCount = least.map { countMax - $0.greaterCount } ?? .max
        var walk = try KeyWalk(names, scores, pass.parts.keyCount)
        while let key = try walk.next() {
            let score = scores.score(key)
            if let least, score < least.score { continue }
            if let least, !(least.score < score) {
                guard equalCount > 0 else { continue }
                equalCount -= 1
            }
            append(scores.reward(ofKey: key, score)) { walk.appendName(to: &$0) }
        }
        // In bytewise order by now: the place decides between equal ones.
        let order = rewards.indices.sorted { a, b in
            if rewards[b].score < rewards[a].score { return true }
            return rewards[a].score < rewards[b].score ? false : a < b
        }
        rewards = order.map { rewards[$0] }
    }

    private mutating func append(_ reward: Reward, _ appendName: (inout [UInt8]) -> Void) {
        var reward = reward
        let start = texts.count
        appendName(&texts)
        reward.textRange = start..<texts.count
        rewards.append(reward)
    }

    private mutating func selectByPoints(_ countMax: Int) throws(ReaderError) {
        let least = try leastScore(countMax)
        let found = try pass.gather(Selection(least: least?.score)) { selection, scores, keys in
            selection.add(scores, keys)
        }
        var chosen = found.flatMap { $0.greater }
        var equal = EqualRewards()
        for part in found { equal.formUnion(part.equal) }
        let missing = countMax - chosen.count
        if let least, equal.areMany {
            chosen += try firstByName(in: equal.names, least.score, missing)
        } else {
            chosen += try inOrder(equal.rewards).prefix(missing)
        }
        for reward in try inOrder(chosen) {
            let text = try shownText(of: reward)
            append(reward) { $0 += text }
        }
    }

    /// The rewards of a part with a score above the least, and those with the least.
    private struct Selection: Sendable {
        let least: Score?
        var greater: [Reward] = []
        var equal = EqualRewards()

        init(least: Score?) { self.least = least }

        mutating func add(_ scores: KeyScores, _ keys: Range<Int>) {
            var bound = KeyScores.Bound(least: least)
            scores.forEachKey(in: keys, &bound) { key, score, _ in
                let reward = scores.reward(ofKey: key, score)
                if let least, !(least < score) {
                    equal.insert(reward)
                } else {
                    greater.append(reward)
                }
            }
        }
    }

    /// The first so many by name.
    private func firstByName(
        in set: NameSet, _ score: Score, _ count: Int
    ) throws(ReaderError) -> [Reward] {
        var rewards: [Reward] = []
        var walk = try names.walk(lostKeys: set.lostKeys) { set.contains($0) }
        while rewards.count < count, try walk.next() {
            if walk.number >= names.nextName {
                let key = set.lostKeys[Int(walk.number - names.nextName)]
                rewards.append(Reward(name: nil, key: key, score: score))
            } else if set.contains(Int(walk.number)) {
                let name = NameOrdinal(rawValue: walk.number)
                rewards.append(Reward(name: name, key: 0, score: score))
            }
        }
        return rewards
    }

    /// Greatest first, equal ones by name; of equal names a reward before a lost key.
    private func inOrder(_ unordered: [Reward]) throws(ReaderError) -> [Reward] {
        let rewards = unordered.filter { $0.name != nil } + unordered.filter { $0.name == nil }
        var texts: [[UInt8]] = []
        for reward in rewards { texts.append(try shownText(of: reward)) }
        let ranks = NameOrder.ranks(of: texts)
        return rewards.indices.sorted { a, b in
            let (x, y) = (rewards[a].score, rewards[b].score)
            if y < x { return true }
            return x < y ? false : ranks[a] < ranks[b]
        }.map { rewards[$0] }
    }

    private func shownText(of reward: Reward) throws(ReaderError) -> [UInt8] {
        guard let name = reward.name else { return LostText.bytes(reward.key) }
        return try names.shownBytes(of: name)
    }
}

extension KeyScores {
    fileprivate func reward(ofKey key: Int, _ score: Score) -> TopRewards.Reward {
        TopRewards.Reward(name: name(ofKey: key), key: UInt32(key), score: score)
    }
}

/// Rewards with the same score; where they are many, only their names are kept.
private struct EqualRewards: Sendable {
    private(set) var rewards: [TopRewards.Reward] = []
    private(set) var names = NameSet()
    private(set) var areMany = false

    mutating func insert(_ reward: TopRewards.Reward) {
        if areMany { return names.insert(reward) }
        rewards.append(reward)
        if rewards.count > TopRewards.pointCountMax { makeMany() }
    }

    private mutating func makeMany() {
        for reward in rewards { names.insert(reward) }
        rewards = []
        areMany = true
    }

    mutating func formUnion(_ other: EqualRewards) {
        for reward in other.rewards { insert(reward) }
        guard other.areMany else { return }
        makeMany()
        names.formUnion(other.names)
    }
}

/// The names of some rewards, and lost keys.
///
/// **Cost** A bit for each name up to the greatest.
private struct NameSet: Sendable {
    private var words: [UInt64] = []
    private(set) var lostKeys: [UInt32] = []

    mutating func insert(_ reward: TopRewards.Reward) {
        guard let name = reward.name else { return lostKeys.append(reward.key) }
        let place = Int(name.rawValue / 64)
        reserve(place + 1)
        words[place] |= 1 << UInt64(name.rawValue % 64)
    }

    private mutating func reserve(_ count: Int) {
        guard count > words.count else { return }
        // By a half more at least: names come nearly in their order.
        let larger = max(count, words.count + words.count / 2)
        words.append(contentsOf: repeatElement(0, count: larger - words.count))
    }

    func contains(_ name: Int) -> Bool {
        name / 64 < words.count && words[name / 64] >> UInt64(name % 64) & 1 != 0
    }

    mutating func formUnion(_ other: NameSet) {
        reserve(other.words.count)
        for place in other.words.indices { words[place] |= other.words[place] }
        lostKeys += other.lostKeys
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

    init(
        _ names: any NameSource, _ scores: KeyScores, _ keyCount: Int
    ) throws(ReaderError) {
        var keys = [UInt32](repeating: Self.none, count: Int(names.nextName))
        var lostKeys: [UInt32] = []
        var all = KeyScores.Bound()
        scores.forEachKey(in: 0..<keyCount, &all) { key, _, _ in
            if let name = scores.name(ofKey: key) {
                keys[Int(name.rawValue)] = UInt32(key)
            } else {
                lostKeys.append(UInt32(key))
            }
        }
        keys += lostKeys
        self.keys = keys
        walk = try names.walk(lostKeys: lostKeys) { keys[$0] != Self.none }
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
