import IngestFormat
import IngestStorage
import TestSupport
import Testing

@testable import IngestReader
@testable import IngestReaderTool

@Suite struct EventListingTests {
    private static func events(
        of reader: IngestReader, _ query: EventsQuery = EventsQuery()
    ) throws -> [EventRow] {
        var events: [EventRow] = []
        try reader.forEachEvent(query) { event in
            events.append(event)
            return .next
        }
        return events
    }

    /// What events come to, counted here once more.
    private struct Sums: Equatable {
        var counted = [0, 0, 0]
        var other = 0
        var revenue: UInt128 = 0
        var spend: UInt128 = 0

        init() {}

        init(_ row: Counters) {
            for (place, kind) in Counters.Kind.allCases.enumerated() {
                counted[place] = Int(row.counted(kind))
                other += Int(row.gross(kind) - row.counted(kind))
            }
            revenue = row.revenue.micros
            spend = row.spend.micros
        }

        mutating func add(_ event: EventRow) {
            guard event.verdict == .counted else {
                other += 1
                return
            }
            counted[EventRow.Kind.allCases.firstIndex(of: event.kind)!] += 1
            revenue += event.revenue?.micros ?? 0
            spend += event.spend?.micros ?? 0
        }
    }

    @Test(
        "Events come in the order in which they were written, and add up to the counters of the cut"
    )
    func addUp() throws {
        for seed in UInt64(1)...4 {
            let fixture = try LogFixture.random(seed: seed)
            let reader = try fixture.reader
            let events = try Self.events(of: reader)
            #expect(events.count == fixture.model.facts.count)
            #expect(try reader.eventCount() == UInt64(events.count))
            for (event, fact) in zip(events, fixture.model.facts) {
                #expect(event.rewardID == fact.reward && event.businessID == fact.business)
                #expect(event.date.dayNumber == fact.day)
            }
            var sums: [String: Sums] = [:]
            for event in events { sums[event.rewardID, default: Sums()].add(event) }
            for row in try reader.rewards() {
                #expect(sums[row.id] == Sums(row.counters), "\(row.id)")
            }
            let places = events.map { [Int($0.segment), Int($0.block), $0.row] }
            #expect(zip(places, places.dropFirst()).allSatisfy { $0.lexicographicallyPrecedes($1) })
            #expect(reader.rowCountMax(of: .rewards) >= UInt64(sums.count))
        }
    }

    @Test("Wherever the log ends, a reader gives the events of its cut and no more")
    func everyCut() throws {
        let fixture = try LogFixture.random(seed: 9, liveBlockCount: 0)
        var random = SeededRandom(seed: 10)
        try fixture.beginSegment()
        for _ in 0..<6 {
            try fixture.append((0..<20).map { _ in FixtureEvent(&random) })
            let reader = try fixture.reader
            let count = fixture.models[reader.cut]?.facts.count
            #expect(try Self.events(of: reader).count == count)
            // Of the tail there are no runs of rewards.
            #expect(try reader.rowCountMax(of: .rewards) >= UInt64(reader.rewards().count))
        }
        // Sealed since: the reader that was opened before gives the same.
        let before = try fixture.reader
        let events = try Self.events(of: before)
        try fixture.seal()
        #expect(try Self.events(of: before) == events)
        #expect(try Self.events(of: fixture.reader) == events)
    }

    @Test("Only events of the reward, the business and the days that are asked for")
    func selects() throws {
        let reader = try LogFixture.random(seed: 5).reader
        let all = try Self.events(of: reader)
        let day = CivilDay(dayNumber: 20_001)
        let queries: [(EventsQuery, (EventRow) -> Bool)] = [
            (EventsQuery(reward: "reward-3"), { $0.rewardID == "reward-3" }),
            (EventsQuery(business: "shop 1"), { $0.businessID == "shop 1" }),
            (EventsQuery(days: DayRange(from: day)), { $0.date >= day }),
            (EventsQuery(days: DayRange(to: day)), { $0.date <= day }),
            (
                EventsQuery(reward: "reward-3", days: DayRange(from: day, to: day)),
                { $0.rewardID == "reward-3" && $0.date == day }
            ),
            (EventsQuery(reward: "nobody"), { _ in false }),
        ]
        for (query, condition) in queries {
            #expect(try Self.events(of: reader, query) == all.filter(condition), "\(query)")
        }
        var count = 0
        try reader.forEachEvent { _ in
            count += 1
            return count < 7 ? .next : .stop
        }
        #expect(count == 7)
        for limit in [-1, 0, 1, 7, 1_000_000] {
            let events = try Self.events(of: reader, EventsQuery(limit: limit))
            #expect(events == Array(all.prefix(max(0, limit))), "\(limit)")
        }
    }

    @Test("A block is left out only where no zone's day of its times is asked for")
    func blocksOfDays() {
        let day: Int64 = 86_400_000_000
        func range(_ from: Int32?, _ to: Int32?) -> DayRange {
            DayRange(
                from: from.map { CivilDay(dayNumber: $0) }, to: to.map { CivilDay(dayNumber: $0) })
        }
        #expect(range(10, 10).mayHold(timestamps: 11 * day, 12 * day))
        #expect(range(10, 10).mayHold(timestamps: 8 * day, 10 * day - 1))
        #expect(!range(10, 10).mayHold(timestamps: 12 * day, 13 * day))
        #expect(!range(10, 10).mayHold(timestamps: 7 * day, 9 * day - 1))
        #expect(range(-1, -1).mayHold(timestamps: -1, -1))
        #expect(!range(1, nil).mayHold(timestamps: -day, -1))
        #expect(range(nil, nil).mayHold(timestamps: .min, .max))
        #expect(range(nil, -1).mayHold(timestamps: 0, .max))
        #expect(range(500, 500).mayHoldRefused(timestamps: 99 * day, 500 * day))
        #expect(range(500, 500).mayHoldRefused(timestamps: 500 * day, 901 * day))
        #expect(!range(500, 500).mayHoldRefused(timestamps: 110 * day, 890 * day))
    }

