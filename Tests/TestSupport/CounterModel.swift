import IngestFormat

/// The plain counter that tables are held against: a dictionary, and the counting rules once more, as
/// docs/format/run.md puts them.
package struct CounterModel: Equatable {
    package struct Place: Hashable, Comparable {
        package var key: UInt32
        package var day: Int32

        package init(key: UInt32, day: Int32) { (self.key, self.day) = (key, day) }

        package static func < (a: Place, b: Place) -> Bool { (a.key, a.day) < (b.key, b.day) }
    }

    package private(set) var rows: [Place: [UInt64]] = [:]

    package init() {}

    package mutating func add(_ rows: [Row]) {
        for row in rows {
            for (column, amount) in Self.additions(of: row) {
                add(amount, column, Place(key: row.key, day: row.day))
            }
        }
    }

    package mutating func add(_ amount: UInt64, _ column: CounterColumn, _ place: Place) {
        var counters = Self.zeros
        counters[column.rawValue] = amount
        add(counters, place)
    }

    package mutating func add(_ other: CounterModel) {
        for (place, counters) in other.rows { add(counters, place) }
    }

    package mutating func add(_ counters: [UInt64], _ place: Place) {
        let old = rows[place, default: Self.zeros]
        var sums = old
        for column in CounterColumn.allCases where !column.isHigh {
            let sum = CounterRow(old).sum(column) + CounterRow(counters).sum(column)
            sums[column.rawValue] = UInt64(truncatingIfNeeded: sum)
            if let high = column.high { sums[high.rawValue] = UInt64(sum >> 64) }
            precondition(column.high != nil || sum <= UInt64.max)
        }
        rows[place] = sums
    }

    private static let zeros = CounterColumn.allCases.map { _ in UInt64(0) }

    /// The counters of each key over all days.
    package var rewards: CounterModel {
        var sums = CounterModel()
        for (place, counters) in rows { sums.add(counters, Place(key: place.key, day: 0)) }
        return sums
    }

    /// The counters of each business by day.
    package func days(_ keys: [RewardKey]) -> CounterModel {
        var sums = CounterModel()
        for (place, counters) in rows {
            let business = keys[Int(place.key)].business.rawValue
            sums.add(counters, Place(key: business, day: place.day))
        }
        return sums
    }

    package var sorted: [(place: Place, counters: [UInt64])] {
        rows.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// What one row adds to which column.
    private static func additions(of row: Row) -> [(CounterColumn, UInt64)] {
        let index = Int(row.type.rawValue) - 1
        func column(_ names: CounterColumn...) -> CounterColumn { names[index] }
        var found: [(CounterColumn, UInt64)] = []
        switch row.verdict {
        case .counted:
            found.append((column(.impressions, .clicks, .redemptions), 1))
            if row.bits & RowAttributes.unchecked != 0 { found.append((.uncheckedEvents, 1)) }
            if row.rewardHash != nil { found.append((.overflowEvents, 1)) }
            if row.bits & RowAttributes.orphan != 0, row.type != .impression {
                found.append((row.type == .click ? .orphanClicks : .orphanRedemptions, 1))
            }
            if row.type == .impression {
                found.append(
                    (row.viewability == nil ? .undeterminedImpressions : .viewableImpressions, 1))
            }
            if let money = row.money {
                found.append((.revenueMicros, UInt64(money.revenue)))
                found.append((.spendMicros, UInt64(money.spend)))
            }
        case .notViewable where row.type == .impression:
            found.append((.notViewableImpressions, 1))
        case .undetermined where row.type == .impression && row.viewability == nil:
            found.append((.refusedImpressions, 1))
            found.append((.undeterminedImpressions, 1))
        case .invalidTraffic:
            found.append((column(.invalidImpressions, .invalidClicks, .invalidRedemptions), 1))
        case .duplicate, .sessionRepeat:
            found.append(
                (column(.duplicateImpressions, .duplicateClicks, .duplicateRedemptions), 1))
        case .conflict:
            found.append((column(.conflictImpressions, .conflictClicks, .conflictRedemptions), 1))
        default:
            found.append((column(.refusedImpressions, .refusedClicks, .refusedRedemptions), 1))
        }
        return found
    }
}

extension CounterModel {
    /// The rows of a source, which must be in order.
    package init<Source: CounterPageSource>(_ source: Source) throws {
        var source = source
        let page = CounterPage()
        var last: Place?
        while try source.nextPage(into: page) {
            for row in 0..<page.rowCount {
                let place = Place(key: page.key(row), day: page.day(row))
                precondition(last.map { $0 < place } ?? true, "rows out of order")
                last = place
                let counters = page.counters(row)
                rows[place] = CounterColumn.allCases.map { counters[$0] }
            }
        }
    }

    /// A coded table of these rows.
    package func table(hasDay: Bool) -> CounterTable {
        var encoder = CounterTableEncoder(hasDay: hasDay)
        for (place, counters) in sorted {
            encoder.append(key: place.key, day: place.day, counters: CounterRow(counters))
        }
        return encoder.finish()
    }
}

extension CounterRow {
    package init(_ values: [UInt64]) {
        self.init()
        for column in CounterColumn.allCases { self[column] = values[column.rawValue] }
    }
}

/// Random rows of blocks.
package struct RowGenerator {
    private let keyCount: Int
    private let days: ClosedRange<Int32>

    package init(keyCount: Int = 50, days: ClosedRange<Int32> = 20_000...20_001) {
        (self.keyCount, self.days) = (keyCount, days)
    }

    package func rows(_ count: Int, _ random: inout SeededRandom) -> [Row] {
        (0..<count).map { _ in row(&random) }
    }

    private func row(_ random: inout SeededRandom) -> Row {
        var row = Row()
        // Squared, so that some keys are popular.
        let share = Double.random(in: 0..<1, using: &random)
        row.key = UInt32(share * share * Double(keyCount))
        row.day = Int32.random(in: days, using: &random)
        row.type = EventType.allCases.randomElement(using: &random)!
        row.verdict =
            Bool.random(using: &random)
            ? .counted : Verdict.allCases.filter { $0 != .malformed }.randomElement(using: &random)!
        row.consent = Bool.random(using: &random) ? .notSet : .optIn
        row.format = AdFormat.allCases.randomElement(using: &random)!
        if Bool.random(using: &random) { row.session = random.next() & 0xFFFF_FFFF_FFFF }
        for mark in [RowAttributes.orphan, RowAttributes.unchecked]
        where Int.random(in: 0..<9, using: &random) == 0 { row.bits |= mark }
        if Int.random(in: 0..<9, using: &random) == 0 { row.rewardHash = random.next() }
        if Bool.random(using: &random) { row.eventHash = random.next() }
        if Bool.random(using: &random) { row.viewability = .init(visible: 1, duration: 2) }
        if Int.random(in: 0..<3, using: &random) == 0 {
            row.money = .init(
                revenue: Int64.random(in: 0...1_000_000, using: &random),
                spend: Int64.random(in: 0...90, using: &random))
        }
        return row
    }
}
