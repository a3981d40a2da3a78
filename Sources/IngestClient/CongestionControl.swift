// packet → [permission] → socket → ack

/// How many packets of a sender may be on their way, and how fast they leave: from when packets left, when acks said that
/// they are durable, and which were lost.
///
/// A pure value: no clock, no socket. It has a pace, which grows while packets neither queue nor are lost more than always,
/// and is cut, by a tenth at least, when they do. Acks come once a commit, and a disk that stalls is no full network; so it
/// looks at rounds: the least delay, what was lost, and how many packets became durable for how many that left. Random loss is
/// in every round, and costs no pace: the least that was lost of some hundred packets while nothing queued is always lost.
///
/// **Units** Nanoseconds of the monotonic clock; rates and paces in packets a nanosecond.
/// **Source** RFC 8085; the rules and their letters are those of docs/protocol.md; why, in decision 51.
struct CongestionControl: Sendable {
    /// What is known of a packet when it leaves.
    struct Departure: Sendable {
        /// Of all that left; 0 = it has not.
        var number: UInt64 = 0
        var at: UInt64 = 0
        /// Packets that were durable then, and since when so many were.
        fileprivate var durableCount: UInt64 = 0
        fileprivate var durableAt: UInt64 = 0

        init(number: UInt64 = 0, at: UInt64 = 0) { (self.number, self.at) = (number, at) }
    }

    /// What an ack has told of packets.
    struct Progress: Equatable, Sendable {
        /// Packets that it calls durable for the first time, and those of them that were in flight.
        var durableCount = 0
        var landedCount = 0
        /// Packets in flight that were judged lost.
        var lostCount = 0
        /// Of the durable and the lost ones, those that had left more than once.
        var resent = LossFloor.Sample()
        /// When the question left that it answers; 0 = it was not asked for.
        var askedAt: UInt64 = 0
        /// The timer has fired since anything became durable.
        var hasTimedOut = false

        /// How long packets took is not known by an answer.
        var isAnswer: Bool { askedAt > 0 }
    }

    private enum Phase: Equatable {
        case startup
        /// Grows each round.
        case growth
        /// After a cut, until the queue is gone; so many rounds of it are over.
        case settling(Int)
    }

    private struct Round {
        var beganAt: UInt64 = 0
        /// Packets of which it told, and those of them that had left more than once.
        var told = LossFloor.Sample()
        var resent = LossFloor.Sample()
        var minDelay = UInt64.max
        var gap: UInt64 = 0
        /// Greatest in startup.
        var rate = 0.0
        /// The source had too little to send, or the receiver took nothing.
        var isLimited = false
        var isShed = false
        /// It waited for an answer: its time tells nothing of a rate.
        var hasAsked = false
    }

    /// Bytes that may leave before anything is known, and the time over which they do.
    private static let firstByteCount = 16 << 10
    private static let firstNanoseconds: UInt64 = 10_000_000
    private static let startupGain = 2.885
    private static let cutGain = 0.9
    private static let cutGainMin = 0.5
    /// Each 100 ms, or least delay if that is longer, so many times the square root of the packets in flight are added to
    /// them: the smaller of two paces grows by the greater part.
    private static let growthCount = 0.25
    private static let growthNanoseconds = 100_000_000.0
    /// A round adds so much of the pace for each so many rounds without a cut; those after which it settles anyway.
    private static let growthGain = 0.02
    private static let fasterRoundCount = 8
    private static let roundCountMax = 32
    /// Of the pace while packets still queue, or it is to be learnt what is always lost.
    private static let dipGain = 0.85
    /// And where that is more than so much, or how short the way is without a queue: congestion ceases with it.
    private static let deepLoss = 0.1
    private static let deepGain = 0.5
    private static let settlingRoundCountMax = 20
    /// Of a round: the least time, and packets that became durable or were lost.
    private static let roundNanosecondsMin: UInt64 = 20_000_000
    private static let roundPacketCountMin = 16
    private static let startupPacketCountMin = 50
    private static let gapCount = 10
    private static let gapMax: UInt64 = 50_000_000
    private static let queueNanosecondsMin: UInt64 = 3_000_000
    private static let delayAgeMax: UInt64 = 5_000_000_000
    private static let idleMax: UInt64 = 10_000_000_000
    /// In flight beyond what delay and commits need.
    private static let slackNanoseconds = 10_000_000.0
    /// Packets over which loss is judged, and standard deviations that are chance; fewer packets need more of them.
    private static let recentCountMin = 200
    private static let deviations = 3.0
    private static let earlyDeviations = 4.0
    /// Of the pace: what leaves in one go.
    private static let burstNanoseconds = 1_000_000.0

