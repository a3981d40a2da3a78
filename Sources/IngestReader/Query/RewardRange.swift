// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The rewards of one range of a listing: entered in the order in which they are to be shown, then folded
/// from all rows of the cut, then given. Owned by one query.
///
/// **Cost** 192 bytes a reward of the range and its name; 5 bytes a name and a key of the directory.
struct RewardRange {
    private let query: CounterQuery
    private let groups: KeyGroups
    private let days: DayRange

    private let slab: CounterSlab
    /// By group: its slot + 1, 0 = not in this range.
    private var slotOfGroup: [UInt32]
    /// By slot.
    private var entered: [UInt32] = []
    private var texts: [UInt8] = []
    private var textEnds: [Int] = []
    /// By key: whether a row of it was folded. A key is in one range only.
    private var isSeen: [Bool]
    private var businesses: BusinessOrder
    private var shown: ShownNames

    /// - Parameter countMax: the rewards that will be entered, all ranges together.
    init(_ query: CounterQuery, _ groups: KeyGroups, _ days: DayRange, countMax: Int) {
        self.query = query
        self.groups = groups
        self.days = days
        slab = CounterSlab(capacity: min(countMax, query.rowCountMax))
        slotOfGroup = Array(repeating: 0, count: groups.groupCount)
        isSeen = Array(repeating: false, count: groups.groupOfKey.count)
        businesses = BusinessOrder(query.names)
        shown = ShownNames(query.names)
    }

    var isFull: Bool { entered.count == slab.capacity }

    /// Enters a group that is in no range yet.
    /// - Parameter appendName: adds the text that it is shown by.
    mutating func enter(_ group: UInt32, _ appendName: (inout [UInt8]) -> Void) {
        precondition(!isFull)
        entered.append(group)
        slotOfGroup[Int(group)] = UInt32(entered.count)
        appendName(&texts)
        textEnds.append(texts.count)
    }

    /// Folds and gives the rewards entered, those without rows left out; none are entered then.
    /// - Returns: `false` if `body` did.
    mutating func give(_ body: ListedRow.Body) throws(ReaderError) -> Bool {
        slab.clear(0..<entered.count)
        try query.forEachPage(of: days.isBounded ? .rewardDays : .rewards) {
            (page) throws(ReaderError) in try fold(page)
        }
        var row = ListedRow()
        var start = 0
        var goesOn = true
        for slot in entered.indices {
            let range = start..<textEnds[slot]
            start = range.upperBound
            slotOfGroup[Int(entered[slot])] = 0
            let tag = Tag(slab.tag(slot))
            guard goesOn, tag.businessCount > 0 else { continue }
            row.id.removeAll(keepingCapacity: true)
            row.id.append(contentsOf: texts[range])
            row.business = try shown.bytes(of: tag.business)
            row.businessCount = Int(tag.businessCount)
            row.counters = slab.counters(slot)
            goesOn = body(row)
        }
        entered.removeAll(keepingCapacity: true)
        texts.removeAll(keepingCapacity: true)
        textEnds.removeAll(keepingCapacity: true)
        return goesOn
    }

    /// What a slot knows of its businesses.
    private struct Tag {
        var businessCount: UInt32
        var business: UInt32

        init(_ word: UInt64) {
            businessCount = UInt32(truncatingIfNeeded: word >> 32)
            business = UInt32(truncatingIfNeeded: word)
        }

        var word: UInt64 { UInt64(businessCount) << 32 | UInt64(business) }
    }

    private mutating func fold(_ page: CounterPage) throws(ReaderError) {
        let isBounded = days.isBounded
        let wanted = days
        let columns = page.nonzeroColumns
        try page.withOrders { (orders) throws(ReaderError) in
            for row in orders.indices {
                let key = RowOrder.ordinal(orders[row])
                guard key < groups.groupOfKey.count else { throw .impossibleRow }
                let group = groups.groupOfKey[key]
                guard group != KeyGroups.none else { continue }
                let slot = slotOfGroup[Int(group)]
                guard slot != 0 else { continue }
                if isBounded, try !wanted.admits(RowOrder.day(orders[row])) { continue }
                if !isSeen[key] {
                    isSeen[key] = true
                    try join(groups.businessOfKey[key], Int(slot) - 1)
                }
                guard slab.add(row, of: page, columns, to: Int(slot) - 1) else { throw .overflow }
            }
        }
    }

    private mutating func join(_ business: UInt32, _ slot: Int) throws(ReaderError) {
        var tag = Tag(slab.tag(slot))
        if tag.businessCount == 0 {
            tag.business = business
        } else {
            let rank = try businesses.rank(business, among: groups.businessOfKey)
            let least = try businesses.rank(tag.business, among: groups.businessOfKey)
            if rank < least { tag.business = business }
        }
        tag.businessCount += 1
        slab.setTag(tag.word, slot)
    }
}

extension DayRange {
    /// Whether the range has the day of a row.
    /// **Errors** `impossibleRow` for one that no event can have.
    func admits(_ day: Int32) throws(ReaderError) -> Bool {
        guard Limits.businessDays.contains(day) else { throw .impossibleRow }
        return contains(day)
    }
}