    @Test("An event that was refused from far away is one of the day of its admission")
    func refusedDays() throws {
        let fixture = try LogFixture()
        // Admitted on 1970-01-01, as all blocks of the fixture.
        var far = FixtureEvent()
        (far.verdict, far.day, far.time) = (.tooEarly, 0, 20_000 * 86_400_000_000)
        for isSealed in [true, false] {
            try fixture.beginSegment()
            try fixture.append([far, far])
            if isSealed {
                try fixture.seal()
                try fixture.publish()
            }
        }
        let first = CivilDay(dayNumber: 0)
        let query = EventsQuery(days: DayRange(from: first, to: first))
        #expect(try Self.events(of: fixture.reader, query).count == 4)
        #expect(try fixture.reader.rewardDays().map(\.date) == [first])
        let other = CivilDay(dayNumber: 20_000)
        let none = EventsQuery(days: DayRange(from: other, to: other))
        #expect(try Self.events(of: fixture.reader, none).isEmpty)
    }

    @Test("A damaged block is an error with its file, whatever was given before it")
    func damage() throws {
        let fixture = try LogFixture.random(seed: 6)
        let reader = try fixture.reader
        fixture.flip("0000000002.segment", byte: 4_096 + 272)
        let error = #expect(throws: ReaderError.self) { _ = try Self.events(of: reader) }
        #expect(error?.kind == .corrupt && error?.path.contains("0000000002.segment") == true)
    }

    @Test("A segment that is gone is damage, or rows that expired where a newer generation came")
    func gone() throws {
        let fixture = try LogFixture.random(seed: 7, liveBlockCount: 0)
        let reader = try fixture.reader
        try fixture.files.unlink("0000000002.segment")
        let missing = #expect(throws: ReaderError.self) { _ = try Self.events(of: reader) }
        #expect(missing?.kind == .corrupt && missing?.what.hasPrefix("missing") == true)
        try fixture.beginSegment()
        try fixture.append([FixtureEvent()])
        try fixture.seal()
        try fixture.publish()
        let expired = #expect(throws: ReaderError.self) { _ = try Self.events(of: reader) }
        #expect(expired?.kind == .io && expired?.what.contains("retention removed") == true)
    }

    @Test("What happened is what the attributes of the row say")
    func closedSets() {
        for (code, type) in EventType.allCases.enumerated() {
            for verdict in Verdict.allCases where verdict != .malformed {
                var event = EventRow()
                event.attributes = RowAttributes(
                    type: type.rawValue, verdict: verdict, consent: UInt8(code & 1), format: 2,
                    bits: RowAttributes.detail(.clickRate))
                #expect(event.kind == type && event.verdict == verdict)
                #expect(event.consent == (code & 1 == 1 ? .optIn : .notSet))
                #expect(event.format == .video)
                let isInvalid = verdict == .invalidTraffic
                #expect(event.invalidTrafficRule == (isInvalid ? .clickRate : nil))
            }
        }
    }

    @Test("An event as bytes is what its cells are as text")
    func text() throws {
        var random = SeededRandom(seed: 8)
        let names = ["r,1", "r\"2", "r\n3\u{1}", "ü 4", ""]
        for _ in 0..<500 {
            var event = EventRow()
            func number(_ bound: UInt64) -> UInt64 { random.below(bound) }
            event.segment = UInt32(number(1 << 32))
            event.row = Int(number(1 << 16))
            event.timestampMicroseconds = Int64(bitPattern: number(1 << 60)) - (1 << 59)
            event.day = Int32(number(106_652))
            event.attributes = RowAttributes(
                type: UInt8(1 + number(3)), verdict: Verdict.allCases[Int(number(12))],
                consent: UInt8(number(2)), format: UInt8(number(3)),
                bits: UInt16(number(8)) << 13 | UInt16(number(16)) << 6)
            event.rewardText = Array(names[Int(number(4))].utf8)
            event.businessText = Array(names[Int(number(4))].utf8)
            event.platformText = Array(names[Int(number(5))].utf8)
            event.sourceText = Array(names[Int(number(5))].utf8)
            event.visible = UInt32(number(1_000_001))
            event.duration = UInt32(number(1 << 32))
            event.revenueMicros = number(1 << 62)
            event.spendMicros = number(10)
            try FormattingTests.expectCells(event)
        }
    }

    @Test("Progress is a bar where it is known how many rows are to come")
    func progress() {
        #expect(
            ExportProgress.line(rowCount: 250, of: 1_000, seconds: 2)
                == "[######                  ]  25 %, 250 rows, 125/s, 6 s left")
        #expect(
            ExportProgress.line(rowCount: 8, of: 8, seconds: 0)
                == "[########################] 100 %, 8 rows, 8000/s, 0 s left")
        for max in [nil, 5 as UInt64?] {
            #expect(ExportProgress.line(rowCount: 10, of: max, seconds: 2) == "10 rows, 5/s")
        }
    }
}
