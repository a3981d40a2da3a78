import Testing

@testable import IngestClient

/// Pacing as a pure function of a clock that the test turns.
struct SendPaceTests {
    /// Takes events as fast as the pace allows, the clock moving only by the waits it asks for.
    ///
    /// - Returns: when each event left.
    private static func departures(
        eventsPerSecond: Double, count: Int, oversleep: UInt64 = 0
    ) -> [UInt64] {
        var now: UInt64 = 1_000_000
        var pace = SendPace(eventsPerSecond: eventsPerSecond, now: now)
        return (0..<count).map { _ in
            while true {
                let wait = pace.take(now: now)
                if wait == 0 { return now }
                now += wait + oversleep
            }
        }
    }

    @Test(arguments: [0.001, 0.5, 1, 10, 499, 500, 1_000, 20_000, 1_000_000, 1_000_000_000])
    func `In any span no more leaves than rate and bucket allow, and not much less`(rate: Double) {
        let count = max(10, min(20_000, Int(rate * 5)))
        let times = Self.departures(eventsPerSecond: rate, count: count)
        let bucket = max(2, rate * Double(SendPace.bucketNanoseconds) / 1e9)
        for start in stride(from: 0, to: count, by: max(1, count / 50)) {
            for end in stride(from: start, to: count, by: max(1, count / 50)) {
                let seconds = Double(times[end] - times[start]) / 1e9
                #expect(Double(end - start) <= seconds * rate + bucket + 1e-6)
            }
        }
        let seconds = Double(times[count - 1] - times[0]) / 1e9
        #expect(Double(count - 1) >= seconds * rate - bucket)
    }

    @Test func `A slow rate leaves event by event, at equal distances`() {
        let times = Self.departures(eventsPerSecond: 10, count: 20)
        let gaps = zip(times.dropFirst(), times).map { Int64($0) - Int64($1) }
        #expect(gaps.allSatisfy { abs($0 - 100_000_000) <= 1 })
    }

    @Test func `A fast rate sleeps a thousand times a second, not once an event`() {
        let times = Self.departures(eventsPerSecond: 1_000_000, count: 100_000)
        #expect(Set(times).count <= 100_000 / 1_000 + 2)
    }

    @Test(arguments: [1, 100, 500, 1_000, 5_000, 20_000, 1_000_000] as [Double])
    func `Oversleeping costs no rate, as long as the bucket holds what was missed`(rate: Double) {
        for oversleep in [60_000, 300_000, 900_000] as [UInt64] {
            let count = max(200, Int(rate))
            let times = Self.departures(
                eventsPerSecond: rate, count: count, oversleep: oversleep)
            let seconds = Double(times.last! - times.first!) / 1e9
            let reached = Double(count - 1) / seconds
            #expect(abs(reached / rate - 1) < 0.01, "\(rate)/s, \(oversleep) ns late: \(reached)/s")
        }
    }

    @Test(arguments: [Double.leastNonzeroMagnitude, 1e-12, 0.001, 1e9, 1e300])
    func `No rate makes a wait that cannot be added to a time`(rate: Double) {
        var pace = SendPace(eventsPerSecond: rate, now: 0)
        for now in [0, 1, UInt64.max / 2] as [UInt64] {
            #expect(pace.take(now: now) <= 3_600_000_000_000)
        }
    }

    @Test func `What was held up does not catch up`() {
        var pace = SendPace(eventsPerSecond: 1_000, now: 0)
        #expect(pace.take(now: 0) == 0)
        var count = 0
        while pace.take(now: 60_000_000_000) == 0 { count += 1 }
        #expect(count == 4)
    }

    @Test func `A clock that stands still or goes back gives nothing`() {
        var pace = SendPace(eventsPerSecond: 1_000, now: 1_000)
        #expect(pace.take(now: 1_000) == 0)
        #expect(pace.take(now: 1_000) > 0)
        #expect(pace.take(now: 0) > 0)
    }
}
