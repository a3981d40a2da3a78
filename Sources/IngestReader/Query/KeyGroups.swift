// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Which *group* each reward key belongs to in a listing: its reward's, or one of its own where its names
/// were lost. Made once a query.
///
/// **Cost** 8 bytes a key, about 5 ns each.
struct KeyGroups {
    /// A key that the query does not ask for.
    static let none = UInt32.max

    /// By key: the ordinal of its reward; of a lost key `nextName` and its place in `lostKeys`.
    private(set) var groupOfKey: [UInt32]
    /// By key: the ordinal of its business, 0 of a lost key. Empty unless it was asked for.
    private(set) var businessOfKey: [UInt32]
    private(set) var lostKeys: [UInt32] = []
    let nextName: UInt32

    /// - Parameters:
    ///   - business: only its keys; `.none` is that of lost keys, `nil` is all.
    ///   - keepsBusinesses: whether the business of each key will be asked for.
    init(
        _ names: any NameSource, business: NameOrdinal?, keepsBusinesses: Bool = true
    ) throws(ReaderError) {
        nextName = names.nextName
        groupOfKey = Array(repeating: Self.none, count: Int(names.nextKey))
        businessOfKey = Array(repeating: 0, count: keepsBusinesses ? Int(names.nextKey) : 0)
        var next: UInt32 = 0
        try names.forEachKeys { (first, pairs) throws(ReaderError) in
            guard first >= next, Int(first) + pairs.count <= groupOfKey.count else {
                throw .impossibleRow
            }
            enterLost(next..<first, business)
            for (index, pair) in pairs.enumerated() {
                guard pair.reward.rawValue < nextName, pair.business.rawValue < nextName else {
                    throw .impossibleRow
                }
                enter(first + UInt32(index), pair, business)
            }
            next = first + UInt32(pairs.count)
        }
        enterLost(next..<names.nextKey, business)
    }

    private mutating func enter(_ key: UInt32, _ pair: RewardKey, _ business: NameOrdinal?) {
        if let business, business != pair.business { return }
        if pair.reward == .none {
            groupOfKey[Int(key)] = nextName + UInt32(lostKeys.count)
            lostKeys.append(key)
        } else {
            groupOfKey[Int(key)] = pair.reward.rawValue
            if !businessOfKey.isEmpty { businessOfKey[Int(key)] = pair.business.rawValue }
        }
    }

    private mutating func enterLost(_ keys: Range<UInt32>, _ business: NameOrdinal?) {
        let lost = RewardKey(reward: .none, business: .none)
        for key in keys { enter(key, lost, business) }
    }

    var groupCount: Int { Int(nextName) + lostKeys.count }

    /// The name that a group is shown by; `nil` for a lost key.
    func reward(_ group: UInt32) -> NameOrdinal? {
        group < nextName ? NameOrdinal(rawValue: group) : nil
    }

    /// The key of a group that is a lost key.
    func lostKey(_ group: UInt32) -> UInt32 { lostKeys[Int(group - nextName)] }

    /// By group: whether any key of it is asked for.
    func areWanted() -> [Bool] {
        var isWanted = [Bool](repeating: false, count: groupCount)
        for group in groupOfKey where group != Self.none && Int(group) < groupCount {
            isWanted[Int(group)] = true
        }
        return isWanted
    }
}

extension NameSource {
    /// All groups' names in bytewise order as they are shown, each under its group's number.
    func walk(_ groups: KeyGroups, where isWanted: [Bool]) throws(ReaderError) -> NameWalk {
        let lost = try lostNames().filter { Int($0) < isWanted.count && isWanted[Int($0)] }
        var cursors = try makeCursors()
        cursors.append(
            LostNames(names: lost, keys: groups.lostKeys, firstNumber: groups.nextName))
        return NameWalk(cursors)
    }
}
