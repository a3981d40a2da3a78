import Dispatch
import IngestClient
import IngestFormat
import Synchronization

/// A sender that always has more to send than the path takes: the library's own, on a thread of its own.
struct PathLoad: Sendable {
    struct Figures {
        /// Events that were durable when the time was up, and in how long.
        var eventCount: UInt64 = 0
        var seconds = 0.0
        /// At the end, when all was durable.
        var totals = EventSender.Totals()

        var packetCount: UInt64 { totals.packetsSent }
        var sentCount: UInt64 { totals.packetsSent + totals.packetsResent }
        /// Of those packets that were durable when the time was up.
        var packetsPerSecond: Double {
            let share = Double(eventCount) / Double(max(1, totals.eventsSent))
            return share * Double(packetCount) / max(1e-9, seconds)
        }
    }

    let address: String
    var seconds = 0.0
    var unackedByteCountMax = 1 << 20
    var hasCongestionControl = true
    /// 0 = as fast as it goes.
    var eventsPerSecond = 0.0
    var key: EventSender.Key?
    var business = "b-1"

    /// Sends for its seconds, and then waits until everything is acked.
    func run() throws -> Figures {
        var options = EventSender.Options()
        options.unackedByteCountMax = unackedByteCountMax
        options.hasCongestionControl = hasCongestionControl
        options.key = key
        let sender = try EventSender.open(to: address, options: options)
        let startedAt = SenderClock.monotonicNanoseconds()
        try send(by: sender, until: startedAt + UInt64(seconds * 1e9))
        let elapsed = SenderClock.monotonicNanoseconds() - startedAt
        var figures = Figures(
            eventCount: sender.totals.eventsAcked, seconds: Double(elapsed) / 1e9)
        figures.totals = try sender.close(within: .seconds(120))
        return figures
    }

    private func send(by sender: EventSender, until end: UInt64) throws {
        let rewards = (0..<100).map { "\(business)-reward-\($0)" }
        let base = SeededRandom.mix(sender.epoch)
        var now = SenderClock.monotonicNanoseconds()
        var pace = SendPace(eventsPerSecond: eventsPerSecond > 0 ? eventsPerSecond : 1e9, now: now)
        var number: UInt64 = 0
        while now < end {
            var event = AdEvent(
                .impression, rewardID: rewards[Int(number % 100)], businessID: business,
                timestampMicroseconds: Int64(SenderClock.unixNanoseconds() / 1_000))
            event.eventID = Self.id(base, number)
            let wait = eventsPerSecond > 0 ? pace.take(now: now) : 0
            if wait == 0, try sender.send(event) == .taken {
                number += 1
                if number % 16 == 0 { now = SenderClock.monotonicNanoseconds() }
            } else {
                SenderClock.sleep(
                    untilMonotonicNanoseconds: now + min(max(wait, 200_000), end - now))
                now = SenderClock.monotonicNanoseconds()
            }
        }
    }

    private static func id(_ base: UInt64, _ number: UInt64) -> [UInt8] {
        var id = [UInt8](repeating: 0, count: 16)
        for i in 0..<8 {
            id[i] = UInt8(truncatingIfNeeded: base >> (8 * UInt64(i)))
            id[8 + i] = UInt8(truncatingIfNeeded: number >> (8 * UInt64(i)))
        }
        return id
    }

    /// Runs several at once, each on a thread of its own.
    static func run(_ loads: [PathLoad], beside body: () throws -> Void = {}) throws -> [Figures] {
        let results = loads.map { load in BackgroundRun { try load.run() } }
        try body()
        return try results.map { try $0.value() }
    }
}

/// A call on a thread of its own, and what it has given.
final class BackgroundRun<Value: Sendable>: Sendable {
    private let result = Mutex<Result<Value, BenchFailure>?>(nil)
    private let queue = DispatchQueue(label: "ingest-bench.run")

    init(_ body: @escaping @Sendable () throws -> Value) {
        queue.async { [self] in
            let value = Result { try body() }.mapError { BenchFailure("\($0)") }
            result.withLock { $0 = value }
        }
    }

    func value() throws -> Value {
        queue.sync {}
        return try result.withLock { $0 }!.get()
    }
}
