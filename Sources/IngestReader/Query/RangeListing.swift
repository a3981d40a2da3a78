// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import Dispatch
import IngestFormat
import Synchronization

/// A listing in ranges: its *units* are entered in the order in which they are to be shown; when a range is full, all
/// rows of the cut that belong to it are folded, in one pass over the table, and given. A unit is what one or more
/// ordinals of rows add up to: a reward with all its keys, a key by day, a business by day. Owned by one query.
///
/// While a range is folded, on a thread of its own, the units of the next one are entered.
///
/// **Cost** That of two times `ListedRange`, and of `DayRows` by day; 24 bytes and the text a unit of the range at hand. 4 to
/// 5 bytes an ordinal of the directory, twice that where there are two ranges.
struct RangeListing: ~Copyable {
    /// What a unit is shown with beside its text and its counters.
    struct Completion {
        /// `nil`: what the unit itself is called.
        var business: UInt32?
        /// Of `rewards`.
        var businessCount = 0
    }

    private static var firstRowCountMax: Int { 1 << 17 }
    /// Each later range has so many times the rows of the one before, up to the most that there may be.
    private static var rangeGrowth: Int { 8 }

    static let allDays = Limits.businessDays.lowerBound..<Limits.businessDays.upperBound + 1

    private let rowCountMax: Int
    /// Of the range at hand: the first two are small, as rows are given when there is a second one.
    private var rangeRowCountMax: Int
    /// What units are shown with, by their tags and what `isSeen` is; `nil` leaves a unit out.
    private let complete: (UInt32, [Bool]) throws(ReaderError) -> Completion?
    /// Of the ranges that were given.
    private var memories: [ListedRange.Memory] = []
    /// Where the texts of businesses lie, by their ordinals.
    private var businesses: [(ordinal: UInt32, text: Range<UInt32>)]
    private var shown: ShownNames
    /// Units entered, and their texts.
    private var units: [ListedRange.Unit] = []
    private var texts: [UInt8] = []
    /// The range that they are entered into, and the one before it, which is folded.
    private var entered: RangeFold
    private let folding: Folding
    private let queue = DispatchQueue(label: "listing.fold")

    /// - Parameters:
    ///   - isByDay: whether a unit has a row for each day, and not one alone.
    ///   - ordinalCount: rows of an ordinal from it on are damage.
    ///   - complete: what a unit is shown with, by its tag and what `isSeen` is; `nil` leaves it out.
    init(
        _ query: CounterQuery, _ table: TableKind, _ days: DayRange, isByDay: Bool,
        ordinalCount: Int,
        _ complete: @escaping (UInt32, [Bool]) throws(ReaderError) -> Completion?
    ) {
        rowCountMax = query.rowCountMax
        rangeRowCountMax = min(rowCountMax, Self.firstRowCountMax)
        self.complete = complete
        shown = ShownNames(query.names)
        businesses = Array(repeating: (.max, 0..<0), count: ShownNames.slotCount)
        entered = RangeFold(query.source, table, days, isByDay, ordinalCount)
        folding = Folding(RangeFold(query.source, table, days, isByDay, ordinalCount))
    }

    /// Ends a fold that nobody wants any more.
    deinit {
        folding.isUnwanted.store(true, ordering: .relaxed)
        queue.sync {}
    }

    /// Enters a unit; before it, has the range folded where that is full.
    /// - Parameters:
    ///   - tag: the caller's.
    ///   - rowCount: the most rows that it can have, those of one day being one; without days 1.
    ///   - days: rows of the ordinals on other days belong to other units.
    ///   - appendText: adds the text that it is shown by.
    /// - Returns: `false` if `body` did.
    mutating func enter(
        _ tag: UInt32, rowCount: Int = 1, days: Range<Int32> = allDays,
        ordinals: some Collection<UInt32>, _ body: ListedRange.Body,
        _ appendText: (inout [UInt8]) -> Void
    ) throws(ReaderError) -> Bool {
        if entered.slotCount + rowCount > rangeRowCountMax, entered.slotCount > 0 {
            guard try foldEntered(body) else { return false }
        }
        let start = UInt32(texts.count)
        appendText(&texts)
        units.append(ListedRange.Unit(tag: tag, id: start..<UInt32(texts.count)))
        entered.enter(rowCount: rowCount, days: days, ordinals: ordinals)
        return true
    }

    /// Has what `enter` needs to know of some ordinals brought into the cache.
    /// - Parameter others: by ordinal, what else is looked at.
    mutating func touch(_ ordinals: [UInt32], and others: [UInt32] = []) {
        entered.touch(ordinals, and: others)
    }

    /// Folds the units entered, and gives all rows that were not given yet, those of units without rows left out.
    /// - Returns: `false` if `body` did.
    mutating func give(_ body: ListedRange.Body) throws(ReaderError) -> Bool {
        guard try foldEntered(body) else { return false }
        guard let last = try takeFolded() else { return true }
        return try body(last)
    }

