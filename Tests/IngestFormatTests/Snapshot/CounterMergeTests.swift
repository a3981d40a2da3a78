import IngestCounting
import IngestFormat
import TestSupport
import Testing

struct CounterMergeTests {
    private typealias Place = CounterModel.Place

    /// Tables with some keys of their own and some that others have too.
    private static func models(_ count: Int, seed: UInt64) -> [CounterModel] {
        var random = SeededRandom(seed: seed)
        return (0..<count).map { part in
            var model = CounterModel()
            for _ in 0..<Int.random(in: 0...3_000, using: &random) {
                let isOwn = Bool.random(using: &random)
                let key = UInt32.random(in: 0..<900, using: &random)
                let place = Place(
                    key: isOwn ? key + UInt32(part + 1) * 1_000 : key,
                    day: Int32.random(in: 0..<3, using: &random))
                let column = CounterColumn.allCases.randomElement(using: &random)!
                let most: UInt64 = column.high == nil ? 1 << 30 : .max
                model.add(UInt64.random(in: 0...most, using: &random), column, place)
            }
            return model
        }
    }

    private static func sum(_ models: [CounterModel]) -> CounterModel {
        var sum = CounterModel()
        for model in models { sum.add(model) }
        return sum
    }

    @Test(arguments: [0, 1, 2, 3, 9], [1, 2] as [UInt64])
    func `merged tables are the sum of their models`(count: Int, seed: UInt64) throws {
        let models = Self.models(count, seed: seed)
        let merge = CounterMerge(models.map { $0.table(hasDay: true).makeCursor() })
        #expect(try CounterModel(merge) == Self.sum(models))
    }

    @Test
    func `merging is independent of the order of the sources and of how they were merged before`()
        throws
    {
        let models = Self.models(5, seed: 7)
        func merged(_ tables: [CounterTable]) throws -> CounterTable {
            var encoder = CounterTableEncoder(hasDay: true)
            try encoder.append(contentsOf: CounterMerge(tables.map { $0.makeCursor() }))
            return encoder.finish()
        }
        let tables = models.map { $0.table(hasDay: true) }
        let atOnce = try merged(tables)
        #expect(try merged(tables.reversed()) == atOnce)
        let first = try merged(Array(tables[0..<2]))
        let second = try merged(Array(tables[2..<5]))
        #expect(try merged([first, second]) == atOnce)
    }

    /// Rows of one key, and whether anything but the merge has held on to what they are kept in.
    private struct WatchedRows: CounterPageSource {
        final class Box {
            var left = 5
            var wasShared = false
        }
        var box = Box()

        mutating func nextPage(into page: CounterPage) throws(Never) -> Bool {
            page.removeAll()
            if !isKnownUniquelyReferenced(&box) { box.wasShared = true }
            if box.left == 0 { return false }
            box.left -= 1
            var row = CounterRow()
            row.values[0] = box.wasShared ? 1 : 0
            return page.append(key: UInt32(5 - box.left), day: 0, counters: row)
        }
    }

    @Test func `a merge goes on with its sources where they are, and copies none`() throws {
        var merge = CounterMerge((0..<300).map { _ in WatchedRows() })
        let page = CounterPage()
        #expect(try merge.nextPage(into: page))
        #expect(page.rowCount == 5)
        #expect((0..<5).allSatisfy { page.counters($0).values[0] == 0 })
    }

    @Test func `rows without days are merged with those of tables that have them`() throws {
        let models = Self.models(4, seed: 15)
        let rewards = Self.sum(Array(models[0..<2])).rewards.table(hasDay: false)
        let rest = models[2...].map { $0.table(hasDay: true).makeCursor() }
        let merge = CounterMerge([rewards.makeCursor()] + rest, dropsDays: true)
        #expect(try CounterModel(merge) == Self.sum(models).rewards)
    }

    @Test func `the two projections of a merge are those of the model`() throws {
        var random = SeededRandom(seed: 12)
        let models = Self.models(4, seed: 12)
        let sum = Self.sum(models)
        let keys = (0..<10_000).map { _ in
            RewardKey(
                reward: NameOrdinal(rawValue: 1),
                business: NameOrdinal(rawValue: UInt32.random(in: 1...40, using: &random)))
        }
        let cursors = models.map { $0.table(hasDay: true).makeCursor() }
        #expect(try CounterModel(CounterMerge(cursors, dropsDays: true)) == sum.rewards)
        // Once with the rows of one source after the other, once with their sums.
        let sums = DaySums(keys: keys)
        for cursor in cursors {
            var rows = DaySumming(cursor, into: sums)
            try rows.drain()
        }
        #expect(try CounterModel(sums.makeCursor()) == sum.days(keys))
        sums.removeAll()
        #expect(try CounterModel(sums.makeCursor()) == CounterModel())
        let passed = try CounterModel(DaySumming(CounterMerge(cursors), into: sums))
        #expect(passed == sum)
        #expect(try CounterModel(sums.makeCursor()) == sum.days(keys))
    }

