// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestFormat
import IngestStorage

/// The counters that a generation adds, as rows of each table: those of segments that were sealed since the
/// last one, or of the live segment so far.
///
/// **Cost** Nothing before the rows are read, and then a page a source: the tables are never put together
/// in memory. They are read once for each table; `days` holds its (business, day) sums.
struct FreshCounters<Files: FileSystem> {
    let span: LogSpan
    /// Rows of reward-days tables.
    private let parts: [CounterSource<Files>]
    private let keys: [RewardKey]

    /// - Parameters:
    ///   - segments: sealed one after the other, at least one.
    ///   - liveRun: the reward-days run of `manifest` that covers the first blocks of the first segment.
    ///   - keys: the names of every key up to the last segment's, by ordinal.
    init(
        _ segments: [SealedSegmentFile], adding liveRun: RunReader<Files>?, keys: [RewardKey],
        path: String
    ) throws(PipelineError) {
        guard let first = segments.first?.footer, let last = segments.last?.footer else {
            throw .inconsistent("a generation without new segments")
        }
        span = LogSpan(firstSegment: first.segment, end: last.end)
        var parts = segments.map { segment in
            let table = segment.remainder?.counters ?? segment.footer.counters
            return CounterSource<Files>.table(table.makeCursor(), path: path)
        }
        if let liveRun { parts.append(.run(liveRun.makeCursor())) }
        self.parts = parts
        self.keys = keys
    }

    init(_ live: LiveCut, keys: [RewardKey]) {
        span = LogSpan(firstSegment: live.position.segment, end: live.position)
        parts = [.segment(live.counters.makeCursor())]
        self.keys = keys
    }

    /// The rows of one table, from the first on.
    func rows(of table: TableKind) -> FreshRows<Files> {
        let merge = CounterMerge(parts)
        return switch table {
        case .rewards: .rewards(RewardsProjection(merge))
        case .days: .days(DaysProjection(merge, keys: keys))
        case .rewardDays, .names: .rewardDays(merge)
        }
    }

    /// All revenue and spend, micros; at most 2^64 − 1.
    func moneyMicros() throws(PipelineError) -> UInt64 {
        var rows = rows(of: .rewardDays)
        let page = CounterPage()
        var sum: UInt64 = 0
        while try rows.nextPage(into: page) {
            for row in 0..<page.rowCount {
                for column in [CounterColumn.revenueMicros, .spendMicros] {
                    let (whole, overflow) = sum.addingReportingOverflow(page.value(column, row))
                    sum = overflow ? .max : whole
                }
            }
        }
        return sum
    }
}

/// Where counters come from: the table of a footer, a run in its file, a segment's slots.
enum CounterSource<Files: FileSystem>: CounterPageSource {
    /// - Parameter path: what to name where the table is bad.
    case table(CounterTable.Cursor, path: String)
    case run(RunReader<Files>.Cursor)
    case segment(SegmentCounters.Cursor)

    mutating func nextPage(into page: CounterPage) throws(StorageError) -> Bool {
        switch self {
        case .table(var cursor, let path):
            defer { self = .table(cursor, path: path) }
            do { return try cursor.nextPage(into: page) } catch {
                throw StorageError(path: path, error)
            }
        case .run(var cursor):
            defer { self = .run(cursor) }
            return try cursor.nextPage(into: page)
        case .segment(var cursor):
            defer { self = .segment(cursor) }
            return cursor.nextPage(into: page)
        }
    }
}

/// The rows of one table that go into a run: fresh ones, or those of a run that is merged with them.
enum FreshRows<Files: FileSystem>: CounterPageSource {
    typealias Merge = CounterMerge<CounterSource<Files>>

    case rewards(RewardsProjection<Merge>)
    case days(DaysProjection<Merge>)
    case rewardDays(Merge)
    case run(RunReader<Files>.Cursor)

    /// **Errors** `corrupt` with the path of a run or a table that cannot be read; `inconsistent` for sums that
    /// cannot be.
    mutating func nextPage(into page: CounterPage) throws(PipelineError) -> Bool {
        do {
            switch self {
            case .rewards(var rows):
                defer { self = .rewards(rows) }
                return try rows.nextPage(into: page)
            case .days(var rows):
                defer { self = .days(rows) }
                return try rows.nextPage(into: page)
            case .rewardDays(var rows):
                defer { self = .rewardDays(rows) }
                return try rows.nextPage(into: page)
            case .run(var rows):
                defer { self = .run(rows) }
                return try rows.nextPage(into: page)
            }
        } catch {
            throw PipelineError(merging: error)
        }
    }
}

extension PipelineError {
    /// Why rows cannot be put together. A run that cannot be read is a damaged file, and says which.
    init(merging error: any Error) {
        switch error {
        case let error as PipelineError: self = error
        case let error as StorageError: self = .storage(error)
        case CounterMergeError<StorageError>.source(let error): self = .storage(error)
        case CounterMergeError<CounterMergeError<StorageError>>.source(let error):
            self.init(merging: error)
        case CounterMergeError<PipelineError>.source(let error): self = error
        default: self = .inconsistent("counters cannot be merged: \(error)")
        }
    }
}
