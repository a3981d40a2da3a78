import IngestFormat
import IngestReader
import IngestStorage
import TestSupport
import Testing

@Suite struct QueryTests {
    /// Names whose bytewise order is not Swift's, whose beginnings are other names, with `#` and zeros.
    static let awkward = [
        "a", "a#", "a!", "a#2026-01-01", "a\u{0}", "a\u{0}\u{1}", "ä", "a\u{308}", "z", "Z", "日本",
        "reward-000000001", "reward-000000002", "reward-00000000", "~", "\u{1F600}",
    ]

    static func model(seed: UInt64, factCount: Int) -> ReferenceModel {
        var random = SeededRandom(seed: seed)
        var model = ReferenceModel()
        for _ in 0..<factCount {
            var row = CounterRow()
            for column in CounterColumn.allCases where random.next() % 3 == 0 {
                // Some money passes 64 bits together.
                row[column] =
                    column.high == nil ? random.next() % 50 : random.next() << (random.next() % 60)
            }
            model.facts.append(
                ReferenceModel.Fact(
                    reward: awkward[Int(random.next() % UInt64(awkward.count))],
                    business: awkward[Int(random.next() % UInt64(awkward.count))],
                    day: 20_450 + Int32(random.next() % 9), row: row))
        }
        return model
    }

    static let ranges: [DayRange] = [
        .all, DayRange(from: CivilDay(dayNumber: 20_452)),
        DayRange(to: CivilDay(dayNumber: 20_455)),
        DayRange(from: CivilDay(dayNumber: 20_453), to: CivilDay(dayNumber: 20_453)),
        DayRange(from: CivilDay(dayNumber: 30_000)),
    ]

    @Test("An index of names and keys finds what a pass over all finds")
    func index() throws {
        var random = SeededRandom(seed: 5)
        var table = NameTable(
            firstName: 3, firstKey: 2, hash: KeyedHash(key: InlineArray(repeating: 7)))
        let names = (0..<500).map { Array("name \($0)".utf8) }
        for (place, name) in names.enumerated() where place % 7 != 3 {
            _ = table.enter(name: NameOrdinal(rawValue: 3 + UInt32(place)), bytes: name)
            _ = table.enter(
                key: KeyOrdinal(rawValue: 2 + UInt32(place)),
                RewardKey(
                    reward: NameOrdinal(rawValue: 3 + UInt32(random.below(40))),
                    business: NameOrdinal(rawValue: 3)))
        }
        var indexed = table
        indexed.makeIndex()
        for name in names + [Array("other".utf8), []] {
            #expect(try indexed.storedOrdinal(of: name) == table.storedOrdinal(of: name))
        }
        #expect(try indexed.storedOrdinal(of: names[0]) == NameOrdinal(rawValue: 3))
        #expect(try indexed.storedOrdinal(of: names[3]) == nil)
        for reward in 0..<60 as Range<UInt32> {
            let reward = NameOrdinal(rawValue: reward)
            #expect(try indexed.keys(ofReward: reward) == table.keys(ofReward: reward))
        }
    }

    @Test("Listings are those of a plain reference model", arguments: [1, 2, 3, 4] as [UInt64])
    func listings(seed: UInt64) throws {
        let model = Self.model(seed: seed, factCount: 40 * Int(seed * seed))
        let query = QueryRows(MemorySource(model))
        for business in [nil, "a", "a#", "ä", "never seen"] as [String?] {
            // Rows are equal where ids are equal texts; the order is one of bytes.
            let ids = try query.rewards(RewardsQuery(business: business)).map { Array($0.id.utf8) }
            let expected = model.rewards(RewardsQuery(business: business))
            #expect(ids == expected.map { Array($0.id.utf8) })
            for days in Self.ranges {
                let daysQuery = DaysQuery(business: business, days: days)
                #expect(try query.days(daysQuery) == model.days(daysQuery))
                for order in [nil] + RewardsQuery.Order.allCases.map(Optional.some) {
                    for top in [nil, 0, 1, 5, 1_000] as [Int?] {
                        let rewards = RewardsQuery(
                            business: business, days: days, order: order, limit: top)
                        #expect(try query.rewards(rewards) == model.rewards(rewards))
                    }
                }
                for reward in [nil, "a", "Z", "never seen"] as [String?] {
                    let wanted = RewardDaysQuery(reward: reward, business: business, days: days)
                    #expect(try query.rewardDays(wanted) == model.rewardDays(wanted))
                }
            }
        }
    }

    @Test("One reward, at all businesses and at one, is that of the model")
    func rewardPoint() throws {
        let model = Self.model(seed: 9, factCount: 150)
        let query = QueryRows(MemorySource(model))
        for id in Self.awkward + ["never seen", ""] {
            for business in [nil, "a", "日本", "never seen"] as [String?] {
                let expected = model.rewards(RewardsQuery(business: business))
                    .first { $0.id.utf8.elementsEqual(id.utf8) }
                #expect(try query.reward(id, business: business) == expected)
            }
        }
    }

