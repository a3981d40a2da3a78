// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// Counters by (item, day), item being the ordinal of a reward key or of a business: dense arrays by item, and
/// the days of an item in a ring.
///
/// **Layout** A *place* is an (item, day) and has a number. `heads` says for each item which place was looked up last,
/// and its day. `narrow` counts at each place the rows of each of nine kinds, of which nearly all are, in 32 bits: a
/// row adds to one number, whatever columns it is counted in. What other rows add, and what passes 32 bits, is in
/// the place's row of `wide`, if it has one; a counter is the sum of both.
///
/// **Cost** 8 bytes an item, 68 a place, 168 more for a place with rare outcomes. Counting a row touches 8 bytes of
/// its item and 36 of its place, as long as the item stays on one day; looking up another day is a walk over at
/// most eight places, then a dictionary.
struct Tally: Sendable {
    struct Place: Hashable, Sendable {
        /// Item in the upper half, day + 2^31 in the lower: one integer to sort by.
        let order: UInt64

        init(order: UInt64) { self.order = order }

        init(item: UInt32, day: Int32) {
            order = UInt64(item) << 32 | UInt64(UInt32(bitPattern: day) ^ 0x8000_0000)
        }
        var item: UInt32 { UInt32(truncatingIfNeeded: order >> 32) }
        var day: Int32 { Int32(bitPattern: UInt32(truncatingIfNeeded: order) ^ 0x8000_0000) }
    }

    /// The place of an item that was looked up last.
    struct Head: BitwiseCopyable, Sendable {
        /// Its slot + 1; 0 = the item has no place.
        var slot: UInt32 = 0
        var day: Int32 = 0
    }

    /// What there is of a place beside its narrow counters.
    struct Slot: BitwiseCopyable, Sendable {
        var item: UInt32
        var day: Int32
        /// The slot of another day of the same item; its own number if there is none.
        var next: UInt32
        /// Row in `wide` + 1; 0 = none.
        var wide: UInt32 = 0
        var revenue: UInt64 = 0
        var spend: UInt64 = 0
    }

    /// The kinds of rows that have a number of their own.
    enum Kind: Int, CaseIterable {
        case viewable, undetermined, click, redemption, notViewable
        case viewableUnchecked, undeterminedUnchecked, clickUnchecked, redemptionUnchecked

        /// What a row of the kind adds one to.
        var columns: [CounterColumn] {
            switch self {
            case .viewable: [.impressions, .viewableImpressions]
            case .undetermined: [.impressions, .undeterminedImpressions]
            case .click: [.clicks]
            case .redemption: [.redemptions]
            case .notViewable: [.notViewableImpressions]
            case .viewableUnchecked: [.impressions, .viewableImpressions, .uncheckedEvents]
            case .undeterminedUnchecked:
                [.impressions, .undeterminedImpressions, .uncheckedEvents]
            case .clickUnchecked: [.clicks, .uncheckedEvents]
            case .redemptionUnchecked: [.redemptions, .uncheckedEvents]
            }
        }
    }

    /// Rows by kind.
    typealias Narrow = InlineArray<9, UInt32>

    static let columnCount = CounterRow.columnCount
    private static let revenue = CounterColumn.revenueMicros.rawValue
    private static let spend = CounterColumn.spendMicros.rawValue
    private static let walkMax = 8

    /// Items are ordinals of keys or of names.
    static let itemCountMax = max(Limits.keyCountMax, Limits.nameCountMax + 1)

    var heads: [Head] = []
    var slots: [Slot] = []
    /// By slot.
    var narrow: [Narrow] = []
    private var wide: [UInt64] = []
    /// The slot of each place of items that have more than `walkMax` days.
    private var deep: [UInt64: UInt32] = [:]
    /// Sums that passed 64 bits, by slot × columnCount + column: what stands there is not the sum.
    private var overflowed: Set<Int> = []
    /// No narrow counter has grown by more since the last `carry`.
    private var rowCountSinceCarry: UInt64 = 0

    /// How many places have a row in `wide`.
    var wideRowCount: Int { wide.count / Self.columnCount }

    // MARK: Places

    /// Makes sure that rows of items below `itemCount` can be counted without a look at the arrays' ends and
    /// without passing 32 bits.
    mutating func prepare(itemCount: Int, rowCount: Int) {
        grow(to: min(itemCount, Self.itemCountMax))
        rowCountSinceCarry += UInt64(rowCount)
        if rowCountSinceCarry > UInt64(UInt32.max / 2) {
            carry()
            rowCountSinceCarry = UInt64(rowCount)
        }
    }

