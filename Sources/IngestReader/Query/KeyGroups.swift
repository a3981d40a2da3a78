// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The reward keys that a listing asks for, by the *group* that they belong to: their reward's, or one of its own where
/// their names were lost. Made once a query.
///
/// **Cost** 8 bytes a key and 4 a name, 12 and 8 while it is made; about 10 ns a key.
struct KeyGroups {
    private static let none = UInt32.max

    /// By key: the ordinal of its business, 0 of a lost key.
    private(set) var businessOfKey: [UInt32]
    /// Those that are asked for, ascending. The group of a lost key is `nextName` and its place here, that of another
    /// one the ordinal of its reward.
    private(set) var lostKeys: [UInt32] = []
    private let nextName: UInt32
    /// Those of group g are `keys[firstKeys[g] ..< firstKeys[g + 1]]`.
    private var keys: [UInt32] = []
    private var firstKeys: [UInt32] = []

    /// - Parameters:
    ///   - business: only its keys; `.none` is that of lost keys, `nil` is all.
    ///   - rowCounts: by key; those without rows are left out. `nil`: none is.
    init(
        _ names: any NameSource, business: NameOrdinal?, rowCounts: [UInt32]? = nil
    ) throws(ReaderError) {
        let nextName = names.nextName
        self.nextName = nextName
        var groups = [UInt32](repeating: Self.none, count: Int(names.nextKey))
        var businesses = [UInt32](repeating: 0, count: Int(names.nextKey))
        var lostKeys: [UInt32] = []
        var next = 0
        try names.forEachKeys(in: 0..<names.nextKey) { (first, pairs) throws(ReaderError) in
            guard first == next, pairs.count <= groups.count - next else { throw .impossibleRow }
            var groupOfKey = groups.mutableSpan
            var businessOfKey = businesses.mutableSpan
            for place in pairs.indices {
                let key = RewardKey(word: pairs[place])
                guard key.reward.rawValue < nextName, key.business.rawValue < nextName else {
                    throw .impossibleRow
                }
                if let business, business != key.business { continue }
                if let rowCounts, rowCounts[next + place] == 0 { continue }
                if key.reward.rawValue == 0 {
                    groupOfKey[next + place] = nextName + UInt32(lostKeys.count)
                    lostKeys.append(UInt32(next + place))
                } else {
                    groupOfKey[next + place] = key.reward.rawValue
                    businessOfKey[next + place] = key.business.rawValue
                }
            }
            next += pairs.count
        }
        guard next == groups.count else { throw .impossibleRow }
        businessOfKey = businesses
        self.lostKeys = lostKeys
        sort(groups)
    }

    /// Fills `keys` and `firstKeys` by counting.
    private mutating func sort(_ groups: [UInt32]) {
        var ends = [UInt32](repeating: 0, count: groupCount + 1)
        for group in groups where group != Self.none { ends[Int(group) + 1] += 1 }
        for group in 0..<groupCount { ends[group + 1] += ends[group] }
        firstKeys = ends
        keys = Array(repeating: 0, count: Int(ends[groupCount]))
        for key in groups.indices where groups[key] != Self.none {
            let group = Int(groups[key])
            keys[Int(ends[group])] = UInt32(key)
            ends[group] += 1
        }
    }

    private var groupCount: Int { Int(nextName) + lostKeys.count }

    /// The places of the keys of a group that are asked for: `key(place)`, ascending.
    func places(ofGroup group: UInt32) -> Range<Int> {
        Int(firstKeys[Int(group)])..<Int(firstKeys[Int(group) + 1])
    }

    func key(_ place: Int) -> UInt32 { keys[place] }

    /// The first keys of groups, of those that have one. Names come in another order than keys, so that each would be
    /// waited for: here loads do not wait for each other.
    func firstKeys(ofGroups batch: NameBatch) -> [UInt32] {
        var places: [UInt32] = []
        places.reserveCapacity(batch.count)
        for place in 0..<batch.count {
            let group = Int(batch.ordinal(place).rawValue)
            if firstKeys[group] < firstKeys[group + 1] { places.append(firstKeys[group]) }
        }
        for place in places.indices { places[place] = keys[Int(places[place])] }
        return places
    }

    /// Gives the keys of a group by their businesses.
    /// - Returns: `false` if `body` did.
    func forEachKey(
        ofGroup group: UInt32, by order: BusinessOrder,
        _ body: (UInt32) throws(ReaderError) -> Bool
    ) throws(ReaderError) -> Bool {
        let places = places(ofGroup: group)
        if places.count == 1 { return try body(keys[places.lowerBound]) }
        var ranked: [UInt64] = []
        for place in places {
            let rank = try order.rank(businessOfKey[Int(keys[place])], among: businessOfKey)
            ranked.append(UInt64(rank) << 32 | UInt64(keys[place]))
        }
        for entry in ranked.sorted() where try !body(UInt32(truncatingIfNeeded: entry)) {
            return false
        }
        return true
    }

