// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// Counters of stretches of the log, summed while it is recounted: what runs are held against that the newest
/// manifest no longer names. A stretch ends where a segment does, or at a block inside one; its counters are
/// kept no longer than until the end of its last segment.
///
/// **Cost** One tally for each segment in which such a run begins, of the segments since: there are about log2
/// of them. Runs that lie in one segment alone cost nothing here.
struct SpanTallies {
    private struct Sum {
        var tally = TallyStack()
        /// The segment that comes next.
        var next: SegmentNumber
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

    /// Takes the counters of a whole segment.
    mutating func add(_ tally: Tally, ofSegmentEndingAt position: LogPosition) {
        let segment = position.segment
        for first in Array(sums.keys) where first <= segment {
            // What lacks a segment, and what no run needs any more, goes.
            guard var sum = sums.removeValue(forKey: first), segment <= sum.last,
                sum.next == segment
            else { continue }
            sum.tally.add(tally)
            sum.next = segment.next
            sums[first] = sum
        }
    }

    /// Takes the counters of several whole segments at once.
    mutating func add(_ tally: Tally, of span: LogSpan) {
        for first in Array(sums.keys) where first <= span.lastSegment {
            // What begins inside of them cannot be told apart.
            guard var sum = sums.removeValue(forKey: first), span.lastSegment <= sum.last,
                sum.next == span.firstSegment
            else { continue }
            sum.tally.add(tally)
            sum.next = span.lastSegment.next
            sums[first] = sum
        }
    }

    /// Takes a segment of which the counters are not known.
    mutating func forget(_ segment: SegmentNumber) {
        for first in Array(sums.keys) where first <= segment { sums[first] = nil }
    }

    /// The counters of a span that ends where the last segment ended; `nil` if they are not known.
    func tally(of span: LogSpan, at end: LogPosition) -> Tally? {
        guard span.end == end, let sum = sums[span.firstSegment], sum.next == end.segment.next
        else { return nil }
        return sum.tally.sum
    }

    /// The counters of a span that ends inside the segment at hand; `nil` if they are not known.
    /// - Parameter prefix: those of the segment's blocks before the span's end.
    func tally(of span: LogSpan, with prefix: Tally) -> Tally? {
        if span.firstSegment == span.lastSegment { return prefix }
        guard let sum = sums[span.firstSegment], sum.next == span.lastSegment else { return nil }
        var tally = sum.tally
        tally.add(prefix)
        return tally.sum
    }
}
