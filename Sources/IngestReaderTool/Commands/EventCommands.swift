// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import Glibc
import IngestFormat
import IngestReader
import IngestStorage

struct FindCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "find",
        abstract: "Was this event counted? Its rows in the log, with the verdict on each.",
        discussion: """
            The log has no ids, but a keyed hash of each with its business, and that is what is compared. \
            A table has the columns that tell rows of one id apart, the other formats all. Of senders the \
            log knows what each block has of them: sender and sequences are those of the block, where only \
            one can have sent the row.
            """)

    @Argument(help: "The event's id; a UUID is the same id as its 16 bytes.") var eventID: String
    @Option(help: ArgumentHelp("The business whose event it is.", valueName: "id"))
    var business: String
    @Flag(help: "The id is given in hexadecimal digits.") var hex = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard let bytes, (1...Limits.eventIDByteCountMax).contains(bytes.count) else {
            throw ValidationError(
                "an event id has 1 to \(Limits.eventIDByteCountMax) bytes"
                    + (hex ? ", two hexadecimal digits each" : ""))
        }
    }

    /// `nil` for what are no hexadecimal digits.
    private var bytes: [UInt8]? {
        guard hex else { return Array(eventID.utf8) }
        let digits = eventID.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count % 2 == 0 else { return nil }
        return stride(from: 0, to: digits.count, by: 2).reduce([]) { bytes, place in
            guard let bytes, let high = digits[place], let low = digits[place + 1] else {
                return nil
            }
            return bytes + [UInt8(high << 4 | low)]
        }
    }

    func run() throws {
        let bytes = bytes ?? []
        try output.answer { reader, formatter in
            let count = try formatter.list(
                reader.rows(ofEvent: bytes, business: business),
                tableColumns: FoundEvent.tableColumns)
            if count == 0 {
                throw Ending(
                    code: 66,
                    message: "no row of event \(eventID) at business \(business), \(output.data), "
                        + (reader.hasExpiredRows
                            ? "check both ids, or it has expired" : "check both ids")
                        + "; ingest-reader ledger counts refused events that have no row")
            }
        }
    }
}

struct ExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "The rows behind a counter, and those refused: reward ID, or day BUSINESS DATE.",
        discussion: """
            Rows are those of export events, in the order of the log: every event of the reward or the \
            business-day with its verdict, which says which counter it is in. What the counters have and \
            the log no longer has is said on stderr: rows expire, counters stay.
            """)

    enum Subject: String, CaseIterable, ExpressibleByArgument { case reward, day }

    @Argument(help: "reward or day.") var subject: Subject
    @Argument(help: "The reward id; of a day the business id.") var id: String
    @Argument(
        help: ArgumentHelp("Of a day: YYYY-MM-DD.", valueName: "date"), transform: CivilDay.parse)
    var date: CivilDay?
    @Option(help: ArgumentHelp("Of a reward: only this business's events.", valueName: "id"))
    var business: String?
    @OptionGroup var dates: DateOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        switch subject {
        case .reward:
            if date != nil { throw ValidationError("a reward has no date, use --from and --to") }
        case .day:
            if date == nil { throw ValidationError("explain day needs a business and a date") }
            if business != nil || dates.range.isBounded {
                throw ValidationError("--business, --from and --to are for explain reward")
            }
        }
    }

    func run() throws {
        try output.answer { reader, formatter in
            let (query, name, gross) = try self.query(reader)
            let count = try formatter.list(
                reader.rows(of: query), tableColumns: EventRow.tableColumns)
            if UInt64(count) < gross {
                ReaderProgram.note(
                    "\(gross - UInt64(count)) of the \(gross) events of \(name) have no row any more, "
                        + "\(output.data), "
                        + (reader.hasExpiredRows ? "they have expired" : "run ingest-reader verify")
                )
            }
        }
    }

    /// What to list, what it is called, and of how many events the counters are.
    private func query(
        _ reader: IngestReader
    ) throws -> (query: EventsQuery, name: String, gross: UInt64) {
        if let date {
            let name = "business-day \(id)#\(date)"
            guard let row = try reader.day(business: id, date: date) else {
                throw Ending.unseen(name, in: output.data)
            }
            let days = DayRange(from: date, to: date)
            return (EventsQuery(business: id, days: days), name, row.counters.gross)
        }
        let name = "reward \(id)" + (business.map { " at business \($0)" } ?? "")
        guard let row = try reader.reward(id, business: business) else {
            throw Ending.unseen(name, in: output.data)
        }
        let query = EventsQuery(reward: id, business: business, days: dates.range)
        guard dates.range.isBounded else { return (query, name, row.counters.gross) }
        var gross: UInt64 = 0
        try reader.forEachRewardDay(
            RewardDaysQuery(reward: id, business: business, days: dates.range)
        ) { row in
            gross = gross.saturatingSum(row.counters.gross)
            return .next
        }
        return (query, name, gross)
    }
}

