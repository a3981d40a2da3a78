import IngestFormat
import IngestStorage
import TestSupport
import Testing

@testable import IngestReader

/// The rows that `explain` gives of a counter, added up as docs/counting.md says.
@Suite struct ExplainTests {
    /// What a listed row adds, by the words of the page once more.
    private static func added(by event: EventRow) -> CounterRow {
        var fact = FixtureEvent()
        fact.type = event.kind
        fact.verdict = event.verdict
        fact.isMeasured = event.viewability != nil
        fact.money = event.revenue.map {
            (Int64($0.micros), Int64(event.spend?.micros ?? 0))
        }
        fact.hasEventID = event.hasEventID
        fact.hasSession = event.hasSession
        fact.isOutsideWindow = event.isUnchecked
        fact.isOrphan = event.isOrphan
        fact.isOfOther = event.isOverflow
        return fact.row
    }

    private static func sum(_ reader: IngestReader, _ query: EventsQuery) throws -> CounterRow {
        var sum = CounterRow()
        try reader.forEachEvent(query) { event in
            let fits = sum.add(added(by: event))
            #expect(fits)
            return .next
        }
        return sum
    }

    @Test("The rows of every counter add up to it", arguments: UInt64(1)...4)
    func everyCounter(seed: UInt64) throws {
        let reader = try LogFixture.random(seed: seed).reader
        var columns: Set<CounterColumn> = []
        for row in try reader.rewards() {
            #expect(try Self.sum(reader, EventsQuery(reward: row.id)) == row.counters.row)
            columns.formUnion(CounterColumn.allCases.filter { row.counters.row[$0] > 0 })
        }
        #expect(columns == Set(CounterColumn.allCases.filter { !$0.isHigh }))
        for row in try reader.rewardDays() {
            let query = EventsQuery(
                reward: row.id, business: row.businessID,
                days: DayRange(from: row.date, to: row.date))
            #expect(try Self.sum(reader, query) == row.counters.row)
        }
        for row in try reader.days() {
            let query = EventsQuery(
                business: row.businessID, days: DayRange(from: row.date, to: row.date))
            #expect(try Self.sum(reader, query) == row.counters.row)
        }
        for query in [
            EventsQuery(reward: "reward-1", business: "nobody"), EventsQuery(business: "nobody"),
            EventsQuery(reward: "(lost:3)"), EventsQuery(business: "(lost:0)"),
            EventsQuery(reward: ""),
        ] { #expect(try Self.sum(reader, query) == CounterRow(), "\(query)") }
    }

    @Test("Where rows have expired, the others are given, and the counter has more")
    func expired() throws {
        let fixture = try LogFixture.random(seed: 5)
        let facts = fixture.model.facts
        let before = try fixture.reader.rewards()
        try fixture.expire(2)
        let reader = try fixture.reader
        #expect(reader.hasExpiredRows)
        var count = 0
        for row in before {
            let sum = try Self.sum(reader, EventsQuery(reward: row.id))
            for type in 0..<3 {
                #expect(sum.gross(ofType: type) <= row.counters.row.gross(ofType: type))
                count += Int(sum.gross(ofType: type))
            }
        }
        #expect(count > 0 && count < facts.count)
    }

    @Test("Neither blocks of segments without the key are read, nor those before it had a number")
    func skipped() throws {
        let fixture = try LogFixture()
        func event(_ reward: String, _ business: String = "b") -> FixtureEvent {
            var event = FixtureEvent()
            (event.reward, event.business) = (reward, business)
            return event
        }
        var damaged: [(name: String, byte: Int)] = []
        func damageLast() {
            damaged.append(
                (FileName.segment(fixture.position.segment).text, fixture.lastBlock.upperBound - 20)
            )
        }
        try fixture.beginSegment()
        try fixture.append([event("r 1")])
        damageLast()
        try fixture.append([event("r 2", "c"), event("r 1")])
        try fixture.seal()
        try fixture.beginSegment()
        try fixture.append([event("r 1")])
        damageLast()
        try fixture.seal()
        try fixture.publish()
        let reader = try fixture.reader
        for place in damaged { fixture.flip(place.name, byte: place.byte) }
        for query in [EventsQuery(reward: "r 2"), EventsQuery(business: "c")] {
            #expect(try Self.sum(reader, query)[.impressions] == 1)
        }
        let error = #expect(throws: ReaderError.self) {
            try Self.sum(reader, EventsQuery(reward: "r 1"))
        }
        #expect(error?.kind == .corrupt)
        // A segment that is gone is no segment without the key.
        try fixture.files.unlink(damaged[1].name)
        #expect(throws: ReaderError.self) { try Self.sum(reader, EventsQuery(reward: "r 2")) }
    }
}
