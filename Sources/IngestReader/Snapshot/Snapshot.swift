// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// One cut of a directory: a manifest, its runs (open, so that they outlive being dropped), the names, and
/// the folded tail. Immutable; any number of queries read it at once.
package struct Snapshot<Files: FileSystem>: SnapshotSource {
    let files: Files
    let manifest: Manifest
    /// The runs that hold the rows of a table.
    private let runs: [TableKind: [RunReader<Files>]]
    private let names: NameParts<Files>
    let tail: TailFold.Result
    private let tailDays: TailDays

    package var cut: Cut { tail.position.cut }

    init(
        files: Files, manifest: Manifest, runs: [RunReader<Files>], names: NameParts<Files>,
        tail: TailFold.Result
    ) {
        self.files = files
        self.manifest = manifest
        self.runs = Dictionary(
            uniqueKeysWithValues: TableKind.counterTables.map { table in
                let numbers = Set(manifest.runs(of: table).map(\.fileNumber))
                return (table, runs.filter { numbers.contains($0.header.fileNumber) })
            })
        self.names = names
        self.tail = tail
        tailDays = TailDays(tail.tables, path: files.path)
    }

    /// The directory's.
    var hash: KeyedHash { names.hash }

    package func makeNames() -> any NameSource { SnapshotNames(names) }

    package func forEachPage(
        of table: TableKind, _ columns: CounterColumnSet, _ keys: ClosedRange<UInt32>,
        _ names: any NameSource, _ body: (CounterPage) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let page = CounterPage()
        for run in runs[table] ?? [] {
            var cursor = run.makeCursor(columns: columns, keys: keys)
            while try Self.next(&cursor, into: page) { try body(page) }
        }
        for tableOfTail in try tables(ofTail: table, names) {
            var cursor = tableOfTail.makeCursor(columns: columns, keys: keys)
            while try next(&cursor, into: page) { try body(page) }
        }
    }

    package func forEachRow(
        of table: TableKind, _ point: CounterPoint, _ names: any NameSource,
        _ body: (Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let buffer = ReadBuffer(capacity: 8 << 10)
        for run in runs[table] ?? [] {
            for row in try Self.rows(of: point, in: run, buffer) {
                try body(row.day, row.counters)
            }
        }
        for tableOfTail in try tables(ofTail: table, names) {
            for row in try rows(of: point, in: tableOfTail) { try body(row.day, row.counters) }
        }
    }

    /// The tail has reward-days only, which stand for `rewards` too; those of days are made of them.
    private func tables(
        ofTail table: TableKind, _ names: any NameSource
    ) throws(ReaderError) -> [CounterTable] {
        table == .days ? try tailDays.tables(names) : tail.tables
    }

    private static func next(
        _ cursor: inout RunReader<Files>.Cursor, into page: CounterPage
    ) throws(ReaderError) -> Bool {
        do throws(StorageError) { return try cursor.nextPage(into: page) } catch {
            throw ReaderError(error)
        }
    }

    /// The table was encoded by this process; an error is one of its memory.
    private func next(
        _ cursor: inout CounterTable.Cursor, into page: CounterPage
    ) throws(ReaderError) -> Bool {
        do throws(FormatError) { return try cursor.nextPage(into: page) } catch {
            throw ReaderError(error, path: files.path)
        }
    }

    private static func rows(
        of point: CounterPoint, in run: RunReader<Files>, _ buffer: ReadBuffer
    ) throws(ReaderError) -> [CounterDayRow] {
        do throws(StorageError) { return try run.rows(of: point, buffer: buffer) } catch {
            throw ReaderError(error)
        }
    }

    private func rows(
        of point: CounterPoint, in table: CounterTable
    ) throws(ReaderError) -> [CounterDayRow] {
        do throws(FormatError) { return try table.rows(of: point) } catch {
            throw ReaderError(error, path: files.path)
        }
    }

    // MARK: Totals

    package var totals: LogTotals {
        var totals = manifest.shard.totals
        totals.add(tail.totals)
        return totals
    }

    package var hasExpiredRows: Bool { !manifest.expired.isEmpty }

    package func rowCountMax(of table: TableKind) -> UInt64 {
        var count = tail.tables.reduce(0) { $0 + UInt64($1.rowCount) }
        for entry in manifest.runs(of: table) {
            count = count.saturatingSum(entry.rowCount)
        }
        return table == .rewards ? min(count, UInt64(makeNames().nextKey)) : count
    }
}
