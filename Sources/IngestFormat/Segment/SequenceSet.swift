// packet → decode → ring → [admit] → block → [segment] → compaction → snapshot → query

/// The sequences of one sender as ranges, whatever order they come in.
///
/// A sender may be hostile, or its packets only reordered, so a single range never searches or shifts the list: what does
/// not go on at its end is put behind it, and all are merged once there are twice as many as the last time.
///
/// **Cost** A compare for a range that goes on at the end; O(log n) for any other, spread over the merges.
/// At most twice the memory of the ranges.
package struct SequenceSet: Sendable {
    private static let mergeCountMin = 64

    private var unmerged: [ClosedRange<UInt64>] = []
    private var mergeCount = mergeCountMin

    package init() {}

    /// All sequences: ascending, disjoint, not adjacent.
    package var ranges: [ClosedRange<UInt64>] { Self.merged(unmerged) }

    package mutating func insert(_ range: ClosedRange<UInt64>) {
        Self.append(range, to: &unmerged)
        guard unmerged.count >= mergeCount else { return }
        unmerged = ranges
        mergeCount = max(Self.mergeCountMin, 2 * unmerged.count)
    }

    /// The same sequences: ascending, disjoint, not adjacent.
    package static func merged(_ ranges: [ClosedRange<UInt64>]) -> [ClosedRange<UInt64>] {
        var result: [ClosedRange<UInt64>] = []
        result.reserveCapacity(ranges.count)
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            append(range, to: &result)
        }
        return result
    }

    /// Puts a range behind the last one, or joins the two where it begins no earlier and they meet.
    package static func append(
        _ range: ClosedRange<UInt64>, to ranges: inout [ClosedRange<UInt64>]
    ) {
        guard let last = ranges.last, range.lowerBound >= last.lowerBound,
            last.upperBound >= range.lowerBound || range.lowerBound - last.upperBound == 1
        else {
            ranges.append(range)
            return
        }
        ranges[ranges.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
    }
}
