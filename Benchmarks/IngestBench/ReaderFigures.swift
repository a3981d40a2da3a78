import IngestClient
import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify

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

/// What the files of a snapshot hold and take on disk, by the newest manifest.
struct SnapshotFigures {
    private let manifest: Manifest

    init(_ directory: String) throws {
        let files = try LinuxFileSystem(path: directory, create: false)
        manifest = try ManifestStore(files: files).readNewest()
    }

    /// Rows of the largest run that holds rewards, of no more keys than there are: of a directory that was stopped,
    /// about all of them.
    var rewardCountMax: UInt64 {
        min(
            manifest.runs(of: .rewards).map { UInt64($0.rowCount) }.max() ?? 0,
            UInt64(manifest.shard.nextKey))
    }

    func report() throws {
        Report.heading("the snapshot")
        Report.line(
            "segments",
            "\(manifest.sealed.count), \(grouped(manifest.sealed.reduce(0) { $0 + $1.rowCount })) events, "
                + mebibytes(manifest.sealed.reduce(0) { $0 + $1.byteCount }))
        for table in TableKind.counterTables {
            let runs = manifest.runs.filter { $0.table == table }
            let rowCount = runs.reduce(0) { $0 + $1.rowCount }
            let byteCount = runs.reduce(0) { $0 + $1.byteCount }
            Report.line(
                "\(table)",
                "\(runs.count) runs, \(grouped(rowCount)) rows, \(mebibytes(byteCount)), "
                    + "\(fixed(Double(byteCount) / Double(max(1, rowCount)), 1)) bytes/row")
        }
        let names = manifest.namesRuns
        let nameCount = names.reduce(0) { $0 + $1.names.count }
        let byteCount = names.reduce(0) { $0 + $1.byteCount }
        Report.line(
            "names",
            "\(names.count) runs, \(grouped(nameCount)) names, "
                + "\(grouped(names.reduce(0) { $0 + $1.keys.count })) keys, \(mebibytes(byteCount)), "
                + "\(fixed(Double(byteCount) / Double(max(1, nameCount)), 1)) bytes/name",
            goal: "≤ 48")
    }
}
