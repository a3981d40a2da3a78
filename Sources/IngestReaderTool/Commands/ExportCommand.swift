// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import Glibc
import IngestFormat
import IngestReader
import IngestStorage
import SystemPackage

struct ExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "A whole table, or all events, into a file.",
        discussion: """
            The file appears under its name when it is complete; one that is there is replaced then, but in an \
            SQLite file the table of the same name alone. Another file is replaced by SQLite only with \
            --force. Rows are those of rewards, days, reward-days and campaigns, in bytewise order of id. \
            Events come in the order of the log, as far back as their rows are kept, with the verdict on each \
            and the day that it counts for; their ids were never stored. sqlite is one table of the same \
            columns, with indexes. At the end a line of JSON says how many rows and bytes they are, and of \
            which cut. With --out - rows go to standard output as they come, and nothing else does.
            """)

    enum Format: String, CaseIterable, ExpressibleByArgument { case csv, ndjson, sqlite }

    @Argument(help: "rewards, days, reward-days, campaigns or events.") var table: ExportJob.Table
    @Option(help: ArgumentHelp("The data directory.", valueName: "dir")) var data: String
    @Option(help: ArgumentHelp("csv, ndjson or sqlite.", valueName: "format")) var format: Format
    @Option(help: ArgumentHelp("The file to write, or - for standard output.", valueName: "path"))
    var out: String
    @Option(
        help: ArgumentHelp("Only this reward: reward-days, campaigns and events.", valueName: "id"))
    var reward: String?
    @Option(help: ArgumentHelp("Only this business.", valueName: "id")) var business: String?
    @Flag(
        inversion: .prefixedNo,
        help: "An apostrophe before names in CSV that a spreadsheet would run. (default: in files)")
    var csvSafe: Bool?
    @Flag(help: "Replaces all of a file that is there, whatever is in it: --format sqlite.")
    var force = false
    @OptionGroup var dates: DateOptions

    func validate() throws {
        if Self.split(out).name.isEmpty {
            throw ValidationError("--out '\(out)' is not a file name")
        }
        if isToStandardOutput, format == .sqlite {
            throw ValidationError("--format sqlite needs a file, --out - is standard output")
        }
        if csvSafe != nil, format != .csv {
            throw ValidationError("--csv-safe is for --format csv")
        }
        if force, format != .sqlite {
            throw ValidationError("--force is for --format sqlite")
        }
        if reward != nil, table == .rewards || table == .days {
            throw ValidationError("--reward is for reward-days, campaigns and events")
        }
    }

    private var isToStandardOutput: Bool { out == "-" }

    /// Writes the file, then a line about it.
    /// - Parameter sqlite: `nil` in the program that does not write SQLite.
    func run(sqlite: SQLiteWriter?) throws {
        let reader = try IngestReader.open(directory: data)
        let job = ExportJob(
            table: table, reward: reward, business: business, days: dates.range, reader: reader)
        var progress = ExportProgress(
            rowCountMax: job.rowCountMax, isSilent: isToStandardOutput)
        defer { progress.end() }
        if isToStandardOutput {
            let write = StandardOutput.writer(of: format == .csv ? .csv : .ndjson)
            let output = OutputBuffer { try Self.whole(writing: write, $0) }
            return try self.write(job, to: output) { progress.add($0) }
        }
        let (directory, name) = Self.split(out)
        do {
            let files = try LinuxFileSystem(path: directory, create: false)
            try Self.checkTarget(name, in: files)
            if format == .sqlite { try Self.checkJournals(of: name, in: files) }
            let file = try ExportFile(name, in: files)
            file.takePermissions()
            if format == .sqlite, let sqlite {
                let copied = force ? nil : try Self.copyTables(of: name, in: files, to: file)
                do {
                    try sqlite(job, file.temporaryPath) { progress.add($0) }
                } catch let error as SQLiteFailure where error.mayBeOfFile && copied != nil {
                    throw Ending(
                        code: 64,
                        message:
                            "--out cannot take the table, \(error.what), \(out), export to a file of "
                            + "another name, or replace it with --force")
                }
                if let copied { try file.replace(copied, at: 18) }
            } else {
                let output = OutputBuffer { piece in try file.write(piece) }
                try write(job, to: output) { progress.add($0) }
            }
            let byteCount = try file.finish()
            progress.end()
            try Self.report(progress.rowCount, byteCount, of: reader.cut)
        } catch let error as StorageError {
            let shown = ReaderError(error)
            throw Ending.cannotWrite(shown.what, shown.path, code: error.exitCode == 71 ? 71 : 74)
        } catch let error as SQLiteFailure {
            throw Ending.cannotWrite(error.what, out)
        }
    }

    private func write(
        _ job: ExportJob, to output: OutputBuffer, _ onRows: (Int) -> Void
    ) throws {
        let format: OutputFormat = format == .csv ? .csv : .ndjson
        let formatter = RowFormatter(
            format: format, cut: nil, output: output, isCSVSafe: csvSafe ?? !isToStandardOutput)
        try job.give(to: formatter, onRows)
        try output.flush()
    }

    /// Of a table only all of it is right, and nothing but the exit code says that this is: unlike a listing it has not
    /// ended well where nobody reads on.
    private static func whole(
        writing write: ([UInt8]) throws -> Void, _ bytes: [UInt8]
    ) throws {
        do { try write(bytes) } catch let errno as Errno {
            throw Ending.cannotWrite("\(errno)", "standard output")
        }
    }

    /// Directory and last part of a path.
    static func split(_ path: String) -> (directory: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        let directory = path[..<slash]
        let name = path[path.index(after: slash)...]
        return (directory.isEmpty ? "/" : String(directory), String(name))
    }

    /// What a rename would replace: a file, or nothing. A device or a link would be gone, and the directory of a
    /// daemon is not for others' files.
    package static func checkTarget(_ name: String, in files: some FileSystem) throws {
        func refused(_ what: String) -> Ending {
            Ending(
                code: 64,
                message: "\(what), \(files.path)/\(name), export to a file of another name")
        }
        if try DataDirectory.isThere(in: files) {
            throw refused("--out is inside a data directory")
        }
        do { _ = try files.open(name, .read) } catch {
            if case .corrupt = error { throw refused("--out exists and is not a regular file") }
        }
    }

    /// What SQLite left beside a file that somebody writes to, or did when he was cut off, it applies to whatever file has the
    /// name then: not even `--force` puts another one there.
    package static func checkJournals(of name: String, in files: some FileSystem) throws {
        let rollback: [UInt8] = [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7]
        for (ending, magic) in [("-journal", rollback), ("-wal", [0x37, 0x7F, 0x06])] {
            let head = try? files.open(name + ending, .read)
                .readArray(at: 0, byteCount: magic.count)
            guard head == magic else { continue }
            throw Ending(
                code: 64,
                message: "--out is in use by SQLite, or its writer was cut off, "
                    + "\(files.path)/\(name)\(ending), close that program or open the file once with "
                    + "sqlite3; or export to a file of another name")
        }
    }

    /// Begins an SQLite file with what the one has that is there, so that one table of it is replaced. The copy has no
    /// write-ahead log, so that SQLite makes no files beside it.
    ///
    /// - Returns: `nil` if there is none; else its bytes 18 and 19, which say whether it has such a log.
    package static func copyTables<Files: FileSystem>(
        of name: String, in files: Files, to file: ExportFile<Files>
    ) throws -> [UInt8]? {
        let present: Files.File
        do { present = try files.open(name, .read) } catch {
            guard case .notFound = error else { throw error }
            return nil
        }
        let byteCount = try present.byteCount()
        if byteCount == 0 { return nil }
        let head = try present.readArray(at: 0, byteCount: 20)
        guard head.prefix(16) == Array("SQLite format 3\0".utf8)[...] else {
            throw Ending(
                code: 64,
                message: "--out exists and is no SQLite file, \(files.path)/\(name), export to a "
                    + "file of another name, or replace it with --force"
            )
        }
        for offset in stride(from: 0, to: byteCount, by: 1 << 20) {
            try file.write(try present.readArray(at: offset, byteCount: 1 << 20))
        }
        let formatVersions = Array(head.dropFirst(18))
        if formatVersions.contains(2) { try file.replace([1, 1], at: 18) }
        try file.settle()
        return formatVersions
    }

    private static func report(_ rowCount: UInt64, _ byteCount: UInt64, of cut: Cut) throws {
        let fields = [
            Field("rows", .count(rowCount)), Field("bytes", .count(byteCount)),
            Field("cut", cut.cell),
        ]
        try StandardOutput.write(
            OutputBuffer.bytes { ValueText.json.put(fields, to: $0) } + [0x0A])
    }
}

