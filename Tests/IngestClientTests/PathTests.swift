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
        // Startup takes about a second where round trips are 200 ms.
        let seconds: Double = rate < 100 || roundTrip > 50 ? 20 : roundTrip > 2 ? 10 : 5
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

    @Test(arguments: [(10.0, 50.0), (100, 50), (10, 200)])
    func `A black hole of a minute sees at most a hundred packets after the first timer`(
        rate: Double, roundTrip: Double
    ) {
        let start = 5 * Self.second
        let path = Path(
            megabitsPerSecond: rate, roundTripMilliseconds: roundTrip,
            blackHole: start..<start + 60 * Self.second)
        let run = PathSimulation(path, packetCount: UInt64(path.packetsPerSecond * 25))
        run.run(seconds: 64)
        let flow = run.flows[0]
        let before = flow.durableCount
        // The first timer fires within half a second of the last ack.
        let inside = flow.departures.count {
            $0 > start + Self.second / 2 && $0 < start + 60 * Self.second
        }
        #expect(inside <= 100, "\(inside)")
        run.run(seconds: 20)
        let goodput = Double(flow.durableCount - before) / (path.packetsPerSecond * 20)
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
