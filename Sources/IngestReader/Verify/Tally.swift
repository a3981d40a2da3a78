// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// Counters by (item, day), item being the ordinal of a reward key or of a business: dense arrays by item, and
/// the days of an item in a ring.
///
/// **Layout** A *place* is an (item, day) and has a slot, from 1. `heads` says for each item which slot was looked up
/// last. A slot is a *line* of 16 numbers of 32 bits: item, the slot of another day, where its rare counters and its
/// money are; then day, and how many rows of each of eleven kinds it has, of which nearly all are. A row adds to one
/// number, whatever columns it is counted in. What other rows add, and what passes 32 bits, is in the place's row of
/// `wide`, if it has one; a counter is the sum of both.
///
/// **Cost** 4 to 8 bytes an item, 64 a place, 16 more for a place with money, 168 more for one with rare outcomes.
/// Counting a row touches the head of its item and the line of its place, as long as the item stays on one day;
/// looking up another day is a walk over at most eight places, then a dictionary.
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

    /// What there is of a place. Elements of large arrays begin 48 bytes behind a multiple of 64: so what the loop over
    /// rows touches, from `day` on, lies on one cache line. Elsewhere it is only slower.
    typealias Line = SIMD16<UInt32>

    /// What the numbers of a line are.
    enum Lane {
        static let item = 0
        /// The slot of another day of the same item; its own if there is none.
        static let next = 1
        /// Row in `wide` + 1; 0 = none.
        static let wide = 2
        /// Place in `money` + 1; 0 = none.
        static let money = 3
        static let day = 4
        /// Rows of kind 0, and then of the others.
        static let kinds = 5
    }

    struct Money: BitwiseCopyable, Sendable {
        var revenue: UInt64 = 0
        var spend: UInt64 = 0
    }

    static let columnCount = CounterRow.columnCount
    static let revenue = CounterColumn.revenueMicros.rawValue
    static let spend = CounterColumn.spendMicros.rawValue
    static let walkMax = 8

    /// Items are ordinals of keys or of names.
    static let itemCountMax = max(Limits.keyCountMax, Limits.nameCountMax + 1)
    /// The day of slot 0, which is none.
    static let noDay = Int32.min
    private static let noLine = Line(repeating: 0)
        .replacing(with: UInt32(bitPattern: noDay), lane: Lane.day)

    /// By item: its slot that was looked up last; 0 = the item has no place. As many as a power of two.
    private(set) var heads: [UInt32] = []
    /// By slot.
    var lines: [Line] = []
    var money: [Money] = []
    private var wide: [UInt64] = []
    /// The slot of each place of items that have more than `walkMax` days.
    private var deep: [UInt64: UInt32] = [:]
    /// Sums that passed 64 bits, by slot × columnCount + column: what stands there is not the sum.
    private var overflowed: Set<Int> = []
    /// How many items have a place.
    private(set) var itemCount = 0
    /// No number of rows has grown by more since the last `carry`.
    private var rowCountSinceCarry: UInt64 = 0

    /// How many places have a row in `wide`.
    var wideRowCount: Int { wide.count / Self.columnCount }
    var placeCount: Int { max(0, lines.count - 1) }
    /// The slots that are taken.
    var slots: Range<Int> { 1..<1 + placeCount }

    func place(at slot: Int) -> Place {
        Place(item: lines[slot][Lane.item], day: Int32(bitPattern: lines[slot][Lane.day]))
    }

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

    /// Makes room, so that as many places are taken without moving those that are there.
    mutating func reserve(placeCount: Int) { lines.reserveCapacity(placeCount + 1) }

    private mutating func grow(to itemCount: Int) {
        if lines.isEmpty { lines.append(Self.noLine) }
        guard itemCount > heads.count else { return }
        let wanted = 1 << (Int.bitWidth - max(1, itemCount - 1).leadingZeroBitCount)
        heads.append(contentsOf: repeatElement(0, count: wanted - heads.count))
    }

    /// The slot of a place, made if it is new.
    /// - Parameter item: below `itemCountMax`.
    mutating func slot(item: UInt32, day: Int32) -> Int {
        grow(to: Int(item) + 1)
        let head = Int(heads[Int(item)])
        if head == 0 {
            itemCount += 1
            return insert(item, day, after: nil)
        }
        var slot = head
        for _ in 0..<Self.walkMax {
            if lines[slot][Lane.day] == UInt32(bitPattern: day) {
                heads[Int(item)] = UInt32(slot)
                return slot
            }
            slot = Int(lines[slot][Lane.next])
            if slot == head { return insert(item, day, after: head) }
        }
        return deepSlot(item, day, first: head)
    }

    /// As `slot`, of an item that has more than `walkMax` days, and not this one among those walked over. All
    /// its days are in `deep` from the first such look on.
    private mutating func deepSlot(_ item: UInt32, _ day: Int32, first: Int) -> Int {
        if deep[place(at: first).order] == nil {
            // Not by `forEachSlot`: its body would share `deep` with it, and copy all of it.
            var slot = first
            repeat {
                deep[place(at: slot).order] = UInt32(slot)
                slot = Int(lines[slot][Lane.next])
            } while slot != first
        }
        let order = Place(item: item, day: day).order
        if let found = deep[order] {
            heads[Int(item)] = found
            return Int(found)
        }
        let slot = insert(item, day, after: first)
        deep[order] = UInt32(slot)
        return slot
    }

    private mutating func insert(_ item: UInt32, _ day: Int32, after slot: Int?) -> Int {
        let number = lines.count
        var line = Line(repeating: 0)
        line[Lane.item] = item
        line[Lane.day] = UInt32(bitPattern: day)
        line[Lane.next] = slot.map { lines[$0][Lane.next] } ?? UInt32(number)
        lines.append(line)
        if let slot { lines[slot][Lane.next] = UInt32(number) }
        heads[Int(item)] = UInt32(number)
        return number
    }

    /// The slot of a place; `nil` if there is none.
    func find(_ place: Place) -> Int? {
        guard hasPlaces(of: Int(place.item)) else { return nil }
        let head = Int(heads[Int(place.item)])
        var slot = head
        var stepCount = 0
        repeat {
            if lines[slot][Lane.day] == UInt32(bitPattern: place.day) { return slot }
            slot = Int(lines[slot][Lane.next])
            stepCount += 1
            if stepCount == Self.walkMax, deep[self.place(at: head).order] != nil {
                return deep[place.order].map { Int($0) }
            }
        } while slot != head
        return nil
    }

    func hasPlaces(of item: Int) -> Bool { item < heads.count && heads[item] != 0 }

    private func forEachSlot(of item: UInt32, _ body: (Int) -> Void) {
        guard hasPlaces(of: Int(item)) else { return }
        let first = Int(heads[Int(item)])
        var slot = first
        repeat {
            body(slot)
            slot = Int(lines[slot][Lane.next])
        } while slot != first
    }

    /// Replaces `list` by the slots of an item, by day.
    func list(_ item: UInt32, into list: inout [Int]) {
        list.removeAll(keepingCapacity: true)
        forEachSlot(of: item) { list.append($0) }
        if list.count > 1 { list.sort { place(at: $0).day < place(at: $1).day } }
    }

    // MARK: Counters

    mutating func add(_ amount: UInt64, to column: Int, at slot: Int) {
        guard column == Self.revenue || column == Self.spend else {
            return addWide(amount, to: column, at: slot)
        }
        let place = moneyPlace(at: slot)
        let isRevenue = column == Self.revenue
        let (sum, overflow) = (isRevenue ? money[place].revenue : money[place].spend)
            .addingReportingOverflow(amount)
        if isRevenue { money[place].revenue = sum } else { money[place].spend = sum }
        if overflow { noteOverflow(column, at: slot) }
    }

    /// Adds rows of a kind.
    mutating func add(_ rowCount: UInt32, of kind: Kind, at slot: Int) {
        let lane = Lane.kinds + kind.rawValue
        let (sum, overflow) = lines[slot][lane].addingReportingOverflow(rowCount)
        lines[slot][lane] = overflow ? 0 : sum
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

    mutating func noteOverflow(_ column: Int, at slot: Int) {
        overflowed.insert(slot * Self.columnCount + column)
    }

    private mutating func wideRow(at slot: Int) -> Int {
        if lines[slot][Lane.wide] == 0 {
            wide.append(contentsOf: repeatElement(0, count: Self.columnCount))
            lines[slot][Lane.wide] = UInt32(wide.count / Self.columnCount)
        }
        return (Int(lines[slot][Lane.wide]) - 1) * Self.columnCount
    }

    private mutating func moneyPlace(at slot: Int) -> Int {
        if lines[slot][Lane.money] == 0 {
            money.append(Money())
            lines[slot][Lane.money] = UInt32(money.count)
        }
        return Int(lines[slot][Lane.money]) - 1
    }

    /// Moves numbers of rows that are half full, so that 2^31 rows can be added to each.
    private mutating func carry() {
        for slot in slots {
            for kind in Kind.allCases {
                let rowCount = lines[slot][Lane.kinds + kind.rawValue]
                guard rowCount > UInt32.max / 2 else { continue }
                addWide(UInt64(rowCount), of: kind, at: slot)
                lines[slot][Lane.kinds + kind.rawValue] = 0
            }
        }
    }

    /// The next rows that are counted may pass 32 bits: what was carried by a sum stays so.
    mutating func forgetCarry() { rowCountSinceCarry = UInt64(UInt32.max) }

    /// Whether all counters of a slot are in its line and its money, and none has passed 64 bits.
    func isPlain(_ line: Line) -> Bool { line[Lane.wide] == 0 && overflowed.isEmpty }

    func money(of line: Line) -> Money {
        line[Lane.money] == 0 ? Money() : money[Int(line[Lane.money]) - 1]
    }

    /// All revenue and spend; at most 2^64 − 1.
    var moneyMicros: UInt64 {
        money.reduce(0) { $0.saturatingSum($1.revenue).saturatingSum($1.spend) }
    }

    /// The counters of a slot.
    func row(at slot: Int) -> CheckedRow {
        var row = CheckedRow()
        let line = lines[slot]
        for kind in Kind.allCases {
            let rowCount = UInt64(line[Lane.kinds + kind.rawValue])
            if rowCount != 0 { kind.forEachColumn { row.counters[$0] += rowCount } }
        }
        let money = money(of: line)
        row.counters[.revenueMicros] = money.revenue
        row.counters[.spendMicros] = money.spend
        if line[Lane.wide] != 0 {
            let base = (Int(line[Lane.wide]) - 1) * Self.columnCount
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
}

extension SIMD16<UInt32> {
    fileprivate func replacing(with value: UInt32, lane: Int) -> Self {
        var line = self
        line[lane] = value
        return line
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
