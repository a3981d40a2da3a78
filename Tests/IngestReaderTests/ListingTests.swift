import IngestFormat
import IngestStorage
import TestSupport
import Testing

@testable import IngestReader

/// Listings in ranges, the order of ids, and the greatest of many: what needs more rows, or other names, than
/// the tests of single queries.
@Suite struct ListingTests {
    private static let limits: [(reward: String?, limit: Int?)] = [
        (nil, nil), (nil, 0), (nil, 5), ("a", 2),
    ]

    @Test("A slab that is cleared for more rows than before has nothing of earlier ones")
    func clearedSlab() {
        let slab = CounterSlab(capacity: 5)
        func counters(_ factor: UInt64) -> CounterRow {
            var row = CounterRow()
            for column in CounterColumn.allCases {
                row[column] = factor * UInt64(column.rawValue + 1)
            }
            return row
        }
        // The first row has no rare counter; those of the second are there for all that come later.
        for (count, factors) in [(1, [0]), (2, [3, 0]), (5, [0, 7, 0, 0, 1]), (3, [0, 0, 9])]
            as [(Int, [UInt64])]
        {
            slab.clear(count)
            var read = counters(99)
            for slot in 0..<count {
                slab.read(slot, into: &read)
                #expect(read == CounterRow(), "\(count) rows, \(slot)")
            }
            for (slot, factor) in factors.enumerated() { slab.set(counters(factor), slot) }
            for (slot, factor) in factors.enumerated() {
                slab.read(slot, into: &read)
                #expect(read == counters(factor), "\(count) rows, \(slot)")
            }
            // Over what is there.
            slab.set(CounterRow(), count - 1)
            slab.read(count - 1, into: &read)
            #expect(read == CounterRow(), "\(count) rows, set again")
        }
    }

    @Test("Listings are the same however few rows are held at a time", arguments: [1, 2, 7, 64])
    func ranges(rowCountMax: Int) throws {
        let model = QueryTests.model(seed: 21, factCount: 700)
        let query = QueryRows(MemorySource(model), rowCountMax: rowCountMax)
        for business in [nil, "a"] as [String?] {
            for days in QueryTests.ranges {
                for top in [nil, 3] as [Int?] {
                    let rewards = RewardsQuery(business: business, days: days, limit: top)
                    #expect(try query.rewards(rewards) == model.rewards(rewards))
                }
                for (reward, limit) in Self.limits {
                    let wanted = RewardDaysQuery(
                        reward: reward, business: business, days: days, limit: limit)
                    #expect(try query.rewardDays(wanted) == model.rewardDays(wanted))
                }
                for limit in [nil, 0, 2] as [Int?] {
                    let wanted = DaysQuery(business: business, days: days, limit: limit)
                    #expect(try query.days(wanted) == model.days(wanted))
                }
            }
        }
    }

    /// Businesses inside of others, some of whose names are dates, or begin like the dates of events.
    @Test("Ids of days are in bytewise order whatever the names of businesses", arguments: 1...8)
    func dayOrder(seed: Int) throws {
        var random = SeededRandom(seed: UInt64(seed))
        let parts = [
            "a", "#", "!", "2025-12-30", "2025-12-3", "2026", "-", "0", "9", "~", "#2026-01-01",
        ]
        var model = ReferenceModel()
        for _ in 0..<120 {
            var business = "a"
            for _ in 0..<random.below(5) {
                business += parts[Int(random.below(UInt64(parts.count)))]
            }
            var row = CounterRow()
            row[.clicks] = random.below(9)
            for _ in 0..<3 {
                model.facts.append(
                    .init(
                        reward: "r", business: business,
                        day: 20_450 + Int32(random.below(9)), row: row))
            }
        }
        for rowCountMax in [1, 5, 1_000] {
            let query = QueryRows(MemorySource(model), rowCountMax: rowCountMax)
            #expect(try query.days(DaysQuery()) == model.days(DaysQuery()))
        }
    }

