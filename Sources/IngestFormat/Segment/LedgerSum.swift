// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query

/// Ledger entries added up by sender: block by block into a footer, segment by segment for a reader.
///
/// **Cost** A dictionary look-up an entry; sequences that go on where the last ones ended cost nothing more.
package struct LedgerSum: Sendable {
    private var places: [SenderKey: Int] = [:]
    private var sums: [LedgerEntry] = []
    /// Sequence ranges of all entries together.
    package private(set) var sequenceRangeCount = 0

    package init() {}

    package var senderCount: Int { sums.count }

    /// Whether a further block with as many entries and ranges as a block may have could pass what a
    /// footer may hold: time to roll.
    package var isNearlyFull: Bool {
        senderCount + 2 * Limits.blockSenderCountMax > Limits.segmentSenderCountMax
            || sequenceRangeCount + 2 * Limits.blockSequenceRangeCountMax
                > Limits.segmentSequenceRangeCountMax
    }

    /// Adds entries; a sum that would not fit 64 bits stays at the largest value.
    package mutating func add(_ entries: [LedgerEntry]) {
        for entry in entries {
            let place = place(of: entry.key)
            Self.add(entry.packets, to: &sums[place].packets)
            Self.add(entry.events, to: &sums[place].events)
            let before = sums[place].sequences.count
            for range in entry.sequences { Self.insert(range, into: &sums[place].sequences) }
            sequenceRangeCount += sums[place].sequences.count - before
        }
    }

    /// The sums, by sender key.
    package var entries: [LedgerEntry] { sums.sorted { $0.key < $1.key } }

    package mutating func removeAll() {
        places.removeAll(keepingCapacity: true)
        sums.removeAll(keepingCapacity: true)
        sequenceRangeCount = 0
    }

    private mutating func place(of key: SenderKey) -> Int {
        if let place = places[key] { return place }
        places[key] = sums.count
        sums.append(LedgerEntry(key: key))
        return sums.count - 1
    }

    private static func add(_ counts: [UInt64], to sums: inout [UInt64]) {
        for (i, count) in counts.enumerated() where i < sums.count {
            let (sum, overflow) = sums[i].addingReportingOverflow(count)
            sums[i] = overflow ? UInt64.max : sum
        }
    }

    /// Puts a range where it belongs, joined with those that it overlaps or touches. From the end, since
    /// sequences grow.
    static func insert(_ range: ClosedRange<UInt64>, into ranges: inout [ClosedRange<UInt64>]) {
        var lower = range.lowerBound
        var upper = range.upperBound
        var end = ranges.count
        while end > 0, ranges[end - 1].lowerBound > upper, ranges[end - 1].lowerBound - upper > 1 {
            end -= 1
        }
        var start = end
        while start > 0, touches(ranges[start - 1], lower) {
            lower = min(lower, ranges[start - 1].lowerBound)
            upper = max(upper, ranges[start - 1].upperBound)
            start -= 1
        }
        ranges.replaceSubrange(start..<end, with: CollectionOfOne(lower...upper))
    }

    /// Whether a range that begins no later than another's end reaches up to `lower` or next to it.
    private static func touches(_ range: ClosedRange<UInt64>, _ lower: UInt64) -> Bool {
        range.upperBound >= lower || lower - range.upperBound == 1
    }
}
