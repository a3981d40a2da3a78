// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// Counters of stretches of the log, summed while it is recounted: what runs are held against that the newest
/// manifest no longer names. A stretch ends where a segment does, or at a block inside one; its counters are
/// kept no longer than until the end of that segment.
///
/// **Cost** One tally for each segment in which such a run begins: there are about log2 of them. Another for
/// each stretch that ends inside the segment at hand.
struct SpanTallies {
    private struct Sum {
        var tally = Tally()
        /// The segment that comes next; `nil` once one was missing or could not be read.
        var next: SegmentNumber?
        /// The last segment that a run needs.
        var last: SegmentNumber
    }

    private var sums: [SegmentNumber: Sum] = [:]
    /// By where they end; those that have ended inside a segment, with their counters if they are known.
    private var spansByEnd: [LogPosition: Set<LogSpan>] = [:]
    private var ended: [LogSpan: Tally] = [:]

    init(_ spans: [LogSpan]) {
        for span in spans {
            let last = max(sums[span.firstSegment]?.last ?? span.lastSegment, span.lastSegment)
            sums[span.firstSegment] = Sum(next: span.firstSegment, last: last)
            spansByEnd[span.end, default: []].insert(span)
        }
    }

    mutating func beginSegment() { ended = [:] }

    /// Ends the spans that end inside the segment at hand, at `position`.
    /// - Parameters:
    ///   - tally: the counters of the segment's blocks before it.
    ///   - isWhole: whether they are those of all of them.
    mutating func end(at position: LogPosition, in tally: Tally, isWhole: Bool) {
        guard isWhole, let spans = spansByEnd[position] else { return }
        for span in spans {
            guard span.firstSegment != position.segment else {
                ended[span] = tally
                continue
            }
            guard let sum = sums[span.firstSegment], sum.next == position.segment else { continue }
            var total = sum.tally
            total.add(tally)
            ended[span] = total
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

    /// The counters of a span that ends inside the last segment or where that ended; `nil` if they are not
    /// known.
    func tally(of span: LogSpan, at end: LogPosition) -> Tally? {
        if let tally = ended[span] { return tally }
        guard span.end == end, let sum = sums[span.firstSegment], sum.next == end.segment.next
        else { return nil }
        return sum.tally
    }
}
