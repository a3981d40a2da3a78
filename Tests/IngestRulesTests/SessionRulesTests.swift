import IngestFormat
import IngestRules
import Testing

/// The rules on sessions at both sides of each boundary.
struct SessionRulesTests {
    private static let noon: Int64 = 1_763_640_000_000_000
    private static let minute: Int64 = 60_000_000
    private static let (impression, click) = (
        EventType.impression.rawValue, EventType.click.rawValue
    )

    @Test(
        "A click nearer to the last one than the interval is too soon",
        arguments: [
            (1_000, 999_999, true), (1_000, 1_000_000, false), (1_000, -999_999, true),
            (1_000, -1_000_000, false), (1_000, 0, true), (0, 0, false), (1, 999, true),
            (1, 1_000, false),
        ] as [(UInt32, Int64, Bool)])
    func clickInterval(milliseconds: UInt32, distance: Int64, isTooSoon: Bool) {
        let policy = SessionPolicy(clickIntervalMilliseconds: milliseconds)
        #expect(policy.isTooSoon(Self.noon + distance, after: Self.noon) == isTooSoon)
    }

    @Test(
        "Times at both ends make an interval too", arguments: [0, Limits.timestampMicrosecondsMax])
    func endsOfTime(time: Int64) {
        #expect(SessionPolicy().isTooSoon(time, after: time))
        #expect(!SessionPolicy().isTooSoon(Self.noon, after: time))
    }

    @Test("As many events a minute as the limit count, one more is invalid", arguments: [1, 2, 30])
    func rates(limit: UInt32) {
        let policy = SessionPolicy(impressionsPerMinuteMax: limit, clicksPerMinuteMax: limit)
        for (type, rule) in [
            (Self.impression, InvalidTrafficRule.impressionRate), (Self.click, .clickRate),
        ] {
            var rates = SessionRates()
            let last = Self.noon + Self.minute - 1
            for number in 0..<limit {
                let time = number % 2 == 0 ? Self.noon : last
                #expect(rates.broken(by: type, at: time, policy) == nil)
                rates.add(type, at: time)
            }
            for time in [Self.noon, last] {
                #expect(rates.broken(by: type, at: time, policy) == rule)
            }
            // Times of minutes before count for the newest, the next minute is a new one.
            #expect(rates.broken(by: type, at: Self.noon - Self.minute, policy) == rule)
            #expect(rates.broken(by: type, at: 0, policy) == rule)
            #expect(rates.broken(by: type, at: Self.noon + Self.minute, policy) == nil)
            // Each type has its own limit, redemptions have none.
            let other = type == Self.click ? Self.impression : Self.click
            #expect(rates.broken(by: other, at: last, policy) == nil)
            #expect(rates.broken(by: EventType.redemption.rawValue, at: last, policy) == nil)
            rates.add(other, at: Self.noon + Self.minute)
            #expect(rates.broken(by: type, at: last, policy) == nil)
        }
    }

    @Test("A limit of 0 is none, and the greatest is kept to")
    func ends() {
        let none = SessionPolicy(impressionsPerMinuteMax: 0, clicksPerMinuteMax: 0)
        let greatest = SessionPolicy(impressionsPerMinuteMax: UInt32(UInt16.max))
        var rates = SessionRates()
        for _ in 0..<Int(UInt16.max) - 1 { rates.add(Self.impression, at: Self.noon) }
        #expect(rates.broken(by: Self.impression, at: Self.noon, greatest) == nil)
        for _ in 0..<3 { rates.add(Self.impression, at: Self.noon) }
        #expect(rates.broken(by: Self.impression, at: Self.noon, greatest) == .impressionRate)
        #expect(rates.broken(by: Self.impression, at: Self.noon, none) == nil)
        #expect(rates.broken(by: Self.click, at: Self.noon, none) == nil)
    }
}
