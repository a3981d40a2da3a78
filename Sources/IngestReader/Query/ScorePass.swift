// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The passes over the keys and over one table that make `KeyScores`. Owned by one query.
struct ScorePass {
    /// Keys whose sums fit a core's cache.
    private static let stretchKeyCount = 1 << 16

    let parts: KeyParts
    private let fold: ScoreFold
    private let nextName: UInt32
    /// The sums of all keys, once they are needed.
    private var all: KeyScores?

    init(
        _ source: any CounterSource, _ names: any NameSource, _ parts: KeyParts,
        _ days: DayRange, _ business: NameOrdinal?, _ order: RewardsQuery.Order
    ) {
        self.parts = parts
        nextName = names.nextName
        fold = ScoreFold(source, parts, days, business, order, nextName: names.nextName)
    }

    /// What `body` gathers from the scores of each part's keys, a stretch after the other.
    /// - Parameter empty: what each part begins with.
    mutating func gather<Output: Sendable>(
        _ empty: Output,
        _ body: @escaping @Sendable (inout Output, KeyScores, Range<Int>) -> Void
    ) throws(ReaderError) -> [Output] {
        let (parts, fold) = (parts, fold)
        if let all {
            return try parts.map { (number) throws(ReaderError) in
                var output = empty
                body(&output, all, parts.parts[number])
                return output
            }
        }
        let found = try parts.map { (number) throws(ReaderError) in
            let names = fold.source.makeNames()
            let keys = parts.parts[number]
            let scores = fold.makeScores(min(keys.count, Self.stretchKeyCount))
            var ascent = RewardAscent()
            var output = empty
            var start = keys.lowerBound
            repeat {
                let stretch = start..<min(start + Self.stretchKeyCount, keys.upperBound)
                scores.move(to: start)
                try fold.add(stretch, names, to: scores, &ascent)
                body(&output, scores, stretch)
                start = stretch.upperBound
            } while start < keys.upperBound
            return (output: output, ascent: ascent)
        }
        if RewardAscent.areDistinct(found.map(\.ascent)) { return found.map(\.output) }
        _ = try allKeys()
        return try gather(empty, body)
    }

    /// The sums of all keys, those of one reward joined; `gather` gives them from now on.
    mutating func allKeys() throws(ReaderError) -> KeyScores {
        if let all { return all }
        let (parts, fold) = (parts, fold)
        let scores = fold.makeScores(parts.keyCount)
        let ascents = try parts.map { (number) throws(ReaderError) in
            var ascent = RewardAscent()
            try fold.add(parts.parts[number], fold.source.makeNames(), to: scores, &ascent)
            return ascent
        }
        if !RewardAscent.areDistinct(ascents), !scores.join(nextName: nextName) {
            throw .overflow
        }
        all = scores
        return scores
    }

    /// Lets go of the sums.
    mutating func removeAll() { all = nil }
}

/// The rewards of some keys, as far as they ascend. New keys nearly always come with new rewards; then no reward
/// has two.
struct RewardAscent: Sendable {
    /// 0 where no key has one.
    var first: UInt32 = 0
    /// `UInt32.max` where they do not ascend.
    var last: UInt32 = 0

    /// Whether no reward can have two keys.
    /// - Parameter ascents: of keys that follow each other.
    static func areDistinct(_ ascents: [RewardAscent]) -> Bool {
        var last: UInt32 = 0
        for ascent in ascents where ascent.last > 0 {
            last = ascent.first > last ? ascent.last : .max
        }
        return last != .max
    }
}

/// How the rows of some keys come into `KeyScores`. Shared by the threads of a query.
struct ScoreFold: Sendable {
    let source: any CounterSource
    private let parts: KeyParts
    private let days: DayRange
    private let business: NameOrdinal?
    private let value: CounterColumn
    private let divisor: CounterColumn?
    private let nextName: UInt32

    init(
        _ source: any CounterSource, _ parts: KeyParts, _ days: DayRange,
        _ business: NameOrdinal?, _ order: RewardsQuery.Order, nextName: UInt32
    ) {
        self.source = source
        self.parts = parts
        self.days = days
        self.business = business
        self.nextName = nextName
        switch order {
        case .impressions: value = .impressions
        case .clicks, .ctr: value = .clicks
        case .redemptions: value = .redemptions
        case .revenue: value = .revenueMicros
        case .spend: value = .spendMicros
        }
        divisor = order == .ctr ? .impressions : nil
    }

    func makeScores(_ capacity: Int) -> KeyScores {
        KeyScores(capacity: capacity, isQuotient: divisor != nil)
    }

    /// Adds all rows of some keys, whose places in `scores` are as yet undefined.
    func add(
        _ keys: Range<Int>, _ names: any NameSource, to scores: KeyScores,
        _ ascent: inout RewardAscent
    ) throws(ReaderError) {
        try setOwners(of: keys, names, scores, &ascent)
        guard let wanted = days.dayNumbers else { return }
        let columns = CounterColumnSet([value] + (divisor.map { [$0] } ?? []))
        try source.forEachPage(
            of: days.isBounded ? .rewardDays : .rewards, columns, parts.asked(keys), names
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
    }

    private func setOwners(
        of keys: Range<Int>, _ names: any NameSource, _ scores: KeyScores,
        _ ascent: inout RewardAscent
    ) throws(ReaderError) {
        scores.begin(keys)
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
    }
}
