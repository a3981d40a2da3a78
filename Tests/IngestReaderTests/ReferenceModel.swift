import IngestFormat
import IngestReader

extension RewardRow {
    init(id: String, businessID: String, businessCount: Int, counters: Counters) {
        var row = ListedRow()
        row.id = Array(id.utf8)
        row.business = Array(businessID.utf8)
        row.businessCount = businessCount
        row.counters = counters.row
        self.init(row)
    }
}

extension DayRow {
    init(businessID: String, date: CivilDay, counters: Counters) {
        var row = ListedRow()
        row.id = Array(businessID.utf8)
        row.business = row.id
        row.day = date.dayNumber
        row.counters = counters.row
        self.init(row)
    }
}

extension RewardDayRow {
    init(id: String, businessID: String, date: CivilDay, counters: Counters) {
        var row = ListedRow()
        row.id = Array(id.utf8)
        row.business = Array(businessID.utf8)
        row.day = date.dayNumber
        row.counters = counters.row
        self.init(row)
    }
}

/// What queries must answer, computed in the plainest way: a list of (reward, business, day, counters)
/// facts, filtered and added up by dictionaries of strings.
struct ReferenceModel {
    struct Fact {
        let reward: String
        let business: String
        let day: Int32
        let row: CounterRow
        var campaign: String?
        var source: String?
        var isOverflow = false
    }
    var facts: [Fact] = []

    // Swift takes texts for equal that differ in bytes ("ä" in one scalar and in two); ids are bytes.
    static func same(_ a: String, _ b: String) -> Bool { a.utf8.elementsEqual(b.utf8) }

    static func bytewise(_ a: String, _ b: String) -> Bool {
        Array(a.utf8).lexicographicallyPrecedes(Array(b.utf8))
    }

    private static func sum(_ facts: [Fact]) -> Counters {
        var sum = CounterRow()
        for fact in facts { precondition(sum.add(fact.row)) }
        return Counters(sum)
    }

    func matching(reward: String?, business: String?, days: DayRange) -> [Fact] {
        facts.filter { fact in
            (reward.map { Self.same(fact.reward, $0) } ?? true)
                && (business.map { Self.same(fact.business, $0) } ?? true)
                && days.contains(CivilDay(dayNumber: fact.day))
        }
    }

    func rewards(_ query: RewardsQuery) -> [RewardRow] {
        let facts = matching(reward: nil, business: query.business, days: query.days)
        var rows = Dictionary(grouping: facts) { Array($0.reward.utf8) }.values.map { facts in
            let businesses = Set(facts.map { Array($0.business.utf8) })
                .sorted { $0.lexicographicallyPrecedes($1) }
            return RewardRow(
                id: facts[0].reward, businessID: String(decoding: businesses[0], as: UTF8.self),
                businessCount: businesses.count, counters: Self.sum(facts))
        }
        rows.sort { Self.bytewise($0.id, $1.id) }
        if let order = query.order {
            let ordered = rows.enumerated().sorted { a, b in
                let (x, y) = (Self.measure(a.element, order), Self.measure(b.element, order))
                return x == y ? a.offset < b.offset : x > y
            }
            rows = ordered.map(\.element)
        }
        return Array(rows.prefix(query.limit ?? rows.count))
    }

    private static func measure(_ row: RewardRow, _ order: RewardsQuery.Order) -> Double {
        switch order {
        case .impressions: Double(row.counters.impressions)
        case .clicks: Double(row.counters.clicks)
        case .redemptions: Double(row.counters.redemptions)
        case .revenue: Double(row.counters.revenue.micros)
        case .spend: Double(row.counters.spend.micros)
        case .ctr:
            row.counters.impressions == 0
                ? -1 : Double(row.counters.clicks) / Double(row.counters.impressions)
        }
    }

    func days(_ query: DaysQuery) -> [DayRow] {
        let facts = matching(reward: nil, business: query.business, days: query.days)
        let groups = Dictionary(grouping: facts) {
            [Array($0.business.utf8), Array("\($0.day)".utf8)]
        }
        let rows = groups.values.map { facts in
            DayRow(
                businessID: facts[0].business, date: CivilDay(dayNumber: facts[0].day),
                counters: Self.sum(facts))
        }.sorted { Self.bytewise($0.id, $1.id) }
        return Array(rows.prefix(query.limit ?? rows.count))
    }

    func campaigns(_ query: CampaignsQuery) -> [CampaignRow] {
        struct Group: Hashable, Comparable {
            let reward, business: [UInt8]
            let campaign, source: [UInt8]?
            let isOverflow: Bool

            static func < (a: Self, b: Self) -> Bool {
                // None before any.
                func texts(_ group: Group) -> [[UInt8]] {
                    [group.reward, group.business]
                        + [group.campaign, group.source].map { $0.map { [1] + $0 } ?? [0] }
                }
                for (first, second) in zip(texts(a), texts(b)) where first != second {
                    return first.lexicographicallyPrecedes(second)
                }
                return !a.isOverflow && b.isOverflow
            }
        }
        let facts = matching(reward: query.reward, business: query.business, days: query.days)
        let groups = Dictionary(grouping: facts) { fact in
            Group(
                reward: Array(fact.reward.utf8), business: Array(fact.business.utf8),
                campaign: fact.campaign.map { Array($0.utf8) },
                source: fact.source.map { Array($0.utf8) }, isOverflow: fact.isOverflow)
        }
        return groups.sorted { $0.key < $1.key }.map { group, facts in
            CampaignRow(
                id: group.reward, business: group.business, campaign: group.campaign,
                source: group.source, isOverflow: group.isOverflow,
                counters: Self.sum(facts).row)
        }
    }

