// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// Events that are malformed, or lack something, because of their names or amounts.
struct NameRefusals {
    /// A name or a key would be over its limit.
    var fullCount = 0
    /// The names were not those of the key that the hash of their pair led to.
    var mismatchCount = 0
    /// Not refused, but with `(other)` for campaign and source, or without their platform.
    var overflowCount = 0
    /// An amount is above the greatest that one event may have.
    var moneyCount = 0

    func add(to counters: CounterGroup<CommitCounter>) {
        counters.add(.nameRefusals, UInt64(fullCount))
        counters.add(.pairMismatches, UInt64(mismatchCount))
        counters.add(.attributionOverflows, UInt64(overflowCount))
        counters.add(.moneyRefusals, UInt64(moneyCount))
    }
}
