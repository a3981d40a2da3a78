// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import IngestFormat
import IngestReader

struct ReaderCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: ReaderProgram.name,
        abstract: "Queries a data directory of ingestd, whether or not a daemon is running on it.",
        discussion: """
            Every answer is of one durable cut of the log. Rows come in bytewise order of id. Dates \
            are YYYY-MM-DD and inclusive. --with-cut adds the cut to each row of JSON; a table, CSV \
            and an empty listing have no place for it.

            Errors are one line: \(ReaderProgram.name): what, where, what to do. Exit codes: 0 ok; \
            1 verify or reconcile found a difference; 64 wrong usage; 65 data on disk is corrupt or of a newer \
            format; 66 directory, file or key not there; 69 a program is not installed; 71 a sync failed; 74 other I/O \
            error.
            """,
        version: ReaderVersion.text,
        subcommands: [
            RewardCommand.self, RewardsCommand.self, DayCommand.self, DaysCommand.self,
            RewardDaysCommand.self, CampaignsCommand.self, ExportCommand.self, WatchCommand.self,
            LedgerCommand.self, ExplainCommand.self, FindCommand.self, StatusCommand.self,
            ReconcileCommand.self, VerifyCommand.self, BackupCommand.self,
            RebuildCommand.self, InspectCommand.self,
        ])
}

/// What every command that answers has.
struct OutputOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The data directory.", valueName: "dir"))
    var data: String

    @Option(
        help: ArgumentHelp(
            "table, json, ndjson or csv. Default: table on a terminal, else ndjson.",
            valueName: "format"))
    var format: OutputFormat?

    @Flag(help: "Include the cut (log position) of the answer in JSON output.")
    var withCut = false

    var formatOrDefault: OutputFormat { format ?? (StandardOutput.isTerminal ? .table : .ndjson) }

    /// Opens the directory, lets `answer` write, and writes out what it left.
    func answer(_ answer: (IngestReader, RowFormatter) throws -> Void) throws {
        let reader = try IngestReader.open(directory: data)
        let output = OutputBuffer(StandardOutput.writer(of: formatOrDefault))
        try answer(
            reader,
            RowFormatter(
                format: formatOrDefault, cut: withCut ? reader.cut : nil, output: output))
        try output.flush()
    }
}

/// `--from` and `--to`.
struct DateOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("First day, YYYY-MM-DD.", valueName: "date"), transform: CivilDay.parse)
    var from: CivilDay?

    @Option(
        help: ArgumentHelp("Last day, YYYY-MM-DD.", valueName: "date"), transform: CivilDay.parse)
    var to: CivilDay?

    var range: DayRange { DayRange(from: from, to: to) }

    func validate() throws {
        if let from, let to, from > to {
            throw ValidationError("--from \(from) is after --to \(to)")
        }
    }
}

extension CivilDay {
    /// The day of an argument.
    static func parse(_ argument: String) throws -> CivilDay {
        guard let day = CivilDay(argument) else {
            throw ValidationError("expected an existing date, as YYYY-MM-DD")
        }
        return day
    }
}

extension OutputFormat: ExpressibleByArgument {}
extension RewardsQuery.Order: ExpressibleByArgument {}

extension Ending {
    /// A key that was never seen: never a row of zeros.
    static func unseen(_ key: String, in directory: String) -> Ending {
        Ending(code: 66, message: "\(key) was never seen, \(directory), check the id")
    }
}