    @Test("One business-day is that of the model, a day without events is absent")
    func dayPoint() throws {
        let model = Self.model(seed: 10, factCount: 150)
        let query = QueryRows(MemorySource(model))
        for business in Self.awkward + ["never seen"] {
            for day in Int32(20_449)...20_460 {
                let date = CivilDay(dayNumber: day)
                let expected = model.days(
                    DaysQuery(business: business, days: DayRange(from: date, to: date)))
                #expect(try query.day(business: business, date: date) == expected.first)
            }
        }
    }

    @Test("A name or key whose block was lost is shown by its ordinal and can be asked for")
    func lostNames() throws {
        let source = LostSource()
        let query = QueryRows(source)
        let rows = try query.rewards(RewardsQuery())
        #expect(rows.map(\.id) == ["(lost:1)", "(lost:7)", "known"])
        #expect(rows.map(\.businessID) == ["shop", "(lost:0)", "shop"])
        #expect(try query.reward("(lost:1)", business: nil)?.counters.clicks == 1)
        #expect(try query.reward("(lost:7)", business: nil)?.counters.clicks == 100)
        #expect(try query.reward("(lost:2)", business: nil) == nil)
        #expect(
            try query.rewardDays(RewardDaysQuery(business: "(lost:0)")).map(\.id) == ["(lost:7)"])
        #expect(try query.days(DaysQuery()).map(\.businessID) == ["(lost:0)", "shop"])
    }

    @Test("A sum that does not fit 64 bits is an error, not a trap")
    func overflow() {
        var model = ReferenceModel()
        var row = CounterRow()
        row[.clicks] = .max
        for _ in 0..<2 {
            model.facts.append(.init(reward: "r", business: "b", day: 1, row: row))
        }
        let query = QueryRows(MemorySource(model))
        #expect(throws: ReaderError.self) { try query.rewards(RewardsQuery()) }
        #expect(throws: ReaderError.self) { try query.days(DaysQuery()) }
        #expect(throws: ReaderError.self) { try query.rewardDays(RewardDaysQuery()) }
    }
}

/// All rows of a query, as a program would gather them.
struct QueryRows {
    let query: CounterQuery

    init(
        _ source: some CounterSource, rowCountMax: Int = Limits.queryRowCountMax,
        partKeyCountMin: Int = 1 << 16
    ) {
        query = CounterQuery(source, rowCountMax: rowCountMax, partKeyCountMin: partKeyCountMin)
    }

    func reward(_ id: String, business: String?) throws -> RewardRow? {
        try query.reward(id, business: business)
    }

    func day(business: String, date: CivilDay) throws -> DayRow? {
        try query.day(business: business, date: date)
    }

    func rewards(_ wanted: RewardsQuery) throws -> [RewardRow] {
        var rows: [RewardRow] = []
        try wanted.forEachRow(in: query) {
            rows.append($0)
            return true
        }
        return rows
    }

    func days(_ wanted: DaysQuery) throws -> [DayRow] {
        var rows: [DayRow] = []
        try wanted.forEachRow(in: query) {
            rows.append($0)
            return true
        }
        return rows
    }

    func rewardDays(_ wanted: RewardDaysQuery) throws -> [RewardDayRow] {
        var rows: [RewardDayRow] = []
        try wanted.forEachRow(in: query) {
            rows.append($0)
            return true
        }
        return rows
    }
}

/// Name 1 lost, key 7 lost; key 0 = (lost, shop), key 1 = (known, shop).
private struct LostSource: CounterSource {
    func makeNames() -> any NameSource {
        var table = NameTable(hash: KeyedHash(key: [UInt8](repeating: 3, count: 32))!)
        _ = table.enter(name: NameOrdinal(rawValue: 2), bytes: Array("shop".utf8))
        _ = table.enter(name: NameOrdinal(rawValue: 3), bytes: Array("known".utf8))
        for (key, reward) in [(UInt32(0), UInt32(1)), (1, 3), (8, 3)] {
            _ = table.enter(
                key: KeyOrdinal(rawValue: key),
                RewardKey(
                    reward: NameOrdinal(rawValue: reward), business: NameOrdinal(rawValue: 2)))
        }
        return table
    }

    private let rows: [(key: UInt32, clicks: UInt64)] = [(0, 1), (1, 10), (7, 100)]

    func forEachPage(
        of table: TableKind, _ columns: CounterColumnSet, _ keys: ClosedRange<UInt32>,
        _ names: any NameSource, _ body: (CounterPage) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        var found: [SourceRow] = []
        for entry in rows {
            try forEachRow(of: table, entry) { ordinal, day, row in
                found.append(SourceRow(ordinal: ordinal, day: day, counters: row))
            }
        }
        try SourceRow.givePages(found, keys, body)
    }

    func forEachRow(
        of table: TableKind, _ point: CounterPoint, _ names: any NameSource,
        _ body: (Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        for entry in rows {
            try forEachRow(of: table, entry) { (found, day, row) throws(ReaderError) in
                if found == point.key { try body(day, row) }
            }
        }
    }

    private func forEachRow(
        of table: TableKind, _ entry: (key: UInt32, clicks: UInt64),
        _ body: (UInt32, Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        var row = CounterRow()
        row[.clicks] = entry.clicks
        let ordinal = table == .days ? (entry.key == 7 ? 0 : 2) : entry.key
        try body(ordinal, table.hasDay ? 20_000 : 0, row)
    }
}