    private mutating func grow(to itemCount: Int) {
        guard itemCount > heads.count else { return }
        let wanted = min(max(itemCount, heads.count * 3 / 2), Self.itemCountMax)
        heads.append(contentsOf: repeatElement(Head(), count: wanted - heads.count))
    }

    /// The slot of a place, made if it is new.
    /// - Parameter item: below `itemCountMax`.
    mutating func slot(item: UInt32, day: Int32) -> Int {
        grow(to: Int(item) + 1)
        let head = heads[Int(item)]
        guard head.slot != 0 else { return insert(item, day, after: nil) }
        let first = Int(head.slot) - 1
        var slot = first
        for _ in 0..<Self.walkMax {
            if slots[slot].day == day {
                heads[Int(item)] = Head(slot: UInt32(slot) + 1, day: day)
                return slot
            }
            slot = Int(slots[slot].next)
            if slot == first { return insert(item, day, after: first) }
        }
        return deepSlot(item, day, first: first)
    }

    /// As `slot`, of an item that has more than `walkMax` days, and not this one among those walked over. All
    /// its days are in `deep` from the first such look on.
    private mutating func deepSlot(_ item: UInt32, _ day: Int32, first: Int) -> Int {
        if deep[Place(item: item, day: slots[first].day).order] == nil {
            forEachSlot(of: item) { deep[Place(item: item, day: slots[$0].day).order] = UInt32($0) }
        }
        let order = Place(item: item, day: day).order
        if let found = deep[order] {
            heads[Int(item)] = Head(slot: found + 1, day: day)
            return Int(found)
        }
        let slot = insert(item, day, after: first)
        deep[order] = UInt32(slot)
        return slot
    }

    private mutating func insert(_ item: UInt32, _ day: Int32, after slot: Int?) -> Int {
        let number = slots.count
        slots.append(
            Slot(item: item, day: day, next: slot.map { slots[$0].next } ?? UInt32(number)))
        narrow.append(Narrow(repeating: 0))
        if let slot { slots[slot].next = UInt32(number) }
        heads[Int(item)] = Head(slot: UInt32(number) + 1, day: day)
        return number
    }

    func hasPlaces(of item: Int) -> Bool { item < heads.count && heads[item].slot != 0 }

    private func forEachSlot(of item: UInt32, _ body: (Int) -> Void) {
        guard hasPlaces(of: Int(item)) else { return }
        let first = Int(heads[Int(item)].slot) - 1
        var slot = first
        repeat {
            body(slot)
            slot = Int(slots[slot].next)
        } while slot != first
    }

    /// Replaces `list` by the slots of an item, by day.
    func list(_ item: UInt32, into list: inout [Int]) {
        list.removeAll(keepingCapacity: true)
        forEachSlot(of: item) { list.append($0) }
        if list.count > 1 { list.sort { slots[$0].day < slots[$1].day } }
    }

    // MARK: Counters

    mutating func add(_ amount: UInt64, to column: Int, at slot: Int) {
        switch column {
        case Self.revenue:
            let (sum, overflow) = slots[slot].revenue.addingReportingOverflow(amount)
            slots[slot].revenue = sum
            if overflow { noteOverflow(column, at: slot) }
        case Self.spend:
            let (sum, overflow) = slots[slot].spend.addingReportingOverflow(amount)
            slots[slot].spend = sum
            if overflow { noteOverflow(column, at: slot) }
        default: addWide(amount, to: column, at: slot)
        }
    }

    /// Adds rows of a kind.
    mutating func add(_ rowCount: UInt32, of kind: Kind, at slot: Int) {
        let (sum, overflow) = narrow[slot][kind.rawValue].addingReportingOverflow(rowCount)
        narrow[slot][kind.rawValue] = overflow ? 0 : sum
        if overflow { addWide(UInt64(UInt32.max) + 1 + UInt64(sum), of: kind, at: slot) }
    }

    private mutating func addWide(_ rowCount: UInt64, of kind: Kind, at slot: Int) {
        for column in kind.columns { addWide(rowCount, to: column.rawValue, at: slot) }
    }

    private mutating func addWide(_ amount: UInt64, to column: Int, at slot: Int) {
        let place = wideRow(at: slot) + column
        let (sum, overflow) = wide[place].addingReportingOverflow(amount)
        wide[place] = sum
        if overflow { noteOverflow(column, at: slot) }
    }

    private mutating func noteOverflow(_ column: Int, at slot: Int) {
        overflowed.insert(slot * Self.columnCount + column)
    }