    /// Has the range folded, and gives the one before meanwhile; then there is another to be entered.
    private mutating func foldEntered(_ body: ListedRange.Body) throws(ReaderError) -> Bool {
        let before = try takeFolded()
        let memory = takeMemory(rowCount: max(entered.slotCount, rangeRowCountMax))
        swap(&units, &memory.units)
        swap(&texts, &memory.texts)
        units.removeAll(keepingCapacity: true)
        texts.removeAll(keepingCapacity: true)
        folding.begin(&entered, into: memory)
        queue.async { [folding] in folding.fold() }
        guard let before else { return true }
        rangeRowCountMax = min(rowCountMax, rangeRowCountMax * Self.rangeGrowth)
        return try body(before)
    }

    /// The range that is folded, when it is.
    private mutating func takeFolded() throws(ReaderError) -> ListedRange? {
        queue.sync {}
        if let failure = folding.range.failure { throw failure }
        guard let memory = folding.memory else { return nil }
        var (units, rows) = (memory.units, memory.rows)
        (memory.units, memory.rows) = ([], [])
        rows.removeAll(keepingCapacity: true)
        rows.reserveCapacity(folding.range.slotCount)
        var unitCount = 0
        for number in units.indices {
            var unit = units[number]
            guard let its = try complete(unit.tag, folding.range.isSeen) else { continue }
            unit.business = unit.id
            if let business = its.business { unit.business = try text(of: business, in: memory) }
            unit.businessCount = UInt32(its.businessCount)
            units[unitCount] = unit
            folding.range.appendRows(of: number, unit: UInt32(unitCount), to: &rows)
            unitCount += 1
        }
        (memory.units, memory.rows) = (units, rows)
        folding.removeAll()
        for slot in businesses.indices { businesses[slot].ordinal = .max }
        return ListedRange(memory)
    }

    /// Memory for a range, that of one before where nobody has it any more; what is too small then goes.
    private mutating func takeMemory(rowCount: Int) -> ListedRange.Memory {
        for index in memories.indices.reversed()
        where isKnownUniquelyReferenced(&memories[index]) {
            if memories[index].slab.capacity >= rowCount { return memories[index] }
            memories.remove(at: index)
        }
        memories.append(ListedRange.Memory(rowCount: rowCount))
        return memories[memories.count - 1]
    }

    /// Where the text of a business lies; puts it there.
    private mutating func text(
        of business: UInt32, in memory: ListedRange.Memory
    ) throws(ReaderError) -> Range<UInt32> {
        let slot = Int(business) % businesses.count
        if businesses[slot].ordinal != business {
            let start = UInt32(memory.texts.count)
            memory.texts += try shown.bytes(of: business)
            businesses[slot] = (business, start..<UInt32(memory.texts.count))
        }
        return businesses[slot].text
    }
}

/// The range that is folded, and what it is folded into.
///
/// `@unchecked Sendable`: the listing's until it starts the fold, and again when it has waited for its end.
private final class Folding: @unchecked Sendable {
    var range: RangeFold
    private(set) var memory: ListedRange.Memory?
    /// Ends the fold at the next page.
    let isUnwanted = Atomic(false)

    init(_ range: consuming RangeFold) { self.range = range }

    func begin(_ next: inout RangeFold, into memory: ListedRange.Memory) {
        swap(&next, &range)
        self.memory = memory
    }

    func fold() {
        if let memory { range.fold(into: memory.slab, unless: isUnwanted) }
    }

    func removeAll() {
        range.removeAll()
        memory = nil
    }
}

/// Folds the rows of one range.
private struct RangeFold: ~Copyable {
    private let source: any CounterSource
    private let table: TableKind
    private let days: DayRange
    private let isByDay: Bool
    private let ordinalCount: Int
    private var unitCount: UInt32 = 0
    /// By ordinal: `firstUnit` and the unit's number in this range; of those entered in no range, or in one before, less.
    private var unitOfOrdinal: [UInt32] = []
    private var firstUnit: UInt32 = 1
    /// The least and the greatest ordinal of the range.
    private var bounds: ClosedRange<UInt32>?
    /// By ordinal: whether a row of it was folded; where there are no days.
    private(set) var isSeen: [Bool] = []
    private var byDay = DayRows()
    /// A sum over what was looked at for nothing but to have it in the cache.
    private var touched: UInt32 = 0
    /// Of the units entered: one for each row that they can have.
    private(set) var slotCount = 0
    /// What ended the fold.
    private(set) var failure: ReaderError?

    init(
        _ source: any CounterSource, _ table: TableKind, _ days: DayRange, _ isByDay: Bool,
        _ ordinalCount: Int
    ) {
        (self.source, self.table, self.days, self.isByDay) = (source, table, days, isByDay)
        self.ordinalCount = ordinalCount
    }

