// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import IngestReader

struct RewardCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reward", abstract: "The counters of one reward.")

    @Argument(help: "The reward id.") var id: String
    @Option(help: ArgumentHelp("Only this business's counts.", valueName: "id"))
    var business: String?
    @OptionGroup var output: OutputOptions

    func run() throws {
        try output.answer { reader, formatter in
            guard let row = try reader.reward(id, business: business) else {
                let place = business.map { " at business \($0)" } ?? ""
                throw Ending.unseen("reward \(id)\(place)", in: output.data)
            }
            try formatter.one(row)
        }
    }
}

struct RewardsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rewards", abstract: "All rewards, or the top ones.")

    @Option(
        help: ArgumentHelp(
            "Maximum number of rows; ordered by impressions unless --by is given.", valueName: "n"))
    var top: Int?
    @Option(
        help: ArgumentHelp(
            "Greatest first by impressions, clicks, redemptions, ctr, revenue or spend.",
            valueName: "counter"))
    var by: RewardsQuery.Order?
    @OptionGroup var listing: ListingOptions

    func validate() throws {
        if let top, top < 0 { throw ValidationError("--top \(top) is below 0") }
    }

    func run() throws {
        let order = by ?? (top == nil ? nil : .impressions)
        try listing.answer(
            RewardsQuery(
                business: listing.business, days: listing.dates.range, order: order, limit: top))
    }
}

struct DayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "day", abstract: "The counters of one business on one day.")

    @Argument(help: "The business id.") var business: String
    @Argument(
        help: ArgumentHelp("The day, YYYY-MM-DD.", valueName: "date"), transform: CivilDay.parse)
    var date: CivilDay
    @OptionGroup var output: OutputOptions

    func run() throws {
        try output.answer { reader, formatter in
            guard let row = try reader.day(business: business, date: date) else {
                throw Ending.unseen("business-day \(business)#\(date)", in: output.data)
            }
            try formatter.one(row)
        }
    }
}

struct DaysCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "days", abstract: "All business-days.")

    @OptionGroup var listing: ListingOptions

    func run() throws {
        try listing.answer(DaysQuery(business: listing.business, days: listing.dates.range))
    }
}

struct RewardDaysCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reward-days", abstract: "Rewards by business and day.")

    @OptionGroup var rewards: RewardOptions

    func run() throws { try rewards.listing.answer(rewards.query() as RewardDaysQuery) }
}

struct CampaignsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "campaigns", abstract: "Rewards by business, campaign and source.")

    @OptionGroup var rewards: RewardOptions

    func run() throws {
        let query: CampaignsQuery = rewards.query()
        try rewards.listing.output.answer { try $1.list($0.rows(of: query)) }
    }
}

/// What every listing of counters has.
struct ListingOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Only this business's counts.", valueName: "id"))
    var business: String?
    @OptionGroup var dates: DateOptions
    @OptionGroup var output: OutputOptions

    func answer<Listing: CounterListing>(_ query: Listing) throws where Listing.Row: OutputRow {
        try output.answer { try $1.list($0.rows(of: query)) }
    }
}

/// What the listings of one reward or all have.
struct RewardOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Only this reward.", valueName: "id"))
    var reward: String?
    @OptionGroup var listing: ListingOptions

    func query<Row>() -> ListingQuery<Row> {
        ListingQuery(reward: reward, business: listing.business, days: listing.dates.range)
    }
}

struct LedgerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ledger",
        abstract: "What became of every sender's packets and events.")

    @Option(
        help: ArgumentHelp(
            "Only the epochs of this framed sender, or plain, http, unidentified or others.",
            valueName: "id"))
    var sender: String?
    @OptionGroup var output: OutputOptions

    func run() throws {
        try output.answer { reader, formatter in
            let rows = try reader.ledger().filter { sender == nil || $0.sender.name == sender }
            if let sender, rows.isEmpty { throw Ending.unseen("sender \(sender)", in: output.data) }
            try formatter.list { try $0(rows) }
        }
    }
}
