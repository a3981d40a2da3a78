// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The keys whose events are asked for, where not all are. Made once a query.
///
/// **Cost** A bit for each key of the directory; of a business, one pass over its keys, of a reward, its own.
struct WantedKeys {
    /// Rows of the tables of a footer, of which a segment has one that has such events; `nil` where they would be too many
    /// to be asked for, or have no row of their own.
    private(set) var points: [(table: TableKind, point: CounterPoint)]?
    private var words: [UInt64]
    /// The least of them; `UInt32.max` where there is none.
    private(set) var first = UInt32.max

    private static let pointCountMax = 64

    /// - Returns: `nil` where all keys are asked for.
    init?(_ query: EventsQuery, in source: some CounterSource) throws(ReaderError) {
        guard query.reward != nil || query.business != nil else { return nil }
        let counters = CounterQuery(source)
        let names = counters.names
        words = Array(repeating: 0, count: Int(names.nextKey / 64) + 1)
        guard let days = query.days.dayNumbers,
            case .some(let business) = try counters.ordinal(ofBusiness: query.business)
        else { return }
        guard let reward = query.reward else {
            guard let business else { return }
            try insert(keysOf: business, names)
            // Which business a lost key is of may have been known when its segment was sealed.
            if business == .none { return }
            points = [(.days, CounterPoint(key: business.rawValue, days: days))]
            return
        }
        var keys: [UInt32] = []
        for key in try counters.keys(ofReward: reward) {
            if let business, try names.names(of: key).business != business { continue }
            insert(key.rawValue)
            keys.append(key.rawValue)
        }
        if keys.count > Self.pointCountMax { return }
        points = keys.map { (.rewardDays, CounterPoint(key: $0, days: days)) }
    }

    private mutating func insert(
        keysOf business: NameOrdinal, _ names: any NameSource
    ) throws(ReaderError) {
        var found: [UInt32] = []
        try names.forEachKeys(in: 0..<names.nextKey) { (first, pairs) throws(ReaderError) in
            for place in 0..<pairs.count
            where UInt32(truncatingIfNeeded: pairs[place]) == business.rawValue {
                found.append(first + UInt32(place))
            }
        }
        for key in found { insert(key) }
    }

    private mutating func insert(_ key: UInt32) {
        words[Int(key / 64)] |= 1 << UInt64(key % 64)
        first = min(first, key)
    }

    @inline(__always)
    func contains(_ key: UInt32) -> Bool {
        let word = Int(key / 64)
        return word < words.count && words[word] &>> UInt64(key % 64) & 1 != 0
    }

    /// Whether a block may have rows of these keys: no row is of a key that is given later.
    func mayBeIn(_ block: BlockSummary) -> Bool {
        UInt64(first) < UInt64(block.firstKey.rawValue) + UInt64(block.keyCount)
    }
}