    /// Where each reward has one key, sums are gone through by stretches; else those of all keys are held.
    @Test(
        "The greatest of many are those that sorting all finds, with equal ones by name",
        arguments: [(false, 1 << 16), (true, 1 << 16), (true, 1_000)])
    func greatest(isDistinct: Bool, partKeyCountMin: Int) throws {
        var random = SeededRandom(seed: 3)
        var model = ReferenceModel()
        for number in 0..<6_000 {
            var row = CounterRow()
            // A quarter differs, the rest is equal: more equal ones than are looked up one by one.
            row[.impressions] = number % 4 == 0 ? random.below(1_000) : 5
            row[.clicks] = random.below(3)
            row[.revenueMicros] = number % 9 == 0 ? random.below(1_000) : 0
            let name = isDistinct ? number * 7_919 % 6_007 : Int(random.below(9_000))
            model.facts.append(
                .init(
                    reward: "reward-\(name)",
                    business: "b\(random.below(4))", day: 20_000, row: row))
        }
        let query = QueryRows(MemorySource(model), partKeyCountMin: partKeyCountMin)
        for order in [RewardsQuery.Order.impressions, .ctr, .revenue] {
            let all = model.rewards(RewardsQuery(order: order))
            for top in [10, 3_000, 5_000, 20_000] {
                let found = try query.rewards(RewardsQuery(order: order, limit: top))
                #expect(found == Array(all.prefix(top)), "\(order) \(top)")
            }
        }
    }

    /// Rewards have keys in several parts, and rows in several pages.
    @Test("The greatest are the same in however many parts of the keys", arguments: 1...2)
    func parts(seed: Int) throws {
        let model = QueryTests.model(seed: UInt64(seed), factCount: 300)
        let source = MemorySource(model)
        for partKeyCountMin in [1, 40] {
            let query = QueryRows(source, partKeyCountMin: partKeyCountMin)
            for order in RewardsQuery.Order.allCases {
                for days in QueryTests.ranges {
                    for business in [nil, "a", "ä"] as [String?] {
                        let wanted = RewardsQuery(
                            business: business, days: days, order: order, limit: 9)
                        #expect(
                            try query.rewards(wanted) == model.rewards(wanted), "\(wanted)")
                    }
                }
            }
        }
    }

    @Test("The greatest are found by sums of any width that fits 64 bits", arguments: 1...3)
    func widths(count: Int) throws {
        // Of each as many as fit 31 bits, 63, 64.
        let sums: [[UInt64]] = [
            [3, 1 << 31 - 1], [1 << 31, 1 << 40], [1 << 63 - 1, 1 << 63, .max],
        ]
        var model = ReferenceModel()
        let wanted = sums.prefix(count).flatMap { $0 }
        for (place, sum) in wanted.enumerated() {
            for part in [sum / 2, sum - sum / 2] {
                var row = CounterRow()
                row[.clicks] = part
                row[.spendMicros] = part
                model.facts.append(
                    .init(reward: "r\(place)", business: "b", day: 20_000, row: row))
            }
        }
        let query = QueryRows(MemorySource(model), partKeyCountMin: 1)
        for order in [RewardsQuery.Order.clicks, .spend] {
            let found = try query.rewards(RewardsQuery(order: order, limit: wanted.count))
            #expect(found.map(\.counters.clicks) == wanted.reversed())
            #expect(found.map(\.id) == wanted.indices.reversed().map { "r\($0)" })
        }
    }

    @Test("A sum of a reward's keys that does not fit 64 bits is an error of the greatest too")
    func overflow() throws {
        for businesses in [["b", "b"], ["b", "c"]] {
            var model = ReferenceModel()
            var row = CounterRow()
            row[.clicks] = .max
            for business in businesses {
                model.facts.append(.init(reward: "r", business: business, day: 1, row: row))
            }
            let query = QueryRows(MemorySource(model), partKeyCountMin: 1)
            for order in [RewardsQuery.Order.clicks, .ctr] {
                #expect(throws: ReaderError.self) {
                    try query.rewards(RewardsQuery(order: order, limit: 1))
                }
            }
        }
    }

    @Test("A body that says no ends a listing at that row")
    func ended() throws {
        let model = QueryTests.model(seed: 4, factCount: 300)
        let query = CounterQuery(MemorySource(model), rowCountMax: 4)
        for limit in 1...9 {
            var counts = [0, 0, 0, 0]
            func take(_ kind: Int) -> Bool {
                counts[kind] += 1
                return counts[kind] < limit
            }
            try RewardsQuery().forEachRow(in: query) { _ in take(0) }
            try RewardsQuery(order: .clicks).forEachRow(in: query) { _ in take(1) }
            try DaysQuery().forEachRow(in: query) { _ in take(2) }
            try RewardDaysQuery().forEachRow(in: query) { _ in take(3) }
            #expect(counts == [limit, limit, limit, limit])
        }
    }

    @Test("A row of a key or a day that there cannot be is damage, not a trap")
    func impossible() throws {
        for (key, day) in [(UInt32(9), Int32(20_000)), (.max, 1), (0, 106_653), (0, -2), (0, .min)]
        {
            let query = QueryRows(OneRow(key: key, days: [day]))
            #expect(throws: ReaderError.self) { try query.rewardDays(RewardDaysQuery()) }
            #expect(throws: ReaderError.self) { try query.days(DaysQuery()) }
            let days = DayRange(from: CivilDay(dayNumber: .min))
            #expect(throws: ReaderError.self) { try query.rewards(RewardsQuery(days: days)) }
            #expect(throws: ReaderError.self) {
                try query.rewards(RewardsQuery(days: days, order: .ctr))
            }
        }
        let sound = QueryRows(OneRow(key: 0, days: [106_652]))
        #expect(try sound.rewardDays(RewardDaysQuery()).count == 1)
    }

    @Test(
        "Days come in any order; one that was not there when they were counted is damage, not a trap"
    )
    func daysInAnyOrder() throws {
        let days: [Int32] = [20_007, 20_003, 20_005, 20_003, 20_009, 20_001, 20_007]
        let found = try QueryRows(OneRow(key: 0, days: days)).rewardDays(RewardDaysQuery())
        #expect(found.map(\.date.dayNumber) == [20_001, 20_003, 20_005, 20_007, 20_009])
        #expect(found.map(\.counters.clicks) == [1, 2, 1, 2, 1])
        for (counted, folded) in [([5], [5, 6]), ([5], [6, 5]), ([5, 6], [6, 5, 4])]
            as [([Int32], [Int32])]
        {
            let query = QueryRows(OneRow(key: 0, days: folded, countedDays: counted))
            #expect(throws: ReaderError.self) { try query.rewardDays(RewardDaysQuery()) }
            #expect(throws: ReaderError.self) { try query.days(DaysQuery()) }
        }
    }

    @Test("A text of a lost name is read only as it is shown")
    func lostTexts() {
        for ordinal in [0, 1, 7, 10, 123_456, UInt32.max] {
            #expect(LostText.ordinal(LostText.bytes(ordinal)) == ordinal)
        }
        let others = [
            "(lost:)", "(lost:+1)", "(lost:01)", "(lost:4294967296)", "(lost:1", "lost:1)",
        ]
        for text in others {
            #expect(LostText.ordinal(Array(text.utf8)) == nil, "\(text)")
        }
    }

    @Test("Lost names stand among the others where their texts do")
    func lostOrder() throws {
        let known = ["(lost", "(lost:", "(lost:1000)", "(lost:10x", "(lot", "a"]
        var model = ReferenceModel()
        for name in known {
            model.facts.append(.init(reward: name, business: "b", day: 1, row: CounterRow()))
        }
        let lostCount: UInt32 = 1_100
        let source = MemorySource(model, lostCount: lostCount)
        let ids = try QueryRows(source).rewards(RewardsQuery()).map(\.id)
        let lost = (0..<lostCount).map { "(lost:\(source.firstLost + $0))" }
        #expect(ids == (known + lost).sorted(by: ReferenceModel.bytewise))
    }
}

