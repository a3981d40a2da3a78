import IngestFormat
import Testing

@testable import IngestReader

/// Rows that do not have all that their events had.
extension ReconcileTests {
    @Test("Rows beyond the bound on campaigns are compared by all else, after the others")
    func campaignOverflow() throws {
        func line(_ campaign: String, id: Int = 1) -> String {
            #"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":"2024-10-01T00:00:00Z","#
                + #""eventId":"\#(id)","metadata":{"campaign":"\#(campaign)"}}"#
        }
        func row(
            _ line: String, _ campaign: String?, _ verdict: Verdict = .counted
        ) throws -> FixtureEvent {
            var event = try Self.event(line, verdict)
            (event.campaign, event.isOverflow) = (campaign, campaign == nil)
            return event
        }
        // Of the first id two beyond the bound and one within; of the second one within.
        let fixture = try Self.log([
            try row(line("x"), nil), try row(line("y"), nil, .duplicate), try row(line("z"), "z"),
            try row(line("z", id: 2), "z"),
        ])
        let right = [line("y"), line("z", id: 2), line("z"), line("x")]
        let cases: [([String], [Verdict: UInt64], missing: UInt64, unexpected: UInt64)] = [
            (right, [.counted: 3, .duplicate: 1], 0, 0),
            // What the names were is not known.
            ([line("any"), line("thing")] + right[1...2], [.counted: 3, .duplicate: 1], 0, 0),
            (right + [line("x")], [.counted: 3, .duplicate: 1], 1, 0),
            (Array(right.dropLast()), [.counted: 3], 0, 1),
            (Array(right.dropFirst(3)), [.counted: 1], 0, 3),
            // Known names are compared, and so are ids.
            (
                [right[0], line("x", id: 2), right[2], right[3]], [.counted: 2, .duplicate: 1], 1, 1
            ),
        ]
        for (lines, byVerdict, missing, unexpected) in cases {
            for memory in [256 << 20, 1 << 10] {
                let text = lines.joined(separator: "\n")
                let found = try Self.reconcile(text, fixture, memory: memory).found
                #expect(found.byVerdict == byVerdict, "\(lines)")
                #expect(found.missingCount == missing, "\(lines)")
                #expect(found.unexpectedCount == unexpected, "\(lines)")
            }
        }
    }

