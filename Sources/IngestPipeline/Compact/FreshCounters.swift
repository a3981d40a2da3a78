// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestCounting
import IngestFormat
import IngestStorage

/// The counters that sealed segments add to a generation, as rows of reward-days.
///
/// **Cost** Nothing before the rows are read, and then a page a source: the tables are never put together
/// in memory.
struct FreshCounters<Files: FileSystem> {
    let span: LogSpan
    private let parts: [CounterSource<Files>]
    /// The footer's own table, where that is all.
    let onlyTable: CounterTable?

    /// - Parameters:
    ///   - segments: sealed one after the other, at least one.
    ///   - liveRun: the reward-days run of the manifest that covers the first blocks of the first segment, if
    ///     its counters stay.
    init(
        _ segments: [SealedSegmentFile], adding liveRun: RunReader<Files>?, path: String
    ) throws(PipelineError) {
        guard let first = segments.first?.footer, let last = segments.last?.footer else {
            throw .inconsistent("a generation without new segments")
        }
        span = LogSpan(firstSegment: first.segment, end: last.end)
        let tables = segments.map { $0.remainder?.counters ?? $0.footer.counters }
        onlyTable = tables.count == 1 && liveRun == nil ? tables[0] : nil
        var parts = tables.map { CounterSource<Files>.table($0.makeCursor(), path: path) }
        if let liveRun { parts.append(.run(liveRun.makeCursor())) }
        self.parts = parts
    }

    /// The rows from the first on.
    func rows() -> CounterMerge<CounterSource<Files>> { CounterMerge(parts) }
}

/// Where counters come from: the table of a footer, or a run in its file.
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

extension PipelineError {
    /// Why rows cannot be put together. A run that cannot be read is a damaged file, and says which.
    init(merging error: any Error) {
        switch error {
        case let error as StorageError: self = .storage(error)
        case CounterMergeError<StorageError>.source(let error): self = .storage(error)
        case CounterMergeError<CounterMergeError<StorageError>>.source(let error):
            self.init(merging: error)
        default: self = .inconsistent("counters cannot be merged: \(error)")
        }
    }
}
