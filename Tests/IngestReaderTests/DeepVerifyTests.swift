import IngestFormat
import IngestStorage
import IngestVerify
import TestSupport
import Testing

/// What `verify --deep` finds in rows of which every counter and checksum is right.
@Suite struct DeepVerifyTests {
    private static let day: Int64 = 86_400_000_000
    private static let now: Int64 = 20_000 * day + 7_200_000_000

    private static func event(
        _ verdict: Verdict, _ change: (inout FixtureEvent) -> Void = { _ in }
    ) -> FixtureEvent {
        var event = FixtureEvent()
        event.verdict = verdict
        event.time = now - 60_000_000
        change(&event)
        return event
    }

    private static func fixture(
        _ blocks: [[FixtureEvent]], policy: CountingPolicy = CountingPolicy(), seals: Bool = true
    ) throws -> LogFixture {
        let fixture = try LogFixture()
        fixture.policy = policy
        fixture.admissionTime = now
        try fixture.beginSegment()
        for block in blocks {
            try fixture.append(block)
        }
        if seals {
            try fixture.seal()
            try fixture.publish()
        }
        return fixture
    }

    private static func differences(
        _ fixture: LogFixture, memory: Int = 1 << 20
    ) throws -> [Finding] {
        #expect(try fixture.verify().isSound)
        let report = try fixture.verify(deepByteCountMax: memory)
        #expect(report.corruptionCount == 0 && report.evidenceLostCount == 0)
        #expect(report.exitCode == (report.differenceCount == 0 ? 0 : 1))
        #expect(report.judgedRowCount == report.rowCount)
        return report.findings.filter { $0.kind == .difference }
    }

    private struct Case {
        let policy: CountingPolicy
        let right: Verdict
        let wrong: Verdict
        let change: (inout FixtureEvent) -> Void

        init(
            _ right: Verdict, not wrong: Verdict, _ policy: CountingPolicy = CountingPolicy(),
            _ change: @escaping (inout FixtureEvent) -> Void = { _ in }
        ) {
            (self.policy, self.right, self.wrong) = (policy, right, wrong)
            self.change = change
        }
    }

    private static let sessionsOff = CountingPolicy(sessions: SessionPolicy(isOn: false))

    /// Of each: the verdict that is right, one that is not, the policy, the event.
    private static var cases: [Case] {
        [
            Case(.counted, not: .undetermined),
            Case(.undetermined, not: .counted, CountingPolicy(countsUndetermined: false)),
            Case(.counted, not: .notViewable) {
                $0.isMeasured = true
                $0.viewability = (500_000, 1_000)
            },
            Case(.notViewable, not: .counted) {
                $0.isMeasured = true
                $0.viewability = (499_999, 1_000)
            },
            Case(.notViewable, not: .counted) {
                $0.isMeasured = true
                $0.viewability = (500_000, 999)
            },
            Case(.counted, not: .tooOld) { $0.time = now - 7 * day },
            Case(.tooOld, not: .counted) { $0.time = now - 7 * day - 1 },
            Case(.counted, not: .tooOld, CountingPolicy(ageMicrosecondsMax: nil)) {
                $0.time = now - 70 * day
            },
            Case(.counted, not: .tooEarly) { $0.time = now + 300_000_000 },
            Case(.tooEarly, not: .counted) { $0.time = now + 300_000_001 },
            Case(.counted, not: .noConsent) {
                $0.consent = .notSet
                $0.hasEventID = false
            },
            Case(.noConsent, not: .counted, CountingPolicy(countsConsentNotSet: false)) {
                $0.consent = .notSet
                $0.hasEventID = false
            },
            Case(.duplicate, not: .sessionRepeat), Case(.conflict, not: .outsideWindow),
            Case(.outsideWindow, not: .tooOld, CountingPolicy(refusesOutsideWindow: true)),
            Case(.counted, not: .duplicate) { $0.hasEventID = false },
            Case(.sessionRepeat, not: .conflict) {
                $0.hasEventID = false
                $0.hasSession = true
            },
            Case(.invalidTraffic, not: .undetermined) { $0.type = .click },
            Case(.wrongBusiness, not: .tooOld),
            // What only a session can bring about, with and without one, and where none is looked at.
            Case(.invalidTraffic, not: .sessionRepeat) { $0.rule = .sender },
            Case(.invalidTraffic, not: .outsideWindow) {
                $0.rule = .impressionRate
                $0.hasSession = true
            },
            Case(.invalidTraffic, not: .tooOld) {
                ($0.type, $0.rule, $0.hasSession) = (.click, .clickRate, true)
            },
            Case(.counted, not: .invalidTraffic) { $0.rule = .clickInterval },
            Case(.counted, not: .invalidTraffic, sessionsOff) {
                ($0.rule, $0.hasSession) = (.impressionRate, $0.verdict != .counted)
            },
            Case(.counted, not: .sessionRepeat, sessionsOff) {
                $0.hasSession = $0.verdict != .counted
            },
            // A rule is one of a type, and has a limit.
            Case(.counted, not: .sessionRepeat) { ($0.type, $0.hasSession) = (.click, true) },
            Case(.counted, not: .invalidTraffic) {
                ($0.type, $0.rule, $0.hasSession) = (.click, .impressionRate, true)
            },
            Case(
                .counted, not: .invalidTraffic,
                CountingPolicy(sessions: SessionPolicy(impressionsPerMinuteMax: 0))
            ) { ($0.rule, $0.hasSession) = (.impressionRate, true) },
            // Rates come before viewability, and behind the clock.
            Case(.notViewable, not: .invalidTraffic) {
                ($0.isMeasured, $0.viewability) = (true, (0, 0))
                ($0.rule, $0.hasSession) = (.impressionRate, $0.verdict == .notViewable)
            },
            Case(.tooOld, not: .invalidTraffic) {
                $0.time = now - 8 * day
                ($0.rule, $0.hasSession) = (.impressionRate, true)
            },
        ]
    }

