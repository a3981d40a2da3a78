// events → [pace] → packet → socket

/// A token bucket on a monotonic clock: says how long to wait so that, over any time, no more than
/// `eventsPerSecond` leave, plus one bucket. A pure value: the caller brings the time and does the waiting.
///
/// The bucket holds `bucketNanoseconds` of tokens and at least one, so a slow rate leaves event by event,
/// and a fast one in bursts of that length with one clock reading each. Tokens that do not fit are lost:
/// a sender that was held up goes on at its rate and does not catch up.
package struct SendPace: Sendable {
    /// 2 ms: long against a timer's slack of 50 µs, short against any receive buffer.
    package static let bucketNanoseconds: UInt64 = 2_000_000

    private let nanosecondsPerEvent: Double
    private let bucketEventCount: Double
    private var tokens: Double
    private var filledAt: UInt64

    /// - Parameters:
    ///   - eventsPerSecond: above 0.
    ///   - now: nanoseconds of the clock whose readings `take` gets.
    package init(eventsPerSecond: Double, now: UInt64) {
        precondition(eventsPerSecond > 0 && eventsPerSecond.isFinite)
        nanosecondsPerEvent = 1_000_000_000 / eventsPerSecond
        bucketEventCount = max(1, Double(Self.bucketNanoseconds) / nanosecondsPerEvent)
        tokens = 1
        filledAt = now
    }

    /// Whether the next event can be taken without a look at the clock.
    package var hasToken: Bool { tokens >= 1 }

    /// Takes one event's token, or says how many nanoseconds to wait before asking again.
    ///
    /// - Returns: 0: the event may leave. Else the time until the bucket is full, so that a fast rate
    ///   wakes once a bucket and not once an event.
    package mutating func take(now: UInt64) -> UInt64 {
        if tokens < 1 { fill(now: now) }
        guard tokens < 1 else {
            tokens -= 1
            return 0
        }
        return UInt64(((bucketEventCount - tokens) * nanosecondsPerEvent).rounded(.up))
    }

    private mutating func fill(now: UInt64) {
        guard now > filledAt else { return }
        tokens = min(bucketEventCount, tokens + Double(now - filledAt) / nanosecondsPerEvent)
        filledAt = now
    }
}
