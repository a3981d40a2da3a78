import IngestFormat
import TestSupport
import Testing

@testable import IngestVerify

/// The counters of `verify`, of rows and as sums, against a plain dictionary.
@Suite struct RowCountTests {
    private struct Key: Hashable {
        let item: UInt32
        let day: Int32
    }

    private typealias Event = (key: UInt32, event: FixtureEvent)

    private static func rows(_ sums: RowSums) -> [Key: CounterRow] {
        var rows: [Key: CounterRow] = [:]
        var last: UInt64?
        for slot in sums.sortedSlots() {
            let order = sums.order(slot)
            #expect(last.map { $0 < order } ?? true)
            last = order
            var row = CounterRow()
            for column in CounterColumn.allCases {
                row[column] = sums.value(column.rawValue, slot)
            }
            let day = Int32(bitPattern: UInt32(truncatingIfNeeded: order ^ RowSums.noDay))
            rows[Key(item: UInt32(order >> 32), day: day)] = row
        }
        return rows
    }

    /// What was counted, read by windows of some keys.
    private static func rows(_ count: RowCount, window: UInt32 = .max) -> [Key: CounterRow] {
        count.finish()
        var rows: [Key: CounterRow] = [:]
        let sums = RowSums()
        for first in stride(from: 0, to: max(count.keyEnd, 1), by: Int(window)) {
            sums.removeAll()
            count.add(first...(first + min(window - 1, .max - first)), to: sums)
            rows.merge(Self.rows(sums)) { _, _ in
                Issue.record("a row in two windows")
                return CounterRow()
            }
        }
        return rows
    }

    @discardableResult
    private static func add(_ events: [Event], to count: RowCount) -> RowCount.Outcome {
        let rows = block(events)
        let times = (0..<rows.rowCount).map { rows.timestamp[$0] }
        return count.count(
            rows, times: (times.min() ?? 0, times.max() ?? 0), admissionTime: 0)
    }

    private static func sums(_ events: [Event]) -> [Key: CounterRow] {
        var sums: [Key: CounterRow] = [:]
        for (key, event) in events {
            let isSum = sums[Key(item: key, day: event.day), default: CounterRow()].add(event.row)
            #expect(isSum)
        }
        return sums
    }

    private static func block(_ events: [Event]) -> BlockRows {
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
        arguments: [1, 3, 40], [1, 60, 700])
    func counts(dayCount: Int, keyCount: Int) {
        var random = SeededRandom(seed: UInt64(dayCount * 1_000 + keyCount))
        // Some keys lie behind those that were known of.
        let count = RowCount(keyCount: keyCount / 2 + 1)
        for round in 0..<2 {
            var verdicts = [UInt64](repeating: 0, count: Verdict.allCases.count)
            var all: [Event] = []
            for _ in 0..<6 {
                let events = (0..<500).map { _ in
                    var event = FixtureEvent(&random)
                    event.day = 20_000 + Int32(random.below(UInt64(dayCount)))
                    return (key: UInt32(random.below(UInt64(keyCount))), event: event)
                }
                let outcome = Self.add(events, to: count)
                #expect(outcome.senselessCount == 0)
                for index in verdicts.indices { verdicts[index] += outcome.verdicts[index] }
                all += events
            }
            #expect(Self.rows(count, window: round == 0 ? .max : 17) == Self.sums(all))
            for verdict in Verdict.allCases {
                let expected = all.count { $0.event.verdict == verdict }
                #expect(verdicts[Int(verdict.rawValue)] == UInt64(expected))
            }
            let money = all.reduce(UInt64(0)) {
                $0 + $1.event.row[.revenueMicros] + $1.event.row[.spendMicros]
            }
            #expect(count.moneyMicros == money)
            count.removeAll()
            #expect(Self.rows(count).isEmpty && count.moneyMicros == 0)
        }
    }

