// packet → socket → ack → [loss]

/// The share of packets that is always lost, not by congestion: the least of some samples of packets that left while nothing
/// queued. Random loss is in every sample.
///
/// **Source** docs/protocol.md, "How fast", e.
struct LossFloor: Sendable {
    /// Packets of which it is known what became of them.
    struct Sample: Equatable, Sendable {
        var durableCount = 0
        var lostCount = 0

        var count: Int { durableCount + lostCount }
        var lossShare: Double { count == 0 ? 0 : Double(lostCount) / Double(count) }

        static func += (sum: inout Sample, other: Sample) {
            sum.durableCount += other.durableCount
            sum.lostCount += other.lostCount
        }

        static func - (whole: Sample, part: Sample) -> Sample {
            Sample(
                durableCount: whole.durableCount - part.durableCount,
                lostCount: whole.lostCount - part.lostCount)
        }

        /// Whether more was lost than a share that was learnt, by more than chance: standard deviations of both.
        func isAbove(_ share: Double, deviations: Double) -> Bool {
            guard lostCount >= 3 else { return false }
            // A sample that lost none tells of no share of 0: of a hundred one more may be lost by chance.
            let likely = share + 1 / Double(countMin)
            let variance = likely * (1 - likely) * (1 / Double(count) + 1 / Double(countMin))
            return lossShare > share + margin + deviations * variance.squareRoot()
        }
    }

    private static let shareMax = 0.5
    private static let margin = 0.02
    /// Packets of a sample.
    private static let countMin = 100
    /// A sample may be of all packets once these are so many times as many: few of them had left once.
    private static let allCountFactor = 2
    private static let sampleCount = 4
    /// One alone may tell of what another sender's startup has lost.
    private static let knownCount = 2

    /// The least of startup, for as long as it lasts: it overfills a short queue, and what that loses is not always lost.
    private var startupShare: Double?
    /// As long as they are too few: packets that had left once, and all.
    private var once = Sample()
    private var all = Sample()
    /// Of the last samples.
    private var shares: [Double] = []

    /// Whether there is a share of samples; before, losses are a reason to learn it, and for nothing else.
    var isKnown: Bool { shares.count >= Self.knownCount }

    var share: Double { min(Self.shareMax, (isKnown ? shares.min() : startupShare) ?? 0) }

    mutating func add(startup round: Sample) {
        startupShare = min(startupShare ?? 1, round.lossShare)
    }

    mutating func endStartup() { startupShare = nil }

    /// Packets leave slower from now on.
    mutating func begin() { (once, all) = (Sample(), Sample()) }

    /// - Parameter resent: those of the round that had left more than once. That such a packet was lost is known later than
    ///   that it is durable: they count only where few others leave.
    /// - Returns: whether the sample has enough packets, and there are enough samples.
    mutating func add(calm round: Sample, resent: Sample) -> Bool {
        once += round - resent
        all += round
        // The first ones are smaller: as long as nothing is known packets leave at half of the pace where many are lost.
        let countMin = isKnown ? Self.countMin : Self.countMin / 2
        guard once.count >= countMin || all.count >= Self.allCountFactor * countMin else {
            return false
        }
        if shares.count == Self.sampleCount { shares.removeFirst() }
        shares.append((once.count >= countMin ? once : all).lossShare)
        begin()
        return isKnown
    }
}

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
    mutating func heard() -> Bool {
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
