// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// A listing in ranges: its *units* are entered in the order in which they are to be shown; when a range is full, all
/// rows of the cut that belong to it are folded, in one pass over the table, and given. A unit is what one or more
/// ordinals of rows add up to: a reward with all its keys, a key by day, a business by day. Owned by one query.
///
/// **Cost** 76 bytes a row of the range (204 where rare counters are not 0), its name; 4 to 5 bytes an ordinal of the
/// directory. By day 60 bytes a unit more, and sorting where the days of a unit did not come ascending.
struct RangeListing {
    private struct Shown {
        /// For who entered the unit.
        let tag: UInt32
        let text: Range<UInt32>
    }

    /// Where the rows of a unit by day lie.
    private struct DaySlots {
        let start: Int
        let end: Int
        var next: Int
        /// Whether each row's day was later than the one before.
        var ascends = true
        /// Days that belong to the unit, and the unit of the range that has others of the same ordinal.
        let days: Range<Int32>
        let before: UInt32?
    }

    typealias Completion = (
        _ row: inout ListedRow, _ tag: UInt32, _ isSeen: [Bool]
    ) throws(ReaderError) -> Bool

    static let allDays = Limits.businessDays.lowerBound..<Limits.businessDays.upperBound + 1

    private let query: CounterQuery
    private let table: TableKind
    private let days: DayRange
    /// Whether a unit has a row for each day, and not one alone.
    private let isByDay: Bool
    private let slab: CounterSlab
    private var shown: [Shown] = []
    private var texts: [UInt8] = []
    /// By ordinal: `firstUnit` and the unit's number in this range; of those entered in no range, or in one before, less.
    private var unitOfOrdinal: [UInt32]
    private var firstUnit: UInt32 = 1
    /// The least and the greatest ordinal of the range.
    private var bounds: ClosedRange<UInt32>?
    /// By ordinal: whether a row of it was folded; where there are no days.
    private var isSeen: [Bool]
    // By day.
    private var slots: [DaySlots] = []
    private var dayOfSlot: [Int32]
    private var taken = 0
    /// The rows of one page that belong to the range.
    private var picks = [RowPick](
        repeating: RowPick(row: 0, unit: 0), count: CounterPage.capacity)

    /// - Parameters:
    ///   - ordinalCount: rows of an ordinal from it on are damage.
    ///   - rowCount: rows that will be entered, all ranges together.
    init(
        _ query: CounterQuery, _ table: TableKind, _ days: DayRange, isByDay: Bool,
        ordinalCount: Int, rowCount: Int
    ) {
        self.query = query
        self.table = table
        self.days = days
        self.isByDay = isByDay
        let room = isByDay ? max(query.rowCountMax, Self.room(.max)) : query.rowCountMax
        slab = CounterSlab(capacity: min(rowCount, room))
        unitOfOrdinal = Array(repeating: 0, count: ordinalCount)
        isSeen = Array(repeating: false, count: isByDay ? 0 : ordinalCount)
        dayOfSlot = Array(repeating: 0, count: isByDay ? slab.capacity : 0)
    }

    /// What a unit with `rowCount` rows, some of them of the same days, takes: at most twice as many as there
    /// are days, so that putting equal days together frees half.
    private static func room(_ rowCount: Int) -> Int {
        min(rowCount, 2 * Limits.businessDays.count)
    }

    /// Whether one more unit fits: one always does.
    func hasRoom(for rowCount: Int) -> Bool {
        shown.isEmpty || taken + Self.room(rowCount) <= query.rowCountMax
    }

    /// Enters a unit, for which there is room.
    /// - Parameters:
    ///   - tag: the caller's.
    ///   - rowCount: the most rows that it can have; without days 1.
    ///   - days: rows of the ordinals on other days belong to other units.
    ///   - appendText: adds the text that it is shown by.
    mutating func enter(
        _ tag: UInt32, rowCount: Int = 1, days: Range<Int32> = allDays,
        ordinals: some Collection<UInt32>, _ appendText: (inout [UInt8]) -> Void
    ) {
        precondition(hasRoom(for: rowCount))
        let unit = firstUnit + UInt32(shown.count)
        var before: UInt32?
        for ordinal in ordinals {
            let known = unitOfOrdinal[Int(ordinal)]
            if known >= firstUnit { before = known - firstUnit }
            unitOfOrdinal[Int(ordinal)] = unit
            let least = min(bounds?.lowerBound ?? ordinal, ordinal)
            bounds = least...max(bounds?.upperBound ?? ordinal, ordinal)
        }
        let start = UInt32(texts.count)
        appendText(&texts)
        shown.append(Shown(tag: tag, text: start..<UInt32(texts.count)))
        let end = taken + Self.room(rowCount)
        if isByDay {
            slots.append(
                DaySlots(start: taken, end: end, next: taken, days: days, before: before))
        }
        taken = end
    }

