// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → query
import CIngestLinux

/// How many values of a column need more than so many bits: asked for widths from the largest down, and
/// counted when asked, since the encoder seldom gets far. Of a column that is the base but for few values all widths are
/// tried, and these few are counted one by one.
///
/// **Cost** With AVX2 0.3 ns a value for four widths, and 0.6 ns a value and 1 ns one of the few for all of them; without,
/// 2 ns a value for all of them at the first question.
struct ColumnWidthCounts {
    private let base: UInt64
    /// Of the greatest value less the base.
    private let spanWidth: Int
    /// Values that need more than `firstWidth` … `firstWidth` + 3 bits.
    private var counts = InlineArray<4, UInt32>(repeating: 0)
    private var firstWidth: Int
    /// The same for all widths, if `knowsAll`.
    private var all = InlineArray<65, UInt32>(repeating: 0)
    private var knowsAll = false

    init(base: UInt64, spanWidth: Int) {
        self.base = base
        self.spanWidth = spanWidth
        firstWidth = spanWidth
    }

    /// - Parameter width: below `spanWidth`, and one less than at the last call.
    mutating func patchCount(
        _ values: UnsafePointer<UInt64>, count: Int, width: Int
    ) -> Int {
        if width < firstWidth && !knowsAll { unsafe look(values, count: count, width: width) }
        return Int(knowsAll ? all[width] : counts[width &- firstWidth])
    }

    private mutating func look(_ values: UnsafePointer<UInt64>, count: Int, width: Int) {
        let isFirst = firstWidth == spanWidth
        // With so few bits there are two looks at most.
        if isFirst, spanWidth > 8, unsafe countFew(values, count: count) { return }
        if unsafe countFour(values, count: count, from: max(0, width &- 3)) { return }
        for i in 0..<count {
            // SAFETY: i < count.
            unsafe note(values[i])
        }
        sumUp()
    }

    /// Counts the values that need more than `first` … `first` + 3 bits.
    /// - Returns: `false` where vectors cannot.
    private mutating func countFour(
        _ values: UnsafePointer<UInt64>, count: Int, from first: Int
    ) -> Bool {
        firstWidth = first
        var span = counts.mutableSpan
        return unsafe span.withUnsafeMutableBufferPointer { counts in
            // SAFETY: the buffer has four counts, and count values are there. Vectors compare values
            // below 2^63 alone.
            unsafe spanWidth < 64 && first < 60
                && ingest_column_counts(
                    values, count, base, UInt32(truncatingIfNeeded: first), counts.baseAddress!)
        }
    }

    /// Counts all widths, if one value in eight at most is not the base: of amounts and of rare counters with seven looks
    /// at each width a page took half as long again.
    private mutating func countFew(_ values: UnsafePointer<UInt64>, count: Int) -> Bool {
        guard unsafe countFour(values, count: count, from: 0), Int(counts[0]) <= count / 8 else {
            return false
        }
        return unsafe withUnsafeTemporaryAllocation(
            of: UInt16.self, capacity: Int(counts[0]) &+ 4
        ) { places in
            // SAFETY: there is room for the places of the values that were counted, and for four more.
            guard unsafe ingest_column_places(values, count, base, 0, places.baseAddress!) else {
                return false
            }
            for i in 0..<Int(counts[0]) { unsafe note(values[Int(places[i])]) }
            sumUp()
            return true
        }
    }

    private mutating func note(_ value: UInt64) {
        let needed = BitPacking.width(max: value &- base)
        if needed > 0 { all[needed &- 1] &+= 1 }
    }

    /// From the values that need so many bits to those that need as many or more.
    private mutating func sumUp() {
        for width in stride(from: 63, through: 0, by: -1) { all[width] &+= all[width &+ 1] }
        knowsAll = true
    }
}
