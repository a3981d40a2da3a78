// events → [time] → packet → socket → ack

import Glibc
import IngestFormat

/// When a sender has to do something by itself. **Units** Nanoseconds of the monotonic clock; `.max`
/// = never.
struct SenderTimers: Sendable {
    static let heartbeatMax: UInt64 = 1_000_000_000
    static let heartbeatMin: UInt64 = 100_000_000

    /// Longer gaps between acks are silence: so much of one counts as time in which packets could have been acked.
    static let silenceMin: UInt64 = 2_000_000_000
    static let spoolRetryInterval: UInt64 = 1_000_000_000

    /// When the open packet leaves, full or not.
    var batchDueAt = UInt64.max
    /// When the spool's disk, which was full, is tried again.
    private(set) var spoolRetryAt = UInt64.max
    private(set) var stalledSince: UInt64?
    private(set) var heartbeatAt: UInt64
    private(set) var heartbeatSentAt: UInt64 = 0
    private var heartbeatInterval = Self.heartbeatMin
    /// Nothing is sent before this: the network has just refused something. 0 = it has not.
    private(set) var quietUntil: UInt64 = 0
    private var quietInterval: UInt64 = 0
    /// The last ack, or when the first packet of those that wait for one was sent.
    var heardAt: UInt64
    /// When a packet was acked last; moved on by the time in which none could have been.
    private var progressAt: UInt64 = 0
    /// Since when packets are on their way without a break; `nil` while none is.
    var waitsSince: UInt64?
    /// Since when the receiver, or its disk, has taken nothing, and nothing was acked, and why.
    private var block: (since: UInt64, cause: ClientError.BlockCause)?
    var route = RouteWatch()
    private(set) var hasHeard = false
    private let isAcked: Bool
    /// The last network error since the last ack.
    var networkError: ClientError?

    /// - Parameter isAcked: a heartbeat leaves first; else none before there is a packet to tell of.
    init(now: UInt64, isAcked: Bool) {
        self.isAcked = isAcked
        heartbeatAt = isAcked ? now : .max
        heardAt = now
    }

    /// A packet has left that is not acked: heartbeats follow it.
    mutating func beginHeartbeats(now: UInt64) {
        if heartbeatAt == .max { heartbeatAt = now + Self.heartbeatMax }
    }

    /// - Parameters:
    ///   - isHurried: the credit is 0, or not known yet.
    ///   - random: any bits.
    mutating func heartbeatSent(now: UInt64, isHurried: Bool, random: UInt64) {
        heartbeatSentAt = now
        heartbeatAt =
            now + Self.spread(isHurried ? heartbeatInterval : Self.heartbeatMax, by: random)
        heartbeatInterval = min(Self.heartbeatMax, 2 * heartbeatInterval)
    }

    /// The credit is 0 from now on: ask soon, then less and less often.
    mutating func hurryHeartbeat(now: UInt64, random: UInt64) {
        heartbeatInterval = Self.heartbeatMin
        heartbeatAt = min(heartbeatAt, now + Self.spread(heartbeatInterval, by: random))
        heartbeatInterval *= 2
    }

    /// A quarter more or less at most, by the 16 low bits: senders that a restart of the receiver has brought together part.
    private static func spread(_ interval: UInt64, by random: UInt64) -> UInt64 {
        let share = Int64(Int16(truncatingIfNeeded: random))
        return UInt64(Int64(interval) + Int64(interval) * share / (1 << 17))
    }

    /// The receiver wants to know the base: at once, but not more often than ten times a second.
    mutating func requestHeartbeat(now: UInt64) {
        heartbeatAt = min(heartbeatAt, max(now, heartbeatSentAt + Self.heartbeatMin))
    }

    mutating func heard(now: UInt64) {
        let excess = silenceExcess(now: now)
        if excess > 0 { progressAt = min(now, max(progressAt, waitsSince ?? 0) + excess) }
        route.found()
        heardAt = now
        hasHeard = true
        networkError = nil
        quietInterval = 0
        quietUntil = 0
    }

    /// - Parameter isRetried: whether the sender tries again by itself.
    mutating func stalled(now: UInt64, isRetried: Bool) {
        stalledSince = stalledSince ?? now
        spoolRetryAt = isRetried ? now + Self.spoolRetryInterval : .max
    }

    /// It is being tried: what becomes of that sets the time of the next try.
    mutating func retried() { spoolRetryAt = .max }

