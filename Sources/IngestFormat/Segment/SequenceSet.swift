// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

/// The sequences of one sender as ranges, whatever order they come in.
///
/// A sender may be hostile, or its packets only reordered, so a single range never searches or shifts the
/// list: what does not go on at its end waits, and is merged once as many wait as there are in the list.
///
/// **Cost** A compare for a range that goes on at the end; O(log n) for any other, spread over the merges.
/// At most twice the memory of the ranges.
package struct SequenceSet: Sendable {
    private static let waitingCountMin = 64

    /// Ascending, disjoint, not adjacent.
    private var sorted: [ClosedRange<UInt64>] = []
    private var waiting: [ClosedRange<UInt64>] = []

    package init() {}

    /// All sequences: ascending, disjoint, not adjacent.
    package var ranges: [ClosedRange<UInt64>] {
        waiting.isEmpty ? sorted : Self.merged(sorted, waiting)
    }

    package mutating func insert(_ range: ClosedRange<UInt64>) {
        if let last = sorted.last, range.lowerBound < last.lowerBound {
            waiting.append(range)
            if waiting.count >= max(Self.waitingCountMin, sorted.count) {
                sorted = Self.merged(sorted, waiting)
                waiting.removeAll(keepingCapacity: true)
            }
        } else {
            Self.append(range, to: &sorted)
        }
    }

    /// One pass over both; the first is in order.
    private static func merged(
        _ first: [ClosedRange<UInt64>], _ waiting: [ClosedRange<UInt64>]
    ) -> [ClosedRange<UInt64>] {
        let second = waiting.sorted { $0.lowerBound < $1.lowerBound }
        var result: [ClosedRange<UInt64>] = []
        result.reserveCapacity(first.count + second.count)
        var next = 0
        for range in first {
            while next < second.count, second[next].lowerBound < range.lowerBound {
                append(second[next], to: &result)
                next += 1
            }
            append(range, to: &result)
        }
        for range in second[next...] { append(range, to: &result) }
        return result
    }

    /// Puts a range that begins no earlier than the last one behind it, or joins the two where they meet.
    private static func append(
        _ range: ClosedRange<UInt64>, to ranges: inout [ClosedRange<UInt64>]
    ) {
        guard let last = ranges.last,
            last.upperBound >= range.lowerBound || range.lowerBound - last.upperBound == 1
        else {
            ranges.append(range)
            return
        }
        ranges[ranges.count - 1] =
            last.lowerBound...max(last.upperBound, range.upperBound)
    }
}
