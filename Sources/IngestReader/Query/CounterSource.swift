// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Where queries take their rows from: the files of a cut, or plain arrays in tests.
///
/// The ordinal of a row is that of the key, in `days` that of the business's name, 0 where it is not
/// known; the day of a row in `rewards` means nothing. Several rows of one (ordinal, day) add up: each
/// part of the cut brings its own.
package protocol CounterSource: Sendable {
    /// The dictionary, for one query.
    func makeNames() -> any NameSource

    /// Gives the rows of a counter table, a page at a time. Pages come in any order; the rows of a page ascend by
    /// ordinal and day, each pair once.
    /// - Parameters:
    ///   - columns: those that the pages must have.
    ///   - keys: rows of other ordinals are left out.
    ///   - names: the query's.
    func forEachPage(
        of table: TableKind, _ columns: CounterColumnSet, _ keys: ClosedRange<UInt32>,
        _ names: any NameSource, _ body: (CounterPage) throws(ReaderError) -> Void
    ) throws(ReaderError)

    /// Gives the rows of one ordinal on some days in a counter table, in any order.
    ///
    /// **Cost** A small read for each part, 2–3 µs where it is in memory.
    /// - Parameter names: the query's.
    func forEachRow(
        of table: TableKind, _ point: CounterPoint, _ names: any NameSource,
        _ body: (_ day: Int32, _ row: CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError)
}

/// All that one `IngestReader` answers from.
package protocol SnapshotSource: CounterSource {
    var cut: Cut { get }
    func status() throws(ReaderError) -> DirectoryStatus
    /// What the log adds up to.
    func totals() throws(ReaderError) -> LogTotals
    /// By which the events of the segments that are left were judged.
    func policies() throws(ReaderError) -> Set<CountingPolicy>
    /// A bound of the rows of a table: its parts may have rows of the same keys.
    func rowCountMax(of table: TableKind) -> UInt64
    /// The attributed rows of the cut.
    func attributedParts() throws(ReaderError) -> [AttributedPart]
    /// How many events `forEachEvent` gives where all are asked for.
    func eventCount() throws(ReaderError) -> UInt64
    /// Gives the events of the cut in the order of the log.
    func forEachEvent(_ query: EventsQuery, _ body: EventRow.Body) throws(ReaderError)
    /// As above, of other rows.
    func forEachEvent(in selection: EventSelection, _ body: EventRow.Body) throws(ReaderError)
    /// The directory's, of names and ids.
    var hash: KeyedHash { get }
    /// Gives the rows of an event id of a business.
    func forEachFound(
        eventID: [UInt8], business: [UInt8], _ body: (FoundEvent) -> Bool
    ) throws(ReaderError)
    /// Whether rows have expired.
    var hasExpiredRows: Bool { get }
    /// What every sender added, by sender.
    func ledger() throws(ReaderError) -> [LedgerRow]
}

extension ReaderError {
    /// Sums of checked files cannot pass 64 bits, of money 128, but files with fixed-up checksums can.
    static let overflow = ReaderError(
        kind: .corrupt, what: "a sum of counters does not fit",
        path: "counters of this cut", advice: verifyAdvice)

    /// A row of a key or name that was never given, or of a day that no event can have.
    static let impossibleRow = ReaderError(
        kind: .corrupt, what: "a row of an unknown key or an impossible day",
        path: "counters of this cut", advice: verifyAdvice)

    /// More is counted under the attributions of a key than under the key.
    static let attributedTooMuch = ReaderError(
        kind: .corrupt, what: "attributed rows count more than their key",
        path: "counters of this cut", advice: verifyAdvice)

    private static let verifyAdvice = "run ingest-reader verify to find the file"
}
