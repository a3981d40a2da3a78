// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// A listing in ranges: its *units* are entered in the order in which they are to be shown; when a range is full, all
/// rows of the cut that belong to it are folded, in one pass over the table, and given. A unit is what one or more
/// ordinals of rows add up to: a reward with all its keys, a key by day, a business by day. Owned by one query.
///
/// **Cost** That of `ListedRange`, 16 bytes a unit, by day 44; 4 to 5 bytes an ordinal of the directory. By day sorting
/// where the days of a unit did not come ascending.
struct RangeListing {
    private struct Entry {
        /// For who entered the unit.
        let tag: UInt32
        let text: Range<UInt32>
    }

    /// Where the rows of a unit by day lie.
    ///
    /// **Layout** Half a cache line: nearly every row touches that of another key.
    private struct DaySlots {
        static let none = UInt32.max
        static let empty = DaySlots(start: 0, end: 0, next: 0, days: allDays, before: none)

        let start: UInt32
        let end: UInt32
        var next: UInt32
        /// Whether each row's day was later than the one before.
        var ascends = true
        /// Of the last row.
        var lastDay: Int32 = 0
        /// Days that belong to the unit, and the unit of the range that has others of the same ordinal.
        let days: Range<Int32>
        let before: UInt32
    }

    /// What a unit is shown with beside its text and its counters.
    struct Completion {
        /// `nil`: what the unit itself is called.
        var business: UInt32?
        /// Of `rewards`.
        var businessCount = 0
    }

    static let allDays = Limits.businessDays.lowerBound..<Limits.businessDays.upperBound + 1

    private let query: CounterQuery
    private let table: TableKind
    private let days: DayRange
    /// Whether a unit has a row for each day, and not one alone.
    private let isByDay: Bool
    /// What units are shown with, by their tags and what `isSeen` is; `nil` leaves a unit out.
    private let complete: (UInt32, [Bool]) throws(ReaderError) -> Completion?
    /// Of the ranges that were given.
    private var memories: [ListedRange.Memory] = []
    private var entries: [Entry] = []
    private var texts: [UInt8] = []
    /// Where the texts of businesses lie, by their ordinals.
    private var businesses: [(ordinal: UInt32, text: Range<UInt32>)]
    private var shown: ShownNames
    /// By ordinal: `firstUnit` and the unit's number in this range; of those entered in no range, or in one before, less.
    private var unitOfOrdinal: [UInt32]
    private var firstUnit: UInt32 = 1
    /// The least and the greatest ordinal of the range.
    private var bounds: ClosedRange<UInt32>?
    /// By ordinal: whether a row of it was folded; where there are no days.
    private var isSeen: [Bool]
    // By day.
    private var slots: [DaySlots] = []
    /// Whether a unit has some days of its ordinals alone.
    private var hasParts = false
    private var dayOfSlot: [Int32] = []
    private var touched: UInt32 = 0
    private var taken = 0
    /// The rows of one page that belong to the range.
    private var picks = [RowPick](
        repeating: RowPick(row: 0, unit: 0), count: CounterPage.capacity)
    private var dayOfPick = [Int32](repeating: 0, count: CounterPage.capacity)

    /// - Parameters:
    ///   - ordinalCount: rows of an ordinal from it on are damage.
    ///   - complete: what a unit is shown with, by its tag and what `isSeen` is; `nil` leaves it out.
    init(
        _ query: CounterQuery, _ table: TableKind, _ days: DayRange, isByDay: Bool,
        ordinalCount: Int,
        _ complete: @escaping (UInt32, [Bool]) throws(ReaderError) -> Completion?
    ) {
        self.query = query
        self.table = table
        self.days = days
        self.isByDay = isByDay
        self.complete = complete
        shown = ShownNames(query.names)
        businesses = Array(repeating: (.max, 0..<0), count: ShownNames.slotCount)
        unitOfOrdinal = Array(repeating: 0, count: ordinalCount)
        isSeen = Array(repeating: false, count: isByDay ? 0 : ordinalCount)
    }

    /// What a unit with `rowCount` rows, some of them of the same days, takes: at most twice as many as there
    /// are days, so that putting equal days together frees half.
    private static func room(_ rowCount: Int) -> Int {
        min(rowCount, 2 * Limits.businessDays.count)
    }

