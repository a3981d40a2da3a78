// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
import CIngestLinux

/// How many values of a column need more than so many bits: asked for widths from the largest down, and
/// counted when asked, since the encoder seldom gets far.
///
/// **Cost** With AVX2 0.3 ns a value for four widths; without, 2 ns a value for all of them at the first
/// question.
struct ColumnWidthCounts {
    private let base: UInt64
    /// Of the greatest value less the base.
    private let spanWidth: Int
    /// Values that need more than `firstWidth` … `firstWidth` + 3 bits.
    private var counts = InlineArray<4, UInt32>(repeating: 0)
    private var firstWidth: Int
    /// The same for all widths, on a CPU without vectors.
    private var all: InlineArray<65, UInt32>?

    init(base: UInt64, spanWidth: Int) {
        self.base = base
        self.spanWidth = spanWidth
        firstWidth = spanWidth
    }

    /// - Parameter width: below `spanWidth`, and one less than at the last call.
    mutating func patchCount(
        _ values: UnsafePointer<UInt64>, count: Int, width: Int
    ) -> Int {
        if width < firstWidth && all == nil { unsafe look(values, count: count, width: width) }
        if let all { return Int(all[width]) }
        return Int(counts[width &- firstWidth])
    }

    private mutating func look(_ values: UnsafePointer<UInt64>, count: Int, width: Int) {
        firstWidth = max(0, width &- 3)
        let first = UInt32(truncatingIfNeeded: firstWidth)
        var span = counts.mutableSpan
        let isCounted = unsafe span.withUnsafeMutableBufferPointer { counts in
            // SAFETY: the buffer has four counts, and count values are there. Vectors compare values
            // below 2^63 alone.
            unsafe spanWidth < 64 && firstWidth < 60
                && ingest_column_counts(values, count, base, first, counts.baseAddress!)
        }
        if isCounted { return }
        var all = InlineArray<65, UInt32>(repeating: 0)
        for i in 0..<count {
            // SAFETY: i < count.
            let needed = unsafe BitPacking.width(max: values[i] &- base)
            if needed > 0 { all[needed &- 1] &+= 1 }
        }
        for width in stride(from: 63, through: 0, by: -1) { all[width] &+= all[width &+ 1] }
        self.all = all
    }
}
