// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
// Part of `verify`: shares no code with the windows of the daemon.

/// A set of sequences, as ranges: ascending, disjoint, not adjacent.
///
/// **Cost** 16 bytes a range; an insertion is a binary search, and a move of the ranges behind it.
struct RangeSet: Sendable, Equatable {
    private(set) var ranges: [ClosedRange<UInt64>] = []
    /// Of sequences.
    private(set) var count: UInt64 = 0

    init() {}

    init(_ ranges: [ClosedRange<UInt64>]) {
        for range in ranges { insert(range) }
    }

    mutating func insert(_ range: ClosedRange<UInt64>) {
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            let upper = ranges[middle].upperBound
            if upper < range.lowerBound && range.lowerBound - upper > 1 {
                low = middle + 1
            } else {
                high = middle
            }
        }
        var (end, joined) = (low, range)
        while end < ranges.count {
            let next = ranges[end]
            if next.lowerBound > joined.upperBound && next.lowerBound - joined.upperBound > 1 {
                break
            }
            joined =
                min(joined.lowerBound, next.lowerBound)...max(joined.upperBound, next.upperBound)
            count -= next.upperBound - next.lowerBound + 1
            end += 1
        }
        count += joined.upperBound - joined.lowerBound + 1
        ranges.replaceSubrange(low..<end, with: CollectionOfOne(joined))
    }

    /// Removes the lowest ranges.
    mutating func removeFirst(_ rangeCount: Int) {
        for range in ranges.prefix(rangeCount) { count -= range.upperBound - range.lowerBound + 1 }
        ranges.removeFirst(rangeCount)
    }
}
