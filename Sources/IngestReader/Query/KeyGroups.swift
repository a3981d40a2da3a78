// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Which *group* each reward key belongs to in a listing: its reward's, or one of its own where its names
/// were lost. Made once a query.
///
/// **Cost** 8 bytes a key, about 3 ns each.
struct KeyGroups {
    /// A key that the query does not ask for.
    static let none = UInt32.max
    /// Keys of a stretch, of which `keys(ofGroups:)` knows the groups.
    private static let stretchKeyCount = 4096

    /// By key: the ordinal of its reward; of a lost key `nextName` and its place in `lostKeys`.
    private(set) var groupOfKey: [UInt32]
    /// By key: the ordinal of its business, 0 of a lost key.
    private(set) var businessOfKey: [UInt32]
    private(set) var lostKeys: [UInt32] = []
    let nextName: UInt32
    /// By stretch of keys: its least and its greatest group; `nil` where no key is asked for.
    private var groupsOfStretch: [ClosedRange<UInt32>?] = []

    /// - Parameter business: only its keys; `.none` is that of lost keys, `nil` is all.
    init(_ names: any NameSource, business: NameOrdinal?) throws(ReaderError) {
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
        groupOfKey = groups
        businessOfKey = businesses
        self.lostKeys = lostKeys
        groupsOfStretch = stride(from: 0, to: groups.count, by: Self.stretchKeyCount).map {
            Self.bounds(groups.span.extracting($0..<min($0 + Self.stretchKeyCount, groups.count)))
        }
    }

    private static func bounds(_ groups: Span<UInt32>) -> ClosedRange<UInt32>? {
        var (least, most) = (none, UInt32.min)
        for place in groups.indices {
            least = min(least, groups[place])
            // As signed numbers, `none` is the least of all.
            let group = Int32(bitPattern: groups[place])
            most = UInt32(bitPattern: max(Int32(bitPattern: most), group))
        }
        return least == none ? nil : least...most
    }

    /// The first and the last key that one of these groups can have; `nil` if there is none.
    ///
    /// Keys and names are given in the order in which they come, so groups that lie near each other have keys
    /// that do.
    /// **Cost** A look at each 4096 keys.
    func keys(ofGroups groups: ClosedRange<UInt32>) -> ClosedRange<UInt32>? {
        func overlaps(_ bounds: ClosedRange<UInt32>?) -> Bool { bounds?.overlaps(groups) ?? false }
        guard let first = groupsOfStretch.firstIndex(where: overlaps),
            let last = groupsOfStretch.lastIndex(where: overlaps)
        else { return nil }
        let end = last + 1 < groupsOfStretch.count ? (last + 1) * Self.stretchKeyCount - 1 : nil
        return UInt32(first * Self.stretchKeyCount)...(end.map { UInt32($0) } ?? .max)
    }

    var groupCount: Int { Int(nextName) + lostKeys.count }

    /// By group: whether any key of it is asked for.
    func areWanted() -> [Bool] {
        var isWanted = [Bool](repeating: false, count: groupCount)
        for group in groupOfKey where group != Self.none && Int(group) < groupCount {
            isWanted[Int(group)] = true
        }
        return isWanted
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