    mutating func endStall() {
        stalledSince = nil
        spoolRetryAt = .max
    }

    /// A packet was acked, or none can be: no credit, nothing taken.
    mutating func progressed(now: UInt64) { progressAt = now }

    /// The receiver, or its disk, takes nothing now.
    mutating func blocked(by cause: ClientError.BlockCause, now: UInt64) {
        block = (block?.since ?? now, cause)
    }

    mutating func unblocked() { block = nil }

    /// For how long packets have waited while the receiver took nothing, and why it does not.
    func block(now: UInt64) -> (nanoseconds: UInt64, cause: ClientError.BlockCause)? {
        guard let block, let waitsSince else { return nil }
        return (now - min(now, max(block.since, waitsSince)), block.cause)
    }

    mutating func quieten(now: UInt64) {
        guard now >= quietUntil else { return }
        quietInterval = min(Self.heartbeatMax, max(Self.heartbeatMin, 2 * quietInterval))
        quietUntil = now + quietInterval
    }

    /// Whether the network may be tried; ends the quiet time if it is over.
    mutating func endsQuiet(now: UInt64) -> Bool {
        if now >= quietUntil { quietUntil = 0 }
        return quietUntil == 0
    }

    /// How long nothing was heard while packets were on their way.
    func silence(now: UInt64) -> UInt64 {
        guard let waitsSince else { return 0 }
        return now - min(now, max(heardAt, waitsSince))
    }

    /// How long acks came that told of nothing new, while they could have.
    func stagnation(now: UInt64) -> UInt64 {
        guard let waitsSince else { return 0 }
        return now - min(now, max(progressAt, waitsSince) + silenceExcess(now: now))
    }

    /// Whether to connect again after an error of the network: there was no route for some seconds, or the port is
    /// unreachable and no ack has come yet, as at one of several addresses of a name.
    mutating func isReconnectDue(
        now: UInt64, after error: ClientError, hasNewAddress: Bool
    ) -> Bool {
        if case .notListening = error, isAcked, !hasHeard {
            return route.isReconnectDue(now: now, refusedBut: hasNewAddress)
        }
        return route.isReconnectDue(now: now, lacksRoute: error.isUnreachable)
    }

    /// Whether to connect to another address of a name that has several: there is no route to this one, or no ack from it.
    var movesOn: Bool { !hasHeard || networkError?.isUnreachable == true }

    /// The part of the time since the last ack in which none could have told of packets.
    private func silenceExcess(now: UInt64) -> UInt64 {
        let gap = now - min(now, heardAt)
        return gap - min(gap, Self.silenceMin)
    }
}

/// Since when there is no route to the receiver. **Units** Nanoseconds of the monotonic clock.
struct RouteWatch: Sendable {
    /// Without a route for so long the socket's own address may be gone.
    static let reconnectInterval: UInt64 = 3_000_000_000

    /// After so long a silence it may be gone too: packets still leave from it, and the acks are lost.
    static let silenceMax: UInt64 = 10_000_000_000

    private var lostSince: UInt64?
    private var silentSince: UInt64?
    private var refusedSince: UInt64?

    mutating func found() { (lostSince, silentSince, refusedSince) = (nil, nil, nil) }

    /// Whether to connect again where the port is unreachable: at once, and to another address as soon as one is known.
    mutating func isReconnectDue(now: UInt64, refusedBut hasNewAddress: Bool) -> Bool {
        if !hasNewAddress, let refusedSince,
            now - min(now, refusedSince) < Self.reconnectInterval
        {
            return false
        }
        refusedSince = now
        return true
    }

    /// Whether to connect again, since nothing was heard for too long: sooner to a new address, but long enough for answers to
    /// have come from the last one, as of a name with several.
    mutating func isReconnectDue(now: UInt64, hasNewAddress: Bool) -> Bool {
        let interval = hasNewAddress ? Self.reconnectInterval : Self.silenceMax
        if let silentSince, now - min(now, silentSince) < interval { return false }
        silentSince = now
        return true
    }

    /// Whether to connect again, after an error of the network: for some seconds now there was no route.
    mutating func isReconnectDue(now: UInt64, lacksRoute: Bool) -> Bool {
        guard lacksRoute else {
            lostSince = nil
            return false
        }
        let since = lostSince ?? now
        let isDue = now - min(now, since) >= Self.reconnectInterval
        lostSince = isDue ? now : since
        return isDue
    }
}