    /// A click of one time with these values beside it.
    private static func click(_ more: String...) -> String {
        ([#"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":1727740800000"#] + more)
            .joined(separator: ",") + "}"
    }

    @Test("The sender's mark of invalid traffic is compared where the row can tell")
    func marks() throws {
        let plain = Self.click(#""eventId":"1""#)
        let marked = Self.click(#""eventId":"1""#, #""invalidTraffic":true"#)
        let unknown: [Verdict] = [.tooOld, .tooEarly, .noConsent]
        for verdict in Verdict.allCases where verdict != .malformed && verdict != .wrongBusiness {
            for rule in InvalidTrafficRule.allCases
            where rule == .sender || verdict == .invalidTraffic {
                var row = try Self.event(plain, verdict)
                (row.rule, row.hasSession) = (rule, rule != .sender)
                let fixture = try Self.log([row])
                let isMarked = verdict == .invalidTraffic && rule == .sender
                for line in [plain, marked] {
                    let found = try Self.reconcile(line, fixture).found
                    let isEqual = unknown.contains(verdict) || isMarked == (line == marked)
                    #expect(found.missingCount == (isEqual ? 0 : 1), "\(verdict) \(rule) \(line)")
                    #expect(found.unexpectedCount == found.missingCount, "\(verdict) \(rule)")
                    #expect(found.byVerdict == (isEqual ? [verdict: 1] : [:]))
                }
            }
        }
        // What the clock refused is of the line that is left.
        for other in [Verdict.counted, .invalidTraffic] {
            let fixture = try Self.log([try Self.event(plain, .tooOld), Self.event(plain, other)])
            let found = try Self.reconcile("\(plain)\n\(marked)", fixture).found
            #expect(found.byVerdict == [.tooOld: 1, other: 1] && !found.hasDifferences)
        }
    }

    @Test("A platform that may have been left out is compared where row and line can tell")
    func platforms() throws {
        func line(_ platform: String?, _ campaign: String, id: Int) -> String {
            Self.click(
                "\"eventId\":\"\(id)\"", "\"campaign\":\"\(campaign)\"",
                "\"platform\":\(platform.map { "\"\($0)\"" } ?? "null")")
        }
        func row(
            _ line: String, hidesCampaign: Bool = false, hidesPlatform: Bool = false,
            _ verdict: Verdict = .counted
        ) throws -> FixtureEvent {
            var event = try Self.event(line, verdict)
            if hidesCampaign { (event.campaign, event.isOverflow) = (nil, true) }
            if hidesPlatform { event.platform = nil }
            return event
        }
        let lines = [
            line("iOS", "c", id: 1), line("tvOS", "c", id: 2), line(nil, "c", id: 3),
            line("iOS", "d", id: 4), line("tvOS", "e", id: 5), line(nil, "f", id: 6),
            line("tvOS", "c", id: 7),
        ]
        let rows = [
            try row(lines[0]), try row(lines[1], hidesPlatform: true), try row(lines[2]),
            try row(lines[3], hidesCampaign: true),
            try row(lines[4], hidesCampaign: true, hidesPlatform: true),
            try row(lines[5], hidesCampaign: true),
            try row(lines[6], hidesPlatform: true, .tooOld),
        ]
        func differences(_ lines: [String], _ fixture: LogFixture) throws -> UInt64 {
            let found = try Self.reconcile(lines.joined(separator: "\n"), fixture).found
            #expect(found.missingCount == found.unexpectedCount)
            return found.missingCount
        }
        // Names of another business, so many that platforms may have been left out.
        let others = try (0..<Limits.platformCountMax).map { number in
            try Self.event(
                #"{"eventType":"click","rewardId":"\#(number)","businessId":"x","timestamp":1}"#)
        }
        let (few, many) = (try Self.log(rows), try Self.log(rows + others))
        #expect(try differences(lines, few) == 3)
        #expect(try differences(lines, many) == 0)
        for (place, platform, count) in [
            (0, "tvOS", 1), (0, nil, 1), (1, "iOS", 0), (2, "iOS", 0), (3, "tvOS", 1), (3, nil, 1),
            (4, "iOS", 0), (5, "iOS", 0), (6, "iOS", 0),
        ] as [(Int, String?, UInt64)] {
            var altered = lines
            let campaign = ["c", "c", "c", "d", "e", "f", "c"][place]
            altered[place] = line(platform, campaign, id: place + 1)
            #expect(try differences(altered, many) == count, "\(place) \(platform ?? "none")")
        }
        // Each row is of one line.
        #expect(
            try Self.reconcile(lines.joined(separator: "\n") + "\n\(lines[1])", many).found
                .missingCount == 1)
    }

    @Test("A refusal of known names in a combination that none counted in is in the ledger alone")
    func combinations() throws {
        func line(_ reward: String, _ campaign: String?, _ source: String?) -> String {
            func text(_ name: String?) -> String { name.map { "\"\($0)\"" } ?? "null" }
            return #"{"eventType":"click","rewardId":"\#(reward)","businessId":"b","timestamp":"#
                + "1727740800000,\"campaign\":\(text(campaign)),\"source\":\(text(source))}"
        }
        let counted = [
            line("r 1", "c 1", "s 1"), line("r 1", nil, nil), line("r 2", "c 2", "s 2"),
            line("r 2", nil, "s 1"),
        ]
        // The first two are sealed.
        let events = try counted.map { try Self.event($0) }
        let time: Int64 = 1_727_740_800_000_000
        let fixture = try Self.log(
            events, from: time, admissionTime: time + 604_800_000_001, refusal: .tooOld)
        // No line of these was young enough when anything was heard of.
        let late = try Self.log(events, admissionTime: time + 604_800_000_001, refusal: .tooOld)
        // None that was refused then is so old.
        let early = try Self.log(events, admissionTime: time + 604_800_000_000, refusal: .tooOld)
        for (reward, campaign, source, isKnown) in [
            ("r 1", "c 1", "s 2", false), ("r 1", "c 1", nil, false), ("r 2", "c 1", "s 1", false),
            ("r 1", nil, "s 1", false), ("r 1", "c 1", "s 1", true), ("r 2", "c 2", "s 2", true),
            ("r 2", nil, "s 1", true), ("r 2", nil, nil, true), ("r 3", nil, nil, false),
        ] as [(String, String?, String?, Bool)] {
            let extra = line(reward, campaign, source)
            let found = try Self.reconcile((counted + [extra]).joined(separator: "\n"), fixture)
                .found
            #expect(found.missingCount == (isKnown ? 1 : 0), "\(extra)")
            #expect(found.withoutRowCount == (isKnown ? 0 : 1), "\(extra)")
            #expect(found.unexpectedCount == 0, "\(extra)")
            let other = try Self.reconcile((counted + [extra]).joined(separator: "\n"), early).found
            #expect(other.missingCount == 1 && other.withoutRowCount == 0, "\(extra)")
            let last = try Self.reconcile((counted + [extra]).joined(separator: "\n"), late).found
            #expect(last.missingCount == 0 && last.withoutRowCount == 1, "\(extra)")
        }
    }

    @Test(
        "The clock refuses what lies far from when its senders were heard of, rates events of sessions"
    )
    func possibleReasons() throws {
        let reasons: [Verdict] = [.tooOld, .tooEarly, .invalidTraffic, .outsideWindow, .conflict]
        let (first, last): (Int64, Int64) = (1_000_000_000_000_000, 1_000_000_100_000_000)
        let (age, lead): (Int64, Int64) = (604_800_000_000, 300_000_000)
        for (time, hasSession, hasID, expected) in [
            (last - age - 1, false, false, [.tooOld]), (last - age, false, false, []),
            (first + lead, false, false, []), (first + lead + 1, false, false, [.tooEarly]),
            (0, false, false, [.tooOld]), (first, true, false, [.invalidTraffic]),
            (first, false, true, [.outsideWindow, .conflict]),
        ] as [(Int64, Bool, Bool, [Verdict])] {
            for reason in reasons {
                for hasExpired in [false, true] {
                    var entry = LedgerEntry(key: .plain)
                    entry.events[Int(reason.rawValue)] = 1
                    entry.seen = first...last
                    var totals = LogTotals()
                    totals.add([entry])
                    let some = try LedgerRefusals(
                        totals, CounterRow(), [:], [CountingPolicy()], hasExpired: hasExpired,
                        optedOutCount: 0
                    ) { () throws(ReaderError) in
                        [LedgerRow(entry, window: nil, uncleanStops: [])]
                    }
                    var event = EventDescriptor()
                    event.timestampMicroseconds = time
                    event.sessionByteCount = hasSession ? 9 : 0
                    event.flags = hasID ? EventDescriptor.Flags.hasEventID : 0
                    let found = try some.shares(1, of: event).first
                    // Of what has expired nobody knows by which limits the clock refused.
                    let isClock = reason == .tooOld || reason == .tooEarly
                    let isOne = expected.contains(reason) || hasExpired && isClock
                    #expect((found?.reason == reason) == isOne, "\(reason.name), \(time)")
                }
            }
        }
    }

    @Test("Lines get reasons so that as many as can be have one, whatever their order")
    func shares() throws {
        var entry = LedgerEntry(key: .plain)
        let ledger: [(Verdict, UInt64)] = [
            (.notViewable, 20), (.tooEarly, 20), (.conflict, 3), (.outsideWindow, 1),
        ]
        for (reason, count) in ledger { entry.events[Int(reason.rawValue)] = count }
        var totals = LogTotals()
        totals.add([entry])
        var sums = CounterRow()
        // One of those that the clock or the window refused has a row.
        sums[.refusedClicks] = 1
        let refusals = try LedgerRefusals(
            totals, sums, [:], [CountingPolicy()], hasExpired: true, optedOutCount: 0
        ) { () throws(ReaderError) in [] }
        func bits(_ reasons: Verdict...) -> LedgerRefusals.Reasons {
            reasons.reduce(0) { $0 | 1 << $1.rawValue }
        }
        func taken(_ lines: [LedgerRefusals.Reasons: UInt64]) -> [LedgerRefusals.Reasons: UInt64] {
            refusals.shares(of: lines).mapValues { $0.reduce(0) { $0 + $1.count } }
        }
        let (both, one) = (bits(.notViewable, .tooEarly), bits(.notViewable))
        #expect(taken([both: 20, one: 20]) == [both: 20, one: 20])
        let ids = bits(.conflict, .outsideWindow)
        let early = bits(.tooEarly, .conflict, .outsideWindow)
        // Of 21 such refusals 20 have no row, and three conflicts.
        #expect(taken([early: 40]) == [early: 23])
        #expect(taken([ids: 4, early: 19]) == [ids: 4, early: 19])
        #expect(taken([ids: 4, early: 30])[early] == 19)
        #expect(taken([one: 30, ids: 9]) == [one: 20, ids: 4])
        #expect(taken([one: .max, both: .max]) == [one: 20, both: 20])
        #expect(taken([:]).isEmpty && taken([0: 5]) == [0: 0])
        // Lines that are not compared come first, and take the reason that the others cannot have.
        for (others, left) in [([both: 20], 20), ([both: 25], 15), ([one: 20], 0), ([one: 90], 0)]
            as [([LedgerRefusals.Reasons: UInt64], UInt64)]
        {
            let shares = refusals.shares(of: [one: 20], after: others)[one] ?? []
            #expect(shares.reduce(0) { $0 + $1.count } == left, "\(others)")
        }
        for (_, shares) in refusals.shares(of: [both: 30, one: 20]) {
            #expect(shares.allSatisfy { $0.count <= 20 })
        }
    }
}

extension LedgerRefusals {
    /// Of equal lines with names that the log does not know.
    func shares(
        _ lineCount: UInt64, of event: EventDescriptor
    ) throws -> [(reason: Verdict, count: UInt64)] {
        let reasons = try reasons(of: event) { () throws(ReaderError) in false }
        return shares(of: [reasons: lineCount])[reasons] ?? []
    }
}
