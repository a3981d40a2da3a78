// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]

/// Why rows could not be put together.
package enum CounterMergeError<Failure: Error>: Error {
    /// A source failed.
    case source(Failure)
    /// The sum of a counter does not fit 64 bits.
    case overflow(key: UInt32, day: Int32)
    /// `keys` has no entry for this key.
    case unknownKey(UInt32)
}

extension CounterMergeError: Equatable where Failure: Equatable {}
extension CounterMergeError: Sendable where Failure: Sendable {}

/// Sorted sources of the same kind of table → one, rows of equal (key, day) summed.
///
/// **Cost** One page a source. About 20 ns a row where sources overlap; where the next rows of all other
/// sources come later, rows are copied a column at a time.
package struct CounterMerge<Source: CounterPageSource>: CounterPageSource {
    private var sources: [Source]
    private let merge: PageMerge
    /// The sources whose page has been used up.
    private var waiting: [Int]

    /// - Parameter sources: any number; their order does not matter.
    package init(_ sources: [Source]) { self.init(sources, dropsDays: false) }

    /// - Parameter dropsDays: rows of a key are summed over all days, and their day is 0.
    init(_ sources: [Source], dropsDays: Bool) {
        self.sources = sources
        merge = PageMerge(inputCount: sources.count, dropsDays: dropsDays)
        waiting = Array(sources.indices)
    }

    /// **Errors** `source`, as the source's own; `overflow`. The merge is of no use afterwards.
    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        page.removeAll()
        while true {
            while let input = waiting.popLast() { try refill(input) }
            switch merge.run(into: page) {
            case .usedUp(let input): waiting.append(input)
            case .isFull: return true
            case .isAtEnd: return page.rowCount > 0
            case .overflow(let order):
                throw .overflow(
                    key: UInt32(truncatingIfNeeded: order >> 32),
                    day: CounterPage.day(ofOrder: order))
            }
        }
    }

    private mutating func refill(_ input: Int) throws(CounterMergeError<Source.Failure>) {
        do {
            if try sources[input].nextPage(into: merge.page(input)) { merge.enter(input) }
        } catch {
            throw .source(error)
        }
    }
}

/// reward-days → rewards: the days of each key summed.
///
/// **Cost** That of `CounterMerge`.
package struct RewardsProjection<Source: CounterPageSource>: CounterPageSource {
    private var merge: CounterMerge<Source>

    /// - Parameter source: rows of a reward-days table.
    package init(_ source: Source) { merge = CounterMerge([source], dropsDays: true) }

    /// **Errors** `source`, `overflow`.
    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        try merge.nextPage(into: page)
    }
}

/// reward-days → days: the keys of each business summed.
///
/// **Cost** Reads its source whole on the first call, about 30 ns a row; memory is that of the distinct
/// (business, day) pairs, 200 bytes each.
package struct DaysProjection<Source: CounterPageSource>: CounterPageSource {
    private var source: Source
    private let sums: DaySums

    /// - Parameters:
    ///   - source: rows of a reward-days table.
    ///   - keys: the pair of names of each key, indexed by its ordinal.
    package init(_ source: Source, keys: [RewardKey]) {
        self.source = source
        sums = DaySums(keys: keys)
    }

    /// **Errors** `source`, `overflow` (with the business as its key), `unknownKey`.
    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        while !sums.isComplete, try next(page) {
            switch sums.add(page) {
            case .added: continue
            case .unknownKey(let key): throw .unknownKey(key)
            case .overflow(let business, let day): throw .overflow(key: business, day: day)
            }
        }
        return sums.takeRows(into: page)
    }

    private mutating func next(
        _ page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        do { return try source.nextPage(into: page) } catch { throw .source(error) }
    }
}