    private mutating func wideRow(at slot: Int) -> Int {
        if slots[slot].wide == 0 {
            wide.append(contentsOf: repeatElement(0, count: Self.columnCount))
            slots[slot].wide = UInt32(wide.count / Self.columnCount)
        }
        return (Int(slots[slot].wide) - 1) * Self.columnCount
    }

    /// Moves narrow counters that are half full, so that 2^31 rows can be added to each.
    private mutating func carry() {
        for slot in slots.indices {
            for kind in Kind.allCases where narrow[slot][kind.rawValue] > UInt32.max / 2 {
                addWide(UInt64(narrow[slot][kind.rawValue]), of: kind, at: slot)
                narrow[slot][kind.rawValue] = 0
            }
        }
    }

    /// The counters of a slot.
    func row(at slot: Int) -> CheckedRow {
        var row = CheckedRow()
        let found = slots[slot]
        let narrow = narrow[slot]
        func rows(_ kind: Kind) -> UInt64 { UInt64(narrow[kind.rawValue]) }
        let viewable = rows(.viewable) + rows(.viewableUnchecked)
        let undetermined = rows(.undetermined) + rows(.undeterminedUnchecked)
        row.counters[.impressions] = viewable + undetermined
        row.counters[.viewableImpressions] = viewable
        row.counters[.undeterminedImpressions] = undetermined
        row.counters[.clicks] = rows(.click) + rows(.clickUnchecked)
        row.counters[.redemptions] = rows(.redemption) + rows(.redemptionUnchecked)
        row.counters[.notViewableImpressions] = rows(.notViewable)
        row.counters[.uncheckedEvents] =
            rows(.viewableUnchecked) + rows(.undeterminedUnchecked) + rows(.clickUnchecked)
            + rows(.redemptionUnchecked)
        row.counters[.revenueMicros] = found.revenue
        row.counters[.spendMicros] = found.spend
        if found.wide != 0 {
            let base = (Int(found.wide) - 1) * Self.columnCount
            for column in 0..<Self.columnCount { row.add(wide[base + column], to: column) }
        }
        if !overflowed.isEmpty {
            for column in 0..<Self.columnCount
            where overflowed.contains(slot * Self.columnCount + column) {
                row.overflows |= 1 << UInt32(column)
            }
        }
        return row
    }

    mutating func add(_ row: CheckedRow, item: UInt32, day: Int32) {
        let slot = slot(item: item, day: day)
        for column in 0..<Self.columnCount {
            let value = row.counters.values[column]
            if value != 0 { add(value, to: column, at: slot) }
            if row.overflows >> UInt32(column) & 1 != 0 { noteOverflow(column, at: slot) }
        }
    }

    /// Adds all of `other`.
    mutating func add(_ other: Tally) {
        if slots.isEmpty {
            self = other
            return
        }
        grow(to: other.heads.count)
        // What was carried stays so: sums are checked here.
        rowCountSinceCarry = UInt64(UInt32.max)
        addSlots(of: other) { $0 }
    }

    /// The same counters under other items.
    func folded(_ item: (UInt32) -> UInt32) -> Tally {
        var folded = Tally()
        folded.addSlots(of: self, item)
        return folded
    }

    private mutating func addSlots(of other: Tally, _ item: (UInt32) -> UInt32) {
        for (number, slot) in other.slots.enumerated() {
            let item = item(slot.item)
            if slot.wide != 0 || !other.overflowed.isEmpty {
                add(other.row(at: number), item: item, day: slot.day)
            } else {
                add(other.narrow[number], of: slot, item: item)
            }
        }
    }

    /// Adds a slot that has narrow counters and money only.
    private mutating func add(_ narrow: Narrow, of other: Slot, item: UInt32) {
        let slot = slot(item: item, day: other.day)
        for kind in Kind.allCases where narrow[kind.rawValue] != 0 {
            add(narrow[kind.rawValue], of: kind, at: slot)
        }
        if other.revenue != 0 { add(other.revenue, to: Self.revenue, at: slot) }
        if other.spend != 0 { add(other.spend, to: Self.spend, at: slot) }
    }
}

/// Counters with a note of which of them passed 64 bits on the way: what stands there is not the sum.
struct CheckedRow: Sendable {
    var counters = CounterRow()
    /// A bit a column.
    var overflows: UInt32 = 0

    mutating func add(_ amount: UInt64, to column: Int) {
        let (sum, overflow) = counters.values[column].addingReportingOverflow(amount)
        counters.values[column] = sum
        if overflow { overflows |= 1 << UInt32(column) }
    }

    mutating func add(_ other: CheckedRow) {
        for column in 0..<CounterRow.columnCount { add(other.counters.values[column], to: column) }
        overflows |= other.overflows
    }
}