    private(set) var inFlightCount = 0
    /// Since it began, or began again.
    private var landedCount = 0
    private let leastCount: Int
    private var phase = Phase.startup
    /// Of the pace while it settles.
    private var settlingGain = 1.0
    /// (g) Packets a nanosecond.
    private var basePace: Double
    private var sendNumber: UInt64 = 0
    private var durableCount: UInt64 = 0
    private var durableAt: UInt64 = 0

    // MARK: Of rounds

    private var round = Round()
    /// Ends with the ack of a packet that left from this one on.
    private var roundEnd: UInt64 = 0
    private var roundsSinceCut = 0
    private var gaps: [UInt64] = []
    private(set) var minDelay: UInt64?
    private var minDelayAt: UInt64 = 0
    /// The greatest rate of startup, and rounds in which it has not grown.
    private var startupRate = 0.0
    private var flatRoundCount = 0
    private var floor = LossFloor()
    /// Of rounds in which it grew.
    private var recent = LossFloor.Sample()
    /// It settles to learn the least delay again.
    private var isRenewing = false
    /// Or what is always lost.
    private var isLearning = false

    // MARK: Tokens

    private var tokens = 0.0
    private var filledAt: UInt64 = 0

    /// - Parameter packetByteCount: of full packets.
    init(packetByteCount: Int) {
        leastCount = min(10, max(2, Self.firstByteCount / max(1, packetByteCount)))
        basePace = Double(leastCount) / Double(Self.firstNanoseconds)
    }

    // MARK: What may leave

    /// (c) The longest time between two acks that brought something.
    private var gap: UInt64 { min(Self.gapMax, max(round.gap, gaps.max() ?? 0)) }

    /// (e) The share that is always lost.
    var lossFloor: Double { floor.share }

    /// (b, f) So many may be in flight.
    var windowCount: Int {
        let rate = max(round.rate, startupRate)
        if phase == .startup, rate == 0 { return leastCount + landedCount }
        guard let minDelay else { return leastCount }
        var count = 4.0
        if phase == .startup {
            count += Self.startupGain * rate * Double(minDelay + gap)
        } else {
            count += basePace * (2 * Double(minDelay) + Double(gap) + Self.slackNanoseconds)
        }
        return max(leastCount, Int(min(count, 1e9)))
    }

    /// (g) Packets a nanosecond.
    var pace: Double {
        if case .settling = phase { return settlingGain * basePace }
        return basePace
    }

    private var burstCount: Double { max(2, Self.burstNanoseconds * pace) }

    /// How many packets may leave now.
    mutating func allowance(now: UInt64) -> Int {
        if inFlightCount == 0, durableAt > 0, now > durableAt + Self.idleMax { forget() }
        // What does not fit is lost, but for the time that a thread may wake late.
        tokens = min(2 * burstCount, tokens + Double(now - min(now, filledAt)) * pace)
        filledAt = max(now, filledAt)
        return max(0, min(windowCount - inFlightCount, Int(tokens)))
    }

    /// When a burst may leave, as far as the pace says; `.max` while as many as may be are in flight.
    var nextDeparture: UInt64 {
        guard inFlightCount < windowCount else { return .max }
        let missing = max(1, burstCount / 2) - tokens
        return filledAt + UInt64(max(0, min(missing / pace, 1e10))) + 1
    }

    /// A packet in flight is sent again.
    mutating func replaced() { inFlightCount -= min(inFlightCount, 1) }

    /// There is nothing more to send though it may.
    mutating func ranOut() { round.isLimited = true }

    /// (l) The receiver takes nothing: what is lost now is not the network's.
    mutating func shed() { round.isShed = true }

