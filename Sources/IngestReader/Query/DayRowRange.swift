// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The rows by day of one range of a listing. A *unit* is what rows of several days belong to: a reward key,
/// or a business. Units are entered with the most rows that they can have, then rows are added in any
/// order, then given by unit and day. Owned by one query.
///
/// **Cost** 192 bytes a row; sorting where the days of a unit did not come ascending.
struct DayRowRange {
    private struct Unit {
        let start: Int
        let end: Int
        var next: Int
        /// Whether each row's day was later than the one before.
        var ascends = true
    }

    private let rowCountMax: Int
    private let slab: CounterSlab
    private var units: [Unit] = []
    private var taken = 0

    /// - Parameters:
    ///   - rowCount: of all ranges together.
    ///   - rowCountMax: of one range of several units.
    init(rowCount: Int, rowCountMax: Int) {
        self.rowCountMax = rowCountMax
        slab = CounterSlab(
            capacity: min(max(rowCount, 1), max(rowCountMax, 2 * Limits.businessDays.count)))
    }

    /// What a unit with `rowCount` rows, some of them of the same days, takes: at most twice as many as there
    /// are days, so that putting equal days together frees half.
    private static func room(_ rowCount: Int) -> Int {
        min(rowCount, 2 * Limits.businessDays.count)
    }

    /// Whether one more unit fits: one always does.
    func hasRoom(for rowCount: Int) -> Bool {
        units.isEmpty || taken + Self.room(rowCount) <= rowCountMax
    }

    /// Enters a unit, for which there is room; its number is one more than the last one's, from 0.
    mutating func enterUnit(rowCount: Int) {
        precondition(hasRoom(for: rowCount))
        units.append(Unit(start: taken, end: taken + Self.room(rowCount), next: taken))
        taken += Self.room(rowCount)
    }

    var unitCount: Int { units.count }

    /// Adds a row to a unit.
    /// - Parameter columns: of the page.
    /// **Errors** `overflow`; `impossibleRow` if the unit has more rows than it was entered with.
    mutating func add(
        _ row: Int, of page: CounterPage, _ columns: CounterSlab.Columns, day: Int32, to number: Int
    ) throws(ReaderError) {
        let last = units[number].next - 1
        if last >= units[number].start {
            if slab.tag(last) == Self.tag(day) {
                guard slab.add(row, of: page, columns, to: last) else { throw .overflow }
                return
            }
            if slab.tag(last) > Self.tag(day) { units[number].ascends = false }
        }
        if units[number].next == units[number].end { try sum(number) }
        let slot = units[number].next
        guard slot < units[number].end else { throw .impossibleRow }
        slab.clear(slot..<slot + 1)
        slab.setTag(Self.tag(day), slot)
        units[number].next = slot + 1
        guard slab.add(row, of: page, columns, to: slot) else { throw .overflow }
    }

    /// The rows of a unit by day, each day once; `false` if `body` was.
    func forEachRow(
        of number: Int, _ body: (Int32, CounterRow) -> Bool
    ) throws(ReaderError) -> Bool {
        let unit = units[number]
        let slots = unit.start..<unit.next
        if unit.ascends {
            return slots.allSatisfy { body(Self.day(slab.tag($0)), slab.counters($0)) }
        }
        var orders = slots.map { slab.tag($0) << 32 | UInt64($0) }
        orders.sort()
        var place = 0
        while place < orders.count {
            let day = orders[place] >> 32
            var counters = CounterRow()
            while place < orders.count, orders[place] >> 32 == day {
                let slot = Int(orders[place] & 0xFFFF_FFFF)
                guard counters.add(slab.counters(slot)) else { throw .overflow }
                place += 1
            }
            guard body(Self.day(day), counters) else { return false }
        }
        return true
    }

    /// Forgets the units; the memory stays.
    mutating func removeAll() {
        units.removeAll(keepingCapacity: true)
        taken = 0
    }

    /// Puts the rows of a unit in order, those of the same day together.
    private mutating func sum(_ number: Int) throws(ReaderError) {
        var rows: [(day: Int32, counters: CounterRow)] = []
        _ = try forEachRow(of: number) { day, counters in
            rows.append((day, counters))
            return true
        }
        var slot = units[number].start
        for row in rows {
            slab.set(row.counters, tag: Self.tag(row.day), slot)
            slot += 1
        }
        units[number].next = slot
        units[number].ascends = true
    }

    /// Ascends with the day.
    private static func tag(_ day: Int32) -> UInt64 {
        UInt64(UInt32(bitPattern: day) ^ 0x8000_0000)
    }

    private static func day(_ tag: UInt64) -> Int32 {
        Int32(bitPattern: UInt32(truncatingIfNeeded: tag) ^ 0x8000_0000)
    }
}
