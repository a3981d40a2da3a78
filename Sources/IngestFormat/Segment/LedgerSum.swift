// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → [query]

/// Ledger entries added up by sender: block by block into a footer, segment by segment for a reader.
package struct LedgerSum: Sendable {
    package init() {}

    /// Adds entries; sums that would not fit 64 bits stay at the largest value.
    package mutating func add(_ entries: [LedgerEntry]) { fatalError("being written") }

    /// The sums, by sender key.
    package var entries: [LedgerEntry] { fatalError("being written") }

    package mutating func removeAll() {}
}
