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

    /// - Parameter segments: sealed one after the other, at least one.
    init(_ segments: [SealedSegmentFile], path: String) throws(PipelineError) {
        guard let first = segments.first?.footer, let last = segments.last?.footer else {
            throw .inconsistent("a generation without new segments")
        }
        span = LogSpan(firstSegment: first.segment, end: last.end)
        let tables = segments.map(\.footer.counters)
        onlyTable = tables.count == 1 ? tables[0] : nil
        parts = tables.map { .table($0.makeCursor(), path: path) }
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
