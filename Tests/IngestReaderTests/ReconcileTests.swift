import Foundation
import IngestCounting
import IngestFormat
import IngestStorage
import TestSupport
import Testing

@testable import IngestReader

/// A log whose rows were made of the lines of a file, and what a comparison of the two finds.
@Suite struct ReconcileTests {
    private static let hash = KeyedHash(key: InlineArray(repeating: 7))

    /// A line of a few names, days, times and kinds, so that some are equal; with an id or without.
    private static func line(_ random: inout SeededRandom, hasID: Bool? = nil) -> String {
        let type = ["impression", "click", "redemption"][Int(random.below(3))]
        let day = 1 + random.below(5)
        var line = #"{"eventType":"\#(type)","rewardId":"r \#(random.below(6))","#
        line += #""businessId":"b \#(random.below(3))","#
        line += #""timestamp":"2024-10-0\#(day)T0\#(random.below(3)):00:0\#(random.below(4))Z""#
        if hasID ?? (random.below(2) == 0) { line += #","eventId":"e \#(random.below(1 << 40))""# }
        if random.below(2) == 0 { line += #","consent":"optIn""# }
        if random.below(3) == 0 { line += #","metadata":{"viewability":0.6,"duration":"1.5"}"# }
        if type == "redemption" { line += #","revenue":"\#(random.below(3)).25""# }
        return line + "}"
    }

    /// The row that a line becomes.
    static func event(_ line: String, _ verdict: Verdict = .counted) throws -> FixtureEvent {
        var decoder = JSONLineDecoder(hash: hash)
        let refusal = decoder.decode(Array(line.utf8).span)
        try #require(refusal == nil, "\(line)")
        let (decoded, bytes) = (decoder.event, decoder.bytes)
        func text(_ offset: UInt16, _ byteCount: UInt8) -> String {
            String(decoding: bytes[Int(offset)..<Int(offset) + Int(byteCount)], as: UTF8.self)
        }
        func name(_ offset: UInt16, _ byteCount: UInt8) -> String? {
            byteCount == 0 ? nil : text(offset, byteCount)
        }
        var event = FixtureEvent()
        event.reward = text(decoded.rewardOffset, decoded.rewardByteCount)
        event.business = text(decoded.businessOffset, decoded.businessByteCount)
        event.platform = name(decoded.platformOffset, decoded.platformByteCount)
        event.campaign = name(decoded.campaignOffset, decoded.campaignByteCount)
        event.source = name(decoded.sourceOffset, decoded.sourceByteCount)
        event.time = decoded.timestampMicroseconds
        event.day = Int32(DayRange.day(of: decoded.timestampMicroseconds))
        event.type = EventType(rawValue: decoded.type)!
        event.consent = Consent(rawValue: decoded.consent)!
        event.isMeasured = decoded.flags & EventDescriptor.Flags.isMeasured != 0
        if decoded.revenueMicros > 0 { event.money = (decoded.revenueMicros, 0) }
        event.hasEventID =
            decoded.flags & EventDescriptor.Flags.hasEventID != 0 && verdict != .noConsent
        event.eventHash = PacketRow(decoded).eventHash
        event.verdict = verdict
        return event
    }

    /// A log of these rows, half of them sealed.
    /// - Parameter refusal: of an event of each block that has no row.
    static func log(
        _ events: [FixtureEvent], from firstTime: Int64? = nil, admissionTime: Int64 = 7,
        refusal: Verdict? = nil
    ) throws -> LogFixture {
        let fixture = try LogFixture()
        fixture.admissionTime = firstTime ?? admissionTime
        if let refusal {
            fixture.policy = CountingPolicy()
            fixture.alterLedger = { $0.events[Int(refusal.rawValue)] += 1 }
        }
        let parts = [events.prefix(events.count / 2), events.dropFirst(events.count / 2)]
        for (number, part) in parts.enumerated() {
            try fixture.beginSegment()
            var rest = part[...]
            while !rest.isEmpty {
                try fixture.append(Array(rest.prefix(50)))
                rest = rest.dropFirst(50)
            }
            if number > 0 { break }
            try fixture.seal()
            try fixture.publish()
            fixture.admissionTime = admissionTime
        }
        return fixture
    }

    struct Outcome: Equatable {
        var found = Reconciliation()
        var days: [String: [UInt64]] = [:]

        mutating func add(_ line: String, missing: UInt64, unexpected: UInt64) throws {
            let event = try ReconcileTests.event(line)
            let name = "\(event.reward)|\(event.business)|\(CivilDay(dayNumber: event.day))"
            let before = days[name] ?? [0, 0]
            days[name] = [before[0] + missing, before[1] + unexpected]
            found.missingCount += missing
            found.unexpectedCount += unexpected
        }
    }

    static func reconcile(
        _ text: String, _ fixture: LogFixture, days: DayRange = .all, memory: Int = 256 << 20
    ) throws -> Outcome {
        let scratch = SimulatedFileSystem(seed: 3)
        let file = try scratch.create("events.ndjson")
        try file.write(Array(text.utf8), at: 0)
        let reconciler = Reconciler(
            try fixture.reader, with: file, days: days, memoryByteCountMax: memory, scratch: scratch
        )
        var outcome = Outcome()
        outcome.found = try reconciler.run()
        try reconciler.forEachDifference { day in
            let name =
                String(decoding: day.reward, as: UTF8.self) + "|"
                + String(decoding: day.business, as: UTF8.self) + "|\(CivilDay(dayNumber: day.day))"
            #expect(outcome.days[name] == nil, "\(name)")
            outcome.days[name] = [day.missingCount, day.unexpectedCount]
        }
        #expect(try scratch.names() == ["events.ndjson"])
        return outcome
    }

    @Test("Whatever is taken out or altered is found, and nothing else, also in little memory")
    func thinnedAndAltered() throws {
        for seed in UInt64(1)...6 {
            var random = SeededRandom(seed: seed)
            var lines = (0..<1_500).map { _ in Self.line(&random) }
            let fixture = try Self.log(lines.map { try Self.event($0) })
            var expected = Outcome()
            for place in lines.indices.reversed() where random.below(20) == 0 {
                let old = lines[place]
                let isThinned = random.below(2) == 0
                // Another minute is an event that the log has none of.
                lines[place] = old.replacingOccurrences(of: ":00:0", with: ":59:0")
                try expected.add(old, missing: 0, unexpected: 1)
                if isThinned {
                    lines.remove(at: place)
                } else {
                    try expected.add(lines[place], missing: 1, unexpected: 0)
                }
            }
            lines.shuffle(using: &random)
            expected.found.lineCount = UInt64(lines.count)
            expected.found.byVerdict[.counted] =
                UInt64(lines.count) - expected.found.missingCount
            let text = lines.joined(separator: "\n")
            #expect(text.utf8.count > 4 * (40 << 10))
            // The second has 5 parts and more for the lines of each, the third a hundred.
            for memory in [256 << 20, 40 << 10, 1 << 10] {
                let outcome = try Self.reconcile(text, fixture, memory: memory)
                #expect(outcome == expected, "seed \(seed), \(memory) bytes")
                #expect(outcome.found.hasDifferences)
            }
        }
    }

    @Test("Of equal events each is one, and a counted row goes first")
    func multiset() throws {
        var random = SeededRandom(seed: 8)
        let (named, plain) = (
            Self.line(&random, hasID: true), Self.line(&random, hasID: false)
        )
        let fixture = try Self.log([
            try Self.event(named, .duplicate), try Self.event(named),
            try Self.event(plain), try Self.event(plain), try Self.event(plain, .tooOld),
        ])
        let (one, other) = (try Self.event(named), try Self.event(plain))
        let isSameDay = one.day == other.day && one.business == other.business
        let cases: [([String], [Verdict: UInt64], UInt64, UInt64)] = [
            ([named, named, plain, plain, plain], [.counted: 3, .duplicate: 1, .tooOld: 1], 0, 0),
            ([named, plain, plain, plain], [.counted: 3, .tooOld: 1], 0, 1),
            ([named, named, named, plain], [.counted: 2, .duplicate: 1], 1, 2),
            ([plain, plain, plain, plain], [.counted: 2, .tooOld: 1], 1, isSameDay ? 2 : 0),
        ]
        for (lines, byVerdict, missing, unexpected) in cases {
            let found = try Self.reconcile(lines.joined(separator: "\n"), fixture).found
            #expect(found.byVerdict == byVerdict, "\(lines)")
            #expect(found.missingCount == missing, "\(lines)")
            #expect(found.unexpectedCount == unexpected, "\(lines)")
        }
    }

    @Test("Blank lines are none, malformed and opted-out ones are counted apart")
    func kinds() throws {
        var random = SeededRandom(seed: 9)
        let line = Self.line(&random)
        let fixture = try Self.log([try Self.event(line)])
        let out = line.replacingOccurrences(of: #","consent":"optIn""#, with: "")
            .replacingOccurrences(of: #""eventType""#, with: #""consent":"optOut","eventType""#)
        let long = #"{"x":""# + String(repeating: "x", count: 3 << 20) + #""}"#
        let text = "\r\n \n\(line)\r\n[\n\(out)\n\(long)\nnothing\n{\"eventType\":\"click\"}"
        for memory in [256 << 20, 1 << 10] {
            let found = try Self.reconcile(text, fixture, memory: memory).found
            #expect(found.lineCount == 6 && found.malformedCount == 4 && found.optedOutCount == 1)
            #expect(found.byVerdict == [.counted: 1])
            #expect(found.missingCount == 0 && found.unexpectedCount == 0 && found.hasDifferences)
            #expect(found.malformed.map(\.line) == [4, 6, 7, 8])
            #expect(found.malformed[1].reason.contains("longer than"))
            #expect(found.malformed[3].reason.contains("rewardId is missing"))
        }
        #expect(try !Self.reconcile("\(line)\n\(out)", fixture).found.hasDifferences)
        #expect(try !Self.reconcile("", fixture).found.hasDifferences)
    }

    @Test("Rows that were refused for their consent have no id, and are found by all else")
    func noConsent() throws {
        let lines = (0..<3).map {
            #"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":"2024-10-01T00:00:00Z","eventId":"\#($0)"}"#
        }
        let fixture = try Self.log([
            try Self.event(lines[0], .noConsent), try Self.event(lines[1], .noConsent),
            try Self.event(lines[2]),
        ])
        let all = try Self.reconcile(lines.joined(separator: "\n"), fixture).found
        #expect(all.byVerdict == [.counted: 1, .noConsent: 2] && !all.hasDifferences)
        let two = try Self.reconcile(lines.dropFirst().joined(separator: "\n"), fixture).found
        #expect(two.byVerdict == [.counted: 1, .noConsent: 1])
        #expect(two.unexpectedCount == 1 && two.missingCount == 0)
        let other = lines[0].replacingOccurrences(of: #""r""#, with: #""r 2""#)
        let altered = try Self.reconcile(
            [other, lines[1], lines[2]].joined(separator: "\n"), fixture
        ).found
        #expect(altered.unexpectedCount == 1 && altered.missingCount == 1)
    }

    @Test("Only the file's business-days are its own, by the day that the log has for its times")
    func businessDays() throws {
        func line(_ time: String, _ business: String = "b") -> String {
            #"{"eventType":"click","rewardId":"r","businessId":"\#(business)","timestamp":"2024-10-\#(time)Z"}"#
        }
        // The day of this business begins at 05:00 UTC.
        func event(_ time: String, _ business: String = "b") throws -> FixtureEvent {
            var event = try Self.event(line(time, business))
            if try #require(event.time) % 86_400_000_000 < 5 * 3_600_000_000 { event.day -= 1 }
            return event
        }
        let times = ["01T04:00:00", "01T06:00:00", "02T01:00:00", "02T04:00:00", "02T07:00:00"]
        let fixture = try Self.log(try times.map { try event($0) } + [event("01T06:00:00", "c")])
        // A row of the first of October: the day has two others, of which one is on the second by UTC.
        var found = try Self.reconcile(line(times[1]), fixture).found
        #expect(found.byVerdict == [.counted: 1] && found.unexpectedCount == 2)
        // A line without a row, between two rows of the same day.
        let missing = line("02T02:00:00")
        let outcome = try Self.reconcile(missing, fixture)
        #expect(outcome.found.missingCount == 1 && outcome.found.unexpectedCount == 3)
        #expect(outcome.days == ["r|b|2024-10-01": [1, 3]])
        // Behind the last row of its day: the date in UTC.
        found = try Self.reconcile(line("02T04:30:00"), fixture).found
        #expect(found.missingCount == 1 && found.unexpectedCount == 1)
        // Days that are not asked for are not compared.
        let first = CivilDay("2024-10-01")!
        let all = (times.map { line($0) } + [missing]).joined(separator: "\n")
        found = try Self.reconcile(all, fixture, days: DayRange(from: first, to: first)).found
        #expect(found.byVerdict == [.counted: 3] && found.missingCount == 1)
        #expect(found.otherDaysCount == 2 && found.unexpectedCount == 0)
        // A business that the log does not know.
        found = try Self.reconcile(line(times[0], "nobody"), fixture).found
        #expect(found.missingCount == 1 && found.unexpectedCount == 0)
    }

    @Test(
        "Events refused from far away are found on the day of their admission, which is no day of the file"
    )
    func farAway() throws {
        let far = #"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":0}"#
        let near = far.replacingOccurrences(
            of: #""timestamp":0"#, with: #""timestamp":1700000000000"#)
        var refused = try Self.event(far, .tooOld)
        let counted = try Self.event(near)
        refused.day = counted.day
        let fixture = try Self.log([refused, counted], admissionTime: try #require(counted.time))
        var found = try Self.reconcile(far, fixture).found
        #expect(found.byVerdict == [.tooOld: 1] && !found.hasDifferences)
        found = try Self.reconcile(near, fixture).found
        #expect(found.byVerdict == [.counted: 1] && found.unexpectedCount == 1)
        found = try Self.reconcile("\(near)\n\(far)", fixture).found
        #expect(!found.hasDifferences)
    }

    @Test("Of equal lines one is held, and the place of the first")
    func equalLines() {
        var events = SentEvents()
        var most = 0
        for number in 0..<50_000 as Range<UInt64> {
            events.append([number % 3, 1, 2, 3, 4, 5, 6, 50_000 - number])
            most = max(most, events.heldCount)
        }
        events.sort()
        #expect(events.heldCount == 3 && most <= SentEvents.mergeCountMin)
        events.match()
        #expect(events.left.map(\.count) == [16_667, 16_667, 16_666])
        #expect(events.left.map(\.lineOffset) == [2, 1, 3])
    }

    @Test("A disk without room for temporary files is an error")
    func fullDisk() throws {
        var random = SeededRandom(seed: 4)
        let lines = (0..<500).map { _ in Self.line(&random) }
        let fixture = try Self.log([try Self.event(lines[0])])
        let scratch = SimulatedFileSystem(seed: 3)
        let file = try scratch.create("events.ndjson")
        try file.write(Array(lines.joined(separator: "\n").utf8), at: 0)
        scratch.disk.limit(byteCount: Int(try file.byteCount()) + 100)
        let reconciler = Reconciler(
            try fixture.reader, with: file, memoryByteCountMax: 1 << 10, scratch: scratch)
        let error = #expect(throws: ReaderError.self) { try reconciler.run() }
        #expect(error?.kind == .io)
    }

    @Test("The reasons of refusals are grouped by the counters that rows of them add to")
    func outcomes() throws {
        for verdict in Verdict.allCases where verdict.isRefusal || verdict == .conflict {
            let groups = LedgerRefusals.outcomes.filter { $0.reasons.contains(verdict) }
            // Of these no event has a row.
            let never: [Verdict] = [.malformed, .wrongBusiness]
            #expect(groups.count == (never.contains(verdict) ? 0 : 1), "\(verdict.name)")
            let types: [EventType] = verdict == .notViewable ? [.impression] : EventType.allCases
            for (type, group) in types.flatMap({ type in groups.map { (type, $0) } }) {
                let attributes = RowAttributes(
                    type: type.rawValue, verdict: verdict, consent: 1, format: 0, bits: 0)
                let column = try #require(CountingRule.columns(of: attributes).first)
                #expect(group.columns.contains(column), "\(verdict.name), \(type)")
            }
        }
    }

    @Test("Only refusals that have no row are taken for those of lines, of opted-out ones none")
    func rowlessRefusals() throws {
        func refusals(
            _ events: [(Verdict, UInt64)], _ rows: [CounterColumn: UInt64],
            _ policy: CountingPolicy,
            rowCounts: [Verdict: UInt64] = [:], hasExpired: Bool = false
        ) throws -> LedgerRefusals {
            var entry = LedgerEntry(key: .plain)
            for (verdict, count) in events { entry.events[Int(verdict.rawValue)] = count }
            var totals = LogTotals()
            totals.add([entry])
            var sums = CounterRow()
            for (column, count) in rows { sums[column] = count }
            var isLedgerRead = false
            let refusals = try LedgerRefusals(
                totals, sums, rowCounts, [policy], hasExpired: hasExpired, optedOutCount: 0
            ) { () throws(ReaderError) in
                isLedgerRead = true
                return [LedgerRow(entry, window: nil, uncleanStops: [])]
            }
            #expect(isLedgerRead == (!refusals.isEmpty && !hasExpired))
            return refusals
        }
        let events: [(Verdict, UInt64)] = [(.counted, 5), (.tooOld, 3), (.noConsent, 10)]
        let rows: [CounterColumn: UInt64] = [.impressions: 5, .refusedClicks: 3]
        #expect(try refusals(events, rows, CountingPolicy()).isEmpty)
        // Where events whose consent is not set are refused nobody knows which of them opted out.
        #expect(try !refusals(events, rows, CountingPolicy(countsConsentNotSet: false)).isEmpty)
        let some = try refusals(
            events, [.impressions: 5, .refusedImpressions: 1], CountingPolicy())
        for (lineCount, taken) in [(1, 1), (2, 2), (5, 2)] as [(UInt64, UInt64)] {
            let found = try some.shares(lineCount, of: EventDescriptor())
            #expect(found.map(\.count) == [taken] && found.map(\.reason) == [.tooOld])
        }
        // What has expired may have been refused for consent that was not set: those rows are none of the other reasons'.
        let expired: [(Verdict, UInt64)] = [(.tooOld, 2), (.noConsent, 3)]
        for hasExpired in [false, true] {
            let left = try refusals(
                expired, [.refusedImpressions: 3], CountingPolicy(), hasExpired: hasExpired)
            let found = try left.shares(9, of: EventDescriptor())
            #expect(found.map(\.count) == (hasExpired ? [2] : []))
        }
        // Events of a verdict that have rows, of days of the file or of others, are none of those without.
        for rowCounts in [[:], [.counted: 5, .tooOld: 3]] as [[Verdict: UInt64]] {
            let others = try refusals(
                events + [(.conflict, 2)], rows, CountingPolicy(), rowCounts: rowCounts)
            var event = EventDescriptor()
            // Without an id nothing is a conflict.
            #expect(try others.shares(3, of: event).isEmpty)
            event.flags = EventDescriptor.Flags.hasEventID
            let found = try others.shares(3, of: event)
            #expect(found.map(\.count) == [2] && found.map(\.reason) == [.conflict])
        }
    }
}