    @Test("A verdict that the rules of the row's time do not give is found, and its place named")
    func everyRule() throws {
        for (place, item) in Self.cases.enumerated() {
            for isSealed in [true, false] {
                for (verdict, isRight) in [(item.right, true), (item.wrong, false)] {
                    var row = Self.event(verdict, item.change)
                    row.day = Int32(try #require(row.time) / Self.day)
                    let other = Self.event(.counted) { $0.type = .click }
                    let fixture = try Self.fixture(
                        [[other], [other, other, row, other]], policy: item.policy, seals: isSealed)
                    let found = try Self.differences(fixture)
                    #expect(found.isEmpty == isRight, "case \(place) \(verdict): \(found)")
                    guard !isRight, let first = found.first else { continue }
                    #expect(found.count == 1 && first.got == item.wrong.name, "case \(place)")
                    #expect(first.what == "verdict of row 2 of block 1", "case \(place)")
                    #expect(first.file == "0000000001.segment" && first.offset != nil)
                }
            }
        }
    }

    @Test("What a counted row says of a session, or does not say, has to be possible")
    func details() throws {
        let wrong: [(inout FixtureEvent) -> Void] = [
            { ($0.hasEventID, $0.saysUnchecked) = (false, false) },
            { ($0.type, $0.isOrphan) = (.click, true) },
            { ($0.isOrphan, $0.hasSession) = (true, true) },
        ]
        for change in wrong {
            let row = Self.event(.counted, change)
            #expect(try Self.differences(Self.fixture([[row]])).count == 1, "\(row)")
        }
        let right = Self.event(.counted) {
            ($0.type, $0.isOrphan, $0.hasSession) = (.click, true, true)
        }
        #expect(try Self.differences(Self.fixture([[right]])).isEmpty)
    }

    @Test("A damaged block hides no other, and its rows are noted as not judged")
    func damagedBlock() throws {
        let wrong = Self.event(.tooOld)
        let right = Self.event(.counted) { $0.type = .click }
        let fixture = try Self.fixture([[right, right], [right, wrong]])
        fixture.files.disk.damage("0000000001.segment") { $0[4_096 + 30] ^= 1 }
        let report = try fixture.verify(deepByteCountMax: 1 << 20)
        #expect(report.judgedRowCount == 2)
        #expect(report.findings.contains { $0.what == "verdict of row 1 of block 1" })
        let note = "2 rows that cannot be read were not judged"
        #expect(report.findings.contains { $0.kind == .note && $0.what == note })
    }

    @Test("Rows without consent to be counted have no id")
    func noConsent() throws {
        let policy = CountingPolicy(countsConsentNotSet: false)
        let row = Self.event(.noConsent) { $0.consent = .notSet }
        #expect(try Self.differences(Self.fixture([[row]], policy: policy)).count == 1)
    }

    @Test(
        "An id that was counted twice is found, whatever memory there is, unless it was forgotten")
    func repeats() throws {
        func counted(_ id: UInt64, _ change: (inout FixtureEvent) -> Void = { _ in })
            -> FixtureEvent
        {
            Self.event(.counted) {
                $0.eventHash = id &* 0x9E37_79B9_7F4A_7C15
                change(&$0)
            }
        }
        let many = (0..<300).map { counted($0) }
        for memory in [1 << 20, 1_000, 1] {
            #expect(try Self.differences(Self.fixture([many]), memory: memory).isEmpty)
            let found = try Self.differences(
                Self.fixture([many, [counted(1_000), counted(17)]]), memory: memory)
            #expect(
                found.count == 1 && found[0].got == "counted" && found[0].expected == "duplicate")
            #expect(found[0].what.contains("row 1 of block 1"))
            #expect(found[0].what.contains("segment 1 block 0 row 17"))
        }
        // One that says that it could not be compared, and one that is a duplicate.
        let told = [
            counted(17) { $0.isOutsideWindow = true }, counted(18) { $0.verdict = .duplicate },
        ]
        #expect(try Self.differences(Self.fixture([many, told], seals: false)).isEmpty)
        // The footer says that no id had been forgotten.
        #expect(try Self.differences(Self.fixture([many, told])).count == 1)
        // In the same second, and in a segment that is not sealed: it happened before the first was committed.
        #expect(try Self.differences(Self.fixture([[counted(1), counted(1)]])).count == 1)
        #expect(
            try Self.differences(Self.fixture([[counted(1)], [counted(1)]], seals: false)).count
                == 1)
        // After the first was committed: where the segment is sealed, the footer knows that it was not forgotten.
        let later = counted(1) { $0.time = Self.now + 301_000_000 }
        let policy = CountingPolicy(leadMicrosecondsMax: 300_000_000)
        for isSealed in [true, false] {
            let fixture = try LogFixture()
            (fixture.policy, fixture.admissionTime) = (policy, Self.now)
            try fixture.beginSegment()
            try fixture.append([counted(1)])
            fixture.admissionTime = Self.now + 310_000_000
            try fixture.append([later])
            if isSealed {
                try fixture.seal()
                try fixture.publish()
            }
            #expect(try Self.differences(fixture).count == (isSealed ? 1 : 0))
            guard isSealed else { continue }
            try fixture.alterFooter(0) { $0.idsCompleteSince = Self.now }
            #expect(try Self.differences(fixture).isEmpty)
            try fixture.alterFooter(0) { $0.idsCompleteSince = Self.now - 1 }
            #expect(try Self.differences(fixture).count == 1)
            try fixture.alterFooter(0) {
                $0.idsCompleteSince = SegmentFooter.unknownCompleteSince
            }
            #expect(try Self.differences(fixture).isEmpty)
        }
    }

    @Test("A claim is no newer than the segments behind its own, whatever the clock was")
    func acceptedClock() throws {
        let id = Self.event(.counted) { $0.eventHash = 5 }
        let month = 30 * Self.day
        for (wait, isFound) in [(300_000_000, true), (300_000_001, false)] as [(Int64, Bool)] {
            let fixture = try LogFixture()
            (fixture.policy, fixture.admissionTime) = (CountingPolicy(), Self.now + month)
            try fixture.beginSegment()
            var first = id
            (first.time, first.day) = (fixture.admissionTime, first.day + 30)
            try fixture.append([first])
            try fixture.seal()
            // The next start had the right clock, and read the claim as of then.
            fixture.admissionTime = Self.now
            try fixture.beginSegment()
            try fixture.append([Self.event(.counted)])
            fixture.admissionTime = Self.now + wait
            var second = id
            second.time = fixture.admissionTime
            try fixture.append([second])
            try fixture.publish()
            #expect(try Self.differences(fixture).isEmpty == !isFound)
        }
    }

    @Test("Rows of another version of the rules are counted and noted, and not judged")
    func otherVersion() throws {
        let fixture = try LogFixture.random(seed: 3)
        let report = try fixture.verify(deepByteCountMax: 1 << 20)
        #expect(report.isSound && report.judgedRowCount == 0)
        #expect(report.findings.contains { $0.kind == .note && $0.what.contains("not judged") })
        #expect(try fixture.verify().judgedRowCount == nil)
    }
}
