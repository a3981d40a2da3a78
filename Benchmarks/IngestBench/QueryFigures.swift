import Foundation

/// What one directory takes on disk and how fast it answers: in an open reader, and by `ingest-reader` as a
/// process.
struct QueryFigures {
    let directory: BenchDirectory
    let mix: EventMix.Options
    /// Runs of each query as a process.
    let runCount: Int
    /// `verify` takes the longest by far.
    var verifies = true

    func report() throws {
        let path = directory.path
        try SnapshotFigures(path).report()
        try ReaderFigures(
            directory: path, rewardCount: mix.rewardCount, names: mix.names, verifies: verifies
        ).report()
        Report.heading("ingest-reader as a process")
        let reward = EventMix.rewardName(0, mix.names)
        let week = ["--from", Self.date(daysAgo: 6)]
        for (name, query, goal) in [
            ("reward ID", ["reward", reward], "≤ 10 ms"),
            ("rewards --top 100", ["rewards", "--top", "100"], "≤ 100 ms of 10,000,000"),
            ("rewards --top 100, a week", ["rewards", "--top", "100"] + week, nil),
            ("days", ["days"], nil),
            ("reward-days --reward ID", ["reward-days", "--reward", reward], nil),
            ("status", ["status"], nil),
        ] {
            try time(name, query + ["--data", path, "--format", "ndjson"], goal)
        }
        if verifies { try time("verify", ["verify", "--data", path, "--format", "ndjson"]) }
        try reportExport(path)
    }

    private static func date(daysAgo days: Double) -> String {
        let text = Date(timeIntervalSinceNow: -86_400 * days).ISO8601Format()
        return String(text.prefix(10))
    }

    private func time(_ name: String, _ arguments: [String], _ goal: String? = nil) throws {
        var runs: [ProgramRun] = []
        for _ in 0..<runCount { runs.append(try run(arguments)) }
        let times = runs.map { $0.seconds * 1000 }.sorted()
        let cpu = runs.map { $0.cpuSeconds * 1000 }.sorted()
        let memory = runs.map { $0.residentByteCountMax }.max() ?? 0
        Report.line(
            name,
            "p50 \(fixed(percentile(times, 0.5), 1)) ms, max \(fixed(percentile(times, 1), 1)), "
                + "CPU \(fixed(percentile(cpu, 0.5), 1)), \(mebibytes(memory))", goal: goal)
    }

    /// A query that fails has no time.
    private func run(_ arguments: [String]) throws -> ProgramRun {
        let run = try ProgramRun(DaemonOptions.besideThis("ingest-reader"), arguments)
        guard run.exitCode == 0 else {
            throw BenchFailure(
                "ingest-reader \(arguments.joined(separator: " ")) ended with \(run.exitCode)")
        }
        return run
    }

    private func reportExport(_ path: String) throws {
        let rowCount = try SnapshotFigures(path).rewardCountMax
        for format in ["csv", "ndjson"] {
            let file = path + ".export"
            let run = try run([
                "export", "rewards", "--data", path, "--format", format, "--out", file,
            ])
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            try FileManager.default.removeItem(atPath: file)
            let byteCount = (attributes[.size] as? NSNumber)?.uint64Value ?? 0
            Report.line(
                "export rewards, \(format)",
                "\(fixed(run.seconds, 2)) s, \(mebibytes(byteCount)), "
                    + "\(grouped(Int(Double(rowCount) / run.seconds))) rows/s, CPU "
                    + "\(fixed(run.cpuSeconds * 1e9 / Double(max(1, rowCount)), 0)) ns/row, "
                    + mebibytes(run.residentByteCountMax), goal: "≥ 2,000,000 rows/s")
        }
    }
}
