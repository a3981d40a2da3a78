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