    /// Folds and gives the units entered, those without rows left out; none are entered then.
    /// - Parameter complete: sets what a row has beside id, day and counters, by its unit's tag and what `isSeen` is;
    ///   `false` leaves the unit out.
    /// - Returns: `false` if `body` did.
    mutating func give(
        _ body: ListedRow.Body, completing complete: Completion
    ) throws(ReaderError) -> Bool {
        try fold()
        var row = ListedRow()
        var goesOn = true
        for (unit, entry) in shown.enumerated() where goesOn {
            row.id.removeAll(keepingCapacity: true)
            row.id.append(
                contentsOf: texts[Int(entry.text.lowerBound)..<Int(entry.text.upperBound)])
            guard try complete(&row, entry.tag, isSeen) else { continue }
            if isByDay {
                goesOn = try forEachRow(of: unit) { day, counters in
                    row.day = day
                    row.counters = counters
                    return body(row)
                }
            } else {
                row.counters = slab.counters(unit)
                goesOn = body(row)
            }
        }
        firstUnit += UInt32(shown.count)
        shown.removeAll(keepingCapacity: true)
        texts.removeAll(keepingCapacity: true)
        slots.removeAll(keepingCapacity: true)
        taken = 0
        bounds = nil
        return goesOn
    }

    // MARK: Folding

    private mutating func fold() throws(ReaderError) {
        guard let bounds else { return }
        slab.clear(taken)
        // With the last ordinal, those that there cannot be.
        let isLast = Int(bounds.upperBound) == unitOfOrdinal.count - 1
        let keys = bounds.lowerBound...(isLast ? .max : bounds.upperBound)
        try query.forEachPage(of: table, keys: keys) { (page) throws(ReaderError) in
            try fold(page)
        }
    }

    private mutating func fold(_ page: CounterPage) throws(ReaderError) {
        let count = try pick(page)
        let columns = CounterSlab.Columns(of: page)
        let slab = slab
        if !isByDay { slab.touch(picks.span.extracting(first: count)) }
        for place in 0..<count {
            let (row, unit) = (Int(picks[place].row), Int(picks[place].unit))
            var slot = unit
            if isByDay {
                slot = try self.slot(of: unit, page.day(row))
            } else {
                isSeen[Int(page.key(row))] = true
            }
            guard slab.add(row, of: page, columns, to: slot) else { throw .overflow }
        }
    }

    /// Finds the rows of a page that belong to the range; returns how many.
    private mutating func pick(_ page: CounterPage) throws(ReaderError) -> Int {
        let looksAtDays = isByDay || days.isBounded
        let (wanted, firstUnit) = (days, firstUnit)
        let (units, slots) = (unitOfOrdinal, slots)
        let unitOfOrdinal = units.span
        var picks = picks.mutableSpan
        var count = 0
        try page.withOrders { (orders) throws(ReaderError) in
            for row in orders.indices {
                let ordinal = RowOrder.ordinal(orders[row])
                guard ordinal < unitOfOrdinal.count else { throw .impossibleRow }
                var unit = unitOfOrdinal[ordinal]
                guard unit >= firstUnit else { continue }
                unit -= firstUnit
                if looksAtDays {
                    let day = RowOrder.day(orders[row])
                    guard try wanted.admits(day) else { continue }
                    if !slots.isEmpty {
                        guard let own = Self.unit(unit, day, slots) else { continue }
                        unit = own
                    }
                }
                picks[count] = RowPick(row: UInt32(row), unit: unit)
                count += 1
            }
        }
        return count
    }

    /// Of the units with a row's ordinal that which has its day.
    private static func unit(_ last: UInt32, _ day: Int32, _ slots: [DaySlots]) -> UInt32? {
        var unit = last
        while !slots[Int(unit)].days.contains(day) {
            guard let before = slots[Int(unit)].before else { return nil }
            unit = before
        }
        return unit
    }

    // MARK: Rows by day

    /// Where a row is added.
    /// **Errors** `impossibleRow` if the unit has more rows than it was entered with.
    private mutating func slot(of unit: Int, _ day: Int32) throws(ReaderError) -> Int {
        let last = slots[unit].next - 1
        if last >= slots[unit].start {
            if dayOfSlot[last] == day { return last }
            if dayOfSlot[last] > day { slots[unit].ascends = false }
        }
        if slots[unit].next == slots[unit].end { try sum(unit) }
        let slot = slots[unit].next
        guard slot < slots[unit].end else { throw .impossibleRow }
        dayOfSlot[slot] = day
        slots[unit].next = slot + 1
        return slot
    }

    /// The rows of a unit by day, each day once; `false` if `body` was.
    private func forEachRow(
        of unit: Int, _ body: (Int32, CounterRow) -> Bool
    ) throws(ReaderError) -> Bool {
        let used = slots[unit].start..<slots[unit].next
        if slots[unit].ascends {
            return used.allSatisfy { body(dayOfSlot[$0], slab.counters($0)) }
        }
        let sorted = used.sorted { (dayOfSlot[$0], $0) < (dayOfSlot[$1], $1) }
        var place = 0
        while place < sorted.count {
            let day = dayOfSlot[sorted[place]]
            var counters = CounterRow()
            while place < sorted.count, dayOfSlot[sorted[place]] == day {
                guard counters.add(slab.counters(sorted[place])) else { throw .overflow }
                place += 1
            }
            guard body(day, counters) else { return false }
        }
        return true
    }

    /// Puts the rows of a unit in order, those of the same day together.
    private mutating func sum(_ unit: Int) throws(ReaderError) {
        var rows: [(day: Int32, counters: CounterRow)] = []
        _ = try forEachRow(of: unit) { day, counters in
            rows.append((day, counters))
            return true
        }
        let start = slots[unit].start
        for slot in start..<slots[unit].next { slab.set(CounterRow(), slot) }
        for (place, row) in rows.enumerated() {
            slab.set(row.counters, start + place)
            dayOfSlot[start + place] = row.day
        }
        slots[unit].next = start + rows.count
        slots[unit].ascends = true
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
