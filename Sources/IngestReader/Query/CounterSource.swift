// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat

/// Where queries take their rows from: the files of a cut, or plain arrays in tests.
package protocol CounterSource: Sendable {
    var names: NameTable { get }

    /// Calls `body` with the rows of a counter table that `isWanted` by ordinal and day.
    ///
    /// The ordinal is that of the key, in `days` that of the business's name, 0 where it is not known;
    /// the day of a row in `rewards` means nothing. Several rows of one (ordinal, day) add up: each
    /// part of the cut brings its own.
    func forEachRow(
        of table: TableKind, where isWanted: (_ ordinal: UInt32, _ day: Int32) -> Bool,
        _ body: (_ ordinal: UInt32, _ day: Int32, _ row: CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError)
}

/// All that one `IngestReader` answers from.
package protocol SnapshotSource: CounterSource {
    var cut: Cut { get }
    func status() throws(ReaderError) -> DirectoryStatus
}
