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
