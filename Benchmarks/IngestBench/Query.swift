import ArgumentParser
import Foundation
import IngestClient
import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify

/// `ingest-bench query`: what a snapshot of known size costs to keep and how fast it answers, in an open
/// reader and by `ingest-reader` as a process.
struct QueryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query",
        abstract:
            "Size of a snapshot, and the time of queries: in an open reader, and as a process.")

    @OptionGroup var mix: MixOptions
    @OptionGroup var daemon: DaemonOptions

    @Option(help: ArgumentHelp("Events per second while the directory is made.", valueName: "n"))
    var rate = 1_000_000.0

    @Option(help: ArgumentHelp("Events in the directory.", valueName: "n"))
    var events: UInt64 = 10_000_000

    @Option(help: ArgumentHelp("Runs of each query.", valueName: "n"))
    var runs = 10

    @Option(
        help: ArgumentHelp(
            "Keep the directory under this name; one that is there is used again, if it was made of the same load.",
            valueName: "dir"))
    var directory: String?

    func validate() throws {
        guard rate > 0, runs > 0 else { throw ValidationError("--rate and --runs are above 0") }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        let load = DirectoryLoad(
            daemon: daemon, mix: mix, eventCount: events, eventsPerSecond: rate)
        let made = try directory.map { try BenchDirectory.kept(at: $0, load) } ?? .make(load)
        try QueryFigures(directory: made, mix: mix.options, runCount: runs).report()
    }
}

/// `ingest-bench figures`: the figures of snapshots and queries, each beside what it is to reach. The directories are
/// kept and used again: making them takes the longest.
struct FiguresCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "figures",
        abstract: "Snapshots and queries at size: what they cost, beside what they may.",
        discussion: """
            Short: a tenth of the size that the goals are stated for. --full: 10,000,000 rewards, and \
            100,000,000 events over 30 days. Directories are made under --scratch if they are not there, \
            and stay: ingest-bench-rewards-N and ingest-bench-days-N, which may be removed at any time.
            """)

    @OptionGroup var daemon: DaemonOptions

    @Flag(help: "At the size that the goals are stated for: some gigabytes of memory and disk.")
    var full = false

    @Option(help: ArgumentHelp("Events per second while the directories are made.", valueName: "n"))
    var rate = 1_000_000.0

    @Option(help: ArgumentHelp("Runs of each query.", valueName: "n"))
    var runs = 5

    @Flag(inversion: .prefixedNo, help: "Recount the whole log.")
    var verify = true

    func validate() throws {
        guard rate > 0, runs > 0 else { throw ValidationError("--rate and --runs are above 0") }
    }

    func run() throws {
        Report.machine(directory: daemon.scratch)
        let share = full ? 1 : 10
        try report(
            "rewards", ["--rewards", "\(10_000_000 / share)", "--popularity", "turns"],
            eventCount: UInt64(20_000_000 / share))
        try report(
            "days", ["--rewards", "\(1_000_000 / share)", "--days", "30"],
            eventCount: UInt64(100_000_000 / share), ["--max-event-age-seconds=0"])
        try reportCompaction()
    }

    private func report(
        _ name: String, _ mix: [String], eventCount: UInt64, _ options: [String] = []
    ) throws {
        let mix = try MixOptions.parse(mix)
        var daemon = daemon
        daemon.daemonOption += options
        Report.heading("== \(grouped(mix.rewards)) rewards, \(grouped(eventCount)) events")
        let load = DirectoryLoad(
            daemon: daemon, mix: mix, eventCount: eventCount, eventsPerSecond: rate)
        let path = "\(daemon.scratch)/ingest-bench-\(name)-\(eventCount)"
        try QueryFigures(
            directory: .kept(at: path, load), mix: mix.options, runCount: runs, verifies: verify
        ).report()
    }

    /// What the compact queue takes of an event at a million rewards, with a generation a second.
    private func reportCompaction() throws {
        let mix = try MixOptions.parse(["--rewards", "1000000"])
        Report.heading("== compaction: 1,000,000 rewards at 2,000,000 events/s")
        let load = DirectoryLoad(
            daemon: daemon, mix: mix, eventCount: full ? 60_000_000 : 20_000_000,
            eventsPerSecond: 2_000_000)
        _ = try BenchDirectory.make(load)
    }
}

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
        let memory = runs.max { $0.residentByteCountMax < $1.residentByteCountMax }
        Report.line(
            name,
            "p50 \(fixed(percentile(times, 0.5), 1)) ms, max \(fixed(percentile(times, 1), 1)), "
                + "CPU \(fixed(percentile(cpu, 0.5), 1)), \(memory?.memoryText ?? "")", goal: goal)
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
        for format in ["csv", "ndjson"] {
            let file = path + ".export"
            let run = try run([
                "export", "rewards", "--data", path, "--format", format, "--out", file,
            ])
            let (byteCount, lineCount) = try Self.count(file)
            let rowCount = lineCount - (format == "csv" ? 1 : 0)
            try FileManager.default.removeItem(atPath: file)
            Report.line(
                "export rewards, \(format)",
                "\(fixed(run.seconds, 2)) s, \(mebibytes(byteCount)), "
                    + "\(grouped(Int(Double(rowCount) / run.seconds))) rows/s, CPU "
                    + "\(fixed(run.cpuSeconds * 1e9 / Double(max(1, rowCount)), 0)) ns/row, "
                    + run.memoryText, goal: "≥ 2,000,000 rows/s")
        }
    }

    /// Bytes and lines of a file.
    private static func count(_ path: String) throws -> (byteCount: UInt64, lineCount: Int) {
        let file = try FileHandle(forReadingFrom: URL(filePath: path))
        var (byteCount, lineCount) = (0 as UInt64, 0)
        while let piece = try file.read(upToCount: 1 << 20), !piece.isEmpty {
            byteCount += UInt64(piece.count)
            lineCount += piece.count { $0 == 0x0A }
        }
        return (byteCount, lineCount)
    }
}

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
