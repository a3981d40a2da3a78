// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// One cut of a directory: a manifest, its runs and level-0 footers (open, so that they outlive being dropped), the
/// names, and the tail. Immutable; any number of queries read it at once.
package struct Snapshot<Files: FileSystem>: SnapshotSource {
    let files: Files
    let manifest: Manifest
    /// The sorted parts of each table: its runs, and the footers of level 0.
    private let parts: [TableKind: [RunReader<Files>]]
    /// Of the manifest's expired runs, in their order.
    private let expired: [Files.File]
    private let names: NameParts<Files>
    let tail: Tail<Files>
    /// Of the segments that are not opened before it is their turn.
    private let leases: SegmentLeases<Files>

    package var cut: Cut { tail.position.cut }

    init(
        files: Files, manifest: Manifest, parts: [TableKind: [RunReader<Files>]],
        expired: [Files.File], names: NameParts<Files>, tail: Tail<Files>,
        leases: SegmentLeases<Files>
    ) {
        self.leases = leases
        self.files = files
        self.manifest = manifest
        self.parts = parts
        self.expired = expired
        self.names = names
        self.tail = tail
    }

    /// What is left of expired segments.
    func readExpired() throws(StorageError) -> [ExpiredSegments] {
        var found: [ExpiredSegments] = []
        for (entry, file) in zip(manifest.expired, expired) {
            found.append(
                try RunReader<Files>(entry.run, directory: manifest.directory, file).readExpired())
        }
        return found
    }

    /// The directory's.
    package var hash: KeyedHash { names.hash }

    package func makeNames() -> any NameSource { SnapshotNames(names) }

    package func forEachPage(
        of table: TableKind, _ columns: CounterColumnSet, _ keys: ClosedRange<UInt32>,
        _ names: any NameSource, _ body: (CounterPage) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let page = CounterPage()
        // Attributed rows have keys of their own in each part.
        let keys = keys.clamped(to: CounterKeys.rewards)
        for part in parts[table] ?? [] {
            var cursor = part.makeCursor(columns: columns, keys: keys)
            while try Self.next(&cursor, into: page) { try body(page) }
        }
        for tableOfTail in try tail.tables(of: table, names) {
            var cursor = tableOfTail.makeCursor(columns: columns, keys: keys)
            while try tableOfTail.next(&cursor, into: page) { try body(page) }
        }
    }

    package func attributedParts() throws(ReaderError) -> [AttributedPart] {
        var found: [AttributedPart] = []
        for part in parts[.rewardDays] ?? [] {
            let list = try ReaderError.reading { () throws(StorageError) in
                try part.readAttributions()
            }
            if list.count == 0 { continue }
            found.append(
                AttributedPart(list, makeCursor: { part.makeCursor(columns: .known, keys: $0) }) {
                    (cursor, page) throws(ReaderError) in try Self.next(&cursor, into: page)
                })
        }
        return found + (try tail.attributedParts())
    }

    package func forEachRow(
        of table: TableKind, _ point: CounterPoint, _ names: any NameSource,
        _ body: (Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let buffer = ReadBuffer(capacity: 8 << 10)
        for part in parts[table] ?? [] {
            for row in try Self.rows(of: point, in: part, buffer) {
                try body(row.day, row.counters)
            }
        }
        if table != .days { return try tail.forEachRow(of: point, body) }
        for tableOfTail in try tail.tables(of: table, names) {
            for row in try tableOfTail.found(point) { try body(row.day, row.counters) }
        }
    }

    private static func next(
        _ cursor: inout RunReader<Files>.Cursor, into page: CounterPage
    ) throws(ReaderError) -> Bool {
        do throws(StorageError) { return try cursor.nextPage(into: page) } catch {
            throw ReaderError(error)
        }
    }

    private static func rows(
        of point: CounterPoint, in run: RunReader<Files>, _ buffer: ReadBuffer
    ) throws(ReaderError) -> [CounterDayRow] {
        do throws(StorageError) { return try run.rows(of: point, buffer: buffer) } catch {
            throw ReaderError(error)
        }
    }

    /// The manifest with all sealed segments.
    func whole() throws(StorageError) -> Manifest {
        try manifest.completed(by: parts[.rewardDays] ?? [])
    }

    // MARK: Totals

    /// **Cost** A small read a segment.
    package func policies() throws(ReaderError) -> Set<CountingPolicy> {
        try CutBlocks(of: self) { _ in true }.policies()
    }

    package func totals() throws(ReaderError) -> LogTotals {
        var totals = manifest.shard.totals
        totals.add(try tail.totals())
        return totals
    }

    package var hasExpiredRows: Bool { !manifest.expired.isEmpty }

    package func rowCountMax(of table: TableKind) -> UInt64 {
        var count = tail.rowCount
        for part in parts[table] ?? [] {
            count = count.saturatingSum(UInt64(part.index.rowCount))
        }
        return table == .rewards ? min(count, UInt64(makeNames().nextKey)) : count
    }
}

/// Reads one consistent durable cut of a directory, beside a daemon that may be writing to it.
///
/// A generation is immutable: its manifest names runs that are never changed, and the log after its cut
/// only grows. So a cut is consistent if all of it is of one manifest: `SegmentLeases.newest` reads again what is not.
package struct SnapshotLoader<Files: FileSystem> {
    private let files: Files

    package init(_ files: Files) { self.files = files }

    /// **Errors** those of `IngestReader.open`.
    package func load() throws(ReaderError) -> Snapshot<Files> {
        do throws(StorageError) {
            return try SegmentLeases.newest(of: files) {
                (manifest, leases, _) throws(StorageError) in
                try loadBase(manifest).withTail(in: files, leases)
            }
        } catch {
            // The newest manifest names a file that stays away.
            if case .notFound(let path) = error { throw .missing(path) }
            throw ReaderError(error)
        }
    }

    private func loadBase(_ manifest: Manifest) throws(StorageError) -> SnapshotBase<Files> {
        // The mark comes before the tail: what it promises is there when the tail is read.
        let mark = try DurableMarkFile.readSound(in: files, directory: manifest.directory)
        var parts: [TableKind: [RunReader<Files>]] = [:]
        for entry in manifest.runs {
            parts[entry.table, default: []].append(
                try RunReader(entry, directory: manifest.directory, in: files))
        }
        for segment in manifest.level0 {
            let tables = try RunReader.openFooter(
                of: segment, directory: manifest.directory, in: files)
            // Rewards are reward-days with their days summed, which queries do.
            for table in [TableKind.rewards, .rewardDays] {
                parts[table, default: []].append(tables.rewardDays)
            }
            parts[.days, default: []].append(tables.days)
        }
        guard let hash = KeyedHash(key: manifest.hashKey) else {
            throw .corrupt(path: files.path, offset: 0, detail: "unexpected hash key length")
        }
        var names: [NamesRunReader<Files>] = []
        for entry in manifest.namesRuns {
            names.append(try NamesRunReader(entry, directory: manifest.directory, in: files))
        }
        // Read by few queries: held, so that they can be when they have been merged.
        var expired: [Files.File] = []
        for entry in manifest.expired {
            expired.append(try files.open(entry.run.fileName.text, .read))
        }
        return SnapshotBase(
            manifest: manifest, mark: mark, parts: parts, expired: expired,
            names: NameRuns(runs: names, hash: hash, shard: manifest.shard))
    }
}

/// What a generation covers, opened; the tail is still to come.
private struct SnapshotBase<Files: FileSystem> {
    let manifest: Manifest
    let mark: LogPosition?
    let parts: [TableKind: [RunReader<Files>]]
    let expired: [Files.File]
    let names: NameRuns<Files>

    func withTail(
        in files: Files, _ leases: SegmentLeases<Files>
    ) throws(StorageError) -> Snapshot<Files> {
        let tail = try Tail(after: manifest, mark: mark, in: files, names: names.empty)
        return Snapshot(
            files: files, manifest: manifest, parts: parts, expired: expired,
            names: NameParts(names, tail), tail: tail, leases: leases)
    }
}

extension ReaderError {
    /// The newest manifest names a file that stays away.
    static func missing(_ path: String) -> ReaderError {
        ReaderError(
            kind: .corrupt, what: "missing file named by the manifest", path: path,
            advice: advice(onDamaged: path))
    }
}
