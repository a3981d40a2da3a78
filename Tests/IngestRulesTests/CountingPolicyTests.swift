import IngestFormat
import IngestRules
import Testing

@Suite("The counting rules")
struct CountingPolicyTests {
    static let now: Int64 = 1_763_632_800_000_000

    /// An event that counts; each case changes one thing about it.
    static func event(_ change: (inout EventDescriptor) -> Void = { _ in }) -> EventDescriptor {
        var event = EventDescriptor()
        event.type = EventType.impression.rawValue
        event.timestampMicroseconds = now
        event.consent = Consent.optIn.rawValue
        change(&event)
        return event
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let expected: Verdict
        var policy = CountingPolicy()
        let change: @Sendable (inout EventDescriptor) -> Void

        init(
            _ name: String, _ expected: Verdict, policy: CountingPolicy = CountingPolicy(),
            _ change: @escaping @Sendable (inout EventDescriptor) -> Void
        ) {
            testDescription = name
            self.expected = expected
            self.policy = policy
            self.change = change
        }
    }

    static func measured(
        _ ppm: UInt32, _ milliseconds: UInt32, _ format: AdFormat
    ) -> @Sendable (inout EventDescriptor) -> Void {
        {
            $0.flags = EventDescriptor.Flags.isMeasured
            $0.visiblePartsPerMillion = ppm
            $0.durationMilliseconds = milliseconds
            $0.format = format.rawValue
        }
    }

    static let cases: [Case] = [
        Case("a plain impression counts", .counted) { _ in },
        Case("opt-out is refused", .noConsent) { $0.consent = Consent.optOut.rawValue },
        Case("not-set counts by default", .counted) { $0.consent = Consent.notSet.rawValue },
        Case(
            "not-set is refused by policy", .noConsent,
            policy: CountingPolicy(countsConsentNotSet: false)
        ) { $0.consent = Consent.notSet.rawValue },
        Case("seven days old counts", .counted) {
            $0.timestampMicroseconds = now - 604_800_000_000
        },
        Case("a microsecond over seven days is too old", .tooOld) {
            $0.timestampMicroseconds = now - 604_800_000_001
        },
        Case(
            "any age counts where the bound is off", .counted,
            policy: CountingPolicy(ageMicrosecondsMax: nil)
        ) { $0.timestampMicroseconds = 1 },
        Case(
            "no time is too old even there", .tooOld,
            policy: CountingPolicy(ageMicrosecondsMax: nil)
        ) { $0.timestampMicroseconds = 0 },
        Case("five minutes ahead counts", .counted) {
            $0.timestampMicroseconds = now + 300_000_000
        },
        Case("a microsecond over five minutes is too early", .tooEarly) {
            $0.timestampMicroseconds = now + 300_000_001
        },
        Case("marked as invalid traffic", .invalidTraffic) {
            $0.flags = EventDescriptor.Flags.isInvalidTraffic
        },
        Case("display at 50 % for 1 s", .counted, measured(500_000, 1_000, .display)),
        Case("display below 50 %", .notViewable, measured(499_999, 1_000, .display)),
        Case("display below 1 s", .notViewable, measured(1_000_000, 999, .display)),
        Case("large display at 30 %", .counted, measured(300_000, 1_000, .largeDisplay)),
        Case("large display below 30 %", .notViewable, measured(299_999, 1_000, .largeDisplay)),
        Case("video at 50 % for 2 s", .counted, measured(500_000, 2_000, .video)),
        Case("video below 2 s", .notViewable, measured(500_000, 1_999, .video)),
        Case("video gets no relief for size", .notViewable, measured(300_000, 5_000, .video)),
        Case(
            "undetermined is refused by policy", .undetermined,
            policy: CountingPolicy(countsUndetermined: false)
        ) { _ in },
        Case("a click needs no viewability", .counted) {
            measured(0, 0, .display)(&$0)
            $0.type = EventType.click.rawValue
        },
        Case(
            "a click is never undetermined", .counted,
            policy: CountingPolicy(countsUndetermined: false)
        ) { $0.type = EventType.click.rawValue },
    ]

    @Test("each rule at its edge", arguments: cases)
    func rule(_ one: Case) {
        let verdict = one.policy.verdict(
            on: JudgedEvent(PacketRow(Self.event(one.change))), admissionTime: Self.now)
        #expect(verdict == one.expected)
    }

    /// Each breaks one rule; the list is in the order in which the rules apply.
    static let breakings: [(Verdict, @Sendable (inout EventDescriptor) -> Void)] = [
        (.noConsent, { $0.consent = Consent.optOut.rawValue }),
        (.tooOld, { $0.timestampMicroseconds = 0 }),
        (.invalidTraffic, { $0.flags |= EventDescriptor.Flags.isInvalidTraffic }),
        (
            .notViewable,
            {
                $0.flags |= EventDescriptor.Flags.isMeasured
                $0.durationMilliseconds = 1
            }
        ),
    ]

    @Test("of several rules broken, the first in order gives the verdict")
    func order() {
        for subset in 1..<(1 << Self.breakings.count) {
            let broken = Self.breakings.indices.filter { subset >> $0 & 1 == 1 }
            let event = Self.event { for index in broken { Self.breakings[index].1(&$0) } }
            let verdict = CountingPolicy().verdict(
                on: JudgedEvent(PacketRow(event)), admissionTime: Self.now)
            #expect(verdict == Self.breakings[broken[0]].0)
        }
    }

    @Test("no clock, however wrong, can trap")
    func clocks() {
        for clock in [Int64.min, -1, 0, Int64.max] {
            for time in [0, Limits.timestampMicrosecondsMax] {
                let event = Self.event { $0.timestampMicroseconds = time }
                let verdict = CountingPolicy().verdict(
                    on: JudgedEvent(PacketRow(event)), admissionTime: clock)
                #expect([.tooOld, .tooEarly, .counted].contains(verdict))
            }
        }
    }
}