    // MARK: The listing's

    /// Has what `enter` looks at brought into the cache, all at once.
    mutating func touch(_ ordinals: [UInt32], and others: [UInt32]) {
        for values in [unitOfOrdinal, others] where !values.isEmpty {
            for ordinal in ordinals { touched &+= values[Int(ordinal)] }
        }
    }

    mutating func enter(
        rowCount: Int, days: Range<Int32>, ordinals: some Collection<UInt32>
    ) {
        if unitOfOrdinal.isEmpty { makeRoom() }
        let unit = firstUnit + unitCount
        var before = DayRows.none
        for ordinal in ordinals {
            let known = unitOfOrdinal[Int(ordinal)]
            if known >= firstUnit { before = known - firstUnit }
            unitOfOrdinal[Int(ordinal)] = unit
            let least = min(bounds?.lowerBound ?? ordinal, ordinal)
            bounds = least...max(bounds?.upperBound ?? ordinal, ordinal)
        }
        unitCount += 1
        if isByDay { byDay.enter(start: slotCount, room: rowCount, days, before: before) }
        slotCount += rowCount
    }

    /// The second range of a listing that has but one takes no memory.
    private mutating func makeRoom() {
        unitOfOrdinal = Array(repeating: 0, count: ordinalCount)
        isSeen = Array(repeating: false, count: isByDay ? 0 : ordinalCount)
    }

    /// Adds the rows of the unit that was entered as number `number`.
    func appendRows(of number: Int, unit: UInt32, to rows: inout [ListedRange.Row]) {
        guard isByDay else {
            return rows.append(ListedRange.Row(unit: unit, slot: UInt32(number), day: 0))
        }
        for row in byDay.rows(of: number) {
            rows.append(ListedRange.Row(unit: unit, slot: row.slot, day: row.day))
        }
    }

    /// Makes it empty.
    mutating func removeAll() {
        firstUnit += unitCount
        (unitCount, slotCount) = (0, 0)
        byDay.removeAll()
        bounds = nil
    }

    // MARK: Folding

    /// Folds all rows of the range; `failure` is an error of the source, `overflow` or `impossibleRow`.
    mutating func fold(into slab: CounterSlab, unless isUnwanted: borrowing Atomic<Bool>) {
        do throws(ReaderError) { try foldPages(into: slab, isUnwanted) } catch { failure = error }
    }

    private mutating func foldPages(
        into slab: CounterSlab, _ isUnwanted: borrowing Atomic<Bool>
    ) throws(ReaderError) {
        slab.clear(slotCount)
        guard let bounds else { return }
        if isByDay { byDay.reserve(slotCount) }
        // With the last ordinal, those that there cannot be.
        let isLast = Int(bounds.upperBound) == unitOfOrdinal.count - 1
        let keys = bounds.lowerBound...(isLast ? .max : bounds.upperBound)
        // The rows of one page that belong to the range.
        var picks = [RowPick](repeating: RowPick(), count: CounterPage.capacity)
        try source.forEachPage(of: table, .known, keys, source.makeNames()) {
            (page) throws(ReaderError) in
            // Any error ends it: the listing, which would throw it, is gone.
            if isUnwanted.load(ordering: .relaxed) { throw .impossibleRow }
            var count = try pick(page, into: &picks)
            if isByDay || days.isBounded {
                count = try byDay.keep(days, of: &picks, count)
            }
            if count == 0 { return }
            if isByDay {
                try byDay.takeSlots(for: &picks, count)
            } else {
                for place in 0..<count { isSeen[Int(page.key(Int(picks[place].row)))] = true }
            }
            guard slab.add(picks.span.extracting(0..<count), of: page) else { throw .overflow }
        }
    }

    /// Finds the rows of a page that belong to the range; returns how many.
    private func pick(
        _ page: CounterPage, into picks: inout [RowPick]
    ) throws(ReaderError) -> Int {
        guard page.rowCount > 0 else { return 0 }
        // Rows ascend.
        guard Int(page.key(page.rowCount - 1)) < unitOfOrdinal.count else { throw .impossibleRow }
        let (firstUnit, unitCount) = (firstUnit, unitCount)
        let unitOfOrdinal = unitOfOrdinal
        let units = unitOfOrdinal.span
        var target = picks.mutableSpan
        var count = 0
        page.withOrders { orders in
            for row in orders.indices {
                // Of units of ranges before, a great number.
                let unit = units[RowOrder.ordinal(orders[row])] &- firstUnit
                target[count] = RowPick(
                    row: UInt32(truncatingIfNeeded: row), unit: unit, day: RowOrder.day(orders[row])
                )
                count &+= unit < unitCount ? 1 : 0
            }
        }
        return count
    }
}
