// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import ArgumentParser
import Glibc
import IngestReader

struct WatchCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "A live table of the top rewards, until it is stopped.",
        discussion: """
            On a terminal the table is drawn over again and again; elsewhere a table follows the other, with an \
            empty line between them. A reward that several businesses have is one row of all of them, with the \
            first of them and how many others there are: shop-a +2. Each is of the newest durable cut. SIGINT, SIGTERM, and the end of the \
            terminal or of the pipe's reader end it with 0.
            """)

    static let intervalSeconds = 0.1...3600.0
    /// Rows where there is no terminal whose lines could be filled.
    private static let plainRowCount = 20

    @Option(help: ArgumentHelp("The data directory.", valueName: "dir"))
    var data: String
    @Option(
        help: ArgumentHelp(
            "Maximum number of rows (default: the height of the terminal, else 20).", valueName: "n"
        ))
    var top: Int?
    @Option(
        help: ArgumentHelp(
            "Greatest first by impressions, clicks, redemptions, ctr, revenue or spend.",
            valueName: "counter"))
    var by = RewardsQuery.Order.impressions
    @Option(help: ArgumentHelp("Only this business's counts.", valueName: "id"))
    var business: String?
    @Option(help: ArgumentHelp("Seconds between two tables, 0.1 to 3600.", valueName: "seconds"))
    var intervalSeconds = 1.0
    @OptionGroup var dates: DateOptions

    func validate() throws {
        if let top, top < 1 { throw ValidationError("--top \(top) is below 1") }
        guard Self.intervalSeconds.contains(intervalSeconds) else {
            throw ValidationError("--interval-seconds \(intervalSeconds) is not 0.1 to 3600")
        }
    }

    func run() throws {
        let signals = HeldSignals()
        let screen = WatchScreen(signals: signals)
        // Before the terminal is touched: an error is one line on the screen that the user sees.
        var sample = try take(rowCount: rowCount(screen.extent))
        var lines = self.lines(sample, since: nil, screen.extent)
        try screen.begin()
        do {
            let clock = ContinuousClock()
            var drawAt = clock.now
            while try screen.draw(lines) {
                drawAt = max(drawAt + .seconds(intervalSeconds), clock.now)
                if Self.waits(until: drawAt, clock, signals) == .stop { break }
                let last = sample
                sample = try take(rowCount: rowCount(screen.extent))
                lines = self.lines(sample, since: last, screen.extent)
            }
        } catch {
            try? screen.end([])
            throw error
        }
        try screen.end(lines)
    }

    /// - Returns: the signal that came before it was time.
    private static func waits(
        until time: ContinuousClock.Instant, _ clock: ContinuousClock, _ signals: HeldSignals
    ) -> HeldSignals.Event? {
        while true {
            let rest = time - clock.now
            if let event = signals.next(within: rest) { return event }
            if rest <= .zero { return nil }
        }
    }

    private func rowCount(_ extent: WatchScreen.Extent?) -> Int {
        let room = extent.map { max(1, $0.lineCount - WatchFrame.otherLineCount) }
        return min(top ?? room ?? Self.plainRowCount, room ?? .max)
    }

    private func take(rowCount: Int) throws -> WatchSample {
        let reader = try IngestReader.open(directory: data)
        let rows = try reader.rewards(
            RewardsQuery(business: business, days: dates.range, order: by, limit: rowCount))
        return try WatchSample(
            wallMicroseconds: WatchScreen.wallMicroseconds,
            seconds: (ContinuousClock().now - Self.startedAt) / .seconds(1), cut: reader.cut,
            totals: reader.totals(), rows: rows)
    }

    private static let startedAt = ContinuousClock().now

    private func lines(
        _ sample: WatchSample, since last: WatchSample?, _ extent: WatchScreen.Extent?
    ) -> [String] {
        WatchFrame.lines(
            sample, since: last, directory: data, columnCount: extent?.columnCount)
    }
}
