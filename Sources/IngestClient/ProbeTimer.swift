// packet → socket → [time] → ack

/// When a sender asks what has become of its packets, since no ack tells: by a heartbeat, and not by sending them again, for
/// a disk that stalls would get everything twice. Only an ack of packets ends the doubling, or an answer that they are there:
/// heartbeats are small, and may get through where packets do not.
///
/// **Units** Nanoseconds of the monotonic clock.
/// **Source** RFC 6298: smoothed mean and deviation of round trips, commit and all; what was sent twice is not measured
/// (Karn).
struct ProbeTimer: Sendable {
    /// Before anything was measured.
    static let waitFirst: UInt64 = 500_000_000
    /// An ack comes with a commit: some milliseconds, and a slow disk's flush on top.
    static let waitMin: UInt64 = 100_000_000
    static let waitMax: UInt64 = 5_000_000_000
    /// So many questions since anything was durable mean that nothing gets through, if the first was asked so long ago: at a loss
    /// of 30 % either way half of them have no answer.
    private static let fruitlessCountMax = 3
    private static let silenceMin: UInt64 = 2_000_000_000

    private var smoothed: UInt64?
    private var deviation: UInt64 = 0
    private var doublingCount: UInt64 = 0
    private var fruitlessCount = 0
    private var askedAt: UInt64 = 0
    /// Nothing gets through: one packet at a time tries to.
    private(set) var isBlackHole = false
    /// `.max` while nothing is on its way.
    private(set) var firesAt = UInt64.max

    mutating func measured(_ sample: UInt64) {
        // A machine that slept is not a slow network.
        let sample = min(sample, Self.waitMax)
        guard let smoothed else {
            smoothed = sample
            deviation = sample / 2
            return
        }
        let distance = sample > smoothed ? sample - smoothed : smoothed - sample
        deviation = (3 * deviation + distance) / 4
        self.smoothed = (7 * smoothed + sample) / 8
    }

    /// Twice as long each time.
    var wait: UInt64 {
        let first = smoothed.map { max(Self.waitMin, $0 + 4 * deviation) } ?? Self.waitFirst
        return min(Self.waitMax, min(first, Self.waitMax) << min(doublingCount, 16))
    }

    /// A packet left, or is on its way.
    mutating func start(now: UInt64) { if firesAt == .max { firesAt = now + wait } }

    /// Nothing is on its way.
    mutating func stop() { firesAt = .max }

    /// It has asked since anything became durable.
    private var hasFired: Bool { fruitlessCount > 0 }

    /// Whether there is anything to ask about: packets in flight, or all were lost since something was durable.
    func isNeeded(_ inFlightCount: Int) -> Bool { inFlightCount > 0 || hasFired }

    mutating func watch(_ inFlightCount: Int, now: UInt64) {
        if isNeeded(inFlightCount) { start(now: now) } else { stop() }
    }

    /// A question was answered. Where nothing had got through a packet tries at once.
    ///
    /// - Parameter ackedCount: packets that it calls durable for the first time.
    /// - Returns: whether none was since the timer fired.
    mutating func answered(now: UInt64, acked ackedCount: UInt64) -> Bool {
        guard ackedCount == 0, hasFired else { return false }
        if isBlackHole { firesAt = now }
        return true
    }

    /// An ack told of packets, or that they are there.
    /// - Returns: whether nothing had got through.
    mutating func heard(now: UInt64) -> Bool {
        defer { isBlackHole = false }
        (doublingCount, fruitlessCount, firesAt) = (0, 0, .max)
        return isBlackHole
    }

    /// The packets are there, and wait for the disk.
    mutating func pending(now: UInt64) {
        (fruitlessCount, isBlackHole) = (0, false)
        firesAt = now + wait
    }

    mutating func fired(now: UInt64) {
        doublingCount = min(doublingCount + 1, 16)
        if fruitlessCount == 0 { askedAt = now }
        fruitlessCount += 1
        isBlackHole =
            isBlackHole
            || fruitlessCount >= Self.fruitlessCountMax && now - askedAt >= Self.silenceMin
        firesAt = now + wait
    }
}
