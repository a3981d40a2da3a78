// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// Counters by (item, day), item being a pair of names or a business, summed in a plain dictionary.
///
/// **Cost** 168 bytes a place, and its entry in the dictionary; looking up a place is an array access as
/// long as an item stays on one day.
struct Tally {
    struct Place: Hashable {
        /// Item in the upper half, day + 2^31 in the lower: one integer to hash and to sort by.
        let order: UInt64

        init(item: UInt32, day: Int32) {
            order = UInt64(item) << 32 | UInt64(UInt32(bitPattern: day) ^ 0x8000_0000)
        }
        var item: UInt32 { UInt32(truncatingIfNeeded: order >> 32) }
        var day: Int32 { Int32(bitPattern: UInt32(truncatingIfNeeded: order) ^ 0x8000_0000) }
    }

    private static let columnCount = CounterColumn.allCases.count

    private(set) var places: [Place: Int] = [:]
    /// Row after row.
    private var values: [UInt64] = []
    /// By item: the day that was looked up last, and its row; −1 = none yet.
    private var lastOfItem: [(day: Int32, index: Int)] = []
    /// Sums that passed 64 bits, by their place in `values`: what stands there is not the sum.
    private var overflowed: Set<Int> = []

    /// The row of a place, made if it is new.
    mutating func index(item: UInt32, day: Int32) -> Int {
        let number = Int(item)
        if number >= lastOfItem.count {
            lastOfItem.append(
                contentsOf: repeatElement((day: 0, index: -1), count: number + 1 - lastOfItem.count)
            )
        }
        let last = lastOfItem[number]
        if last.index >= 0 && last.day == day { return last.index }
        let place = Place(item: item, day: day)
        let index = places[place] ?? places.count
        if index == places.count {
            places[place] = index
            values.append(contentsOf: repeatElement(0, count: Self.columnCount))
        }
        lastOfItem[number] = (day, index)
        return index
    }

    mutating func add(_ amount: UInt64, to column: Int, at index: Int) {
        let place = index * Self.columnCount + column
        let (sum, overflow) = values[place].addingReportingOverflow(amount)
        values[place] = sum
        if overflow { overflowed.insert(place) }
    }

    func value(_ column: CounterColumn, at index: Int) -> UInt64 {
        values[index * Self.columnCount + column.rawValue]
    }

    mutating func add(_ row: CounterRow, item: UInt32, day: Int32) {
        let index = index(item: item, day: day)
        for column in 0..<Self.columnCount where row.values[column] != 0 {
            add(row.values[column], to: column, at: index)
        }
    }

    /// Adds all of `other`, its items and days changed as told.
    mutating func add(_ other: Tally, as target: (Place) -> Place = { $0 }) {
        for (place, source) in other.places {
            let new = target(place)
            let index = index(item: new.item, day: new.day)
            let base = source * Self.columnCount
            for column in 0..<Self.columnCount {
                let value = other.values[base + column]
                if value != 0 { add(value, to: column, at: index) }
                if other.hasOverflowed(base + column) {
                    overflowed.insert(index * Self.columnCount + column)
                }
            }
        }
    }

    mutating func removeAll() { self = Tally() }

    private func hasOverflowed(_ place: Int) -> Bool {
        !overflowed.isEmpty && overflowed.contains(place)
    }

    /// In what `found` differs from this, the expected one.
    enum Difference {
        case counter(Place, CounterColumn, got: UInt64, expected: UInt64)
        /// A sum that does not fit 64 bits, on either side: no sound log and no sound run has one.
        case overflow(Place, CounterColumn)
        /// A row of which there is no event.
        case surplus(Place)
        case missing(Place)
    }

    /// In order of item and day.
    func differences(from found: Tally, _ report: (Difference) -> Void) {
        var wrong: [Place] = []
        var commonCount = 0
        for (place, mine) in places {
            let other = found.places[place]
            if other != nil { commonCount += 1 }
            if other.map({ !isEqual(at: mine, to: found, at: $0) }) ?? true { wrong.append(place) }
        }
        if commonCount < found.places.count {
            wrong += found.places.keys.filter { places[$0] == nil }
        }
        wrong.sort { $0.order < $1.order }
        for place in wrong { describe(place, in: found, report) }
    }

    private func isEqual(at index: Int, to other: Tally, at otherIndex: Int) -> Bool {
        let (mine, theirs) = (index * Self.columnCount, otherIndex * Self.columnCount)
        for column in 0..<Self.columnCount {
            if values[mine + column] != other.values[theirs + column] { return false }
            if hasOverflowed(mine + column) || other.hasOverflowed(theirs + column) { return false }
        }
        return true
    }

    private func describe(_ place: Place, in found: Tally, _ report: (Difference) -> Void) {
        guard let mine = places[place] else { return report(.surplus(place)) }
        guard let other = found.places[place] else { return report(.missing(place)) }
        for column in CounterColumn.allCases {
            let (expected, got) = (value(column, at: mine), found.value(column, at: other))
            if hasOverflowed(mine * Self.columnCount + column.rawValue)
                || found.hasOverflowed(other * Self.columnCount + column.rawValue)
            {
                report(.overflow(place, column))
            } else if expected != got {
                report(.counter(place, column, got: got, expected: expected))
            }
        }
    }
}
