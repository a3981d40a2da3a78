// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
// The two ways in which counters by (key, day) are summed up further.

/// reward-days → rewards: the days of each key summed.
///
/// **Cost** One page; about 10 ns a row.
package struct RewardsProjection<Source: CounterPageSource>: CounterPageSource {
    private var input: CounterPageReader<Source>

    /// - Parameter source: rows of a reward-days table.
    package init(_ source: Source) { input = CounterPageReader(source) }

    /// **Errors** `source`, `overflow`.
    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        page.removeAll()
        while true {
            if input.needsPage { try input.advance() }
            if input.isAtEnd { return page.rowCount > 0 }
            let key = UInt32(truncatingIfNeeded: input.order >> 32)
            if page.rowCount > 0, page.key(page.rowCount - 1) == key {
                try input.addRow(toLastOf: page)
            } else if page.rowCount == CounterPage.capacity {
                return true
            } else {
                input.copyKeys(to: page)
            }
        }
    }
}

/// reward-days → days: the keys of each business summed.
///
/// **Cost** Reads its source whole on the first call, about 30 ns a row; memory is that of the distinct
/// (business, day) pairs, 200 bytes each.
package struct DaysProjection<Source: CounterPageSource>: CounterPageSource {
    private var source: Source
    private let keys: [RewardKey]
    private var rows: [(order: UInt64, counters: CounterRow)]?
    private var nextRow = 0

    /// - Parameters:
    ///   - source: rows of a reward-days table.
    ///   - keys: the pair of names of each key, indexed by its ordinal.
    package init(_ source: Source, keys: [RewardKey]) {
        self.source = source
        self.keys = keys
    }

    /// **Errors** `source`, `overflow` (with the business as its key), `unknownKey`.
    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        if rows == nil { rows = try sum() }
        page.removeAll()
        while let row = rows?[safe: nextRow],
            page.append(
                key: UInt32(truncatingIfNeeded: row.order >> 32),
                day: CounterPage.day(ofOrder: row.order), counters: row.counters)
        {
            nextRow += 1
        }
        return page.rowCount > 0
    }

    /// All rows of the source, by (business, day).
    private mutating func sum() throws(CounterMergeError<Source.Failure>) -> [(
        order: UInt64, counters: CounterRow
    )] {
        var sums: [(order: UInt64, counters: CounterRow)] = []
        var places = OrderTable()
        let page = CounterPage()
        while try next(page) {
            for row in 0..<page.rowCount {
                let key = page.key(row)
                guard Int(key) < keys.count else { throw .unknownKey(key) }
                let business = keys[Int(key)].business.rawValue
                let day = page.day(row)
                let order = CounterPage.order(key: business, day: day)
                let place = Int(places.slot(of: order))
                if place == 0 {
                    sums.append((order, page.counters(row)))
                    places.insert(order, slot: UInt32(sums.count))
                } else if !page.add(row, to: &sums[place - 1].counters) {
                    throw .overflow(key: business, day: day)
                }
            }
        }
        sums.sort { $0.order < $1.order }
        return sums
    }

    private mutating func next(
        _ page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        do { return try source.nextPage(into: page) } catch { throw .source(error) }
    }
}

extension Array {
    fileprivate subscript(safe index: Int) -> Element? { index < count ? self[index] : nil }
}
