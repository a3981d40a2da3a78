// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Where the rows of a range's units by day lie: for each unit room for as many as it can have, in which they ascend by
/// day. Slots of a unit lie together, in the order in which its days came.
///
/// **Cost** 16 bytes a unit, 28 where one has some days alone; 8 a row.
struct DayRows {
    static let none = UInt32.max

    /// **Layout** A quarter of a cache line: nearly every row touches that of another key.
    private struct Unit {
        let start: UInt32
        /// Behind those that there are.
        var end: UInt32
        /// Behind those that there can be.
        let limit: UInt32
        /// Behind the one found last: where most are found next.
        var next: UInt32
    }

    /// Of a unit that has some days of its ordinals alone.
    private struct Part {
        static let whole = Part(days: RangeListing.allDays, before: DayRows.none)

        /// Days that belong to the unit, and the unit of the range that has others of the same ordinal.
        let days: Range<Int32>
        let before: UInt32
    }

    struct Row: BitwiseCopyable {
        var day: Int32 = 0
        var slot: UInt32 = 0
    }

    private var units: [Unit] = []
    private var rows: [Row] = []
    /// By unit; none are behind the last one that is no whole.
    private var parts: [Part] = []
    /// A sum over what was looked at for nothing but to have it in the cache.
    private var touched: UInt32 = 0

    /// - Parameters:
    ///   - start: of its room, that of all units before it.
    ///   - room: above 0.
    ///   - before: the unit that has other days of the same ordinal, or `none`.
    mutating func enter(start: Int, room: Int, _ days: Range<Int32>, before: UInt32) {
        if days != RangeListing.allDays {
            while parts.count < units.count { parts.append(.whole) }
            parts.append(Part(days: days, before: before))
        }
        units.append(
            Unit(
                start: UInt32(start), end: UInt32(start), limit: UInt32(start + room),
                next: UInt32(start)))
    }

    /// Has room for the rows of all units.
    mutating func reserve(_ rowCount: Int) {
        if rows.count < rowCount { rows = Array(repeating: Row(), count: rowCount) }
    }

    func rows(of unit: Int) -> ArraySlice<Row> {
        rows[Int(units[unit].start)..<Int(units[unit].end)]
    }

    mutating func removeAll() {
        units.removeAll(keepingCapacity: true)
        parts.removeAll(keepingCapacity: true)
    }

    /// Of the rows picked keeps those of wanted days, with the units that have these; returns how many.
    /// **Errors** `impossibleRow` for a day that no event can have.
    func keep(
        _ wanted: DayRange, of picks: inout [RowPick], _ count: Int
    ) throws(ReaderError) -> Int {
        var kept = 0
        let isPossible = Limits.businessDays
        var target = picks.mutableSpan
        for place in 0..<count {
            var pick = target[place]
            guard isPossible.contains(pick.day) else { throw .impossibleRow }
            if !wanted.contains(pick.day) { continue }
            while pick.unit < parts.count, !parts[Int(pick.unit)].days.contains(pick.day) {
                pick.unit = parts[Int(pick.unit)].before
            }
            if pick.unit == Self.none { continue }
            target[kept] = pick
            kept &+= 1
        }
        return kept
    }

    /// Finds a slot for each of the rows picked, which takes the place of its unit.
    ///
    /// **Cost** Where days come that are not later than those before, a look at the days of the unit for each page.
    /// - Parameter count: above 0.
    /// **Errors** `impossibleRow` if a unit has more rows than it was entered with.
    mutating func takeSlots(for picks: inout [RowPick], _ count: Int) throws(ReaderError) {
        touched = try Self.takeSlots(for: &picks, count, &units, &rows)
    }

    /// Apart from the above, as two spans of one value cannot be changed side by side.
    private static func takeSlots(
        for picks: inout [RowPick], _ count: Int, _ units: inout [Unit], _ rows: inout [Row]
    ) throws(ReaderError) -> UInt32 {
        var units = units.mutableSpan
        var rows = rows.mutableSpan
        var target = picks.mutableSpan
        // All are looked at before: loads that do not wait for each other.
        var touched: UInt32 = 0
        for place in 0..<count { touched &+= units[Int(target[place].unit)].start }
        for place in 0..<count {
            touched &+= rows[Int(units[Int(target[place].unit)].start)].slot
        }
        var place = 0
        while place < count {
            // The rows of a unit ascend by day.
            let unit = target[place].unit
            var its = units[Int(unit)]
            while place < count, target[place].unit == unit {
                let (next, day) = (Int(its.next), target[place].day)
                let isNext = its.next < its.end && rows[next].day == day
                let isLater =
                    its.next == its.end && its.end < its.limit
                    && (its.next == its.start || rows[next &- 1].day < day)
                if !isNext && !isLater {
                    guard putIn(&place, count, &target, &its, &rows) else { throw .impossibleRow }
                    continue
                }
                if isLater {
                    rows[next] = Row(day: day, slot: its.end)
                    its.end &+= 1
                }
                target[place].unit = rows[next].slot
                its.next &+= 1
                place &+= 1
            }
            units[Int(unit)] = its
        }
        return touched
    }

    /// Finds the slots of all rows of a unit that are left of a page, from `place` on; `false` if there is no room.
    private static func putIn(
        _ place: inout Int, _ count: Int, _ target: inout MutableSpan<RowPick>,
        _ unit: inout Unit, _ rows: inout MutableSpan<Row>
    ) -> Bool {
        let number = target[place].unit
        var end = place
        var newCount = 0
        var found = (Int(unit.start)..<Int(unit.end)).firstPlace {
            rows[$0].day >= target[place].day
        }
        while end < count, target[end].unit == number {
            let day = target[end].day
            while found < Int(unit.end), rows[found].day < day { found &+= 1 }
            if found < Int(unit.end), rows[found].day == day {
                target[end].unit = rows[found].slot
            } else {
                newCount &+= 1
            }
            end &+= 1
        }
        if newCount == 0 {
            (unit.next, place) = (UInt32(found + 1), end)
            return true
        }
        guard Int(unit.end) + newCount <= Int(unit.limit) else { return false }
        // From the last row on, each to where it stays.
        var from = Int(unit.end)
        unit.end &+= UInt32(newCount)
        (unit.next, found) = (unit.end, Int(unit.end))
        var slot = unit.end
        var pick = end
        while pick > place {
            let day = target[pick &- 1].day
            found &-= 1
            if from > Int(unit.start), rows[from &- 1].day >= day {
                from &-= 1
                rows[found] = rows[from]
                if rows[from].day > day { continue }
            } else {
                slot &-= 1
                rows[found] = Row(day: day, slot: slot)
            }
            pick &-= 1
            target[pick].unit = rows[found].slot
        }
        place = end
        return true
    }
}
