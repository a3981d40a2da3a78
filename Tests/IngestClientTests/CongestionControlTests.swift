import Testing

@testable import IngestClient

/// The rules of docs/protocol.md, "How fast", one by one.
struct CongestionControlTests {
    private static let millisecond: UInt64 = 1_000_000

    /// A sender with more to send than may leave, over a path whose every packet is acked after a delay, at a rate.
    private final class Bench {
        var control: CongestionControl
        var now: UInt64 = 1_000_000_000
        var flying: [(departure: CongestionControl.Departure, arrivesAt: UInt64)] = []
        var packetNanoseconds: UInt64 = 100_000
        var delay: UInt64 = 20_000_000
        /// Of so many packets one is lost.
        var lossInterval = Int.max
        /// With each ack so many become durable that had been sent again.
        var resentCount = 0
        private var freeAt: UInt64 = 0
        private var lostCount = 0
        private(set) var peakCount = 0

        init(packetByteCount: Int = 1_452) {
            control = CongestionControl(packetByteCount: packetByteCount)
        }

        /// An ack every 5 ms.
        func pass(milliseconds: UInt64) {
            let end = now + milliseconds * 1_000_000
            while now < end {
                now += 250_000
                send()
                if now % 5_000_000 < 250_000 { ack() }
            }
        }

        private func send() {
            for _ in 0..<control.allowance(now: now) {
                freeAt = max(freeAt, now) + packetNanoseconds
                flying.append((control.departed(now: now), freeAt + delay))
            }
            peakCount = max(peakCount, control.inFlightCount)
        }

        private func ack() {
            let arrived = flying.filter { $0.arrivesAt <= now }.map(\.departure)
            flying.removeAll { $0.arrivesAt <= now }
            guard let newest = arrived.last else { return }
            let lost = arrived.count { $0.number % UInt64(clamping: lossInterval) == 1 }
            let count = arrived.count - (lossInterval == .max ? 0 : lost)
            control.acked(
                .init(
                    durableCount: count + resentCount, landedCount: count,
                    lostCount: arrived.count - count,
                    resent: .init(durableCount: resentCount)),
                newest: newest, now: now)
        }
    }

    @Test
    func `Rule a: in flight is what is neither durable nor lost, and never more than the window`() {
        let bench = Bench()
        bench.delay = 1 << 60
        bench.pass(milliseconds: 50)
        let count = bench.control.windowCount
        #expect(bench.control.inFlightCount == count)
        #expect(bench.control.allowance(now: bench.now) == 0)
        bench.control.acked(
            .init(durableCount: 4, landedCount: 4, lostCount: 2),
            newest: bench.flying[3].departure, now: bench.now)
        #expect(bench.control.inFlightCount == count - 6)
        bench.now += 20_000_000
        #expect(bench.control.allowance(now: bench.now) > 0)
    }

    @Test func `Rule b: ten packets leave over ten milliseconds, fewer of large ones`() {
        for (byteCount, most) in [(1_452, 10), (8_952, 2), (65_507, 2), (1_200, 10), (4_096, 4)] {
            let bench = Bench(packetByteCount: byteCount)
            #expect(bench.control.windowCount == most)
            #expect(bench.control.allowance(now: bench.now) <= 4)
            bench.delay = 1 << 60
            bench.pass(milliseconds: 50)
            #expect(bench.control.inFlightCount == most)
            #expect(bench.control.nextDeparture == .max)
        }
    }

    @Test func `Rules c, g: delay and pace are those of the path`() {
        let bench = Bench()
        bench.pass(milliseconds: 3_000)
        let pace = bench.control.pace * 1e9
        #expect((7_500...13_000).contains(pace), "\(pace)")
        let delay = Double(bench.control.minDelay ?? 0) / 1e6
        #expect((20...30).contains(delay), "\(delay)")
        bench.packetNanoseconds = 400_000
        bench.pass(milliseconds: 5_000)
        let later = bench.control.pace * 1e9
        #expect((1_500...3_500).contains(later), "\(later)")
    }

    @Test func `Rule d: a source that has little to send changes nothing`() {
        let bench = Bench()
        bench.pass(milliseconds: 3_000)
        let pace = bench.control.pace
        for _ in 0..<500 {
            bench.now += 10 * Self.millisecond
            guard bench.control.allowance(now: bench.now) > 0 else { continue }
            let departure = bench.control.departed(now: bench.now)
            bench.control.ranOut()
            bench.now += 21 * Self.millisecond
            bench.control.acked(
                .init(durableCount: 1, landedCount: 1), newest: departure, now: bench.now)
        }
        #expect(bench.control.pace >= 0.6 * pace && bench.control.pace <= 1.2 * pace)
    }

    @Test func `Rule e: what is lost in every round is no congestion`() {
        let bench = Bench()
        bench.lossInterval = 10
        bench.pass(milliseconds: 5_000)
        #expect((0.05...0.15).contains(bench.control.lossFloor), "\(bench.control.lossFloor)")
        #expect(bench.control.pace * 1e9 > 7_000)
    }

