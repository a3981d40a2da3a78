import IngestCounting
import TestSupport
import Testing

@testable import IngestFormat

/// Some rows and some columns of a table: what a cursor with a projection and a point query give is held
/// against the whole table, and what they refuse against what a decoder refuses.
struct CounterProjectionTests {
    private static func pages<Source: CounterPageSource>(
        _ source: Source, _ body: (CounterPage) -> Void
    ) throws {
        var source = source
        let page = CounterPage()
        while try source.nextPage(into: page) { body(page) }
    }

    /// The rows of the model with all other columns set to 0.
    private static func project(_ model: CounterModel, to columns: [CounterColumn]) -> CounterModel
    {
        var projected = CounterModel()
        for (place, counters) in model.rows {
            var kept = CounterColumn.allCases.map { _ in UInt64(0) }
            for column in columns { kept[column.rawValue] = counters[column.rawValue] }
            projected.add(kept, place)
        }
        return projected
    }

    private static let columnSets: [[CounterColumn]] =
        [[], CounterColumn.allCases, [.impressions, .spendMicros]]
        + CounterColumn.allCases.map { [$0] }

    @Test(arguments: columnSets)
    func `a projection gives the columns asked for, and zeros`(columns: [CounterColumn]) throws {
        let model = CounterTableTests.model(3_000, hasDay: true, seed: 31)
        let table = model.table(hasDay: true)
        let cursor = table.makeCursor(columns: CounterColumnSet(columns))
        #expect(try CounterModel(cursor) == Self.project(model, to: columns))
        try Self.pages(cursor) { page in
            #expect(page.columns == CounterColumnSet(columns))
        }
    }

    @Test func `a page that held other rows and columns before shows nothing of them`() throws {
        let full = CounterTableTests.model(1_024, hasDay: true, seed: 32)
        let sparse = CounterTableTests.model(700, hasDay: true, seed: 33)
        let page = CounterPage()
        var (wide, narrow) = (
            full.table(hasDay: true).makeCursor(),
            sparse.table(hasDay: true).makeCursor(columns: [.init([.clicks])])
        )
        #expect(try wide.nextPage(into: page))
        #expect(try narrow.nextPage(into: page))
        let expected = Self.project(sparse, to: [.clicks]).sorted
        for row in 0..<page.rowCount {
            #expect(page.counters(row) == CounterRow(expected[row].counters))
        }
        page.removeAll()
        #expect(page.append(key: 1, day: 2, counters: CounterRow()))
        #expect(page.counters(0) == CounterRow())
        #expect(page.columns == .all)
    }

    @Test(arguments: [true, false])
    func `a range of keys is what the table has of it`(hasDay: Bool) throws {
        var random = SeededRandom(seed: 34)
        let model = CounterTableTests.model(5_000, hasDay: hasDay, seed: 35)
        let table = model.table(hasDay: hasDay)
        let greatest = model.sorted.last!.place.key
        var ranges: [ClosedRange<UInt32>] = [
            0...0, 0...UInt32.max, UInt32.max...UInt32.max, greatest...UInt32.max, 0...greatest,
        ]
        for _ in 0..<60 {
            let first = UInt32.random(in: 0...greatest, using: &random)
            let last = UInt32.random(in: first...min(first + 4_000, greatest + 9), using: &random)
            ranges.append(first...last)
        }
        for keys in ranges {
            var expected = CounterModel()
            for (place, counters) in model.rows where keys.contains(place.key) {
                expected.add(counters, place)
            }
            #expect(try CounterModel(table.makeCursor(keys: keys)) == expected, "\(keys)")
        }
    }

    @Test func `merged projections are the projection of the sum`() throws {
        let models = (0..<3).map {
            CounterTableTests.model(2_000, hasDay: true, seed: 40 + UInt64($0))
        }
        var sum = CounterModel()
        // Spend may be any 64 bits, so that sums of it would overflow.
        let columns: [CounterColumn] = [.clicks, .redemptions]
        let small = models.map { model in
            var kept = CounterModel()
            for (place, counters) in model.rows {
                kept.add(counters.map { $0 & 0xFFFF_FFFF }, place)
            }
            return kept
        }
        for model in small { sum.add(Self.project(model, to: columns)) }
        let merge = CounterMerge(
            small.map {
                $0.table(hasDay: true).makeCursor(columns: CounterColumnSet(columns))
            })
        #expect(try CounterModel(merge) == sum)
        try Self.pages(merge) { page in #expect(page.columns == CounterColumnSet(columns)) }
    }

    @Test(arguments: [1, 2, 1_023, 1_024, 5_000], [true, false])
    func `a point is the rows of its key, its days and its columns`(
        rowCount: Int, hasDay: Bool
    ) throws {
        var random = SeededRandom(seed: UInt64(rowCount))
        let model = CounterTableTests.model(rowCount, hasDay: hasDay, seed: 50 + UInt64(rowCount))
        let table = model.table(hasDay: hasDay)
        let greatest = model.sorted.last!.place.key
        let byKey = Dictionary(grouping: model.sorted, by: \.place.key)
        for key in (0...min(greatest + 2, 1_500)).map({ $0 &* 7 % (greatest + 3) }) {
            let first = Int32.random(in: -40...60, using: &random)
            let days = first...Int32.random(in: first...100, using: &random)
            let columns = Self.columnSets.randomElement(using: &random)!
            let expected = (byKey[key] ?? []).filter {
                !hasDay || days.contains($0.place.day)
            }.map { row in
                var counters = CounterRow()
                for column in columns { counters[column] = row.counters[column.rawValue] }
                return CounterDayRow(day: row.place.day, counters: counters)
            }
            let point = CounterPoint(key: key, days: days, columns: CounterColumnSet(columns))
            #expect(try table.rows(of: point) == expected, "key \(key), days \(days)")
        }
    }

    @Test func `a key of thousands of days is found whole, and any of its days`() throws {
        var model = CounterModel()
        model.add(1, .clicks, .init(key: 3, day: 7))
        for day in Int32(-1_500)..<1_500 {
            model.add(UInt64(day + 2_000), .impressions, .init(key: 4, day: day))
            if day % 100 == 0 { model.add(1 << 50, .spendMicros, .init(key: 4, day: day)) }
        }
        model.add(1, .clicks, .init(key: 5, day: 7))
        let table = model.table(hasDay: true)
        let expected = model.sorted.filter { $0.place.key == 4 }.map {
            CounterDayRow(day: $0.place.day, counters: CounterRow($0.counters))
        }
        #expect(try table.rows(of: CounterPoint(key: 4)) == expected)
        for days in [-1_500...(-1_500), -477 ... -470, 20...900, 1_499...4_000, -9_000...9_000] {
            let found = try table.rows(
                of: CounterPoint(key: 4, days: Int32(days.lowerBound)...Int32(days.upperBound)))
            #expect(found == expected.filter { days.contains(Int($0.day)) })
        }
        #expect(try table.rows(of: CounterPoint(key: 4, days: 1_500...9_000)) == [])
    }

    @Test func `the greatest key and the last day are found`() throws {
        var model = CounterModel()
        for day in [Int32.min, 0, .max] { model.add(5, .clicks, .init(key: .max, day: day)) }
        let table = model.table(hasDay: true)
        let found = try table.rows(of: CounterPoint(key: .max))
        #expect(found.map(\.day) == [.min, 0, .max])
    }
}
