// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestFormat
import IngestStorage

/// The counters of segments that have been sealed since the last generation, as one table of each kind.
///
/// **Cost** One merge of the segments' tables and two projections of it: about 100 ns a row.
struct FreshCounters {
    let span: LogSpan
    private let rewardDays: CounterTable
    private let rewards: CounterTable
    private let days: CounterTable

    /// - Parameters:
    ///   - segments: sealed one after the other, at least one.
    ///   - keys: the names of every key up to the last segment's, by ordinal.
    init(_ segments: [SegmentFooter], keys: [RewardKey]) throws(PipelineError) {
        guard let first = segments.first, let last = segments.last else {
            throw .inconsistent("a generation without new segments")
        }
        span = LogSpan(
            firstSegment: first.segment,
            end: LogPosition(segment: last.segment, blockCount: last.blockCount))
        if segments.count == 1 {
            rewardDays = first.counters
        } else {
            rewardDays = try Self.table(
                of: CounterMerge(segments.map { $0.counters.makeCursor() }), hasDay: true)
        }
        rewards = try Self.table(of: RewardsProjection(rewardDays.makeCursor()), hasDay: false)
        days = try Self.table(
            of: DaysProjection(rewardDays.makeCursor(), keys: keys), hasDay: true)
    }

    func table(_ kind: TableKind) -> CounterTable {
        switch kind {
        case .rewards: rewards
        case .days: days
        case .rewardDays, .names: rewardDays
        }
    }

    /// Codes all rows of `source`.
    static func table<Source: CounterPageSource>(
        of source: Source, hasDay: Bool
    ) throws(PipelineError) -> CounterTable {
        var encoder = CounterTableEncoder(hasDay: hasDay)
        do {
            try encoder.append(contentsOf: source)
        } catch {
            // A run that cannot be read is a damaged file, and says which.
            if case .source(let fault)? = error as? CounterMergeError<StorageError> {
                throw .storage(fault)
            }
            throw .inconsistent("counters cannot be merged: \(error)")
        }
        return encoder.finish()
    }
}

/// The rows of a table in memory, or of a run in its file, page by page.
enum CounterSource<Files: FileSystem>: CounterPageSource {
    /// - Parameter path: what to name where the table is bad.
    case table(CounterTable.Cursor, path: String)
    case run(RunReader<Files>.Cursor)

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
        }
    }
}
