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
    /// The least and the greatest group of the range.
    private var bounds: ClosedRange<UInt32>?
    /// By key: whether a row of it was folded. A key is in one range only.
    private var isSeen: [Bool]
    /// The rows of one page that belong to the range.
    private var picks = [RowPick](
        repeating: RowPick(row: 0, slot: 0), count: CounterPage.capacity)
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
        bounds = min(bounds?.lowerBound ?? group, group)...max(bounds?.upperBound ?? group, group)
        appendName(&texts)
        textEnds.append(texts.count)
    }

    /// Folds and gives the rewards entered, those without rows left out; none are entered then.
    /// - Returns: `false` if `body` did.
    mutating func give(_ body: ListedRow.Body) throws(ReaderError) -> Bool {
        slab.clear(0..<entered.count)
        if let bounds, let keys = groups.keys(ofGroups: bounds) {
            try query.forEachPage(of: days.isBounded ? .rewardDays : .rewards, keys: keys) {
                (page) throws(ReaderError) in try fold(page)
            }
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
        self.bounds = nil
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
        let count = try pick(page)
        let columns = CounterSlab.Columns(of: page)
        let slab = slab
        slab.touch(picks.span.extracting(first: count))
        for place in 0..<count {
            let (row, slot) = (Int(picks[place].row), Int(picks[place].slot))
            let key = Int(page.key(row))
            if !isSeen[key] {
                isSeen[key] = true
                try join(groups.businessOfKey[key], slot)
            }
            guard slab.add(row, of: page, columns, to: slot) else { throw .overflow }
        }
    }

    /// Finds the rows of a page that belong to the range; returns how many.
    private mutating func pick(_ page: CounterPage) throws(ReaderError) -> Int {
        let isBounded = days.isBounded
        let wanted = days
        let (groups, slots) = (groups.groupOfKey, slotOfGroup)
        let (groupOfKey, slotOfGroup) = (groups.span, slots.span)
        var picks = picks.mutableSpan
        var count = 0
        try page.withOrders { (orders) throws(ReaderError) in
            for row in orders.indices {
                let key = RowOrder.ordinal(orders[row])
                guard key < groupOfKey.count else { throw .impossibleRow }
                let group = groupOfKey[key]
                guard group != KeyGroups.none else { continue }
                let slot = slotOfGroup[Int(group)]
                guard slot != 0 else { continue }
                if isBounded, try !wanted.admits(RowOrder.day(orders[row])) { continue }
                picks[count] = RowPick(row: UInt32(row), slot: slot - 1)
                count += 1
            }
        }
        return count
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
