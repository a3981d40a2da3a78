// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// A set of ordinals of names or keys.
///
/// **Cost** A bit for each ordinal of the directory.
struct OrdinalSet {
    private var words: [UInt64]
    /// The least of them; `UInt32.max` where there is none.
    private(set) var first = UInt32.max

    /// - Parameter end: above all that will be inserted.
    init(upTo end: UInt32) { words = Array(repeating: 0, count: Int(end / 64) + 1) }

    mutating func insert(_ ordinal: UInt32) {
        words[Int(ordinal / 64)] |= 1 << UInt64(ordinal % 64)
        first = min(first, ordinal)
    }

    /// - Parameter ordinal: any.
    @inline(__always)
    func contains(_ ordinal: UInt32) -> Bool {
        let word = Int(ordinal / 64)
        return word < words.count && words[word] &>> UInt64(ordinal % 64) & 1 != 0
    }
}

/// The keys whose events are asked for, where not all are. Made once a query.
///
/// **Cost** A bit for each key of the directory; of businesses one pass over all keys, of a reward its own.
package struct WantedKeys {
    /// Rows of the tables of a footer, of which a segment has one that has such events; `nil` where they would be too many
    /// to be asked for, or have no row of their own.
    private(set) var points: [(table: TableKind, point: CounterPoint)]?
    private var keys: OrdinalSet

    var isEmpty: Bool { keys.first == .max }

    private static let pointCountMax = 64

    /// - Returns: `nil` where all keys are asked for.
    init?(_ query: EventsQuery, in source: some CounterSource) throws(ReaderError) {
        guard query.reward != nil || query.business != nil else { return nil }
        let counters = CounterQuery(source)
        let names = counters.names
        keys = OrdinalSet(upTo: names.nextKey)
        guard let days = query.days.dayNumbers,
            case .some(let business) = try counters.ordinal(ofBusiness: query.business)
        else { return }
        guard let reward = query.reward else {
            guard let business else { return }
            try insert(names) { $0 == business.rawValue }
            // Which business a lost key is of may have been known when its segment was sealed.
            if business == .none { return }
            points = [(.days, CounterPoint(key: business.rawValue, days: days))]
            return
        }
        var found: [UInt32] = []
        for key in try counters.keys(ofReward: reward) {
            if let business, try names.names(of: key).business != business { continue }
            keys.insert(key.rawValue)
            found.append(key.rawValue)
        }
        if found.count > Self.pointCountMax { return }
        points = found.map { (.rewardDays, CounterPoint(key: $0, days: days)) }
    }

    /// The keys of some businesses.
    init(of businesses: OrdinalSet, _ names: any NameSource) throws(ReaderError) {
        keys = OrdinalSet(upTo: names.nextKey)
        try insert(names) { businesses.contains($0) }
    }

    private mutating func insert(
        _ names: any NameSource, ofBusiness isWanted: (UInt32) -> Bool
    ) throws(ReaderError) {
        var found = keys
        try names.forEachKeys(in: 0..<names.nextKey) { (first, pairs) throws(ReaderError) in
            for place in 0..<pairs.count where isWanted(UInt32(truncatingIfNeeded: pairs[place])) {
                found.insert(first + UInt32(place))
            }
        }
        keys = found
    }

    @inline(__always)
    func contains(_ key: UInt32) -> Bool { keys.contains(key) }

    /// Whether a block may have rows of these keys: no row is of a key that is given later.
    func mayBeIn(_ block: BlockSummary) -> Bool {
        UInt64(keys.first) < UInt64(block.firstKey.rawValue) + UInt64(block.keyCount)
    }
}

/// Which rows of the log to list.
package struct EventSelection {
    package var days: DayRange = .all
    /// Rows of these event times are asked for too, whatever their day; the days of these times are in `days`.
    var timestamps: ClosedRange<Int64>?
    /// `nil` is all.
    var keys: WantedKeys?
}
