// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// Counters of stretches of the log, summed while it is recounted: what runs are held against that the newest
/// manifest no longer names. A stretch is known at the end of its last segment, and kept no longer.
///
/// **Cost** One tally for each segment in which such a run begins: there are about log2 of them.
struct SpanTallies {
    private struct Sum {
        var tally = Tally()
        /// The segment that comes next; `nil` once one was missing or could not be read.
        var next: SegmentNumber?
        /// The last segment that a run needs.
        var last: SegmentNumber
    }

    private var sums: [SegmentNumber: Sum] = [:]

    init(_ spans: [LogSpan]) {
        for span in spans {
            let last = max(sums[span.firstSegment]?.last ?? span.lastSegment, span.lastSegment)
            sums[span.firstSegment] = Sum(next: span.firstSegment, last: last)
        }
    }

    /// Takes the counters of a segment.
    /// - Parameter isWhole: whether they are those of all its blocks.
    mutating func add(
        _ tally: Tally, ofSegmentEndingAt position: LogPosition, isWhole: Bool
    ) {
        let segment = position.segment
        for first in sums.keys.filter({ $0 <= segment }) {
            guard var sum = sums.removeValue(forKey: first), segment <= sum.last else { continue }
            if isWhole && sum.next == segment {
                sum.tally.add(tally)
                sum.next = segment.next
            } else {
                sum.tally.removeAll()
                sum.next = nil
            }
            sums[first] = sum
        }
    }

    /// The counters of a span that ends where the last segment ended; `nil` if they are not known.
    func tally(of span: LogSpan, at end: LogPosition) -> Tally? {
        guard span.end == end, let sum = sums[span.firstSegment], sum.next == end.segment.next
        else { return nil }
        return sum.tally
    }
}
