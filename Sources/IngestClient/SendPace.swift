// events → [pace] → packet → socket

/// A token bucket on a monotonic clock: says how long to wait so that, over any time, no more than
/// `eventsPerSecond` leave, plus one bucket. A pure value: the caller brings the time and does the waiting.
///
/// An empty bucket is waited for until it holds `fillNanoseconds` of tokens and at least one, so a slow rate
/// leaves event by event, and a fast one in bursts of that length with one sleep each. It holds some more,
/// at least two, so that a sleep that lasts too long costs no rate. Tokens that do not fit are lost: a
/// sender that was held up goes on at its rate and does not catch up.
package struct SendPace: Sendable {
    /// One event in 17 minutes … one a nanosecond.
    package static let eventsPerSecondLimits = 0.001...1_000_000_000.0
    /// 1 ms: long against a timer's slack of 50 µs, short against any receive buffer.
    package static let fillNanoseconds: UInt64 = 1_000_000
    /// 4 ms: a busy machine wakes a sleeper that late now and then.
    package static let bucketNanoseconds: UInt64 = 4_000_000
    /// No wait is longer: an hour, so that no sum of a time and a wait can overflow.
    private static let waitNanosecondsMax = 3_600_000_000_000.0

    private let nanosecondsPerEvent: Double
    private let fillEventCount: Double
    private let bucketEventCount: Double
    private var tokens: Double
    private var filledAt: UInt64

    /// - Parameters:
    ///   - eventsPerSecond: above 0; programs take `eventsPerSecondLimits`.
    ///   - now: nanoseconds of the clock whose readings `take` gets.
    package init(eventsPerSecond: Double, now: UInt64) {
        precondition(eventsPerSecond > 0 && eventsPerSecond.isFinite)
        nanosecondsPerEvent = 1_000_000_000 / eventsPerSecond
        fillEventCount = max(1, Double(Self.fillNanoseconds) / nanosecondsPerEvent)
        bucketEventCount = max(2, Double(Self.bucketNanoseconds) / nanosecondsPerEvent)
        tokens = 1
        filledAt = now
    }

    /// Takes one event's token, or says how many nanoseconds to wait before asking again.
    ///
    /// - Returns: 0: the event may leave. Else the time until there is enough for a burst, so that a fast
    ///   rate wakes once a burst and not once an event; an hour at most.
    package mutating func take(now: UInt64) -> UInt64 {
        if tokens < 1 { fill(now: now) }
        guard tokens < 1 else {
            tokens -= 1
            return 0
        }
        let wait = ((fillEventCount - tokens) * nanosecondsPerEvent).rounded(.up)
        return UInt64(min(wait, Self.waitNanosecondsMax))
    }

    private mutating func fill(now: UInt64) {
        guard now > filledAt else { return }
        tokens = min(bucketEventCount, tokens + Double(now - filledAt) / nanosecondsPerEvent)
        filledAt = now
    }
}
