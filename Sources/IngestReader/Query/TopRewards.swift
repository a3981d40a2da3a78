// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import Glibc
import IngestFormat

/// The rewards with the greatest counters, greatest first, equal ones bytewise by id: found without sorting
/// all, and without asking for the names of those that are not among them.
///
/// One counter (of `ctr` two) is summed by reward, by all cores. Bounded heaps find the least sum that is still among the
/// greatest; then those above it are taken, and of those that equal it the first by name.
///
/// **Cost** That of `DenseSums`; N scores a core, and 60 bytes and a name for each that is asked for.
struct TopRewards {
    /// Up to so many names are read one by one; for more, all are gone through in their order.
    static let pointCountMax = 4096
    /// For each core, so that one that has more to do elsewhere does not hold up the others.
    private static let partCountOfCore = 4

    struct Reward: Sendable {
        /// `nil` of a lost key.
        let name: NameOrdinal?
        let lostKey: UInt32
        fileprivate let score: Score
        /// Its id as it is shown.
        fileprivate(set) var text: [UInt8] = []
    }

    private let names: any NameSource
    private let countMax: Int
    private let partCount: Int
    /// In the order asked for.
    private(set) var rewards: [Reward] = []

    /// - Parameter countMax: how many are asked for, from 1.
    init(
        _ query: CounterQuery, _ days: DayRange, business: NameOrdinal?,
        by order: RewardsQuery.Order, countMax: Int
    ) throws(ReaderError) {
        names = query.names
        self.countMax = countMax
        let coreCount = max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        partCount = max(
            1, min(Int(names.nextKey) / query.partKeyCountMin, coreCount * Self.partCountOfCore))
        let request = SumRequest(query.source, days, business, order)
        // Sums of money fit 31 bits in few directories, and 63 in nearly all.
        let isMoney = order == .revenue || order == .spend
        if !isMoney {
            if try select(UInt32.self, request) { return }
        }
        if try select(UInt64.self, request) { return }
        guard try select(UInt128.self, request) else { throw .overflow }
    }

    /// - Returns: `false` if a sum does not fit.
    private mutating func select<Sum>(
        _ type: Sum.Type, _ request: SumRequest
    ) throws(ReaderError) -> Bool
    where Sum: FixedWidthInteger & UnsignedInteger & BitwiseCopyable & Sendable {
        let sums = DenseSums<Sum>(request, names)
        guard try sums.fold(names, partCount: partCount) else { return false }
        let least = try leastScore(sums)
        if countMax <= Self.pointCountMax {
            try selectByPoints(sums, least)
        } else {
            rewards = try walked(sums, least, countMax, isOfGreater: true)
            // In bytewise order by now: the place decides between equal ones.
            let order = rewards.indices.sorted { a, b in
                if rewards[b].score < rewards[a].score { return true }
                return rewards[a].score < rewards[b].score ? false : a < b
            }
            rewards = order.map { rewards[$0] }
        }
        return true
    }

    /// What `body` makes of the groups of each part, and of each lost key, inside a bound.
    @inline(__always)
    private func gather<Sum, Output: Sendable>(
        _ sums: DenseSums<Sum>, _ empty: Output, _ bound: DenseSums<Sum>.Bound,
        _ body: @Sendable (inout Output, Int, Score, inout DenseSums<Sum>.Bound) -> Void
    ) throws(ReaderError) -> [Output] {
        let (partCount, count) = (partCount, sums.nextName)
        return try inParallel(partCount + 1) { part in
            var (output, bound) = (empty, bound)
            let ranges =
                part == partCount
                ? sums.lostGroups.map { $0..<$0 + 1 }
                : [count * part / partCount..<count * (part + 1) / partCount]
            for range in ranges {
                sums.forEach(in: range, &bound) { body(&output, $0, $1, &$2) }
            }
            return output
        }
    }

    /// The least of the `countMax` greatest scores; `nil` if all are among them.
    private func leastScore<Sum>(_ sums: DenseSums<Sum>) throws(ReaderError) -> Score? {
        if countMax > sums.nextName + sums.lostGroups.count { return nil }
        let countMax = countMax
        let empty = BoundedHeap<Score>(capacity: countMax)
        let found = try gather(sums, empty, .init(isOpen: true)) { heap, _, score, bound in
            heap.insert(score)
            if heap.count == countMax { bound.least = heap.least }
        }
        var heap = empty
        for part in found { for score in part.elements { heap.insert(score) } }
        return heap.count == countMax ? heap.least : nil
    }

    /// Few rewards: their names are read one by one.
    private mutating func selectByPoints<Sum>(
        _ sums: DenseSums<Sum>, _ least: Score?
    ) throws(ReaderError) {
        let found = try gather(sums, Selection(), .init(least: least)) {
            selection, group, score, _ in
            selection.add(Reward(group, score, sums), isGreater: least.map { $0 < score } ?? true)
        }
        let greater = found.flatMap(\.greater)
        let equalCount = found.reduce(0) { $0 + $1.equalCount }
        let missing = countMax - greater.count
        let equal =
            equalCount > Self.pointCountMax
            ? try walked(sums, least, missing, isOfGreater: false)
            : try inOrder(found.flatMap(\.equal))
        rewards = try inOrder(greater) + equal.prefix(missing)
    }