    /// A packet leaves.
    mutating func departed(now: UInt64) -> Departure {
        if inFlightCount == 0 { durableAt = now }
        sendNumber += 1
        inFlightCount += 1
        tokens -= 1
        var departure = Departure(number: sendNumber, at: now)
        (departure.durableCount, departure.durableAt) = (durableCount, durableAt)
        return departure
    }

    // MARK: What acks tell

    /// - Parameter newest: the departure of the one that left last, of those that it calls durable and that left once.
    mutating func acked(_ progress: Progress, newest: Departure?, now: UInt64) {
        inFlightCount -= min(inFlightCount, progress.landedCount + progress.lostCount)
        if progress.durableCount > 0 {
            if durableCount > 0 { round.gap = max(round.gap, now - min(now, durableAt)) }
            durableCount += UInt64(progress.durableCount)
            durableAt = now
        }
        landedCount += progress.landedCount
        round.told += .init(durableCount: progress.durableCount, lostCount: progress.lostCount)
        round.resent += progress.resent
        round.hasAsked = round.hasAsked || progress.isAnswer
        if let newest, !progress.isAnswer { measure(newest, now) }
        if progress.hasTimedOut, progress.durableCount == 0, progress.lostCount > 0, !round.isShed {
            // (k) What leaves gets nowhere, though questions do.
            if windowCount > leastCount { basePace /= 2 }
            return beginRound(now)
        }
        let age = now - min(now, round.beganAt)
        let isEarly = phase == .startup && !isQueued
        let countMin = isEarly ? Self.startupPacketCountMin : Self.roundPacketCountMin
        let isLong = age >= Self.roundNanosecondsMin && round.told.count >= countMin
        let hasReturned = newest.map { $0.number >= roundEnd } ?? false
        if hasReturned || progress.askedAt > round.beganAt, round.beganAt == 0 || isLong {
            endRound(now)
        }
    }

    /// (c, d)
    private mutating func measure(_ newest: Departure, _ now: UInt64) {
        let delay = now - min(now, newest.at)
        round.minDelay = min(round.minDelay, delay)
        if minDelay.map({ Double(delay) <= 1.05 * Double($0) + 1_000_000 }) ?? true {
            (minDelay, minDelayAt) = (min(delay, minDelay ?? delay), now)
        }
        guard phase == .startup else { return }
        let time = max(1, now - min(now, newest.durableAt))
        round.rate = max(round.rate, Double(durableCount - newest.durableCount) / Double(time))
        basePace = max(basePace, Self.startupGain * round.rate)
    }

    private mutating func endRound(_ now: UInt64) {
        if gaps.count == Self.gapCount { gaps.removeFirst() }
        gaps.append(round.gap)
        switch phase {
        case .startup: endStartupRound()
        case .growth: endGrowthRound(now)
        case .settling(let count): endSettlingRound(count, now)
        }
        basePace = max(basePace, Double(leastCount) / 1e10)
        beginRound(now)
    }

    private mutating func beginRound(_ now: UInt64) {
        // Nothing is over with the first ack of all.
        round = Round(beganAt: now, rate: round.beganAt == 0 ? round.rate : 0)
        roundEnd = sendNumber + 1
    }

    /// (h)
    private mutating func endStartupRound() {
        // A round of packets that had left before tells no rate.
        guard round.beganAt > 0, round.rate > 0 else { return }
        let hasGrown = round.rate >= 1.25 * startupRate
        startupRate = max(startupRate, round.rate)
        if hasGrown {
            flatRoundCount = 0
            if !hasDelay { floor.add(startup: round.told) }
        } else if !round.isLimited {
            flatRoundCount += 1
        }
        let chance = 1 / Double(max(1, round.told.count)).squareRoot()
        let isLossy = flatRoundCount > 0 && round.told.lossShare > lossFloor + 0.05 + chance
        guard isQueued || isLossy && !round.isShed || flatRoundCount >= 3 else { return }
        basePace = min(basePace, Self.cutGain * startupRate / (1 - lossFloor))
        floor.endStartup()
        settle(at: isQueued ? Self.dipGain : dip, learns: !isQueued)
    }