    func rewardDays(_ query: RewardDaysQuery) -> [RewardDayRow] {
        let facts = matching(reward: query.reward, business: query.business, days: query.days)
        let groups = Dictionary(grouping: facts) {
            [Array($0.reward.utf8), Array($0.business.utf8), Array("\($0.day)".utf8)]
        }
        let rows = groups.values.map { facts in
            RewardDayRow(
                id: facts[0].reward, businessID: facts[0].business,
                date: CivilDay(dayNumber: facts[0].day), counters: Self.sum(facts))
        }.sorted { a, b in
            if a.id.utf8.elementsEqual(b.id.utf8) {
                return a.businessID.utf8.elementsEqual(b.businessID.utf8)
                    ? a.date < b.date : Self.bytewise(a.businessID, b.businessID)
            }
            return Self.bytewise(a.id, b.id)
        }
        return Array(rows.prefix(query.limit ?? rows.count))
    }
}

/// Facts in memory as a source of rows, as the parts of a cut would give them: in pieces, unsorted.
struct MemorySource: CounterSource {
    private var table = NameTable(hash: KeyedHash(key: [UInt8](repeating: 3, count: 32))!)
    func makeNames() -> any NameSource { table }
    private var rows: [(key: UInt32, business: UInt32, day: Int32, row: CounterRow)] = []

    /// The first of the lost keys, each of which has a row.
    private(set) var firstLost: UInt32 = 0

    /// - Parameter lostCount: rows of so many keys that are not known, behind those of the model.
    init(_ model: ReferenceModel, lostCount: UInt32 = 0) {
        var nameOrdinals: [[UInt8]: UInt32] = [:]
        var keyOrdinals: [RewardKey: UInt32] = [:]
        for fact in model.facts {
            for name in [fact.reward, fact.business].map({ Array($0.utf8) })
            where nameOrdinals[name] == nil {
                nameOrdinals[name] = UInt32(nameOrdinals.count + 1)
                precondition(
                    table.enter(
                        name: NameOrdinal(rawValue: nameOrdinals[name]!), bytes: name))
            }
            let key = RewardKey(
                reward: NameOrdinal(rawValue: nameOrdinals[Array(fact.reward.utf8)]!),
                business: NameOrdinal(rawValue: nameOrdinals[Array(fact.business.utf8)]!))
            if keyOrdinals[key] == nil {
                keyOrdinals[key] = UInt32(keyOrdinals.count)
                precondition(table.enter(key: KeyOrdinal(rawValue: keyOrdinals[key]!), key))
            }
            rows.append((keyOrdinals[key]!, key.business.rawValue, fact.day, fact.row))
        }
        firstLost = UInt32(keyOrdinals.count)
        if lostCount == 0 { return }
        for key in firstLost..<firstLost + lostCount { rows.append((key, 0, 1, CounterRow())) }
        // A key behind them, so that they are below the next one.
        let last = RewardKey(reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 1))
        _ = table.enter(key: KeyOrdinal(rawValue: firstLost + lostCount), last)
    }

    func forEachPage(
        of table: TableKind, _ columns: CounterColumnSet, _ keys: ClosedRange<UInt32>,
        _ names: any NameSource, _ body: (CounterPage) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let entries = rows.map { entry in
            SourceRow(
                ordinal: table == .days ? entry.business : entry.key,
                day: table.hasDay ? entry.day : 0, counters: entry.row)
        }
        try SourceRow.givePages(entries, keys, body)
    }

    func forEachRow(
        of table: TableKind, _ point: CounterPoint, _ names: any NameSource,
        _ body: (Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        for entry in rows where (table == .days ? entry.business : entry.key) == point.key {
            if table.hasDay && !point.days.contains(entry.day) { continue }
            try body(table.hasDay ? entry.day : 0, entry.row)
        }
    }
}

/// A row as a source gives it.
struct SourceRow {
    var ordinal: UInt32
    var day: Int32
    var counters: CounterRow

    /// Gives rows in their order, in small pages inside of which they ascend.
    static func givePages(
        _ rows: [SourceRow], _ keys: ClosedRange<UInt32>,
        _ body: (CounterPage) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let page = CounterPage()
        var last: UInt64?
        for row in rows where keys.contains(row.ordinal) {
            let order = CounterPage.order(key: row.ordinal, day: row.day)
            if let before = last, page.rowCount == 7 || order <= before {
                try body(page)
                page.removeAll()
            }
            precondition(page.append(key: row.ordinal, day: row.day, counters: row.counters))
            last = order
        }
        if page.rowCount > 0 { try body(page) }
    }
}
