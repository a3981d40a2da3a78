import Testing

@testable import IngestClient

/// What congestion control has to reach, over a table of paths (docs/protocol.md, "How fast").
struct PathTests {
    private typealias Path = PathSimulation.Path
    private static let second: UInt64 = 1_000_000_000

    private static let paths: [(Double, Double)] = [2.0, 10, 100].flatMap { rate in
        [2.0, 50, 200].map { (rate, $0) }
    }

    @Test(arguments: paths, [0, 1, 10, 30] as [UInt64])
    func `It uses the path, and sends little in vain`(path: (Double, Double), lossPercent: UInt64) {
        let (rate, roundTrip) = path
        let path = Path(
            megabitsPerSecond: rate, roundTripMilliseconds: roundTrip, lossPercent: lossPercent)
        // Startup takes about three seconds where round trips are 200 ms.
        let seconds: Double = roundTrip > 50 ? 30 : rate < 100 ? 20 : roundTrip > 2 ? 10 : 5
        let all = UInt64(path.packetsPerSecond * seconds * 1.1)
        let run = PathSimulation(path, packetCount: all)
        run.run(seconds: seconds)
        let (flow, kept) = (run.flows[0], 1 - Double(lossPercent) / 100)
        let goodput = Double(flow.durableCount) / (path.packetsPerSecond * seconds)
        let cost = Double(flow.sentCount) * kept / Double(max(1, flow.durableCount))
        let what =
            "\(rate) Mbit/s, \(roundTrip) ms, \(lossPercent) %: \(goodput), \(cost) sent for one"
        #expect(goodput >= (lossPercent == 30 ? 0.5 : 0.8), "\(what)")
        #expect(cost <= 1.1, "\(what)")
    }

    /// Resends had made the loss floor too small with seeds 7, 8, 11 (0.49, 0.50, 0.45 of the path); one packet that was lost
    /// again and again held the window with the last (0.42).
    @Test(arguments: [(10.0, 7), (10, 8), (10, 11), (100, 10)] as [(Double, UInt64)])
    func `Where much is lost no sample and no single packet stops it`(rate: Double, seed: UInt64) {
        let path = Path(megabitsPerSecond: rate, roundTripMilliseconds: 200, lossPercent: 30)
        let all = UInt64(path.packetsPerSecond * 33)
        let run = PathSimulation(path, packetCount: all, seed: seed)
        let use = Self.costAndUse(run, seconds: 30).use
        #expect(use >= 0.52, "\(use)")
    }

    @Test(arguments: 0..<4 as Range<UInt64>)
    func `Heartbeats that leave early or late cost the path nothing`(nonceSeed: UInt64) {
        let path = Path(megabitsPerSecond: 10, roundTripMilliseconds: 50, lossPercent: 1)
        let run = PathSimulation(path, packetCount: 20_000, nonceSeed: nonceSeed)
        let (cost, use) = Self.costAndUse(run, seconds: 20)
        #expect(use >= 0.8 && cost <= 1.1, "\(use), \(cost) sent for one")
    }

    @Test(arguments: [2.0, 50] as [Double], [0, 1] as [UInt64])
    func `Two senders share a bottleneck within two to one`(
        roundTrip: Double, lossPercent: UInt64
    ) {
        let path = Path(
            megabitsPerSecond: 10, roundTripMilliseconds: roundTrip, lossPercent: lossPercent)
        let run = PathSimulation(path, senderCount: 2, packetCount: 40_000)
        run.run(seconds: 30)
        let counts = run.flows.map { Double($0.durableCount) }
        #expect(counts.max()! <= 2 * counts.min()!, "\(counts)")
        #expect(counts.reduce(0, +) >= 0.8 * path.packetsPerSecond * 30, "\(counts)")
    }

