import IngestClient
import IngestReader
import IngestStorage

/// What an open `IngestReader` costs, in this process: the time of each question by itself, without the start
/// of a program and without output.
struct ReaderFigures {
    let directory: String
    /// Rewards in the directory, and what they are called.
    let rewardCount: Int
    let names: EventMix.NameStyle
    var verifies = true

    private static let pointCount = 10_000
    private static let topCount = 100
    private static let repeatCount = 3

    func report() throws {
        Report.heading("an open reader, in process")
        var reader = try IngestReader.open(directory: directory)
        let opening = try milliseconds { reader = try IngestReader.open(directory: directory) }
        Report.line("open", opening)
        try reportPoints(reader)
        for order in RewardsQuery.Order.allCases {
            let query = RewardsQuery(order: order, limit: Self.topCount)
            Report.line(
                "top \(Self.topCount) by \(order.rawValue)",
                try milliseconds { try reader.forEachReward(query) { _ in .next } },
                goal: order == .impressions ? "≤ 100 ms of 10,000,000" : nil)
        }
        try reportListing(reader)
        if verifies { try reportVerify() }
    }

    /// Rewards drawn evenly; a query keeps nothing for the next.
    private func reportPoints(_ reader: IngestReader) throws {
        var random = SeededRandom(seed: 7)
        var times: [Double] = []
        var missingCount = 0
        for _ in 0..<Self.pointCount {
            let id = EventMix.rewardName(Int(random.next() % UInt64(rewardCount)), names)
            let startedAt = SenderClock.monotonicNanoseconds()
            let row = try reader.reward(id)
            times.append(Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e3)
            if row == nil { missingCount += 1 }
        }
        times.sort()
        Report.line(
            "one reward",
            "p50 \(fixed(percentile(times, 0.5), 1)) µs, p99 \(fixed(percentile(times, 0.99), 1)) µs, "
                + "\(grouped(Self.pointCount)) asked for, \(missingCount) not there",
            goal: "≤ 50 µs")
    }

    private func reportListing(_ reader: IngestReader) throws {
        var rowCount = 0
        let startedAt = SenderClock.monotonicNanoseconds()
        try reader.forEachReward { _ in
            rowCount += 1
            return .next
        }
        let seconds = Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
        Report.line(
            "all rewards by id",
            "\(grouped(rowCount)) rows in \(fixed(seconds, 2)) s, "
                + "\(grouped(Int(Double(rowCount) / seconds))) rows/s", goal: "≥ 2,000,000 rows/s")
    }

    private func reportVerify() throws {
        for round in ["first", "again"] {
            let startedAt = SenderClock.monotonicNanoseconds()
            let report = try Verifier(directory: directory).run()
            let seconds = Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
            Report.line(
                "verify, \(round)",
                "\(grouped(report.rowCount)) events in \(fixed(seconds, 2)) s, "
                    + "\(grouped(Int(Double(report.rowCount) / seconds))) events/s",
                goal: "≥ 120,000,000 events/s")
        }
    }

    /// The least of some runs.
    private func milliseconds(_ body: () throws -> Void) rethrows -> String {
        var best = Double.infinity
        for _ in 0..<Self.repeatCount {
            let startedAt = SenderClock.monotonicNanoseconds()
            try body()
            best = min(best, Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e6)
        }
        return fixed(best, 2) + " ms"
    }
}
