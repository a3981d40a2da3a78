import IngestFormat
import IngestStorage
import Testing

@testable import IngestReader

/// The dense counters of `verify` against a plain dictionary.
@Suite struct TallyTests {
    private struct Key: Hashable {
        let item: UInt32
        let day: Int32
    }

    private static func rows(_ tally: Tally) -> [Key: CounterRow] {
        var rows: [Key: CounterRow] = [:]
        for slot in tally.slots {
            let row = tally.row(at: slot)
            let place = tally.place(at: slot)
            #expect(row.overflows == 0)
            #expect(
                rows.updateValue(row.counters, forKey: Key(item: place.item, day: place.day))
                    == nil)
            #expect(tally.find(place) == slot)
        }
        return rows
    }

    /// What the events add up to, by their own `row`.
    private static func sums(
        _ events: [(key: UInt32, event: FixtureEvent)]
    ) -> [Key: CounterRow] {
        var sums: [Key: CounterRow] = [:]
        for (key, event) in events {
            let isSum = sums[Key(item: key, day: event.day), default: CounterRow()].add(event.row)
            #expect(isSum)
        }
        return sums
    }

    private static func block(_ events: [(key: UInt32, event: FixtureEvent)]) -> BlockRows {
        let rows = BlockRows()
        for (key, event) in events {
            rows.key[rows.rowCount] = key
            rows.day[rows.rowCount] = event.day
            rows.attributes[rows.rowCount] = event.attributes.rawValue
            if let money = event.money {
                rows.revenue[rows.moneyCount] = money.revenue
                rows.spend[rows.moneyCount] = money.spend
                rows.moneyCount += 1
            }
            rows.rowCount += 1
        }
        return rows
    }

    @Test(
        "Rows of any verdict, on few days and on many, come to what a dictionary says",
        arguments: [1, 3, 8, 9, 40], [1, 60, 700])
    func counts(dayCount: Int, keyCount: Int) {
        var random = SeededRandom(seed: UInt64(dayCount * 1_000 + keyCount))
        var recount = RowRecount()
        var tally = Tally()
        var verdicts = [UInt64](repeating: 0, count: Verdict.allCases.count)
        var all: [(key: UInt32, event: FixtureEvent)] = []
        for _ in 0..<6 {
            let events = (0..<500).map { _ in
                var event = FixtureEvent(&random)
                event.day = 20_000 + Int32(random.below(UInt64(dayCount)))
                return (key: UInt32(random.below(UInt64(keyCount))), event: event)
            }
            let outcome = recount.count(Self.block(events), keyCount: keyCount, into: &tally)
            #expect(outcome.senselessCount == 0 && outcome.optedOutCount == 0)
            for (index, count) in outcome.verdicts.enumerated() { verdicts[index] += count }
            all += events
        }
        #expect(Self.rows(tally) == Self.sums(all))
        for verdict in Verdict.allCases {
            let count = all.count { $0.event.verdict == verdict }
            #expect(verdicts[Int(verdict.rawValue)] == UInt64(count))
        }
    }

    @Test("Sums of tallies, and under other items, come to what a dictionary says")
    func sums() {
        var random = SeededRandom(seed: 7)
        var recount = RowRecount()
        var total = Tally()
        var all: [(key: UInt32, event: FixtureEvent)] = []
        for part in 0..<5 {
            let events = (0..<400).map { _ in
                var event = FixtureEvent(&random)
                event.day = 20_000 + Int32(part * 3) + Int32(random.below(12))
                return (key: UInt32(random.below(90)), event: event)
            }
            var tally = Tally()
            _ = recount.count(Self.block(events), keyCount: 90, into: &tally)
            total.add(tally)
            all += events
        }
        #expect(Self.rows(total) == Self.sums(all))
        #expect(
            Self.rows(total.folded { $0 % 7 }) == Self.sums(all.map { ($0.key % 7, $0.event) }))
    }

    @Test("Counters go on beyond 32 bits, by rows and by sums")
    func wide() {
        var tally = Tally()
        let slot = tally.slot(item: 3, day: 5)
        for kind in Tally.Kind.allCases { tally.add(UInt32.max, of: kind, at: slot) }
        var sum = tally
        sum.add(tally)
        sum.add(tally)
        var expected = CounterRow()
        for kind in Tally.Kind.allCases {
            for column in kind.columns { expected[column] += 3 * UInt64(UInt32.max) }
        }
        #expect(Self.rows(sum) == [Key(item: 3, day: 5): expected])

        // Half full counters are moved before rows could pass 32 bits.
        var event = FixtureEvent()
        event.isMeasured = true
        let rows = Self.block([(key: 3, event: event)])
        var recount = RowRecount()
        for _ in 0..<2 {
            tally.prepare(itemCount: 4, rowCount: Int(UInt32.max / 2))
            _ = recount.count(rows, keyCount: 4, into: &tally)
        }
        let counters = tally.row(at: tally.slot(item: 3, day: 5)).counters
        #expect(counters[.impressions] == 4 * UInt64(UInt32.max))
        #expect(tally.row(at: tally.slot(item: 3, day: 20_000)).counters[.impressions] == 2)
    }

    @Test("Rows of the common kinds take no wide row, the first of a place included")
    func common() {
        var recount = RowRecount()
        var tally = Tally()
        let events = [EventType.impression, .click, .redemption].flatMap { type in
            [true, false].flatMap { hasEventID in
                (0..<50).map { number in
                    var event = FixtureEvent()
                    event.type = type
                    event.hasEventID = hasEventID
                    event.money = type == .redemption ? (3, 2) : nil
                    return (key: UInt32(number), event: event)
                }
            }
        }
        _ = recount.count(Self.block(events), keyCount: 50, into: &tally)
        #expect(tally.wideRowCount == 0)
        #expect(Self.rows(tally) == Self.sums(events))
    }

    @Test("Money that passes 64 bits is known not to fit")
    func overflow() {
        var tally = Tally()
        let slot = tally.slot(item: 0, day: 1)
        tally.add(UInt64.max, to: CounterColumn.spendMicros.rawValue, at: slot)
        #expect(tally.row(at: slot).overflows == 0)
        var sum = tally
        sum.add(tally)
        #expect(sum.row(at: slot).overflows == 1 << UInt32(CounterColumn.spendMicros.rawValue))
        #expect(sum.folded { $0 + 1 }.row(at: 1).overflows != 0)
    }

    @Test("A row beyond the keys of a directory is counted nowhere and named")
    func senseless() {
        let rows = Self.block([(key: UInt32(Tally.itemCountMax), event: FixtureEvent())])
        var recount = RowRecount()
        var tally = Tally()
        let outcome = recount.count(rows, keyCount: Int(UInt32.max), into: &tally)
        #expect(outcome.senselessCount == 1 && tally.slots.isEmpty)
    }

    // MARK: Comparison

    /// A table of these rows, one a key, and the tally of them.
    private static func table(
        _ clicks: [UInt64], day: Int32 = 20_000, change: (inout CounterRow) -> Void = { _ in }
    ) -> (table: CounterTable, tally: Tally) {
        var encoder = CounterTableEncoder(hasDay: true)
        var tally = Tally()
        for (key, count) in clicks.enumerated() {
            var row = CounterRow()
            row[.clicks] = count
            row[.refusedClicks] = UInt64(key % 3)
            row[.revenueMicros] = count * 7
            change(&row)
            encoder.append(key: UInt32(key), day: day, counters: row)
            tally.add(CheckedRow(counters: row), item: UInt32(key), day: day)
        }
        return (encoder.finish(), tally)
    }

    private static func compare(
        _ tables: [CounterTable], _ expected: TallyComparison<CounterTable.Cursor>.Expected
    ) -> TallyComparison<CounterTable.Cursor> {
        TallyComparison.run({ tables.map { $0.makeCursor() } }, to: expected)
    }

    @Test("The quick comparison says the same as the one that names every difference")
    func match() {
        var random = SeededRandom(seed: 71)
        let (first, one) = Self.table((0..<2_500).map { _ in random.below(100) })
        let (second, two) = Self.table((0..<1_300).map { _ in random.below(100) }, day: 20_001)
        var total = one
        total.add(two)
        total.add(two)
        for (tables, tally, isEqual) in [
            ([first], one, true), ([first, second, second], total, true), ([second], one, false),
            ([first, second], total, false), ([first], total, false), ([], one, false),
            ([first, first], one, false), ([], Tally(), true),
        ] {
            var match = TallyMatch(
                tables.map { $0.makeCursor() },
                TallyComparison<CounterTable.Cursor>.Expected(tally: tally))
            let holds = match.run()
            #expect(holds == isEqual)
            #expect((Self.compare(tables, .init(tally: tally)).differences.count == 0) == isEqual)
        }
        for column in CounterColumn.allCases {
            let (table, _) = Self.table((0..<1_100).map { _ in 3 })
            let (_, tally) = Self.table((0..<1_100).map { _ in 3 }) { $0[column] += 1 }
            var match = TallyMatch(
                [table.makeCursor()], TallyComparison<CounterTable.Cursor>.Expected(tally: tally))
            let holds = match.run()
            #expect(!holds, "\(column)")
        }
    }

    @Test("Counters may be more by as many events as have lost their rows, and never less")
    func lostRows() {
        let (counted, _) = Self.table([5, 2, 9, 1])
        let (_, left) = Self.table([5, 1, 7])
        // A click of key 1, two of key 2, and key 3 with one.
        let exact = Self.compare([counted], .init(tally: left, lostRowCount: 4))
        #expect(exact.differences.count == 0 && exact.lostRowCount == 4)
        let few = Self.compare([counted], .init(tally: left, lostRowCount: 3))
        #expect(few.differences.count == 5 && few.lostRowCount == 0)
        let (_, more) = Self.table([5, 1, 7, 2])
        let less = Self.compare([counted], .init(tally: more, lostRowCount: .max))
        #expect(less.differences.count == 2 && less.lostRowCount == 3)
    }
}