/// A row a page, each of one click, of a given key (of `days`: business); key 0 is (name 1, name 1).
private struct OneRow: CounterSource {
    let key: UInt32
    let days: [Int32]
    /// What is found where rows are counted.
    let countedDays: [Int32]

    init(key: UInt32, days: [Int32], countedDays: [Int32]? = nil) {
        (self.key, self.days, self.countedDays) = (key, days, countedDays ?? days)
    }

    func makeNames() -> any NameSource {
        var table = NameTable(hash: KeyedHash(key: [UInt8](repeating: 3, count: 32))!)
        let name = NameOrdinal(rawValue: 1)
        _ = table.enter(name: name, bytes: Array("n".utf8))
        _ = table.enter(key: KeyOrdinal(rawValue: 0), RewardKey(reward: name, business: name))
        return table
    }

    func forEachPage(
        of table: TableKind, _ columns: CounterColumnSet, _ keys: ClosedRange<UInt32>,
        _ names: any NameSource, _ body: (CounterPage) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        var counters = CounterRow()
        counters[.clicks] = 1
        let ordinal = table == .days && key == 0 ? 1 : key
        for day in columns.isEmpty ? countedDays : days {
            let row = SourceRow(ordinal: ordinal, day: day, counters: counters)
            try SourceRow.givePages([row], keys, body)
        }
    }

    func forEachRow(
        of table: TableKind, _ point: CounterPoint, _ names: any NameSource,
        _ body: (Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {}
}
