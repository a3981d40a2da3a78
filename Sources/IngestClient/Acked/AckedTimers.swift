// events → [time] → packet → socket → ack

/// When an acked sender has to do something by itself. **Units** Nanoseconds of the monotonic clock; `.max`
/// = never.
struct AckedTimers: Sendable {
    static let heartbeatMax: UInt64 = 1_000_000_000
    static let heartbeatMin: UInt64 = 100_000_000

    /// Longer gaps between answers are silence, and not the receiver's refusal of packets.
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
    /// The last answer, or when the first packet of those that wait for one was sent.
    var heardAt: UInt64
    /// When a packet was acked last; moved on by the time in which none could have been.
    private var progressAt: UInt64 = 0
    /// Since when packets are on their way without a break; `nil` while none is.
    var waitsSince: UInt64?
    var route = RouteWatch()
    private(set) var hasHeard = false
    /// The network's last refusal since the last answer.
    var networkError: ClientError?

    init(now: UInt64) {
        heartbeatAt = now
        heardAt = now
    }

    /// - Parameter isHurried: the credit is 0, or not known yet.
    mutating func heartbeatSent(now: UInt64, isHurried: Bool) {
        heartbeatSentAt = now
        heartbeatAt = now + (isHurried ? heartbeatInterval : Self.heartbeatMax)
        heartbeatInterval = min(Self.heartbeatMax, 2 * heartbeatInterval)
    }

    /// The credit is 0 from now on: ask soon, then less and less often.
    mutating func hurryHeartbeat(now: UInt64) {
        heartbeatInterval = Self.heartbeatMin
        heartbeatAt = min(heartbeatAt, now + heartbeatInterval)
        heartbeatInterval *= 2
    }

    /// The receiver wants to know the base: at once, but not more often than ten times a second.
    mutating func requestHeartbeat(now: UInt64) {
        heartbeatAt = min(heartbeatAt, max(now, heartbeatSentAt + Self.heartbeatMin))
    }

    mutating func heard(now: UInt64) {
        let gap = now - min(now, heardAt)
        if gap >= Self.silenceMin {
            progressAt = min(now, max(progressAt, waitsSince ?? 0) + gap)
        }
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

    mutating func endStall() {
        stalledSince = nil
        spoolRetryAt = .max
    }

    /// A packet was acked, or none can be: no credit, nothing taken.
    mutating func progressed(now: UInt64) { progressAt = now }

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

    /// How long answers came and no packet was acked, while some could have been.
    func stagnation(now: UInt64) -> UInt64 {
        guard let waitsSince else { return 0 }
        let gap = now - min(now, heardAt)
        let isSilent = gap >= Self.silenceMin
        return now - min(now, max(progressAt, waitsSince) + (isSilent ? gap : 0))
    }
}
