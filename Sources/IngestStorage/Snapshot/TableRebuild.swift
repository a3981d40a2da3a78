// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestCounting
import IngestFormat

/// Makes the counter tables again, from the footers of all segments and what is left of expired ones, as one run of
/// each table: what a start does that misses one or cannot read it, and `ingest-reader rebuild`. For the same
/// directory it writes the same bytes.
///
/// Order: runs of some segments each, where they do not all fit into memory; the run of reward-days; of it those of
/// days and rewards; a manifest that names these three alone. A crash before that leaves files with numbers still to be
/// given, which a start removes.
///
/// **Cost** The footers read once or twice, 100 ns a row, and each table written once; 64 MiB, and 8 bytes a key.
package struct TableRebuild<Files: FileSystem> {
    private let store: ManifestStore<Files>
    private var next: Manifest
    private var intermediate: [RunEntry] = []

    private static var batchByteCountMax: Int { 64 << 20 }
    private static var batchCountMax: Int { 64 }

    /// Publishes the next generation, with tables that were made again.
    ///
    /// **Errors** `corrupt`, `notFound` for a footer, an expired one or a names run that cannot be read: then the
    /// tables that are there are all that there is. Those of writing.
    package static func run(
        _ store: ManifestStore<Files>, after manifest: Manifest
    ) throws(StorageError) -> Manifest {
        var rebuild = TableRebuild(store, manifest)
        do throws(StorageError) {
            try rebuild.makeTables()
            try store.publish(rebuild.next)
        } catch {
            rebuild.removeFiles(rebuild.next.runs)
            throw error
        }
        return rebuild.next
    }

    private init(_ store: ManifestStore<Files>, _ manifest: Manifest) {
        self.store = store
        next = manifest
        next.generation = manifest.generation.next
        next.runs = []
    }

    private mutating func makeTables() throws(StorageError) {
        defer { removeFiles(intermediate) }
        var (batch, byteCount) = (Batch(), 0)
        for entry in next.expired {
            let reader = try ExpiredFooterReader(
                entry, directory: next.directory, in: store.files)
            batch.add(.run(reader.counters.makeCursor()), until: entry.span.end)
        }
        for entry in next.sealed {
            if batch.sources.count >= Self.batchCountMax || byteCount >= Self.batchByteCountMax {
                intermediate.append(try write(.rewardDays, batch))
                (batch, byteCount) = (Batch(after: batch), 0)
            }
            let footer = try SegmentReader(
                entry.number, directory: next.directory, in: store.files
            ).readFooter(of: entry)
            byteCount += footer.counters.pages.count
            batch.add(
                .table(
                    footer.counters.makeCursor(),
                    path: "\(store.files.path)/\(FileName.segment(entry.number).text)"),
                until: LogPosition(segment: entry.number, blockCount: entry.blockCount))
        }
        var all = Batch()
        for run in intermediate { all.add(.run(try open(run).makeCursor()), until: run.span.end) }
        all.sources += batch.sources
        if let end = batch.span?.end ?? all.span?.end { try finish(all, until: end) }
    }

    private mutating func finish(
        _ all: Batch, until end: LogPosition
    ) throws(StorageError) {
        var all = all
        all.span = LogSpan(firstSegment: LogPosition.start.segment.next, end: end)
        let rewardDays = try write(.rewardDays, all)
        let run = try open(rewardDays)
        var whole = Batch()
        whole.add(.run(run.makeCursor()), until: end)
        whole.span = rewardDays.span
        let sums = DaySums(keys: try readKeys())
        var rows = DaySumming(run.makeCursor(), into: sums)
        do { try rows.drain() } catch { throw failure(error, run: rewardDays) }
        let days = try write(.days, of: rewardDays.span) { sums.makeCursor() }
        next.runs = [try write(.rewards, whole), days, rewardDays]
    }

    // MARK: Runs

    /// What one run is made of.
    private struct Batch {
        var sources: [CounterInput<Files>] = []
        var span: LogSpan?
        private var firstSegment = LogPosition.start.segment.next

        init() {}

        init(after batch: Batch) {
            if let last = batch.span?.lastSegment { firstSegment = last.next }
        }

        mutating func add(_ source: CounterInput<Files>, until end: LogPosition) {
            sources.append(source)
            span = LogSpan(firstSegment: firstSegment, end: end)
        }
    }

    private mutating func write(
        _ table: TableKind, _ batch: Batch
    ) throws(StorageError) -> RunEntry {
        guard let span = batch.span else {
            throw .overLimit(path: store.files.path, detail: "a run of nothing")
        }
        return try write(table, of: span) {
            CounterMerge(batch.sources, dropsDays: !table.hasDay)
        }
    }

    private mutating func write<Source: CounterPageSource>(
        _ table: TableKind, of span: LogSpan, rows: () -> Source
    ) throws(StorageError) -> RunEntry {
        let number = next.nextFileNumber
        next.nextFileNumber = number.next
        do {
            return try RunWriter.write(
                table, number: number, of: span, for: next, in: store.files, rows: rows)
        } catch {
            switch error {
            case .storage(let error): throw error
            case .source(let error): throw failure(error)
            }
        }
    }

    private func failure(_ error: any Error, run: RunEntry? = nil) -> StorageError {
        if case CounterMergeError<StorageError>.source(let error) = error { return error }
        let name = run.map { "/\($0.fileName.text)" } ?? ""
        return .corrupt(
            path: store.files.path + name, offset: 0, detail: "counters that cannot be: \(error)")
    }

    private func open(_ run: RunEntry) throws(StorageError) -> RunReader<Files> {
        try RunReader(run, directory: next.directory, in: store.files)
    }

    private func removeFiles(_ runs: [RunEntry]) {
        for run in runs { try? store.unlink(run.fileName) }
    }

    /// The pair of names of each key; (none, none) for one that was lost.
    private func readKeys() throws(StorageError) -> [RewardKey] {
        var keys: [RewardKey] = []
        keys.reserveCapacity(Int(next.shard.nextKey))
        for entry in next.namesRuns {
            let names = try NamesRunReader(entry, directory: next.directory, in: store.files)
            let end = Int(names.keys.upperBound)
            for first in stride(from: keys.count, to: end, by: NamesPageKind.keys.capacity) {
                let last = min(first + NamesPageKind.keys.capacity, end)
                try names.readKeys(UInt32(first)..<UInt32(last), to: &keys)
            }
        }
        return keys
    }
}

/// Where counters come from: the table of a footer, or a run in its file.
package enum CounterInput<Files: FileSystem>: CounterPageSource {
    /// - Parameter path: what to name where the table is bad.
    case table(CounterTable.Cursor, path: String)
    case run(RunReader<Files>.Cursor)

    package mutating func nextPage(into page: CounterPage) throws(StorageError) -> Bool {
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