    @Test func `Rule f: what is in flight is the pace's for twice the delay and the commits' gap`()
    {
        let bench = Bench()
        bench.pass(milliseconds: 3_000)
        // 10,000 a second, of 20 to 26 ms, commits of 5 ms, and 10.
        #expect((400...900).contains(bench.control.windowCount), "\(bench.control.windowCount)")
    }

    @Test func `Rule g: no burst is more than two milliseconds of the pace, two packets at least`()
    {
        let bench = Bench()
        bench.pass(milliseconds: 3_000)
        let pace = bench.control.pace
        bench.flying = []
        bench.control.acked(
            .init(durableCount: 0, landedCount: 1_000), newest: nil, now: bench.now)
        bench.now += 500 * Self.millisecond
        let burst = bench.control.allowance(now: bench.now)
        #expect(Double(burst) <= 2 * pace * 1e6 + 4 && burst >= 2, "\(burst)")
        for _ in 0..<burst { _ = bench.control.departed(now: bench.now) }
        #expect(bench.control.allowance(now: bench.now) == 0)
        #expect(bench.control.nextDeparture > bench.now)
    }

    @Test func `Rule h: the pace grows in startup until the path is full, and not beyond`() {
        let bench = Bench()
        bench.pass(milliseconds: 300)
        #expect(bench.control.pace * 1e9 > 5_000)
        #expect(bench.peakCount < 2_500, "\(bench.peakCount)")
        bench.pass(milliseconds: 2_000)
        let steady = bench.control.inFlightCount
        #expect(steady < 900, "\(steady)")
    }

    @Test func `Rule i: where packets queue, or more are lost than always, fewer leave`() {
        let bench = Bench()
        bench.pass(milliseconds: 3_000)
        let before = bench.control.pace
        bench.lossInterval = 4
        bench.pass(milliseconds: 200)
        #expect(bench.control.pace < 0.95 * before)
        bench.lossInterval = .max
        bench.pass(milliseconds: 3_000)
        #expect(bench.control.pace > 0.7 * before)
    }

    @Test func `Rule k: after a black hole it begins again, from half the pace`() {
        let bench = Bench()
        bench.pass(milliseconds: 3_000)
        let pace = bench.control.pace
        bench.control.restart()
        #expect(bench.control.pace <= 0.76 * pace && bench.control.pace >= 0.3 * pace)
        #expect(bench.control.windowCount == 10)
        bench.pass(milliseconds: 2_000)
        #expect(bench.control.pace > 0.8 * pace)
    }

    /// After an absence of the receiver: the first ack tells of packets that left before it, the others of resends alone.
    @Test func `Rule h: rounds of packets that had left before tell no rate, and cut no pace`() {
        let bench = Bench()
        let pace = bench.control.pace
        let first = bench.control.departed(now: bench.now)
        bench.now += 12_000_000_000
        bench.control.acked(
            .init(durableCount: 30, landedCount: 1), newest: first, now: bench.now)
        for _ in 0..<20 {
            for _ in 0..<max(1, bench.control.allowance(now: bench.now)) {
                _ = bench.control.departed(now: bench.now)
            }
            bench.now += 100_000_000
            let told = CongestionControl.Progress(
                durableCount: 80, landedCount: 8, lostCount: 20,
                resent: .init(durableCount: 80, lostCount: 20), askedAt: bench.now - 1)
            bench.control.acked(told, newest: nil, now: bench.now)
        }
        #expect(bench.control.pace >= pace)
    }

    @Test func `Rule k: where answers tell of losses alone the pace is halved`() {
        let bench = Bench()
        bench.pass(milliseconds: 3_000)
        let pace = bench.control.pace
        let count = bench.control.inFlightCount
        let lost = CongestionControl.Progress(
            lostCount: count, askedAt: bench.now - 1, hasTimedOut: true)
        bench.control.acked(lost, newest: nil, now: bench.now)
        #expect(bench.control.pace <= 0.51 * pace && bench.control.inFlightCount == 0)
        for _ in 0..<20 {
            _ = bench.control.departed(now: bench.now)
            let one = CongestionControl.Progress(
                lostCount: 1, askedAt: bench.now - 1, hasTimedOut: true)
            bench.control.acked(one, newest: nil, now: bench.now)
        }
        #expect(bench.control.windowCount == 10)
    }

    @Test func `Rule e: the loss floor is the least of four samples`() {
        var floor = LossFloor()
        #expect(floor.share == 0)
        floor.add(startup: .init(durableCount: 60, lostCount: 40))
        floor.add(startup: .init(durableCount: 80, lostCount: 20))
        #expect(floor.share == 0.2)
        floor.endStartup()
        // One sample is not believed yet.
        let samples = [(30, 0), (20, 0.2), (10, 0.1), (40, 0.1), (50, 0.1), (60, 0.1), (70, 0.4)]
        for (index, (lost, least)) in samples.enumerated() {
            floor.begin()
            let isEarly = floor.add(calm: .init(lostCount: lost), resent: .init())
            let isWhole = floor.add(calm: .init(durableCount: 100 - lost), resent: .init())
            #expect(!isEarly && isWhole == (index > 0) && floor.share == least)
        }
    }