    @Test("Places far apart, first and last days, come to what a dictionary says")
    func farApart() {
        var random = SeededRandom(seed: 3)
        let days = [Limits.businessDays.lowerBound, 0, 19_999, Limits.businessDays.upperBound]
        let events = (0..<3_000).map { number in
            var event = FixtureEvent(&random)
            event.day = days[Int(random.below(4))]
            let key = random.below(UInt64(RowCount.itemCountMax) >> random.below(25))
            return (
                key: UInt32(number == 0 ? UInt64(RowCount.itemCountMax) - 1 : key), event: event
            )
        }
        for keyCount in [0, 1, 1_025] {
            let count = RowCount(keyCount: keyCount)
            Self.add(events, to: count)
            #expect(Self.rows(count) == Self.sums(events))
        }
    }

    @Test("Numbers of rows beyond 8 bits are carried, at every multiple of 256", arguments: [0, 9])
    func carries(keyCount: Int) {
        for rowCount in [255, 256, 257, 511, 512, 65_536] {
            let count = RowCount(keyCount: keyCount)
            var all: [Event] = []
            for type in EventType.allCases {
                var event = FixtureEvent()
                event.type = type
                event.money = type == .redemption ? (3, 2) : nil
                let events = Array(repeating: (key: UInt32(3), event: event), count: rowCount)
                Self.add(events, to: count)
                all += events
            }
            #expect(Self.rows(count) == Self.sums(all), "\(rowCount) rows")
        }
    }

    @Test("A row beyond the keys of a directory, or of no day, is counted nowhere and named")
    func senseless() {
        var none = FixtureEvent()
        none.day = Limits.businessDays.upperBound + 1
        let count = RowCount(keyCount: 4)
        let outcome = Self.add(
            [(key: UInt32(RowCount.itemCountMax), event: FixtureEvent()), (key: 1, event: none)],
            to: count)
        #expect(outcome.senselessCount == 2 && Self.rows(count).isEmpty)
    }

    @Test("A row of a day that it was nowhere at its time is counted, and named")
    func impossibleDay() {
        let dayLength = Int64(86_400_000_000)
        func senseless(
            _ event: FixtureEvent, shift: Int64, admissionTime: Int64 = 0, others: Int = 0
        ) -> Int {
            let rows = Self.block(Array(repeating: (key: 1, event: event), count: others + 1))
            let time = rows.timestamp[0] + shift
            rows.timestamp[0] = time
            let other = rows.timestamp[others]
            let count = RowCount(keyCount: 4)
            let outcome = count.count(
                rows, times: (min(time, other), max(time, other)), admissionTime: admissionTime)
            #expect(Self.rows(count).count == 1)
            return outcome.senselessCount
        }
        for (shift, isPossible) in [
            (-dayLength - 1, false), (-dayLength, true), (0, true), (2 * dayLength - 1, true),
            (2 * dayLength, false), (Int64.max / 2, false),
        ] {
            for others in [0, 300] {
                let found = senseless(FixtureEvent(), shift: shift, others: others)
                #expect((found == 0) == isPossible, "\(shift)")
            }
        }
        for (verdict, isPossible) in [
            (Verdict.tooOld, true), (.tooEarly, true), (.noConsent, false),
        ] {
            var event = FixtureEvent()
            event.verdict = verdict
            let time = Int64(event.day) * dayLength
            let found = senseless(event, shift: -time, admissionTime: time)
            #expect((found == 0) == isPossible, "\(verdict)")
        }
    }

    // MARK: Sums

    /// A table of these rows, one a key, and the sums of them.
    private static func table(
        _ clicks: [UInt64], day: Int32 = 20_000, change: (inout CounterRow) -> Void = { _ in }
    ) throws -> RowSums {
        var encoder = CounterTableEncoder(hasDay: true)
        for (key, count) in clicks.enumerated() {
            var row = CounterRow()
            row[.clicks] = count
            row[.refusedClicks] = UInt64(key % 3)
            row[.revenueMicros] = count * 7
            change(&row)
            encoder.append(key: UInt32(key), day: day, counters: row)
        }
        let sums = RowSums()
        let page = CounterPage()
        var cursor = encoder.finish().makeCursor()
        while try cursor.nextPage(into: page) { sums.add(page) }
        return sums
    }

    private static func compare(_ got: RowSums, to expected: RowSums) -> DifferenceList {
        var list = DifferenceList()
        TableCheck.compare(got, to: expected, &list)
        return list
    }