    @Test(arguments: [2.0, 50] as [Double], [0, 1] as [UInt64])
    func `Two senders on a slow path do not take for random loss what their startups lose`(
        roundTrip: Double, lossPercent: UInt64
    ) {
        let path = Path(
            megabitsPerSecond: 2, roundTripMilliseconds: roundTrip, lossPercent: lossPercent)
        let starts: [UInt64] = [0, 17, 34, 51]
        var (cost, evenness) = (0.0, 0.0)
        for (index, milliseconds) in starts.enumerated() {
            let run = PathSimulation(path, packetCount: 4_000, seed: UInt64(index + 1))
            run.run(seconds: Double(milliseconds) / 1_000)
            run.join(packetCount: 4_000)
            run.run(seconds: 20 - Double(milliseconds) / 1_000)
            let (sent, durable) = (run.flows.map(\.sentCount), run.flows.map(\.durableCount))
            cost += Double(sent.reduce(0, +)) / Double(durable.reduce(0, +))
            evenness += Double(durable.min()!) / Double(durable.max()!)
            for flow in run.flows { #expect(flow.stream.congestion.lossFloor <= 0.05) }
        }
        let kept = 1 - Double(lossPercent) / 100
        cost *= kept / Double(starts.count)
        #expect(cost <= 1.1, "\(cost) sent for one")
        #expect(evenness >= 0.5 * Double(starts.count), "\(evenness)")
    }

    /// What was sent for each packet that became durable, and what part of the bottleneck that was, from now on.
    private static func costAndUse(
        _ run: PathSimulation, seconds: Double
    ) -> (cost: Double, use: Double) {
        func counts() -> (sent: Int, durable: Int) {
            run.flows.reduce((0, 0)) { ($0.0 + $1.sentCount, $0.1 + $1.durableCount) }
        }
        let before = counts()
        run.run(seconds: seconds)
        let (sent, durable) = (counts().sent - before.sent, counts().durable - before.durable)
        return (
            Double(sent) / Double(max(1, durable)),
            Double(durable) / (run.path.packetsPerSecond * seconds)
        )
    }

    @Test(arguments: [4, 6], [2.0, 50] as [Double])
    func `Several senders do not take the losses that they cause for those of the path`(
        senderCount: Int, roundTrip: Double
    ) {
        for queueCount in [20, nil] {
            let path = Path(
                megabitsPerSecond: 10, roundTripMilliseconds: roundTrip, queueCount: queueCount)
            let run = PathSimulation(path, senderCount: senderCount, packetCount: 40_000)
            run.run(seconds: 30)
            let (cost, use) = Self.costAndUse(run, seconds: 20)
            #expect(cost <= 1.2, "\(queueCount ?? 0) packets wait: \(cost) sent for one")
            #expect(use >= 0.9, "\(use)")
        }
    }

    @Test(arguments: [(200.0, 20.0), (300, 2), (100, 50)])
    func `What a policer drops is not taken for random loss`(rate: Double, roundTrip: Double) {
        let path = Path(
            megabitsPerSecond: rate * 1_452 * 8 / 1e6, roundTripMilliseconds: roundTrip,
            policedCount: 10)
        let run = PathSimulation(path, packetCount: 20_000)
        run.run(seconds: 10)
        let (cost, use) = Self.costAndUse(run, seconds: 20)
        #expect(cost <= 1.2, "\(cost) sent for one")
        #expect(use >= 0.8, "\(use)")
    }

    @Test(arguments: [20.0, 50])
    func `A path that becomes slower is sent less, though for long only resends become durable`(
        roundTrip: Double
    ) {
        let path = Path(
            megabitsPerSecond: 100, roundTripMilliseconds: roundTrip, queueCount: 100,
            change: (at: 6 * Self.second, megabitsPerSecond: 2))
        let run = PathSimulation(path, packetCount: 80_000)
        run.run(seconds: 5)
        let first = Self.costAndUse(run, seconds: 15)
        let (cost, use) = Self.costAndUse(run, seconds: 10)
        #expect(first.cost <= 6, "\(first.cost) sent for one")
        #expect(cost <= 1.3, "\(cost) sent for one")
        #expect(use >= 0.8, "\(use)")
    }

    @Test(arguments: [(100.0, 50.0, 0), (10, 2, 0), (10, 50, 10)] as [(Double, Double, UInt64)])
    func `Packets that all vanish are tried one by one, though heartbeats are answered`(
        rate: Double, roundTrip: Double, lossPercent: UInt64
    ) {
        let path = Path(
            megabitsPerSecond: rate, roundTripMilliseconds: roundTrip, lossPercent: lossPercent,
            dataHole: 6 * Self.second..<40 * Self.second)
        let run = PathSimulation(path, packetCount: UInt64(path.packetsPerSecond * 16))
        run.run(seconds: 15)
        let flow = run.flows[0]
        let before = flow.sentCount
        run.run(seconds: 24)
        #expect(flow.sentCount - before <= 100, "\(flow.sentCount - before)")
        run.run(seconds: 5)
        let use = Self.costAndUse(run, seconds: 5).use
        #expect(use >= 0.8 * (1 - Double(lossPercent) / 100), "\(use)")
    }

    @Test(arguments: [(10.0, 50.0), (100, 50), (10, 200), (100, 200), (300, 100)])
    func `A black hole of a minute sees at most a hundred packets after the first timer`(
        rate: Double, roundTrip: Double
    ) {
        let start = 4 * Self.second
        let path = Path(
            megabitsPerSecond: rate, roundTripMilliseconds: roundTrip,
            blackHole: start..<start + 60 * Self.second)
        let run = PathSimulation(path, packetCount: UInt64(path.packetsPerSecond * 16))
        run.run(seconds: 63)
        let flow = run.flows[0]
        let before = flow.durableCount
        // The first timer fires within half a second of the last ack.
        let inside = flow.departures.count {
            $0 > start + Self.second / 2 && $0 < start + 60 * Self.second
        }
        #expect(inside <= 100, "\(inside)")
        run.run(seconds: 12)
        let goodput = Double(flow.durableCount - before) / (path.packetsPerSecond * 12)
        #expect(goodput >= 0.6, "\(goodput)")
    }

    @Test func `A disk that stalls is waited for, and nothing is sent twice for it`() {
        let path = Path(
            megabitsPerSecond: 100, roundTripMilliseconds: 2, queueCount: 1_000,
            stallInterval: 100)
        let run = PathSimulation(path, packetCount: 90_000)
        run.run(seconds: 10)
        let flow = run.flows[0]
        // 300 ms in 795.
        let goodput = Double(flow.durableCount) / (path.packetsPerSecond * 10)
        #expect(goodput >= 0.5, "\(goodput)")
        #expect(Double(flow.sentCount) <= 1.02 * Double(flow.durableCount) + 4_000)
    }
}