extension Counters {
    /// All events, of every kind.
    fileprivate var gross: UInt64 {
        Kind.allCases.reduce(0) { $0.saturatingSum(gross($1)) }
    }
}

struct ReconcileCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reconcile",
        abstract: "A sender's own file of the events that it sent, against the log.",
        discussion: """
            FILE has JSON events, a line each, as ingest-send reads them. Each is looked for in the log, with \
            all that the log keeps of it; an event that was altered is one that is missing and one that is \
            unexpected. Unexpected are rows on the business-days of FILE that no line is of. Refused events \
            whose names or their combination are not known have no row but are in the ledger: as many lines that \
            may be of them are refused, not missing. Events of users who opted out are never stored, and counted apart. --format ndjson adds a line for each reward \
            and day that differs. Temporary files are made in TMPDIR, or else in /tmp. Exit code 1 if a \
            line is malformed or missing, or a row unexpected.
            """)

    @Argument(help: "NDJSON, a regular file.") var file: String
    @OptionGroup var dates: DateOptions
    @OptionGroup var output: OutputOptions

    func run() throws {
        let input = try Environment.openRegular(file, "give a file of lines")
        let folder = Environment.value("TMPDIR") ?? "/tmp"
        let scratch: LinuxFileSystem
        do { scratch = try LinuxFileSystem(path: folder, create: false) } catch {
            throw Ending(
                code: error.exitCode,
                message: "\(error); for temporary files TMPDIR can name another directory")
        }
        try output.answer { reader, formatter in
            let reconciler = Reconciler(reader, with: input, days: dates.range, scratch: scratch)
            let found = try reconciler.run()
            for line in found.malformed {
                ReaderProgram.note("line \(line.line): \(line.reason), \(file), not a valid event")
            }
            let rest = found.malformedCount - UInt64(found.malformed.count)
            if rest > 0 { ReaderProgram.note("\(rest) more malformed lines, \(file)") }
            try Ending.check(found.hasDifferences ? 1 : 0, message(found, reader)) {
                try formatter.one(found.fields)
                if output.formatOrDefault == .ndjson {
                    try reconciler.forEachDifference { try formatter.one($0) }
                }
                try formatter.output.flush()
            }
        }
    }

    private func message(_ found: Reconciliation, _ reader: IngestReader) -> String {
        let expired = reader.hasExpiredRows && found.missingCount > 0
        return "reconcile found \(found.malformedCount) malformed, \(found.missingCount) missing, "
            + "\(found.unexpectedCount) unexpected events, \(file) against \(output.data), "
            + (expired
                ? "rows of the log have expired: --from leaves out what is older"
                : "--format ndjson lists rewards and days")
    }
}

extension Reconciliation {
    fileprivate var fields: [Field] {
        let repeats: [Verdict] = [.duplicate, .conflict, .sessionRepeat]
        let refused = byVerdict.filter { $0.key != .counted && !repeats.contains($0.key) }
        return [
            Field("lines", .count(lineCount)), Field("malformed", .count(malformedCount)),
            Field("optedOut", .count(optedOutCount)),
            Field("counted", .count(byVerdict[.counted] ?? 0)),
            Field("repeated", .count(repeats.reduce(0) { $0 + (byVerdict[$1] ?? 0) })),
            Field("refused", .counts(refused)), Field("missing", .count(missingCount)),
            Field("unexpected", .count(unexpectedCount)),
            Field("otherDays", .count(otherDaysCount)),
            Field("withoutRow", .count(withoutRowCount)),
        ]
    }
}

extension ReconciledDay: OutputRow {
    package static var empty: ReconciledDay { ReconciledDay() }

    package func give(to sink: inout some ValueSink) {
        sink.text("id", reward)
        sink.text("businessId", business)
        sink.day("date", day)
        sink.count("missing", missingCount)
        sink.count("unexpected", unexpectedCount)
    }
}
