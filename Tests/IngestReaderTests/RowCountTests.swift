import IngestCounting
import IngestFormat
import IngestStorage
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
    private typealias Rows = [Key: CounterRow]

    private static let hash = CounterHash.drawn

    private static func rows(_ source: RowSource, window: UInt32 = .max) throws -> Rows {
        var rows: Rows = [:]
        for first in stride(from: 0, to: window == .max ? 1 : 1 << 12, by: Int(window)) {
            let first = UInt32(first)
            var last: UInt64?
            let end = window == .max ? .max : first + window - 1
            try source.read(first...end, CounterPage()) { page, attributions in
                #expect(attributions == nil)
                for row in 0..<page.rowCount {
                    let order = CounterPage.order(key: page.key(row), day: page.day(row))
                    #expect(last.map { $0 < order } ?? true)
                    last = order
                    let key = Key(item: page.key(row), day: page.day(row))
                    #expect(rows.updateValue(page.counters(row), forKey: key) == nil)
                }
            }
        }
        return rows
    }

    private static func fingerprints(_ sources: [RowSource], businesses: UInt32 = 1) throws
        -> Fingerprints
    {
        var prints = Fingerprints()
        for source in sources {
            try source.read(0...UInt32.max, CounterPage()) {
                hash.add($0, of: $1, to: &prints, folds: true) { $0 % businesses }
            }
        }
        return prints
    }

    /// Holds the rows themselves, and their fingerprint, against those of a dictionary.
    private static func expect(
        _ count: RowCount, are expected: Rows, window: UInt32 = .max, _ comment: Comment? = nil
    ) throws {
        let counted = try #require(count.rows).table()
        let source = RowSource(counted.table, counted.attributions, name: .lock)
        let rows = try rows(source, window: window)
        #expect(rows == expected, comment)
        let print = try fingerprints([Self.source(expected)]).rows
        #expect(count.fingerprint == print, comment)
    }

    @discardableResult
    private static func add(_ rows: BlockRows, to count: RowCount) -> RowCount.Outcome {
        let times = (0..<rows.rowCount).map { rows.timestamp[$0] }
        return count.count(
            rows, times: (times.min() ?? 0, times.max() ?? 0), commits: commits(rows, at: 0))
    }

    /// The rows as one commit.
    private static func commits(_ rows: BlockRows, at time: Int64) -> BlockCommits {
        var commits = BlockCommits()
        commits.append(rowCount: rows.rowCount, admissionTime: time, policyVersion: 1)
        return commits
    }

    private static func makeCount() -> RowCount {
        let count = RowCount(hash)
        count.removeAll(keepsRows: true)
        return count
    }

    private static func sums(_ events: [Event]) -> Rows {
        var sums: Rows = [:]
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
                rows.mark.money += 1
            }
            rows.mark.row += 1
        }
        return rows
    }

    @Test(
        "Rows of any verdict, on few days and on many, come to what a dictionary says",
        arguments: [1, 3, 40], [1, 60, 700])
    func counts(dayCount: Int, keyCount: Int) throws {
        var random = SeededRandom(seed: UInt64(dayCount * 1_000 + keyCount))
        let count = Self.makeCount()
        for round in 0..<2 {
            var verdicts = [UInt64](repeating: 0, count: Verdict.allCases.count)
            var all: [Event] = []
            for _ in 0..<6 {
                let events = (0..<500).map { _ in
                    var event = FixtureEvent(&random)
                    event.day = 20_000 + Int32(random.below(UInt64(dayCount)))
                    return (key: UInt32(random.below(UInt64(keyCount))), event: event)
                }
                let outcome = Self.add(Self.block(events), to: count)
                #expect(outcome.senselessCount == 0)
                for index in verdicts.indices { verdicts[index] += outcome.verdicts[index] }
                all += events
            }
            try Self.expect(count, are: Self.sums(all), window: round == 0 ? .max : 17)
            for verdict in Verdict.allCases {
                let expected = all.count { $0.event.verdict == verdict }
                #expect(verdicts[Int(verdict.rawValue)] == UInt64(expected))
            }
            count.removeAll(keepsRows: true)
            try Self.expect(count, are: [:])
        }
    }

    @Test("Places far apart, first and last days, come to what a dictionary says")
    func farApart() throws {
        var random = SeededRandom(seed: 3)
        let days = [Limits.businessDays.lowerBound, 0, 19_999, Limits.businessDays.upperBound]
        let events = (0..<3_000).map { number in
            var event = FixtureEvent(&random)
            event.day = days[Int(random.below(4))]
            let key = UInt32(random.next() >> 33 + random.below(31))
            return (key: number == 0 ? CounterKeys.rewards.upperBound : key, event)
        }
        let count = Self.makeCount()
        Self.add(Self.block(events), to: count)
        try Self.expect(count, are: Self.sums(events))
    }

    @Test("Rows of several blocks that are kept come to what a dictionary says")
    func kept() throws {
        var random = SeededRandom(seed: 5)
        var (rows, all) = (CountedRows(), [Event]())
        for _ in 0..<5 {
            let events = (0..<500).map { _ in
                (key: UInt32(random.below(9)), event: FixtureEvent(&random))
            }
            rows.add(Self.block(events))
            all += events
        }
        let table = rows.table()
        let source = RowSource(table.table, table.attributions, name: .lock)
        #expect(try Self.rows(source) == Self.sums(all))
    }

    @Test("Rows with a campaign or a source are counted once more, under their attribution")
    func attributed() throws {
        var random = SeededRandom(seed: 8)
        let (count, counters) = (Self.makeCount(), SegmentCounters())
        for _ in 0..<5 {
            let events = (0..<500).map { _ in (UInt32(random.below(9)), FixtureEvent(&random)) }
            let (rows, names) = (Self.block(events), [0, 0, 1, 5, Attribution.other])
            for row in 0..<rows.rowCount {
                rows.campaign[row] = names[Int(random.below(5))]
                rows.source[row] = names[Int(random.below(5))]
            }
            rows.mark.isAttributed = true
            Self.add(rows, to: count)
            #expect(counters.fold(rows) == .folded)
        }
        let folded = counters.encodeTableAndAttributions()
        let counted = try #require(count.rows).table()
        #expect(counted == folded && folded.attributions.count > 90)
        let source = RowSource(folded.table, folded.attributions, name: .lock)
        #expect(try Self.fingerprints([source]).rows == count.fingerprint)
    }

    @Test("A row of a day that it was nowhere at its time is counted, and named")
    func impossibleDay() throws {
        let dayLength = Int64(86_400_000_000)
        func senseless(
            _ event: FixtureEvent, shift: Int64, admissionTime: Int64 = 0, others: Int = 0
        ) throws -> Int {
            let rows = Self.block(Array(repeating: (key: 1, event: event), count: others + 1))
            let time = rows.timestamp[0] + shift
            rows.timestamp[0] = time
            let other = rows.timestamp[others]
            let count = Self.makeCount()
            let outcome = count.count(
                rows, times: (min(time, other), max(time, other)),
                commits: Self.commits(rows, at: admissionTime))
            try Self.expect(
                count, are: Self.sums(Array(repeating: (1, event), count: others + 1)))
            return outcome.senselessCount
        }
        for (shift, isPossible) in [
            (-dayLength - 1, false), (-dayLength, true), (0, true), (2 * dayLength - 1, true),
            (2 * dayLength, false), (Int64.max / 2, false),
        ] {
            for others in [0, 300] {
                let found = try senseless(FixtureEvent(), shift: shift, others: others)
                #expect((found == 0) == isPossible, "\(shift)")
            }
        }
        for (verdict, isPossible) in [
            (Verdict.tooOld, true), (.tooEarly, true), (.noConsent, true), (.invalidTraffic, false),
        ] {
            var event = FixtureEvent()
            event.verdict = verdict
            let time = Int64(event.day) * dayLength
            let found = try senseless(event, shift: -time, admissionTime: time)
            #expect((found == 0) == isPossible, "\(verdict)")
        }
    }

    @Test("A row of a day that there is not, or of no type, is named")
    func senseless() {
        var none = FixtureEvent()
        none.day = Limits.businessDays.upperBound + 1
        let rows = Self.block([(key: 1, event: none), (key: 2, event: FixtureEvent())])
        rows.attributes[1] = 0
        let outcome = RowCount(Self.hash).count(
            rows, times: (rows.timestamp[0], rows.timestamp[0]),
            commits: Self.commits(rows, at: 0))
        #expect(outcome.senselessCount >= 2)
    }

    // MARK: Tables

    /// A table of these rows.
    private static func source(_ rows: Rows, hasDay: Bool = true) throws -> RowSource {
        var encoder = CounterTableEncoder(hasDay: hasDay)
        for (key, row) in rows.sorted(by: { ($0.key.item, $0.key.day) < ($1.key.item, $1.key.day) })
        {
            encoder.append(key: key.item, day: key.day, counters: row)
        }
        let number = FileNumber(rawValue: UInt64.random(in: 1 ... .max))
        return RowSource(
            encoder.finish(), AttributionList(), name: .run(.rewardDays, number))
    }

    /// Rows of keys from 0 on.
    private static func clicks(
        _ clicks: [UInt64], day: Int32 = 20_000, change: (inout CounterRow) -> Void = { _ in }
    ) -> Rows {
        var rows: Rows = [:]
        for (key, count) in clicks.enumerated() {
            var row = CounterRow()
            row[.clicks] = count
            row[.refusedClicks] = UInt64(key % 3) + 1
            row[.revenueMicros] = count * 7_000_000_000
            change(&row)
            rows[Key(item: UInt32(key), day: day)] = row
        }
        return rows
    }

    private static func fold(_ rows: Rows, _ place: (Key) -> Key) -> Rows {
        var sums: Rows = [:]
        for (key, row) in rows {
            let isSum = sums[place(key), default: CounterRow()].add(row)
            #expect(isSum)
        }
        return sums
    }

    /// Holds runs of a table against rows.
    private static func check(
        _ runs: [Rows], _ expected: [Rows], _ kind: TableKind = .rewardDays,
        lostRowCount: UInt64 = 0
    ) throws -> TableCheck.Outcome {
        let table = TableCheck.Table(
            kind: kind, runs: try runs.map { try source($0, hasDay: kind.hasDay) },
            lostRowCount: lostRowCount)
        let check = TableCheck(
            tables: [table], expected: try expected.map { try source($0) },
            business: { $0 % 7 }, hash: hash, workerCount: 2, meter: WorkMeter())
        let (outcomes, failures) = check.run { true }
        #expect(failures.isEmpty)
        return outcomes[0]
    }

    @Test("Tables are held against what their rows come to when they are folded, in any parts")
    func folded() throws {
        var random = SeededRandom(seed: 7)
        let parts = ([20_004, 20_000, 20_002] as [Int32]).map { day in
            Self.clicks((0..<2_500).map { _ in random.below(100) }, day: day)
        }
        let all = parts.reduce(into: Rows()) { $0.merge($1) { first, _ in first } }
        let rewards = Self.fold(all) { Key(item: $0.item, day: 0) }
        let days = Self.fold(all) { Key(item: $0.item % 7, day: $0.day) }
        let prints = try Self.fingerprints(parts.map { try Self.source($0) }, businesses: 7)
        for (kind, rows, print) in [
            (TableKind.rewardDays, all, prints.rows), (.rewards, rewards, prints.rewards),
            (.days, days, prints.days),
        ] {
            let source = try Self.source(rows, hasDay: kind.hasDay)
            #expect(try Self.fingerprints([source]).rows.value == print.value)
            #expect(try Self.check([rows], parts, kind).differences.count == 0)
            var wrong = rows
            wrong[rows.keys.first!]![.clicks] += 1
            #expect(try Self.check([wrong], parts, kind).differences.count == 1)
            wrong[rows.keys.first!] = nil
            #expect(try Self.check([wrong], parts, kind).differences.count == 1)
        }
    }

    @Test("One counter, one row more or less is a difference, in any column")
    func differences() throws {
        let clicks = (0..<1_100).map { UInt64($0 % 7) }
        let good = Self.clicks(clicks)
        #expect(try Self.check([good], [good]).differences.count == 0)
        for column in CounterColumn.allCases {
            let more = Self.clicks(clicks) { $0[column] += 1 }
            #expect(try Self.check([good], [more]).differences.count == clicks.count, "\(column)")
            #expect(try Self.check([more], [good]).differences.count == clicks.count, "\(column)")
        }
        let shorter = Self.clicks(Array(clicks.dropLast()))
        #expect(try Self.check([shorter], [good]).differences.count == 1)
        #expect(try Self.check([good], [shorter]).differences.count == 1)
        let later = Self.clicks(clicks, day: 20_001)
        #expect(try Self.check([later], [good]).differences.count == 2 * clicks.count)
        // A row without a counter, which no fingerprint shows.
        let empty = [Key(item: 5_000, day: 20_000): CounterRow()]
        #expect(try Self.check([good, empty], [good]).differences.count == 1)
        #expect(try Self.check([good], [good, empty]).differences.count == 1)
    }

    @Test("A sum that passes 64 bits is known not to fit, also where both sides have it")
    func overflow() throws {
        let half = Self.clicks([1]) { $0[.redemptions] = 1 << 63 }
        let outcome = try Self.check([half, half], [half, half])
        #expect(outcome.differences.count == 1)
        #expect(outcome.differences.first.map(\.column) == [.redemptions])
        #expect(outcome.differences.first.first?.got == "a sum that does not fit")
        let (rest, one) = (Self.clicks([1]) { $0[.redemptions] = 1 }, Self.clicks([1]))
        #expect(try Self.check([rest, one], [half, half]).differences.count > 0)
        #expect(try Self.check([half], [half]).differences.count == 0)
    }

    @Test("Money is compared in 128 bits, wherever it was carried")
    func wideMoney() throws {
        let half = Self.clicks([1]) { $0[.revenueMicros] = 1 << 63 }
        let other = Self.clicks([1]) { $0[.revenueMicros] = 1 << 63 + 1 }
        let whole = Self.clicks([2]) {
            ($0[.revenueMicros], $0[.revenueMicrosHigh], $0[.refusedClicks]) = (0, 1, 2)
        }
        #expect(try Self.check([half, half], [whole]).differences.count == 0)
        #expect(try Self.check([whole], [half, half]).differences.count == 0)
        let outcome = try Self.check([half, other], [whole])
        let found = try #require(outcome.differences.first.first)
        #expect(outcome.differences.count == 1 && found.column == .revenueMicros)
        #expect(
            Set([found.got, found.expected]) == ["18446744073709551616", "18446744073709551617"])
        let top = Self.clicks([1]) { $0[.revenueMicrosHigh] = 1 << 63 }
        #expect(try Self.check([top, top], [top, top]).differences.count == 1)
    }

    @Test("Counters may be more by as many events as have lost their rows, and never less")
    func lostRows() throws {
        let counted = Self.clicks([5, 2, 9]) { $0[.refusedClicks] = 1 }
        let left = Self.clicks([5, 1]) { $0[.refusedClicks] = 1 }
        // A click of key 1, and key 2 with ten events.
        let exact = try Self.check([counted], [left], lostRowCount: 11)
        #expect(exact.lostRowCount == 11 && exact.differences.count == 0)
        let few = try Self.check([counted], [left], lostRowCount: 10)
        #expect(few.lostRowCount == 0 && few.differences.count == 3)
        let less = try Self.check([left], [counted], lostRowCount: .max)
        #expect(less.differences.count == 3)
    }

    @Test("Windows are all items in order, each once, and a file is not read over and over")
    func windows() throws {
        let source = try Self.source(Self.clicks(Array(repeating: 1, count: 100_000)))
        let windows = TableCheck.windows(of: [source, source], rowCount: 16 << 10)
        #expect(windows.first?.lowerBound == 0 && windows.last?.upperBound == .max)
        for (one, next) in zip(windows, windows.dropFirst()) {
            #expect(next.lowerBound == one.upperBound + 1)
        }
        #expect(windows.count > 5 && windows.count < 20)
        #expect(TableCheck.windows(of: [], rowCount: 1) == [0...UInt32.max])
    }
}
