// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The questions, answered from one source of rows: one key here, listings and the greatest in the files
/// beside this one.
package struct CounterQuery {
    let source: any CounterSource
    let names: any NameSource
    /// Rows whose counters a listing holds at a time.
    let rowCountMax: Int
    /// Keys that a core goes through at a time, at least.
    let partKeyCountMin: Int

    /// - Parameters: from 1 on, and `rowCountMax` to `Limits.queryRowCountMax`; other ones where ranges and
    ///   parts are tested.
    package init(
        _ source: any CounterSource, rowCountMax: Int = Limits.queryRowCountMax,
        partKeyCountMin: Int = 1 << 16
    ) {
        precondition(rowCountMax > 0 && rowCountMax <= Limits.queryRowCountMax)
        precondition(partKeyCountMin > 0)
        self.partKeyCountMin = partKeyCountMin
        self.source = source
        self.rowCountMax = rowCountMax
        names = source.makeNames()
    }

    /// Gives the rows of a table, all of them or those of some ordinals.
    func forEachPage(
        of table: TableKind, _ columns: CounterColumnSet = .known,
        keys: ClosedRange<UInt32> = 0...UInt32.max,
        _ body: (CounterPage) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        try source.forEachPage(of: table, columns, keys, names, body)
    }

    // MARK: One key

    /// One reward; `nil` if no event of it is stored (of that business, where one is given).
    ///
    /// **Cost** A small read a part of the cut, for the name, for its keys and for each of their counters.
    package func reward(_ id: String, business: String?) throws(ReaderError) -> RewardRow? {
        guard case .some(let wanted) = try ordinal(ofBusiness: business) else { return nil }
        var row = try sum(of: keys(ofReward: id), business: wanted, days: .all)
        row?.id = Array(id.utf8)
        return row.map(RewardRow.init)
    }

    /// One business-day; `nil` if no event of it is stored.
    package func day(business: String, date: CivilDay) throws(ReaderError) -> DayRow? {
        guard let ordinal = try names.ordinal(of: business) else { return nil }
        let day = DayRange(from: date, to: date)
        return try rowsByDay(of: .days, ordinal: ordinal.rawValue, day).first.map {
            DayRow(ListedRow(Array(business.utf8), Array(business.utf8), $0))
        }
    }

    // MARK: What is asked for

    /// A business as it is asked for: `.some(nil)` is all, `nil` one that was never seen.
    func ordinal(ofBusiness business: String?) throws(ReaderError) -> NameOrdinal?? {
        guard let business else { return .some(nil) }
        return try names.ordinal(of: business).map { .some($0) }
    }

    /// The keys of a reward as it is shown: of a lost key, that one.
    func keys(ofReward id: String) throws(ReaderError) -> [KeyOrdinal] {
        if let ordinal = try names.ordinal(of: id), ordinal != .none {
            let keys = try names.keys(ofReward: ordinal)
            if !keys.isEmpty { return keys }
        }
        guard let lost = LostText.ordinal(Array(id.utf8)), lost < names.nextKey,
            try names.names(of: KeyOrdinal(rawValue: lost)).reward == .none
        else { return [] }
        return [KeyOrdinal(rawValue: lost)]
    }

    /// The counters of some keys of one reward together, by point reads; the id is left empty. `nil` if no
    /// event of them is stored.
    /// - Parameter business: only its keys.
    func sum(
        of keys: [KeyOrdinal], business: NameOrdinal?, days: DayRange
    ) throws(ReaderError) -> ListedRow? {
        guard let dayNumbers = days.dayNumbers else { return nil }
        var row = ListedRow()
        for key in keys {
            let pair = try names.names(of: key)
            if let business, business != pair.business { continue }
            var isSeen = false
            try source.forEachRow(
                of: days.isBounded ? .rewardDays : .rewards,
                CounterPoint(key: key.rawValue, days: dayNumbers), names
            ) { (_, counters) throws(ReaderError) in
                isSeen = true
                guard row.counters.add(counters) else { throw .overflow }
            }
            if isSeen { try join(pair.business, to: &row) }
        }
        return row.businessCount == 0 ? nil : row
    }

    private func join(_ business: NameOrdinal, to row: inout ListedRow) throws(ReaderError) {
        let text = try names.shownBytes(of: business)
        row.businessCount += 1
        if row.businessCount == 1 || NameOrder.precedes(text, row.business) == true {
            row.business = text
        }
    }

    /// The rows of one ordinal by day, each day once; by point reads.
    ///
    /// **Cost** The memory of the rows: there are few days, and a part has each once.
    func rowsByDay(
        of table: TableKind, ordinal: UInt32, _ days: DayRange
    ) throws(ReaderError) -> [(day: Int32, counters: CounterRow)] {
        guard let dayNumbers = days.dayNumbers else { return [] }
        var sums: [Int32: CounterRow] = [:]
        try source.forEachRow(
            of: table, CounterPoint(key: ordinal, days: dayNumbers), names
        ) { (day, counters) throws(ReaderError) in
            guard try days.admits(day) else { return }
            guard sums[day, default: CounterRow()].add(counters) else { throw .overflow }
        }
        return sums.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

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
