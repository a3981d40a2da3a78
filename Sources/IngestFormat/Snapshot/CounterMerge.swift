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

/// Sorted sources of the same kind of table → one, rows of equal (key, day) summed.
///
/// **Cost** One page a source; a compare a row and source, bulk copies where sources do not overlap.
package struct CounterMerge<Source: CounterPageSource>: CounterPageSource {
    /// - Parameter sources: any number; their order does not matter.
    package init(_ sources: [Source]) {}

    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        fatalError("being written")
    }
}

/// reward-days → rewards: the days of each key summed.
package struct RewardsProjection<Source: CounterPageSource>: CounterPageSource {
    /// - Parameter source: rows of a reward-days table.
    package init(_ source: Source) {}

    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        fatalError("being written")
    }
}

/// reward-days → days: the keys of each business summed.
///
/// **Cost** Reads its source whole on the first call; memory is that of the distinct (business, day).
package struct DaysProjection<Source: CounterPageSource>: CounterPageSource {
    /// - Parameters:
    ///   - source: rows of a reward-days table.
    ///   - keys: the pair of names of each key, indexed by its ordinal.
    package init(_ source: Source, keys: [RewardKey]) {}

    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        fatalError("being written")
    }
}