    @Test("Sums of pages, of other sums, and under other orders, come to what a dictionary says")
    func sums() throws {
        var random = SeededRandom(seed: 7)
        let total = RowSums()
        var (all, rewards): ([Key: CounterRow], [Key: CounterRow]) = ([:], [:])
        for day in [20_004, 20_000, 20_002] as [Int32] {
            let part = try Self.table((0..<2_500).map { _ in random.below(100) }, day: day)
            total.add(part)
            for (key, row) in Self.rows(part) {
                all[key] = row
                let isSum = rewards[Key(item: key.item, day: 0), default: CounterRow()].add(row)
                #expect(isSum)
            }
        }
        #expect(Self.rows(total) == all && !total.isAscending)
        let folded = RowSums()
        folded.foldsDays = true
        folded.add(total)
        #expect(Self.rows(folded) == rewards)
        let one = RowSums()
        one.add(total) { _ in 5 }
        let clicks = all.values.reduce(UInt64(0)) { $0 + $1[.clicks] }
        #expect(one.count == 1 && one.value(CounterColumn.clicks.rawValue, 0) == clicks)
    }

    @Test("One counter, one row more or less is a difference, in any column")
    func differences() throws {
        let rows = (0..<1_100).map { UInt64($0 % 7) }
        let good = try Self.table(rows)
        #expect(Self.compare(good, to: try Self.table(rows)).count == 0)
        for column in CounterColumn.allCases {
            let more = try Self.table(rows) { $0[column] += 1 }
            #expect(!good.isSame(as: more) && !more.isSame(as: good), "\(column)")
            #expect(Self.compare(good, to: more).count == rows.count, "\(column)")
            var list = Self.compare(more, to: good)
            #expect(list.judgeMore(lostRowCount: 0) == 0 && list.count == rows.count, "\(column)")
        }
        let shorter = try Self.table(Array(rows.dropLast()))
        #expect(Self.compare(shorter, to: good).count == 1)
        var list = Self.compare(good, to: shorter)
        #expect(list.judgeMore(lostRowCount: 0) == 0 && list.count == 1)
        #expect(Self.compare(try Self.table(rows, day: 20_001), to: good).count == rows.count)
    }

    @Test("A sum that passes 64 bits is known not to fit")
    func overflow() throws {
        let half = try Self.table([1]) { $0[.spendMicros] = 1 << 63 }
        let sums = RowSums()
        sums.add(half)
        #expect(sums.overflows.isEmpty)
        sums.add(half)
        let wrapped = try Self.table([2])
        #expect(sums.overflows.count == 1)
        #expect(!sums.isSame(as: wrapped) && Self.compare(wrapped, to: sums).count > 0)
        let folded = RowSums()
        folded.add(sums) { _ in 0 }
        #expect(folded.overflows[0] == 1 << UInt32(CounterColumn.spendMicros.rawValue))
    }

    @Test("Counters may be more by as many events as have lost their rows, and never less")
    func lostRows() throws {
        let counted = try Self.table([5, 2, 9, 1])
        let left = try Self.table([5, 1, 7])
        // A click of key 1, two of key 2, and key 3 with one.
        var exact = Self.compare(counted, to: left)
        #expect(exact.judgeMore(lostRowCount: 4) == 4 && exact.count == 0)
        var few = Self.compare(counted, to: left)
        #expect(few.judgeMore(lostRowCount: 3) == 0 && few.count == 5)
        var less = Self.compare(counted, to: try Self.table([5, 1, 7, 2]))
        #expect(less.judgeMore(lostRowCount: .max) == 3 && less.count == 2)
    }

    @Test("Windows are all items in order, each once, and a file is not read over and over")
    func windows() throws {
        let count = RowCount(keyCount: 100_000)
        Self.add([(key: 99_999, event: FixtureEvent())], to: count)
        let source = RowSource(count, name: .lock)
        let windows = TableCheck.windows(of: [source, source])
        #expect(windows.first?.lowerBound == 0 && windows.last?.upperBound == .max)
        for (one, next) in zip(windows, windows.dropFirst()) {
            #expect(next.lowerBound == one.upperBound + 1)
        }
        #expect(windows.count > 5 && windows.count < 20)
        #expect(TableCheck.windows(of: []) == [0...UInt32.max])
    }
}
