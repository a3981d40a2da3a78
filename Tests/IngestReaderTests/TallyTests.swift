import IngestFormat
import IngestStorage
import TestSupport
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
        var last: Tally.Place?
        for index in 0..<tally.placeCount {
            let row = tally.row(at: index)
            let place = tally.place(at: index)
            #expect(row.overflows == 0)
            #expect(last.map { $0.order < place.order } ?? true)
            last = place
            rows[Key(item: place.item, day: place.day)] = row.counters
        }
        return rows
    }

    /// A gather that has counted these events.
    private static func tally(
        _ events: [(key: UInt32, event: FixtureEvent)], itemCount: Int = 90
    ) -> Tally {
        var recount = RowRecount()
        let gather = RowGather(itemCount: itemCount)
        let outcome = recount.count(block(events), admissionTime: 0, into: gather)
        #expect(outcome.senselessCount == 0)
        return gather.finish()
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
            rows.timestamp[rows.rowCount] = Int64(event.day) * 86_400_000_000
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
        let gather = RowGather(itemCount: keyCount / 2)
        var verdicts = [UInt64](repeating: 0, count: Verdict.allCases.count)
        var all: [(key: UInt32, event: FixtureEvent)] = []
        for _ in 0..<6 {
            let events = (0..<500).map { _ in
                var event = FixtureEvent(&random)
                event.day = 20_000 + Int32(random.below(UInt64(dayCount)))
                return (key: UInt32(random.below(UInt64(keyCount))), event: event)
            }
            let outcome = recount.count(Self.block(events), admissionTime: 0, into: gather)
            #expect(outcome.senselessCount == 0 && outcome.optedOutCount == 0)
            for (index, count) in outcome.verdicts.enumerated() { verdicts[index] += count }
            all += events
        }
        #expect(Self.rows(gather.finish()) == Self.sums(all))
        #expect(gather.finish().isEmpty)
        for verdict in Verdict.allCases {
            let count = all.count { $0.event.verdict == verdict }
            #expect(verdicts[Int(verdict.rawValue)] == UInt64(count))
        }
    }

    @Test("Places far apart, first and last days, and every part, come to what a dictionary says")
    func farApart() {
        var random = SeededRandom(seed: 3)
        let days = [Limits.businessDays.lowerBound, 0, 19_999, Limits.businessDays.upperBound]
        let events = (0..<3_000).map { number in
            var event = FixtureEvent(&random)
            event.day = days[Int(random.below(4))]
            let key = random.below(UInt64(Tally.itemCountMax) >> random.below(25))
            return (key: UInt32(number == 0 ? UInt64(Tally.itemCountMax) - 1 : key), event: event)
        }
        for itemCount in [0, 1, 1_024, 1_025, Tally.itemCountMax] {
            #expect(Self.rows(Self.tally(events, itemCount: itemCount)) == Self.sums(events))
        }
    }

    @Test("Sums of tallies, under other items, and without days, come to what a dictionary says")
    func sums() {
        var random = SeededRandom(seed: 7)
        var stack = TallyStack()
        var all: [(key: UInt32, event: FixtureEvent)] = []
        for part in 0..<5 {
            let events = (0..<400).map { _ in
                var event = FixtureEvent(&random)
                event.day = 20_000 + Int32(part * 3) + Int32(random.below(12))
                return (key: UInt32(random.below(90)), event: event)
            }
            stack.add(Self.tally(events))
            all += events
        }
        let total = stack.sum
        #expect(Self.rows(total) == Self.sums(all))
        #expect(
            Self.rows(total.folded { $0 % 7 }) == Self.sums(all.map { ($0.key % 7, $0.event) }))
        var rewards: [Key: CounterRow] = [:]
        for (key, row) in Self.sums(all) {
            let isSum = rewards[Key(item: key.item, day: 0), default: CounterRow()].add(row)
            #expect(isSum)
        }
        #expect(Self.rows(total.withoutDays()) == rewards)
        stack.join()
        #expect(stack.sum.placeCount == total.placeCount && stack.moneyMicros == total.moneyMicros)
        #expect(Tally.sum(of: []).isEmpty && Tally.sum(Tally(), total).placeCount > 0)
    }

    @Test("A total is the sum of what was added, and what others have stays as it is")
    func total() {
        var random = SeededRandom(seed: 17)
        var total = TallyTotal()
        var all: [(key: UInt32, event: FixtureEvent)] = []
        var kept: [(tally: Tally, rows: [Key: CounterRow])] = []
        for part in 0..<14 {
            let events = (0..<(part % 4 == 0 ? 600 : 90)).map { _ in
                var event = FixtureEvent(&random)
                event.day = 20_000 + Int32(random.below(9))
                return (key: UInt32(random.below(40)) + UInt32(part * 9), event: event)
            }
            let tally = Self.tally(events)
            if part % 3 == 0 { kept.append((tally, Self.rows(tally))) }
            total.add(tally)
            all += events
            if part % 5 == 0 { #expect(Self.rows(total.sum) == Self.sums(all)) }
        }
        #expect(Self.rows(total.sum) == Self.sums(all))
        for (tally, rows) in kept { #expect(Self.rows(tally) == rows) }
        total.add(Tally())
        #expect(TallyTotal().sum.isEmpty && Self.rows(total.sum) == Self.sums(all))
    }

    @Test("Sums over more places than are folded at a time come to what a dictionary says")
    func manyFolded() {
        var builder = TallyBuilder(capacity: 0)
        var row = CounterRow()
        row[.clicks] = 2
        for item in 0..<UInt32(140_000) {
            builder.append(CheckedRow(counters: row), at: Tally.Place(item: item, day: 5))
        }
        let folded = builder.finish().folded { $0 % 70_000 }
        #expect(folded.placeCount == 70_000)
        #expect((0..<70_000).allSatisfy { folded.row(at: $0).counters[.clicks] == 4 })
    }

    @Test("Counters go on beyond what a line has room for, by rows and by sums")
    func wide() {
        let kinds: [(EventType, Bool, Bool)] = [
            (.impression, true, true), (.impression, false, false), (.click, true, false),
            (.redemption, true, false), (.redemption, false, false),
        ]
        let events = kinds.flatMap { type, hasEventID, isMeasured in
            (0..<10_000).map { _ in
                var event = FixtureEvent()
                event.type = type
                event.hasEventID = hasEventID
                event.isMeasured = isMeasured
                event.money = type == .redemption ? (3, 2) : nil
                return (key: UInt32(3), event: event)
            }
        }
        var recount = RowRecount()
        let gather = RowGather(itemCount: 10)
        for _ in 0..<4 { _ = recount.count(Self.block(events), admissionTime: 0, into: gather) }
        let tally = gather.finish()
        let four = Array(repeating: events, count: 4).flatMap { $0 }
        #expect(Self.rows(tally) == Self.sums(four))
        let sum = Tally.sum(of: [tally, Self.tally(events), tally, Self.tally(events)])
        #expect(Self.rows(sum) == Self.sums(four + events + four + events))
    }

    @Test("Counters of 32,768 rows are carried whether rows or sums reach them")
    func carries() {
        for count in [UInt64(32_767), 32_768, 65_535, 65_536] {
            var event = FixtureEvent()
            event.isMeasured = true
            let rows = Self.block((0..<Int(min(count, 65_536))).map { _ in (key: 1, event: event) })
            var recount = RowRecount()
            let gather = RowGather(itemCount: 4)
            _ = recount.count(rows, admissionTime: 0, into: gather)
            let tally = gather.finish()
            #expect(tally.row(at: 0).counters[.impressions] == count)
            #expect(!tally.lines[0].isLarge && (tally.wideRowCount == 0) == (count < 32_768))
            let sum = Tally.sum(tally, tally)
            #expect(sum.row(at: 0).counters[.impressions] == 2 * count && !sum.lines[0].isLarge)
        }
    }

    @Test("Rows of the common kinds take no wide row, from rows or from pages")
    func common() {
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
        let tally = Self.tally(events)
        #expect(tally.wideRowCount == 0)
        #expect(Self.rows(tally) == Self.sums(events))
        let checked = Self.tally(events.filter(\.event.hasEventID))
        var builder = TallyBuilder(capacity: 0)
        for index in 0..<checked.placeCount {
            builder.append(checked.row(at: index), at: checked.place(at: index))
        }
        let copy = builder.finish()
        #expect(copy.wideRowCount == 0 && Self.rows(copy) == Self.rows(checked))
    }

    @Test("Money that passes 64 bits is known not to fit")
    func overflow() {
        var row = CounterRow()
        row[.spendMicros] = UInt64.max
        var builder = TallyBuilder(capacity: 1)
        builder.append(CheckedRow(counters: row), at: Tally.Place(item: 0, day: 1))
        let tally = builder.finish()
        #expect(tally.row(at: 0).overflows == 0)
        let sum = Tally.sum(tally, tally)
        #expect(sum.row(at: 0).overflows == 1 << UInt32(CounterColumn.spendMicros.rawValue))
        #expect(sum.folded { $0 + 1 }.row(at: 0).overflows != 0)
        #expect(sum.withoutDays().row(at: 0).overflows != 0)
        #expect(Tally.sum(sum, sum).row(at: 0).overflows != 0)
    }

    @Test("A row beyond the keys of a directory, or of no day, is counted nowhere and named")
    func senseless() {
        var none = FixtureEvent()
        none.day = Limits.businessDays.upperBound + 1
        let rows = Self.block([
            (key: UInt32(Tally.itemCountMax), event: FixtureEvent()), (key: 1, event: none),
        ])
        var recount = RowRecount()
        let gather = RowGather(itemCount: 4)
        let outcome = recount.count(rows, admissionTime: 0, into: gather)
        #expect(outcome.senselessCount == 2 && gather.finish().isEmpty)
    }

    @Test("A row of a day that it was nowhere at its time is counted, and named")
    func impossibleDay() {
        let dayLength = Int64(86_400_000_000)
        for (shift, isPossible) in [
            (-dayLength - 1, false), (-dayLength, true), (0, true), (2 * dayLength - 1, true),
            (2 * dayLength, false), (Int64.max / 2, false),
        ] {
            let rows = Self.block([(key: 1, event: FixtureEvent())])
            rows.timestamp[0] += shift
            var recount = RowRecount()
            let gather = RowGather(itemCount: 4)
            let outcome = recount.count(rows, admissionTime: 0, into: gather)
            #expect((outcome.senselessCount == 0) == isPossible, "\(shift)")
            #expect(gather.finish().placeCount == 1)
        }
        for (verdict, isPossible) in [
            (Verdict.tooOld, true), (.tooEarly, true), (.noConsent, false),
        ] {
            var event = FixtureEvent()
            event.verdict = verdict
            let rows = Self.block([(key: 1, event: event)])
            let time = rows.timestamp[0]
            rows.timestamp[0] = 0
            var recount = RowRecount()
            let gather = RowGather(itemCount: 4)
            let outcome = recount.count(rows, admissionTime: time, into: gather)
            #expect((outcome.senselessCount == 0) == isPossible, "\(verdict)")
        }
    }

    // MARK: Comparison

    /// A table of these rows, one a key, and the tally of them.
    private static func table(
        _ clicks: [UInt64], day: Int32 = 20_000, change: (inout CounterRow) -> Void = { _ in }
    ) -> (table: CounterTable, tally: Tally) {
        var encoder = CounterTableEncoder(hasDay: true)
        var builder = TallyBuilder(capacity: 0)
        for (key, count) in clicks.enumerated() {
            var row = CounterRow()
            row[.clicks] = count
            row[.refusedClicks] = UInt64(key % 3)
            row[.revenueMicros] = count * 7
            change(&row)
            encoder.append(key: UInt32(key), day: day, counters: row)
            builder.append(
                CheckedRow(counters: row), at: Tally.Place(item: UInt32(key), day: day))
        }
        return (encoder.finish(), builder.finish())
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
        let total = Tally.sum(of: [two, one, two])
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
