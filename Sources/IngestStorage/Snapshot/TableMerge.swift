// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestCounting
import IngestFormat

/// Merges sorted parts of the counter tables, runs and level-0 footers, into one run of each table. What it writes
/// counts once a manifest names it; until then it is a file that a start removes.
///
/// Reward-days are merged, days are merged, and rewards are the reward-days of the new run with their days summed, but
/// for the attributed rows of these.
///
/// **Cost** 10 to 20 ns a row read and 30 to 40 ns a row written; a page and the attributions of a part in memory.
package struct TableMerge<Files: FileSystem> {
    package let files: Files
    /// The generation that the runs are made for, as far as it is known.
    package let origin: Manifest
    package private(set) var rewardDays: [RunReader<Files>] = []
    package private(set) var days: [RunReader<Files>] = []

    package init(for origin: Manifest, in files: Files) {
        self.origin = origin
        self.files = files
    }

    /// Adds the runs of a manifest, of all tables.
    package mutating func add(_ runs: [RunEntry]) throws(StorageError) {
        for run in runs where run.table != .rewards {
            let reader = try RunReader(run, directory: origin.directory, in: files)
            if run.table == .days { days.append(reader) } else { rewardDays.append(reader) }
        }
    }

    /// Adds the footer of a sealed segment.
    package mutating func add(_ segment: SealedSegment) throws(StorageError) {
        let tables = try RunReader.openFooter(
            of: segment, directory: origin.directory, in: files)
        rewardDays.append(tables.rewardDays)
        days.append(tables.days)
    }

    mutating func add(rewardDays reader: RunReader<Files>) { rewardDays.append(reader) }

    mutating func add(days reader: RunReader<Files>) { days.append(reader) }

    /// Bytes of each part that is read. What is written is as large as the largest of them at least, and as all
    /// together and once more at most.
    package var inputByteCounts: [UInt64] {
        (rewardDays + days).map { UInt64($0.index.pagesByteCount) }
    }

    package var inputRowCount: UInt64 {
        (rewardDays + days).reduce(0) { $0 &+ UInt64($1.index.rowCount) }
    }

    /// Writes the runs.
    /// - Parameters:
    ///   - span: what the parts cover together.
    ///   - makesRewards: whether to make rewards too: not for runs that are merged again.
    ///   - isStopped: asked once a page: whether to end early.
    /// - Returns: a run of each table, in their order; `nil` if it was stopped. Nothing is left of what was written then,
    ///   nor after an error.
    /// **Errors** `corrupt` with the path of a part that cannot be merged.
    package func run(
        of span: LogSpan, firstNumber: FileNumber, makesRewards: Bool = true,
        isStopped: @escaping @Sendable () -> Bool = { false }
    ) throws(StorageError) -> [RunEntry]? {
        var runs: [RunEntry] = []
        do throws(StorageError) {
            for (table, parts) in [(TableKind.rewardDays, rewardDays), (.days, days)] {
                let number = firstNumber.advanced(by: runs.count)
                guard let run = try write(table, number, of: span, parts, isStopped) else {
                    removeFiles(runs)
                    return nil
                }
                runs.append(run)
            }
            if !makesRewards { return runs }
            let merged = try RunReader(runs[0], directory: origin.directory, in: files)
            let number = firstNumber.advanced(by: runs.count)
            guard let rewards = try write(.rewards, number, of: span, [merged], isStopped) else {
                removeFiles(runs)
                return nil
            }
            return [rewards, runs[1], runs[0]]
        } catch {
            removeFiles(runs)
            throw error
        }
    }

    private func write(
        _ table: TableKind, _ number: FileNumber, of span: LogSpan, _ parts: [RunReader<Files>],
        _ isStopped: @escaping @Sendable () -> Bool
    ) throws(StorageError) -> RunEntry? {
        let rows = try MergedRows(parts, for: table)
        let segments = SealedSegments(of: origin, in: span, attributions: rows.attributions)
        return try RunWriter.merge(
            table, number, of: span, for: origin,
            metadata: table == .rewardDays ? RunMetadata(segments.encode()) : RunMetadata(),
            rows, in: files, isStopped: isStopped)
    }

    /// Removes what no manifest names. What stays is removed by a start.
    package func removeFiles(_ runs: [RunEntry]) {
        for run in runs { try? files.unlink(run.fileName.text) }
    }
}

