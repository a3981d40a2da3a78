// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import IngestFormat
import IngestReader

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
    @Argument(help: ArgumentHelp("Of a day: YYYY-MM-DD.", valueName: "date")) var date: CivilDay?
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
