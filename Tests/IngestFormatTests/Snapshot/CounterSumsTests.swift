import IngestFormat
import Testing

struct CounterSumsTests {
    private static let columns: [CounterColumn] = [.impressions, .redemptions, .spendMicros]

    /// Tables whose sums fit, with all keys, some keys, and several days of a key.
    private static func tables() -> [(table: CounterTable, model: CounterModel)] {
        let shapes: [(rowCount: Int, hasDay: Bool)] = [(3_000, true), (2_000, false), (1, true)]
        var tables = shapes.enumerated().map { seed, shape in
            var model = CounterModel()
            let source = CounterTableTests.model(
                shape.rowCount, hasDay: shape.hasDay, seed: 70 + UInt64(seed))
            for (place, counters) in source.rows {
                model.add(counters.map { $0 & 0xFFFF_FFFF }, place)
            }
            return (model.table(hasDay: shape.hasDay), model)
        }
        var dense = CounterModel()
        for key in 0..<5_000 as Range<UInt32> {
            dense.add(UInt64(key) * 3, .impressions, .init(key: key, day: 0))
        }
        tables.append((dense.table(hasDay: false), dense))
        return tables
    }

    @Test(arguments: [1, 100, 1_000, 4_096, 9_000] as [UInt32])
    func `sums of several tables are the sums of their models`(stretch: UInt32) throws {
        let tables = Self.tables()
        var expected = CounterModel()
        for table in tables { expected.add(table.model.rewards) }
        let sums = CounterSums(columns: CounterColumnSet(Self.columns), capacity: Int(stretch))
        let page = CounterPage()
        let firsts =
            stretch == 1
            ? Array(0..<50) : Array(Swift.stride(from: 0, to: 9_000, by: Int(stretch)))
        for first in firsts {
            let keys = UInt32(first)...UInt32(first) + stretch - 1
            sums.begin(keys)
            for (table, _) in tables {
                var cursor = table.makeCursor(columns: sums.columns, keys: keys)
                while try cursor.nextPage(into: page) { #expect(sums.add(page) == nil) }
            }
            let wrong = keys.filter { key in
                let row = expected.rows[.init(key: key, day: 0)]
                return sums.hasRow(key) != (row != nil)
                    || Self.columns.contains {
                        sums.value($0, key) != row?[$0.rawValue] ?? 0
                    }
            }
            #expect(wrong == [])
            let values = sums.withValues(of: .redemptions) { Array($0) }
            #expect(values == keys.map { sums.value(.redemptions, $0) })
        }
    }

    @Test(arguments: [1, 2] as [UInt32])
    func `a sum that does not fit names its key`(step: UInt32) throws {
        // With and without gaps between the keys: two loops.
        let keys = (0..<20).map { UInt32($0) * step }
        func page(_ values: [UInt64]) -> CounterPage {
            let page = CounterPage()
            for (key, value) in zip(keys, values) {
                var row = CounterRow()
                row[.clicks] = value
                _ = page.append(key: key, day: 0, counters: row)
            }
            return page
        }
        let sums = CounterSums(columns: CounterColumnSet([.clicks]), capacity: 64)
        sums.begin(0...63)
        #expect(sums.add(page(Array(repeating: .max, count: 20))) == nil)
        var more = [UInt64](repeating: 0, count: 20)
        #expect(sums.add(page(more)) == nil)
        (more[7], more[9]) = (1, .max)
        #expect(sums.add(page(more)) == keys[7])
    }

    @Test func `days of a key whose sum does not fit name it`() {
        let page = CounterPage()
        var row = CounterRow()
        row[.clicks] = 1 << 63
        for day in 0..<3 as Range<Int32> { _ = page.append(key: 5, day: day, counters: row) }
        let sums = CounterSums(columns: CounterColumnSet([.clicks]), capacity: 8)
        sums.begin(0...7)
        #expect(sums.add(page) == 5)
    }
}
