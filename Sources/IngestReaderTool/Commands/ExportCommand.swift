// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import Glibc
import IngestReader
import IngestStorage

struct ExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "A whole table into a file, in bytewise order of id.",
        discussion: """
            The file appears under its name when it is complete; one that is there is replaced then. \
            Rows are those of rewards, days and reward-days. Events, and sqlite, are not there yet.
            """)

    enum Table: String, CaseIterable, ExpressibleByArgument {
        case rewards, days
        case rewardDays = "reward-days"
    }

    enum Format: String, CaseIterable, ExpressibleByArgument {
        case csv, ndjson

        var output: OutputFormat {
            switch self {
            case .csv: .csv
            case .ndjson: .ndjson
            }
        }
    }

    @Argument(help: "rewards, days or reward-days.") var table: Table
    @Option(help: ArgumentHelp("The data directory.", valueName: "dir")) var data: String
    @Option(help: ArgumentHelp("csv or ndjson.", valueName: "format")) var format: Format
    @Option(help: ArgumentHelp("The file to write.", valueName: "path")) var out: String
    @Option(help: ArgumentHelp("Only this business.", valueName: "id")) var business: String?
    @OptionGroup var dates: DateOptions

    func validate() throws {
        if Self.split(out).name.isEmpty {
            throw ValidationError("--out '\(out)' names no file")
        }
    }

    func run() throws {
        let reader = try IngestReader.open(directory: data)
        let (directory, name) = Self.split(out)
        var progress = ExportProgress()
        do {
            let files = try LinuxFileSystem(path: directory, create: false)
            let file = try ExportFile(name, in: files)
            let output = OutputBuffer { piece in try file.write(piece) }
            let formatter = RowFormatter(format: format.output, cut: nil, output: output)
            try formatter.list(kind) { (body) throws(ReaderError) in
                try list(reader) { row in
                    progress.addRow()
                    return body(row)
                }
            }
            try output.flush()
            try file.finish()
        } catch let error as StorageError {
            progress.end()
            throw Ending(
                code: 74,
                message: "cannot write: \(error.description), \(out), check where it goes")
        }
        progress.end()
    }

    private var kind: ListingKind {
        switch table {
        case .rewards: .rewards
        case .days: .days
        case .rewardDays: .rewardDays
        }
    }

    private func list(
        _ reader: IngestReader, _ body: ListedRow.Body
    ) throws(ReaderError) {
        switch table {
        case .rewards:
            try reader.listRewards(RewardsQuery(business: business, days: dates.range), body)
        case .days:
            try reader.listDays(DaysQuery(business: business, days: dates.range), body)
        case .rewardDays:
            try reader.listRewardDays(
                RewardDaysQuery(business: business, days: dates.range), body)
        }
    }

    /// Directory and last part of a path.
    static func split(_ path: String) -> (directory: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        let directory = path[..<slash]
        let name = path[path.index(after: slash)...]
        return (directory.isEmpty ? "/" : String(directory), String(name))
    }
}

/// The rows of an export so far, on stderr where that is a terminal.
struct ExportProgress {
    private static let stride = 1 << 14
    private static let interval = Duration.milliseconds(200)

    private let isShown = isatty(STDERR_FILENO) == 1
    private let clock = ContinuousClock()
    private let startedAt = ContinuousClock().now
    private var shownAt: ContinuousClock.Instant?
    private var rowCount = 0

    mutating func addRow() {
        rowCount += 1
        guard isShown, rowCount % Self.stride == 0 else { return }
        let now = clock.now
        if let shownAt, now - shownAt < Self.interval { return }
        shownAt = now
        let milliseconds = (now - startedAt) / .milliseconds(1)
        let rate = Int(Double(rowCount) * 1_000 / max(1, milliseconds))
        ReaderProgram.standardError("\r\(rowCount) rows, \(rate) a second")
    }

    /// Takes the line away.
    func end() {
        if shownAt != nil { ReaderProgram.standardError("\r\u{1b}[K") }
    }
}