/// The two clocks that senders read.
package enum SenderClock {
    /// CLOCK_MONOTONIC: for pacing and ages; unaffected by steps of the wall clock.
    package static func monotonicNanoseconds() -> UInt64 { nanoseconds(CLOCK_MONOTONIC) }

    /// CLOCK_REALTIME since 1970 UTC: for epochs and event times.
    package static func unixNanoseconds() -> UInt64 { nanoseconds(CLOCK_REALTIME) }

    /// Sleeps until the monotonic clock reads this; at once if it already does. Signals do not cut it
    /// short.
    package static func sleep(untilMonotonicNanoseconds deadline: UInt64) {
        var time = timespec(
            tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        // SAFETY: `time` is read only; with TIMER_ABSTIME nothing is written back.
        while unsafe clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nil) == EINTR {}
    }

    private static func nanoseconds(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        // SAFETY: the kernel writes one timespec.
        unsafe clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

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

// MARK: What a stream does by itself, and when

extension SenderStream {
    /// The credit is 0 from now on.
    mutating func hurryHeartbeat(now: UInt64) {
        timers.hurryHeartbeat(now: now, random: configuration.makeNonce())
    }

    /// Does what is due: at `nextDeadline`, or earlier.
    package mutating func tick(now: UInt64) {
        guard failure == nil else { return }
        let silence = timers.silence(now: now)
        if silence >= RouteWatch.silenceMax,
            timers.route.isReconnectDue(now: now, hasNewAddress: transport.hasNewAddress)
        {
            reconnect()
        }
        if isTooLarge(now: now) { shrinkPackets() }
        if now >= probe.firesAt { ask(now: now) }
        let isFlushDue = now >= min(timers.batchDueAt, timers.spoolRetryAt)
        if isFlushDue { flush(now: now) } else { pump(now: now) }
        if failure == nil, now >= timers.heartbeatAt { sendHeartbeat(now: now) }
        if failure == nil, let silenceMax {
            failure = obstacle(
                now: now, silenceMax: silenceMax,
                stagnationMax: max(silenceMax, Self.stagnationNanoseconds),
                blockMax: spool == nil ? silenceMax : .max)
        }
    }

    /// Whether heartbeats pass and full packets seem not to.
    private func isTooLarge(now: UInt64) -> Bool {
        isAcked && maySend
            && encoder.packetByteCountMax > PacketEncoder.packetByteCountLimits.lowerBound
            && timers.silence(now: now) < SenderTimers.silenceMin
            && timers.stagnation(now: now) >= Self.stagnationNanoseconds
    }

    /// No ack has told of packets for too long. A heartbeat asks; where nothing gets through, a packet tries to.
    private mutating func ask(now: UInt64) {
        guard probe.isNeeded(congestion.inFlightCount), maySend else { return probe.stop() }
        probe.fired(now: now)
        guard probe.isBlackHole else { return sendHeartbeat(now: now) }
        let first = window.base
        guard first < min(window.sentEnd, acks.edge), send([first], now: now) else { return }
        // And one of the new ones, where it is larger than those.
        let byteCountMax = encoder.smallByteCountMax
        if window[first].byteCount <= byteCountMax { return }
        if let small = firstToSend(byteCountMax: byteCountMax) { _ = send([small], now: now) }
    }

    /// The first packet of those that may be sent that is no larger than this: larger ones may lie before it.
    ///
    /// **Cost** A look at each packet before it.
    private func firstToSend(byteCountMax: Int) -> UInt64? {
        let sentEnd = window.sentEnd
        let end = min(window.nextSequence, max(min(sentEnd, acks.edge), newEdge))
        return (window.base..<max(window.base, end)).first { sequence in
            let entry = window[sequence]
            let isDue =
                sequence < sentEnd ? entry.state == .lost && sequence < acks.edge : !entry.isDone
            return isDue && entry.byteCount <= byteCountMax
        }
    }

    /// When `tick` has something to do; `.max` for a sender that has ended.
    package var nextDeadline: UInt64 {
        guard failure == nil else { return .max }
        var deadline = min(timers.batchDueAt, timers.heartbeatAt, timers.spoolRetryAt)
        deadline = min(deadline, probe.firesAt)
        if maySend, !window.isEmpty {
            deadline = min(deadline, timers.quietUntil > 0 ? timers.quietUntil : departsAt)
        }
        return deadline
    }
}