extension FileNumber {
    package func advanced(by count: Int) -> FileNumber {
        FileNumber(rawValue: rawValue &+ UInt64(count))
    }
}

extension RunWriter {
    /// Writes a run of the merged rows of others.
    ///
    /// - Parameter isStopped: asked once a page: whether to end early.
    /// - Returns: `nil` if it was stopped.
    /// **Errors** `corrupt` with the path of a part that cannot be merged.
    static func merge<Files: FileSystem>(
        _ table: TableKind, _ number: FileNumber, of span: LogSpan, for manifest: Manifest,
        metadata: RunMetadata, _ rows: MergedRows<Files>, in files: Files,
        isStopped: @escaping @Sendable () -> Bool
    ) throws(StorageError) -> RunEntry? {
        do {
            return try write(
                table, number: number, of: span, for: manifest, metadata: metadata, in: files
            ) {
                StoppableRows(
                    CounterMerge(rows.cursors, dropsDays: !table.hasDay), isStopped: isStopped)
            }
        } catch {
            switch error {
            case .storage(let error): throw error
            case .source(.stopped): return nil
            case .source(.failed(.source(let error))): throw error
            case .source(.failed(let error)):
                throw .corrupt(
                    path: files.path, offset: 0, detail: "counters that cannot be: \(error)")
            }
        }
    }
}

/// Rows that end in an error when they are no longer wanted.
private struct StoppableRows<Source: CounterPageSource>: CounterPageSource {
    enum Failure: Error {
        case stopped
        case failed(Source.Failure)
    }

    private var source: Source
    private let isStopped: @Sendable () -> Bool

    init(_ source: Source, isStopped: @escaping @Sendable () -> Bool) {
        self.source = source
        self.isStopped = isStopped
    }

    mutating func nextPage(into page: CounterPage) throws(Failure) -> Bool {
        if isStopped() { throw .stopped }
        do { return try source.nextPage(into: page) } catch { throw .failed(error) }
    }
}

/// What is merged into one run: sorted parts whose attributed rows mean places of one list.
///
/// **Cost** The lists of all parts while they are read; then the merged one, and 4 bytes for each of theirs.
struct MergedRows<Files: FileSystem> {
    /// Of all parts.
    let attributions: AttributionList
    /// A part each.
    let cursors: [Cursor]

    /// - Parameter table: that is made of the parts; attributed rows are left out of others than those that have them.
    /// **Errors** `corrupt` with the path of a part whose attributions cannot be read.
    init(_ parts: [RunReader<Files>], for table: TableKind) throws(StorageError) {
        guard table == .rewardDays || table == .expired else {
            attributions = AttributionList()
            cursors = parts.map { Cursor($0, CounterKeys.rewards, places: []) }
            return
        }
        var lists: [AttributionList] = []
        for part in parts { lists.append(try part.readAttributions()) }
        let (all, places) = AttributionList.merged(lists)
        attributions = all
        cursors = zip(parts, places).map { Cursor($0, CounterKeys.all, places: $1) }
    }

    /// The rows of a part, attributed ones under the keys of the merged list.
    struct Cursor: CounterPageSource {
        private var rows: RunReader<Files>.Cursor
        private let places: [UInt32]
        private let path: String

        init(_ part: RunReader<Files>, _ keys: ClosedRange<UInt32>, places: [UInt32]) {
            rows = part.makeCursor(keys: keys)
            self.places = places
            path = part.path
        }

        mutating func nextPage(into page: CounterPage) throws(StorageError) -> Bool {
            guard try rows.nextPage(into: page) else { return false }
            if page.renumberAttributed(places) { return true }
            throw .corrupt(
                path: path, offset: 0, detail: "a row of an attribution that is not listed")
        }
    }
}