/// Why an SQLite file could not be written.
package struct SQLiteFailure: Error {
    package let what: String
    /// Whether it may be for what the file had in it before.
    package let mayBeOfFile: Bool
    package init(_ what: String, mayBeOfFile: Bool = false) {
        (self.what, self.mayBeOfFile) = (what, mayBeOfFile)
    }
}

/// What an export writes: one table of one cut, or a part of it.
package struct ExportJob {
    package enum Table: String, CaseIterable, ExpressibleByArgument {
        case rewards, days
        case rewardDays = "reward-days"
        case campaigns, events
    }

    package let table: Table
    /// Of reward-days, campaigns and events.
    package let reward: String?
    package let business: String?
    package let days: DayRange
    package let reader: IngestReader

    /// At least as many rows as will come; `nil` where only a part is asked for, and nobody knows.
    package var rowCountMax: UInt64? {
        if reward != nil || business != nil || days.isBounded { return nil }
        switch table {
        case .rewards: return reader.rowCountMax(of: .rewards)
        case .days: return reader.rowCountMax(of: .days)
        case .rewardDays: return reader.rowCountMax(of: .rewardDays)
        // Nobody has counted them.
        case .campaigns: return nil
        case .events: return try? reader.eventCount()
        }
    }

    /// Gives the rows of the table.
    /// - Parameter onRows: is told how many, as they come.
    package func give(to visitor: some RowVisitor, _ onRows: (Int) -> Void) throws {
        func query<Row>() -> ListingQuery<Row> {
            ListingQuery(reward: reward, business: business, days: days)
        }
        func give<Batch: RowBatch>(_ rows: @escaping Rows<Batch>) throws {
            try withoutActuallyEscaping(onRows) { onRows in
                try visitor.visit { body in
                    try rows { batch in
                        onRows(batch.rowCount)
                        try body(batch)
                    }
                }
            }
        }
        switch table {
        case .rewards: try give(reader.rows(of: RewardsQuery(business: business, days: days)))
        case .days: try give(reader.rows(of: DaysQuery(business: business, days: days)))
        case .rewardDays: try give(reader.rows(of: query() as RewardDaysQuery))
        case .campaigns: try give(reader.rows(of: query() as CampaignsQuery))
        case .events: try give(reader.rows(of: query() as EventsQuery))
        }
    }
}

