// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// One cut of a directory: a manifest, its runs (open, so that they outlive being dropped), the names, and
/// the folded tail. Immutable; any number of queries read it at once.
package struct Snapshot<Files: FileSystem>: SnapshotSource {
    let files: Files
    let manifest: Manifest
    private let runs: [RunReader<Files>]
    package let names: NameTable
    let tail: TailFold.Result

    package var cut: Cut { tail.position.cut }

    init(
        files: Files, manifest: Manifest, runs: [RunReader<Files>], names: NameTable,
        tail: TailFold.Result
    ) {
        self.files = files
        self.manifest = manifest
        self.runs = runs
        self.names = names
        self.tail = tail
    }

    package func forEachRow(
        of table: TableKind, where isWanted: (UInt32, Int32) -> Bool,
        _ body: (UInt32, Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let page = CounterPage()
        for run in runs where run.header.table == table {
            var cursor = run.makeCursor()
            while try Self.next(&cursor, into: page) {
                for row in 0..<page.rowCount where isWanted(page.key(row), page.day(row)) {
                    try body(page.key(row), page.day(row), page.counters(row))
                }
            }
        }
        for tableOfTail in tail.tables {
            var cursor = tableOfTail.makeCursor()
            while try next(&cursor, into: page) {
                try forEachTailRow(in: page, of: table, where: isWanted, body)
            }
        }
    }

    /// The tail has (key, day) rows only; the other tables are made of them here.
    private func forEachTailRow(
        in page: CounterPage, of table: TableKind, where isWanted: (UInt32, Int32) -> Bool,
        _ body: (UInt32, Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        for row in 0..<page.rowCount {
            var ordinal = page.key(row)
            if table == .days {
                ordinal = names.names(of: KeyOrdinal(rawValue: ordinal)).business.rawValue
            }
            let day = table.hasDay ? page.day(row) : 0
            if isWanted(ordinal, day) { try body(ordinal, day, page.counters(row)) }
        }
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
}