    /// The rewards of a part with a score above the least, and those with the least, as long as they are few.
    private struct Selection: Sendable {
        var greater: [Reward] = []
        var equal: [Reward] = []
        var equalCount = 0

        mutating func add(_ reward: Reward, isGreater: Bool) {
            if isGreater { return greater.append(reward) }
            equalCount += 1
            if equalCount <= TopRewards.pointCountMax { equal.append(reward) }
        }
    }

    /// Rewards in bytewise order, with their texts: the first `equalCountMax` of those that have the least score, and
    /// where they are wanted all that have a greater one.
    private func walked<Sum>(
        _ sums: DenseSums<Sum>, _ least: Score?, _ countMax: Int, isOfGreater: Bool
    ) throws(ReaderError) -> [Reward] {
        var equalLeft = Int.max
        if let least {
            let greater = try gather(sums, 0, .init(least: least, isOpen: true)) { count, _, _, _ in
                count += 1
            }
            equalLeft = isOfGreater ? countMax - greater.reduce(0, +) : countMax
        }
        let lostKeys = sums.lostGroups.filter { sums.score($0) != nil }
            .compactMap { sums.lostKey(ofGroup: $0) }
        var found: [Reward] = []
        var walk = try names.walk(lostKeys: lostKeys) { sums.score($0) != nil }
        while found.count < countMax, try walk.next() {
            let number = Int(walk.number)
            let group =
                number < sums.nextName
                ? number : sums.nextName + Int(lostKeys[number - sums.nextName])
            guard let score = sums.score(group) else { continue }
            if let least {
                if score < least || least < score && !isOfGreater { continue }
                if !(least < score) {
                    guard equalLeft > 0 else { continue }
                    equalLeft -= 1
                }
            }
            var reward = Reward(group, score, sums)
            walk.appendName(to: &reward.text)
            found.append(reward)
        }
        return found
    }

    /// Greatest first, equal ones by name; of equal names a reward before a lost key.
    private func inOrder(_ unordered: [Reward]) throws(ReaderError) -> [Reward] {
        var rewards = unordered.filter { $0.name != nil } + unordered.filter { $0.name == nil }
        for place in rewards.indices {
            rewards[place].text =
                try rewards[place].name.map { (name) throws(ReaderError) in
                    try names.shownBytes(of: name)
                } ?? LostText.bytes(rewards[place].lostKey)
        }
        let ranks = NameOrder.ranks(of: rewards.map(\.text))
        return rewards.indices.sorted { a, b in
            let (x, y) = (rewards[a].score, rewards[b].score)
            if y < x { return true }
            return x < y ? false : ranks[a] < ranks[b]
        }.map { rewards[$0] }
    }
}

extension TopRewards.Reward {
    fileprivate init<Sum>(_ group: Int, _ score: Score, _ sums: DenseSums<Sum>) {
        let lostKey = sums.lostKey(ofGroup: group)
        self.init(
            name: lostKey == nil ? NameOrdinal(rawValue: UInt32(group)) : nil,
            lostKey: lostKey ?? 0, score: score)
    }
}

/// What rewards are ordered by: a counter, or a quotient of two. No quotient, where there is no impression, is
/// less than any.
struct Score: Comparable, Sendable {
    /// Of a quotient of 64 bits.
    let value: UInt128
    /// 1 of a counter; 0 where there is no quotient.
    let divisor: UInt64

    static func < (a: Self, b: Self) -> Bool {
        if a.divisor == b.divisor { return a.divisor != 0 && a.value < b.value }
        if a.divisor == 0 || b.divisor == 0 { return a.divisor == 0 }
        return UInt64(clamping: a.value).multipliedFullWidth(by: b.divisor)
            < UInt64(clamping: b.value).multipliedFullWidth(by: a.divisor)
    }

    static func == (a: Self, b: Self) -> Bool { !(a < b) && !(b < a) }
}

/// The greatest elements of many, at most `capacity` of them.
///
/// **Cost** One comparison for an element that is not among them, log2(capacity) for one that is.
struct BoundedHeap<Element: Comparable & Sendable>: Sendable {
    private let capacity: Int
    /// As a heap: the least first.
    private(set) var elements: [Element] = []

    init(capacity: Int) { self.capacity = capacity }

    var count: Int { elements.count }
    var least: Element? { elements.first }

    mutating func insert(_ element: Element) {
        if elements.count < capacity {
            elements.append(element)
            raise(elements.count - 1)
        } else if let least, least < element {
            elements[0] = element
            sink()
        }
    }

    private mutating func raise(_ start: Int) {
        var place = start
        while place > 0, elements[place] < elements[(place - 1) / 2] {
            elements.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    private mutating func sink() {
        var place = 0
        while true {
            var least = place
            for child in [2 * place + 1, 2 * place + 2] where child < elements.count {
                if elements[child] < elements[least] { least = child }
            }
            if least == place { return }
            elements.swapAt(place, least)
            place = least
        }
    }
}