    @Test func `Rule e: packets that left more than once count where few others leave`() {
        typealias Sample = LossFloor.Sample
        // Of the second sample, and of the third: as many as make it whole, and one less.
        for (index, countMin) in [50, 100].enumerated() {
            let half = Sample(durableCount: countMin / 2, lostCount: countMin / 2)
            func share(once: Int, resent: Sample) -> Double? {
                var floor = LossFloor()
                for _ in 0...index { _ = floor.add(calm: half, resent: Sample()) }
                let told = Sample(
                    durableCount: once + resent.durableCount, lostCount: resent.lostCount)
                return floor.add(calm: told, resent: resent) ? floor.share : nil
            }
            #expect(share(once: countMin - 1, resent: Sample(lostCount: countMin)) == nil)
            #expect(share(once: countMin, resent: Sample(lostCount: countMin - 1)) == 0)
            #expect(share(once: 0, resent: Sample(durableCount: 2 * countMin - 1)) == nil)
            let all = share(once: countMin / 5, resent: Sample(durableCount: 2 * countMin - 10))
            #expect(all == 0)
            let lost = share(
                once: 0, resent: Sample(durableCount: countMin * 3 / 2, lostCount: countMin / 2))
            #expect(lost == 0.25)
        }
    }

    @Test func `Rule e: that many resends are durable makes random loss no less`() {
        let bench = Bench()
        (bench.lossInterval, bench.resentCount) = (10, 10)
        bench.pass(milliseconds: 5_000)
        #expect((0.05...0.15).contains(bench.control.lossFloor), "\(bench.control.lossFloor)")
    }

    @Test func `Rule i: no cut for what chance may lose beyond the loss floor`() {
        for (lost, share, isAbove) in [
            (2, 0, false), (8, 0, false), (16, 0, true), (30, 0.1, false), (50, 0.1, true),
        ] as [(Int, Double, Bool)] {
            let sample = LossFloor.Sample(durableCount: 200 - lost, lostCount: lost)
            #expect(sample.isAbove(share, deviations: 3) == isAbove, "\(lost), \(share)")
        }
    }

    @Test func `Rule l: what is lost while the receiver sheds is not the network's`() {
        let bench = Bench()
        bench.pass(milliseconds: 3_000)
        let before = bench.control.pace
        bench.lossInterval = 4
        for _ in 0..<60 {
            bench.control.shed()
            bench.pass(milliseconds: 5)
        }
        #expect(bench.control.pace >= 0.7 * before && bench.control.lossFloor == 0)
    }

    @Test func `After a time of silence nothing of the path is known any more`() {
        let bench = Bench()
        bench.pass(milliseconds: 3_000)
        bench.control.acked(
            .init(durableCount: 0, landedCount: bench.control.inFlightCount), newest: nil,
            now: bench.now)
        bench.flying = []
        bench.now += 20_000 * Self.millisecond
        // The first burst too.
        #expect(bench.control.allowance(now: bench.now) <= 4)
        _ = bench.control.departed(now: bench.now)
        #expect(bench.control.windowCount == 10 && bench.control.inFlightCount == 1)
    }

    // MARK: Timer

    @Test func `Rule k: the timer follows the round trips, doubles, and starts anew by an ack`() {
        var timer = ProbeTimer()
        #expect(timer.firesAt == .max && timer.wait == ProbeTimer.waitFirst)
        timer.start(now: 5)
        #expect(timer.firesAt == 5 + ProbeTimer.waitFirst)
        for _ in 0..<50 { timer.measured(2 * Self.millisecond) }
        #expect(timer.wait == ProbeTimer.waitMin)
        for _ in 0..<50 { timer.measured(300 * Self.millisecond) }
        #expect((300 * Self.millisecond...400 * Self.millisecond).contains(timer.wait))
        let first = timer.wait
        var hole: [Bool] = []
        for doubling in 1...7 as ClosedRange<UInt64> {
            let now = doubling * 400 * Self.millisecond
            timer.fired(now: now)
            #expect(timer.firesAt == now + min(ProbeTimer.waitMax, first << doubling))
            hole.append(timer.isBlackHole)
        }
        #expect(hole == [false, false, false, false, false, true, true])
        // Heartbeats that are answered are no sign that packets get through.
        let (isFruitless, isFruitful) = (
            timer.answered(now: 8, acked: 0), timer.answered(now: 8, acked: 1)
        )
        #expect(isFruitless && !isFruitful && timer.isBlackHole && timer.firesAt == 8)
        let wasHole = timer.heard()
        #expect(wasHole && !timer.isBlackHole && timer.wait == first && timer.firesAt == .max)
        timer.measured(.max)
        #expect(timer.wait == ProbeTimer.waitMax)
    }
}