/// What writes the rows of an export.
package protocol RowVisitor {
    func visit<Batch: RowBatch>(_ rows: Rows<Batch>) throws
}

extension RowFormatter: RowVisitor {
    package func visit<Batch: RowBatch>(_ rows: Rows<Batch>) throws { try list(rows) }
}

/// Writes a job's rows into the SQLite file at `path`, which is there and empty, and says how many. Only
/// `ingest-reader-sqlite` has one: what it is linked with takes longer to load than a query to answer
/// (docs/decisions/0029-sqlite-beside.md).
package typealias SQLiteWriter = (
    _ job: ExportJob, _ path: String, _ onRows: (Int) -> Void
) throws -> Void

/// The rows of an export so far, on stderr where that is a terminal: as a bar where it is known how many are to
/// come.
package struct ExportProgress {
    private static let interval = Duration.milliseconds(200)
    private static let barWidth = 24

    private let isShown: Bool
    private let clock = ContinuousClock()
    private let startedAt = ContinuousClock().now
    private let rowCountMax: UInt64?
    private var shownAt: ContinuousClock.Instant?
    private(set) var rowCount: UInt64 = 0

    /// - Parameters:
    ///   - rowCountMax: at least as many rows as will come.
    ///   - isSilent: where the rows themselves may be on the terminal.
    init(rowCountMax: UInt64?, isSilent: Bool) {
        self.rowCountMax = rowCountMax
        isShown = !isSilent && isatty(STDERR_FILENO) == 1
    }

    mutating func add(_ count: Int) {
        rowCount += UInt64(count)
        guard isShown else { return }
        let now = clock.now
        if let shownAt, now - shownAt < Self.interval { return }
        shownAt = now
        let line = Self.line(
            rowCount: rowCount, of: rowCountMax, seconds: (now - startedAt) / .seconds(1))
        ReaderProgram.standardError("\r\(line)\u{1b}[K")
    }

    /// Takes the line away.
    func end() {
        if shownAt != nil { ReaderProgram.standardError("\r\u{1b}[K") }
    }

    /// `[######                  ]  25 %, 1048576 rows, 524288/s, 6 s left`.
    package static func line(
        rowCount: UInt64, of rowCountMax: UInt64?, seconds: Double
    ) -> String {
        let rate = Double(rowCount) / max(seconds, 0.001)
        let counts = "\(rowCount) rows, \(Int(rate))/s"
        guard let rowCountMax, rowCountMax >= rowCount, rowCount > 0 else { return counts }
        let share = Double(rowCount) / Double(rowCountMax)
        let filled = Int(share * Double(barWidth))
        let bar =
            String(repeating: "#", count: filled)
            + String(repeating: " ", count: barWidth - filled)
        let percent = String(Int(share * 100))
        let gap = String(repeating: " ", count: 3 - percent.utf8.count)
        let left = Int((Double(rowCountMax - rowCount) / rate).rounded(.up))
        return "[\(bar)] \(gap)\(percent) %, \(counts), \(left) s left"
    }
}