    private mutating func endGrowthRound(_ now: UInt64) {
        roundsSinceCut += 1
        recent += round.told
        let age = Double(now - min(now, round.beganAt))
        // Packets queue, and fewer than leave come through.
        let isFull =
            isQueued && !round.hasAsked && !round.isLimited
            && Double(round.told.count) < basePace * age
        let isOld = now > minDelayAt + Self.delayAgeMax
        if isFull || floor.isKnown && isLossy(recent) {
            let delivered = Double(round.told.durableCount) / max(1, age) / basePace
            let gain = (isFull ? delivered : 1 - recent.lossShare) / (1 - lossFloor)
            basePace *= max(Self.cutGainMin, min(Self.cutGain, gain))
        } else if !isOld, !isLossy(recent), roundsSinceCut < Self.roundCountMax {
            if recent.count >= Self.recentCountMin { recent = .init() }
            if !round.isLimited { grow(age) }
            return
        }
        settle(at: isOld ? Self.deepGain : isFull ? Self.dipGain : dip, learns: !isFull)
        isRenewing = isOld
    }

    private mutating func grow(_ age: Double) {
        let delay = max(Self.growthNanoseconds, Double(minDelay ?? 0))
        basePace *= 1 + Self.growthGain * Double(roundsSinceCut / Self.fasterRoundCount)
        // A round in which the disk stalled is no longer for that.
        let count = Self.growthCount * (basePace * delay).squareRoot()
        basePace += count * min(age, 2 * delay) / (delay * delay)
    }

    /// (e, i) From the second round on nothing is lost but what always is, unless packets still queue.
    private mutating func endSettlingRound(_ count: Int, _ now: UInt64) {
        phase = .settling(count + 1)
        guard count > 0 else { return }
        if isRenewing, round.minDelay != .max {
            // Where packets are lost the queue may be that of others.
            minDelay = isLossy(round.told) ? minDelay : round.minDelay
            minDelayAt = now
        }
        if hasDelay {
            if count >= 3 { phase = .growth }
            return
        }
        let isKnown = !round.isShed && (round.minDelay != .max || round.hasAsked)
        let isWhole = isKnown && floor.add(calm: round.told, resent: round.resent)
        let isOver = !isLearning || isRenewing || isWhole
        if isOver || count >= Self.settlingRoundCountMax { phase = .growth }
    }

    private mutating func settle(at gain: Double, learns: Bool) {
        (phase, settlingGain, roundsSinceCut) = (.settling(0), gain, 0)
        (recent, isRenewing, isLearning) = (.init(), false, learns)
        if learns { floor.begin() }
    }

    /// Of the pace.
    private var dip: Double {
        let isDeep =
            lossFloor > Self.deepLoss
            || round.told.isAbove(Self.deepLoss, deviations: Self.deviations)
        return isDeep ? Self.deepGain : Self.dipGain
    }

    /// Even the packet that waited least has waited: for longer than a part of the way.
    private var hasDelay: Bool { isDelayed(beyond: 0) }

    /// (i) And than the receiver's commits took.
    private var isQueued: Bool { isDelayed(beyond: min(round.gap, Self.gapMax)) }

    private func isDelayed(beyond gap: UInt64) -> Bool {
        guard let minDelay, round.minDelay != .max else { return false }
        return round.minDelay > minDelay + max(minDelay / 4, gap) + Self.queueNanosecondsMin
    }

    /// (i) More was lost than always is, by more than chance.
    private func isLossy(_ sample: LossFloor.Sample) -> Bool {
        let deviations =
            sample.count >= Self.recentCountMin ? Self.deviations : Self.earlyDeviations
        return !round.isShed && sample.isAbove(lossFloor, deviations: deviations)
    }

    // MARK: Beginning again

    /// (k) The network was gone: begins again, at half of what it was.
    mutating func restart() {
        basePace = max(basePace / 2, Double(leastCount) / Double(Self.firstNanoseconds))
        (startupRate, flatRoundCount, landedCount) = (0, 0, 0)
        (phase, round, recent) = (.startup, Round(), .init())
        tokens = min(tokens, Double(leastCount))
    }

    /// Idle for longer than anything is remembered.
    private mutating func forget() {
        let (number, durable) = (sendNumber, durableCount)
        self = CongestionControl(packetByteCount: Self.firstByteCount / leastCount)
        (sendNumber, durableCount, roundEnd) = (number, durable, number + 1)
    }
}