    /// Enters a unit; before it, gives the range where that is full.
    /// - Parameters:
    ///   - tag: the caller's.
    ///   - rowCount: the most rows that it can have; without days 1.
    ///   - days: rows of the ordinals on other days belong to other units.
    ///   - appendText: adds the text that it is shown by.
    /// - Returns: `false` if `body` did.
    mutating func enter(
        _ tag: UInt32, rowCount: Int = 1, days: Range<Int32> = allDays,
        ordinals: some Collection<UInt32>, _ body: ListedRange.Body,
        _ appendText: (inout [UInt8]) -> Void
    ) throws(ReaderError) -> Bool {
        let end = taken + Self.room(rowCount)
        if end > query.rowCountMax && !entries.isEmpty {
            guard try give(body) else { return false }
            return try enter(
                tag, rowCount: rowCount, days: days, ordinals: ordinals, body, appendText)
        }
        let unit = firstUnit + UInt32(entries.count)
        var before = DaySlots.none
        for ordinal in ordinals {
            let known = unitOfOrdinal[Int(ordinal)]
            if known >= firstUnit { before = known - firstUnit }
            unitOfOrdinal[Int(ordinal)] = unit
            let least = min(bounds?.lowerBound ?? ordinal, ordinal)
            bounds = least...max(bounds?.upperBound ?? ordinal, ordinal)
        }
        let start = UInt32(texts.count)
        appendText(&texts)
        entries.append(Entry(tag: tag, text: start..<UInt32(texts.count)))
        if isByDay {
            hasParts = hasParts || days != Self.allDays
            slots.append(
                DaySlots(
                    start: UInt32(taken), end: UInt32(end), next: UInt32(taken), days: days,
                    before: before))
        }
        taken = end
        return true
    }

    /// Folds the units entered, and gives their rows, those without rows left out; none are entered then.
    /// - Returns: `false` if `body` did.
    mutating func give(_ body: ListedRange.Body) throws(ReaderError) -> Bool {
        let memory = takeMemory()
        try foldPages(into: memory.slab)
        var (units, rows) = (memory.units, memory.rows)
        (memory.units, memory.rows) = ([], [])
        units.removeAll(keepingCapacity: true)
        rows.removeAll(keepingCapacity: true)
        units.reserveCapacity(entries.count)
        rows.reserveCapacity(taken)
        for number in entries.indices {
            let entry = entries[number]
            guard let its = try complete(entry.tag, isSeen) else { continue }
            let unit = UInt32(units.count)
            let business = try its.business.map { (ordinal) throws(ReaderError) in
                try text(ofBusiness: ordinal)
            }
            units.append(
                ListedRange.Unit(
                    id: entry.text, business: business ?? entry.text,
                    businessCount: UInt32(its.businessCount)))
            guard isByDay else {
                rows.append(ListedRange.Row(unit: unit, slot: UInt32(number), day: 0))
                continue
            }
            if !slots[number].ascends { try sum(number, in: memory.slab) }
            for slot in slots[number].start..<slots[number].next {
                rows.append(ListedRange.Row(unit: unit, slot: slot, day: dayOfSlot[Int(slot)]))
            }
        }
        // The texts of the range that had the memory before make room for those of the next one.
        (memory.texts, texts) = (texts, memory.texts)
        (memory.units, memory.rows) = (units, rows)
        removeAll()
        return try body(ListedRange(memory))
    }

    /// Memory for the range, that of a range before where nobody has it any more.
    private mutating func takeMemory() -> ListedRange.Memory {
        for index in memories.indices where memories[index].slab.capacity >= taken {
            if isKnownUniquelyReferenced(&memories[index]) { return memories[index] }
        }
        memories.append(ListedRange.Memory(rowCount: taken))
        return memories[memories.count - 1]
    }

    private mutating func removeAll() {
        firstUnit += UInt32(entries.count)
        entries.removeAll(keepingCapacity: true)
        slots.removeAll(keepingCapacity: true)
        texts.removeAll(keepingCapacity: true)
        for slot in businesses.indices { businesses[slot].ordinal = .max }
        taken = 0
        bounds = nil
    }

    /// Where the text of a business lies; puts it there.
    private mutating func text(ofBusiness ordinal: UInt32) throws(ReaderError) -> Range<UInt32> {
        let slot = Int(ordinal) % businesses.count
        if businesses[slot].ordinal != ordinal {
            let start = UInt32(texts.count)
            texts += try shown.bytes(of: ordinal)
            businesses[slot] = (ordinal, start..<UInt32(texts.count))
        }
        return businesses[slot].text
    }

    // MARK: Folding

    private mutating func foldPages(into slab: CounterSlab) throws(ReaderError) {
        slab.clear(taken)
        guard let bounds else { return }
        if isByDay && dayOfSlot.count < taken { dayOfSlot = Array(repeating: 0, count: taken) }
        // With the last ordinal, those that there cannot be.
        let isLast = Int(bounds.upperBound) == unitOfOrdinal.count - 1
        let keys = bounds.lowerBound...(isLast ? .max : bounds.upperBound)
        try query.forEachPage(of: table, keys: keys) { (page) throws(ReaderError) in
            let count = try pick(page)
            if isByDay {
                try takeSlots(count, of: page, in: slab)
            } else {
                for place in 0..<count { isSeen[Int(page.key(Int(picks[place].row)))] = true }
                try add(0..<count, of: page, to: slab)
            }
        }
    }