    @Test func `projecting and merging may change places`() throws {
        let models = Self.models(4, seed: 13)
        let projected = models.map { model in
            var encoder = CounterTableEncoder(hasDay: false)
            try! encoder.append(
                contentsOf: CounterMerge(
                    [model.table(hasDay: true).makeCursor()], dropsDays: true))
            return encoder.finish().makeCursor()
        }
        #expect(try CounterModel(CounterMerge(projected)) == Self.sum(models).rewards)
    }

    @Test func `a key whose days cross pages is one reward`() throws {
        var model = CounterModel()
        for day in Int32(0)..<2_500 { model.add(1, .clicks, Place(key: 4, day: day)) }
        model.add(1, .clicks, Place(key: 5, day: 0))
        let rewards = CounterMerge([model.table(hasDay: true).makeCursor()], dropsDays: true)
        #expect(try CounterModel(rewards) == model.rewards)
    }

    private static func single(
        _ value: UInt64, _ column: CounterColumn = .clicks
    ) -> CounterTable.Cursor {
        var model = CounterModel()
        model.add(value, column, Place(key: 1, day: 2))
        return model.table(hasDay: true).makeCursor()
    }

    @Test(arguments: [1, 2, 3, 4], [1, 1_024, 1_025, 3_000])
    func `tables of the same rows end together, and are summed`(count: Int, rowCount: Int) throws {
        var model = CounterModel()
        var sum = CounterModel()
        for key in 0..<UInt32(rowCount) {
            model.add(UInt64(key) + 1, .clicks, Place(key: key, day: 1))
            sum.add(UInt64(count) * (UInt64(key) + 1), .clicks, Place(key: key, day: 1))
        }
        let table = model.table(hasDay: true)
        let cursors = (0..<count).map { _ in table.makeCursor() }
        #expect(try CounterModel(CounterMerge(cursors)) == sum)
        #expect(try CounterModel(CounterMerge(cursors, dropsDays: true)) == sum.rewards)
    }

    @Test(arguments: [1, 2, 5])
    func `a large table and small ones with keys far apart are summed`(count: Int) throws {
        var random = SeededRandom(seed: 14)
        var models = [CounterModel()]
        for key in 0..<20_000 as Range<UInt32> {
            models[0].add(1, .impressions, Place(key: key, day: 0))
        }
        for part in 0..<count {
            var model = CounterModel()
            for _ in 0..<40 * (part + 1) {
                let key = UInt32.random(in: 0..<20_100, using: &random)
                model.add(7, .redemptions, Place(key: key, day: Int32(part % 2)))
            }
            models.append(model)
        }
        let merge = CounterMerge(models.map { $0.table(hasDay: true).makeCursor() })
        #expect(try CounterModel(merge) == Self.sum(models))
    }

