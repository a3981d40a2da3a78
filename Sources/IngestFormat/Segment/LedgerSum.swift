// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query

/// Ledger entries of a segment's blocks, added up by sender for its footer.
///
/// **Cost** A dictionary look-up an entry, and that of `SequenceSet` a range.
package struct LedgerSum: Sendable {
    private var places: [SenderKey: Int] = [:]
    private var sums: [LedgerEntry] = []
    /// Of each sum; its own list stays empty until `entries`.
    private var sequences: [SequenceSet] = []

    package init() {}

    /// Adds entries; a sum that would not fit 64 bits stays at the largest value.
    package mutating func add(_ entries: [LedgerEntry]) {
        for entry in entries {
            let place = place(of: entry.key)
            Self.add(entry.packets, to: &sums[place].packets)
            Self.add(entry.events, to: &sums[place].events)
            for range in entry.sequences { sequences[place].insert(range) }
        }
    }

    /// The sums, by sender key.
    package var entries: [LedgerEntry] {
        var entries = sums
        for place in entries.indices { entries[place].sequences = sequences[place].ranges }
        return entries.sorted { $0.key < $1.key }
    }

    private mutating func place(of key: SenderKey) -> Int {
        if let place = places[key] { return place }
        places[key] = sums.count
        sums.append(LedgerEntry(key: key))
        sequences.append(SequenceSet())
        return sums.count - 1
    }

    private static func add(_ counts: [UInt64], to sums: inout [UInt64]) {
        for (i, count) in counts.enumerated() where i < sums.count {
            let (sum, overflow) = sums[i].addingReportingOverflow(count)
            sums[i] = overflow ? UInt64.max : sum
        }
    }
}