    /// The names of the groups in their order.
    func walk(_ names: any NameSource) throws(ReaderError) -> NameWalk {
        try names.walk(lostKeys: lostKeys) { firstKeys[$0] < firstKeys[$0 + 1] }
    }

    /// The group of a lost key that is asked for.
    func group(ofLostKey key: UInt32) -> UInt32? {
        lostKeys.firstIndex(of: key).map { nextName + UInt32($0) }
    }
}

extension RewardKey {
    /// A pair as `NameSource.forEachKeys` gives it.
    init(word: UInt64) {
        self.init(
            reward: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word >> 32)),
            business: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: word)))
    }
}

extension NameSource {
    /// Names in bytewise order as they are shown: those of rewards under their ordinals, those of lost keys under
    /// `nextName` and the places in `lostKeys`.
    /// - Parameter isWanted: which lost names are among them.
    func walk(
        lostKeys: [UInt32], where isWanted: (_ name: Int) -> Bool
    ) throws(ReaderError) -> NameWalk {
        let lost = try lostNames().filter { $0 < nextName && isWanted(Int($0)) }
        var cursors = try makeCursors()
        cursors.append(LostText.cursor(names: lost, keys: lostKeys, firstNumber: nextName))
        return NameWalk(cursors)
    }
}

/// The bytewise order of `{businessId}#{date}`, as stretches: days of one business that nothing comes
/// between.
///
/// It is not the order of (business, date): `a!` comes before `a`, and where `a` and `a#2026-05` are both
/// businesses, all of the second come between two days of the first. A business is *inside* another one if
/// its name is that one's, `#`, and more; all its ids fall between the same two days of the outer one.
///
/// **Cost** The names; 24 bytes a business, and as many for each that is inside another.
struct DayOrder {
    struct Stretch {
        /// Index into `businesses`.
        let business: Int
        let ordinal: UInt32
        let days: Range<Int32>
    }

    private let businesses: [(ordinal: UInt32, text: [UInt8])]
    /// In the order of the ids.
    private(set) var stretches: [Stretch] = []

    private static let first = Limits.businessDays.lowerBound
    private static let end = Limits.businessDays.upperBound + 1
    private static let mark = UInt8(ascii: "#")

    /// - Parameter texts: the businesses, each once.
    init(_ texts: [(ordinal: UInt32, text: [UInt8])]) {
        var sorted = texts
        let ranks = NameOrder.ranks(of: texts.map { $0.text + [Self.mark] })
        for (index, rank) in ranks.enumerated() { sorted[Int(rank)] = texts[index] }
        businesses = sorted
        // The businesses that the present one is inside of, and the day that each has come to.
        var outer: [(business: Int, next: Int32)] = []
        for index in sorted.indices {
            while let last = outer.last, !isInside(index, last.business) {
                close(last)
                outer.removeLast()
            }
            if let last = outer.last {
                let next = max(last.next, firstDay(of: last.business, after: index))
                append(last.business, last.next..<next)
                outer[outer.count - 1].next = next
            }
            outer.append((index, Self.first))
        }
        for last in outer.reversed() { close(last) }
    }

    func text(ofStretch number: Int) -> [UInt8] { businesses[stretches[number].business].text }

    private mutating func close(_ last: (business: Int, next: Int32)) {
        append(last.business, last.next..<max(last.next, Self.end))
    }

    private mutating func append(_ business: Int, _ days: Range<Int32>) {
        if days.isEmpty { return }
        stretches.append(
            Stretch(business: business, ordinal: businesses[business].ordinal, days: days))
    }

    private func isInside(_ inner: Int, _ outer: Int) -> Bool {
        let prefix = businesses[outer].text
        let text = businesses[inner].text
        return text.count > prefix.count && text[prefix.count] == Self.mark
            && text.starts(with: prefix)
    }

    /// The first day of `outer` whose id comes after all those of `inner`, which is inside of it.
    private func firstDay(of outer: Int, after inner: Int) -> Int32 {
        let rest = Array(businesses[inner].text.dropFirst(businesses[outer].text.count + 1))
        let day = (Int(Self.first)..<Int(Self.end)).firstPlace { day in
            let date = Array(CivilDay(dayNumber: Int32(day)).description.utf8)
            // Dates have no `#`, so that this decides for every day of the inner one.
            return NameOrder.precedes(date, rest + [Self.mark]) != true
        }
        return Int32(day)
    }
}