    @Test func `the row that does not fit is named wherever it is`() throws {
        func table(_ values: [UInt64], step: UInt32) -> CounterTable.Cursor {
            var model = CounterModel()
            for (i, value) in values.enumerated() {
                model.add(value, .clicks, Place(key: UInt32(i) * step, day: 3))
            }
            return model.table(hasDay: true).makeCursor()
        }
        var more = [UInt64](repeating: 1 << 62, count: 900)
        more[611] = 1 << 63
        for step in [1, 3] as [UInt32] {
            let sources = [
                table([UInt64](repeating: 1 << 63, count: 900), step: step),
                table(more, step: step),
            ]
            let expected = CounterMergeError<FormatError>.overflow(key: 611 * step, day: 3)
            #expect(throws: expected) {
                var merge = CounterMerge(sources)
                _ = try merge.nextPage(into: CounterPage())
            }
            // Other keys between them: rows are added one by one.
            let apart = table([UInt64](repeating: 1, count: 2_000), step: 1)
            #expect(throws: expected) {
                var merge = CounterMerge(sources + [apart])
                while try merge.nextPage(into: CounterPage()) {}
            }
        }
    }

    @Test func `a sum that does not fit 64 bits is an error, not a wrong number`() throws {
        let page = CounterPage()
        #expect(throws: CounterMergeError<FormatError>.overflow(key: 1, day: 2)) {
            var merge = CounterMerge([Self.single(.max), Self.single(1)])
            _ = try merge.nextPage(into: page)
        }
        let fits = CounterMerge([Self.single(.max - 1), Self.single(1)])
        #expect(try CounterModel(fits).rows[Place(key: 1, day: 2)]?[1] == UInt64.max)
        var days = CounterModel()
        days.add(.max, .clicks, Place(key: 1, day: 1))
        days.add(1, .clicks, Place(key: 1, day: 2))
        let table = days.table(hasDay: true)
        #expect(throws: CounterMergeError<FormatError>.overflow(key: 1, day: 2)) {
            var rewards = CounterMerge([table.makeCursor()], dropsDays: true)
            _ = try rewards.nextPage(into: page)
        }
        var keys = CounterModel()
        keys.add(.max, .clicks, Place(key: 0, day: 1))
        keys.add(1, .clicks, Place(key: 1, day: 1))
        let same = RewardKey(reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 8))
        #expect(throws: CounterMergeError<FormatError>.overflow(key: 8, day: 1)) {
            var rows = DaySumming(
                keys.table(hasDay: true).makeCursor(), into: DaySums(keys: [same, same]))
            try rows.drain()
        }
    }

    @Test func `money is summed in 128 bits, and refused after the last of them`() throws {
        var model = CounterModel()
        let place = Place(key: 1, day: 2)
        model.add(.max, .revenueMicros, place)
        model.add(.max - 1, .revenueMicrosHigh, place)
        let one = Self.single(1, .revenueMicros)
        let sums = [model.table(hasDay: true).makeCursor(), one]
        let fits = try CounterModel(CounterMerge(sums)).rows[place]
        #expect(fits.map { CounterRow($0).sum(.revenueMicros) } == UInt128(UInt64.max) << 64)
        #expect(throws: CounterMergeError<FormatError>.overflow(key: 1, day: 2)) {
            var merge = CounterMerge(
                sums + [Self.single(.max, .revenueMicros), one, Self.single(9, .revenueMicros)])
            _ = try merge.nextPage(into: CounterPage())
        }
    }

    /// Rows of keys from 0 on, each of one click and of a column of a later release.
    private static func later(_ values: [UInt64], id: Int, day: Int32) -> CounterTable {
        let page = CounterPage()
        var click = CounterRow()
        click[.clicks] = 1
        page.open(CounterColumnSet(rawValue: 1 << UInt32(id)))
        for (key, value) in values.enumerated() {
            _ = page.append(key: UInt32(key), day: day, counters: click)
            page.values[id * CounterPage.columnStride + key] = value
        }
        var encoder = CounterTableEncoder(hasDay: true)
        encoder.append(contentsOf: page)
        return encoder.finish()
    }

    @Test(arguments: [CounterRow.columnCount, CounterColumnSet.idCount - 1], [true, false])
    func `merges carry columns of a later release, and readers pass them over`(
        id: Int, hasDay: Bool
    ) throws {
        let values = (0..<700).map { UInt64($0) * 5 }
        let known = Self.models(1, seed: 5)[0].table(hasDay: true)
        let tables = [
            known, Self.later(values, id: id, day: 1), Self.later(values, id: id, day: 2),
        ]
        let same = RewardKey(reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 8))
        let days = DaySums(keys: Array(repeating: same, count: 2_000))
        var encoder = CounterTableEncoder(hasDay: hasDay)
        try encoder.append(
            contentsOf: DaySumming(
                CounterMerge(tables.map { $0.makeCursor() }, dropsDays: !hasDay), into: days))
        let merged = encoder.finish()
        func sum(_ source: some CounterPageSource, key: UInt32?) throws -> UInt64 {
            var (source, page, sum) = (source, CounterPage(), UInt64(0))
            while try source.nextPage(into: page) {
                for row in 0..<page.rowCount where key == nil || page.key(row) == key {
                    sum += page.values[id * CounterPage.columnStride + row]
                }
            }
            return sum
        }
        let all = 2 * values.reduce(0, +)
        #expect(try sum(merged.makeCursor(), key: nil) == all)
        #expect(try sum(merged.makeCursor(), key: 77) == 2 * values[77])
        #expect(try sum(days.makeCursor(), key: 8) == all)
        #expect(try sum(merged.makeCursor(columns: .known), key: nil) == 0)
        // What is known of the rows is as without it.
        let plain = [known] + [1, 2].map { Self.later(values.map { _ in 0 }, id: id, day: $0) }
        let expected = CounterMerge(plain.map { $0.makeCursor() }, dropsDays: !hasDay)
        #expect(try CounterModel(merged.makeCursor()) == CounterModel(expected))
        let point = CounterPoint(key: 77)
        let found = try merged.rows(of: point).reduce(into: UInt64(0)) {
            $0 += $1.counters[.clicks]
        }
        #expect(found >= 2)
    }

    @Test func `a key that the list does not have is an error`() {
        #expect(throws: CounterMergeError<FormatError>.unknownKey(1)) {
            let sums = DaySums(keys: [RewardKey(reward: .none, business: .none)])
            var rows = DaySumming(Self.single(1), into: sums)
            try rows.drain()
        }
    }

    @Test func `the error of a source comes through`() {
        var table = CounterModel()
        table.add(1, .clicks, Place(key: 1, day: 1))
        var damaged = table.table(hasDay: true)
        damaged.pages[0] ^= 1
        var merge = CounterMerge([Self.single(1), damaged.makeCursor()])
        #expect {
            _ = try merge.nextPage(into: CounterPage())
        } throws: { error in
            guard case CounterMergeError<FormatError>.source(let source) = error else {
                return false
            }
            return source.summary == "corrupt page checksum"
        }
    }
}