    /// Finds the rows of a page that belong to the range; returns how many.
    private mutating func pick(_ page: CounterPage) throws(ReaderError) -> Int {
        guard page.rowCount > 0 else { return 0 }
        // Rows ascend.
        guard Int(page.key(page.rowCount - 1)) < unitOfOrdinal.count else { throw .impossibleRow }
        let (firstUnit, unitCount) = (firstUnit, UInt32(entries.count))
        let unitOfOrdinal = unitOfOrdinal
        let units = unitOfOrdinal.span
        var target = picks.mutableSpan
        var count = 0
        page.withOrders { orders in
            for row in orders.indices {
                // Of units of ranges before, a great number.
                let unit = units[RowOrder.ordinal(orders[row])] &- firstUnit
                target[count] = RowPick(row: UInt32(truncatingIfNeeded: row), unit: unit)
                count &+= unit < unitCount ? 1 : 0
            }
        }
        return isByDay || days.isBounded ? try pickDays(count, of: page) : count
    }

    /// Of the rows picked keeps those of wanted days, with the units that have these.
    private mutating func pickDays(
        _ count: Int, of page: CounterPage
    ) throws(ReaderError) -> Int {
        var kept = 0
        let looksAtUnits = isByDay && hasParts
        try page.withOrders { (orders) throws(ReaderError) in
            for place in 0..<count {
                var pick = picks[place]
                let day = RowOrder.day(orders[Int(pick.row)])
                guard try days.admits(day) else { continue }
                while looksAtUnits, pick.unit != DaySlots.none,
                    !slots[Int(pick.unit)].days.contains(day)
                {
                    pick.unit = slots[Int(pick.unit)].before
                }
                if pick.unit == DaySlots.none { continue }
                picks[kept] = pick
                dayOfPick[kept] = day
                kept += 1
            }
        }
        return kept
    }

    /// Adds the first rows picked, each to the slot of its unit.
    private func add(
        _ places: Range<Int>, of page: CounterPage, to slab: CounterSlab
    ) throws(ReaderError) {
        let columns = CounterSlab.Columns(of: page)
        slab.touch(picks.span.extracting(places))
        for place in places {
            let (row, slot) = (Int(picks[place].row), Int(picks[place].unit))
            guard slab.add(row, of: page, columns, to: slot) else { throw .overflow }
        }
    }

    // MARK: Rows by day

    /// Finds a slot for each of the rows picked, and adds them.
    /// **Errors** `impossibleRow` if a unit has more rows than it was entered with.
    private mutating func takeSlots(
        _ count: Int, of page: CounterPage, in slab: CounterSlab
    ) throws(ReaderError) {
        // All are looked at before: loads that do not wait for each other.
        var touched: UInt32 = 0
        for place in 0..<count { touched &+= slots[Int(picks[place].unit)].start }
        self.touched = touched
        var added = 0
        // Of the unit that the rows at hand belong to: most come one after the other.
        var unit = 0
        var its = slots.first ?? DaySlots.empty
        for place in 0..<count {
            if Int(picks[place].unit) != unit {
                slots[unit] = its
                unit = Int(picks[place].unit)
                its = slots[unit]
            }
            let day = dayOfPick[place]
            if its.next == its.end && its.lastDay != day {
                // Rows move: those before have to be added first.
                try add(added..<place, of: page, to: slab)
                added = place
                slots[unit] = its
                try sum(unit, in: slab)
                its = slots[unit]
                guard its.next < its.end else { throw .impossibleRow }
            }
            if its.next == its.start || its.lastDay != day {
                if its.next > its.start && its.lastDay > day { its.ascends = false }
                dayOfSlot[Int(its.next)] = day
                its.lastDay = day
                its.next += 1
            }
            picks[place].unit = its.next - 1
        }
        if count > 0 { slots[unit] = its }
        try add(added..<count, of: page, to: slab)
    }

    /// Puts the rows of a unit in order, those of the same day together.
    private mutating func sum(_ unit: Int, in slab: CounterSlab) throws(ReaderError) {
        let used = Int(slots[unit].start)..<Int(slots[unit].next)
        var rows: [(day: Int32, counters: CounterRow)] = []
        for slot in used.sorted(by: { (dayOfSlot[$0], $0) < (dayOfSlot[$1], $1) }) {
            if rows.last?.day != dayOfSlot[slot] { rows.append((dayOfSlot[slot], CounterRow())) }
            guard rows[rows.count - 1].counters.add(slab.counters(slot)) else { throw .overflow }
        }
        for slot in used { slab.set(CounterRow(), slot) }
        for (place, row) in rows.enumerated() {
            slab.set(row.counters, used.lowerBound + place)
            dayOfSlot[used.lowerBound + place] = row.day
        }
        slots[unit].next = UInt32(used.lowerBound + rows.count)
        slots[unit].lastDay = rows.last?.day ?? 0
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
