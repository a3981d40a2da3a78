// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Up to 1024 pairs of 32-bit values, a page of ranks, keys or rewards, as words with the first value in the upper
/// half, so that rewards ascend as words do; the second value of a rank is 0. Owned by one stage.
///
/// **Cost** 8 KiB, taken once.
@safe package final class PairBatch {
    package var capacity: Int { NamesLayout.pairPageCapacity }
    package var count: Int { pairCount }
    /// Private, so that the compiler sees every access, and checks none of them while it runs.
    private var pairCount = 0
    private let words: UnsafeMutablePointer<UInt64>

    package init() { unsafe words = .allocate(capacity: NamesLayout.pairPageCapacity) }

    deinit { unsafe words.deallocate() }

    package func removeAll() { pairCount = 0 }

    /// Takes the pairs of a page.
    /// - Returns: whether all are within `bounds` and, where that asks for it, ascend.
    fileprivate func fill(
        _ count: Int, _ first: CodedColumn, _ second: CodedColumn?, _ bounds: PairPage.Bounds
    ) -> Bool {
        precondition(count <= capacity)
        let words = unsafe words
        let isValid = unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: capacity) {
            room in
            let seconds = room.baseAddress!
            unsafe first.unpack(into: words)
            if let second {
                unsafe second.unpack(into: seconds)
            } else {
                unsafe seconds.update(repeating: 0, count: count)
            }
            var (least, most) = (UInt64.max, UInt64.min)
            var (leastSecond, mostSecond) = (UInt64.max, UInt64.min)
            var halfCount = 0
            for place in 0..<count {
                // SAFETY: place < count, which is within the capacity.
                let (a, b) = unsafe (words[place], seconds[place])
                (least, most) = (min(least, a), max(most, a))
                (leastSecond, mostSecond) = (min(leastSecond, b), max(mostSecond, b))
                halfCount &+= (a == 0) != (b == 0) ? 1 : 0
                unsafe words[place] = a &<< 32 | b & 0xFFFF_FFFF
            }
            guard count > 0 else { return true }
            return least >= bounds.first.lowerBound && most <= bounds.first.upperBound
                && leastSecond >= bounds.second.lowerBound
                && mostSecond <= bounds.second.upperBound
                && (!bounds.areKeys || halfCount == 0)
        }
        let fits = unsafe isValid && (!bounds.isOrdered || Self.ascend(words, count))
        pairCount = fits ? count : 0
        return fits
    }

    private static func ascend(_ words: UnsafePointer<UInt64>, _ count: Int) -> Bool {
        var descentCount = 0
        for place in 1..<max(count, 1) {
            // SAFETY: place < count.
            descentCount &+= unsafe words[place] <= words[place &- 1] ? 1 : 0
        }
        return descentCount == 0
    }

    /// All pairs in order.
    package func withWords<Result, Failure: Error>(
        _ body: (Span<UInt64>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: count pairs are initialised, and nothing changes them during the call.
        let buffer = unsafe UnsafeBufferPointer(start: words, count: count)
        return try body(unsafe buffer.span)
    }

    package subscript(place: Int) -> UInt64 {
        precondition(place >= 0 && place < count)
        // SAFETY: place < count ≤ capacity.
        return unsafe words[place]
    }

    package func append(_ word: UInt64) {
        precondition(count < capacity)
        // SAFETY: count < capacity.
        unsafe words[count] = word
        pairCount &+= 1
    }

    /// **Errors** `corrupt` unless the first pair comes after the last one of the page before.
    package func expectFirst(after last: UInt64) throws(FormatError) {
        if self[0] > last { return }
        throw .corrupt("pair order", at: 0, got: self[0], expected: .atLeast(last))
    }

    package static func word(_ first: UInt32, _ second: UInt32) -> UInt64 {
        UInt64(first) << 32 | UInt64(second)
    }
}

/// Pages of pairs, coded and decoded, and the pairs of a value in a coded page.
///
/// **Layout** A plain column (`PageColumnCodec`) of the first values of all pairs, then, but for ranks, one of the second
/// values.
package enum PairPage {
    static func encode(_ batch: PairBatch, columnCount: Int) -> [UInt8] {
        var page: [UInt8] = []
        page.reserveCapacity(
            2 * PageColumnCodec.plainByteCountMax(batch.count) + PageColumnCodec.slackByteCount)
        PageColumnCodec.append(count: batch.count, to: &page) {
            UInt32(truncatingIfNeeded: batch[$0] >> 32)
        }
        if columnCount > 1 {
            PageColumnCodec.append(count: batch.count, to: &page) {
                UInt32(truncatingIfNeeded: batch[$0])
            }
        }
        return page
    }

    /// What the pairs of a page can be.
    package struct Bounds: Sendable {
        let columnCount: Int
        let first: ClosedRange<UInt64>
        /// What the index says that the page begins with; `nil` where that is an ordinal.
        let pageFirst: UInt64?
        let second: ClosedRange<UInt64>
        /// Pairs ascend.
        var isOrdered: Bool { pageFirst != nil }
        /// Both values are 0, or none.
        let areKeys: Bool

        /// Those of a page of ranks, keys or rewards.
        package init(
            _ kind: NamesPageKind, _ header: NamesRun.Header, _ entry: NamesPageIndex.Entry
        ) {
            columnCount = kind.columnCount
            pageFirst = kind == .rewards ? UInt64(entry.first) : nil
            areKeys = kind == .keys
            let names = 0...UInt64(Limits.nameCountMax)
            first = kind == .ranks ? Self.closed(0..<UInt32(header.names.count)) : names
            second =
                switch kind {
                case .rewards: Self.closed(header.keys)
                case .keys: names
                case .names, .ranks: 0...0
                }
        }

        private static func closed(_ range: Range<UInt32>) -> ClosedRange<UInt64> {
            // Where there is nothing, there is no page either.
            let first = UInt64(range.lowerBound)
            return first...max(first, UInt64(range.upperBound) &- (range.isEmpty ? 0 : 1))
        }
    }

    /// Decodes a whole page of `count` pairs.
    /// **Errors** `torn`, `corrupt`; also for values out of `bounds` and pairs that do not ascend.
    /// **Cost** About 5 ns a pair.
    package static func decode(
        _ bytes: [UInt8], count: Int, bounds: Bounds, into batch: PairBatch
    ) throws(FormatError) {
        batch.removeAll()
        try reading(bytes, count: count, bounds) { (first, second) throws(FormatError) -> Void in
            guard batch.fill(count, first, second, bounds) else {
                // Rare: the place is looked for again, one by one.
                for place in 0..<count { _ = try word(place, first, second, bounds) }
                throw .corrupt("pair order", at: 0, got: 0, expected: .atLeast(1))
            }
        }
    }

    /// One pair of a page. - Parameter place: 0 ..< count.
    package static func pair(
        _ place: Int, of bytes: [UInt8], count: Int, bounds: Bounds
    ) throws(FormatError) -> (first: UInt32, second: UInt32) {
        let found = try reading(bytes, count: count, bounds) {
            (first, second) throws(FormatError) -> UInt64 in
            try word(place, first, second, bounds)
        }
        return (UInt32(truncatingIfNeeded: found >> 32), UInt32(truncatingIfNeeded: found))
    }

    /// Appends the second values of all pairs of a page whose first is `wanted`; pairs ascend.
    ///
    /// **Cost** A binary search in the packed values; about 50 ns.
    package static func appendSeconds(
        ofFirst wanted: UInt32, in bytes: [UInt8], count: Int, bounds: Bounds,
        to seconds: inout [UInt32]
    ) throws(FormatError) {
        let found = try reading(bytes, count: count, bounds) {
            (first, second) throws(FormatError) -> [UInt32] in
            var found: [UInt32] = []
            var place = first.lowerBound(UInt64(wanted))
            while place < count, first.value(place) == UInt64(wanted) {
                let word = try word(place, first, second, bounds)
                found.append(UInt32(truncatingIfNeeded: word))
                place += 1
            }
            return found
        }
        seconds.append(contentsOf: found)
    }

    /// A pair as a word, once it was found to be one that can be.
    @inline(__always)
    private static func word(
        _ place: Int, _ first: CodedColumn, _ second: CodedColumn?, _ bounds: Bounds
    ) throws(FormatError) -> UInt64 {
        let (a, b) = (first.value(place), second?.value(place) ?? 0)
        guard bounds.first.contains(a), bounds.second.contains(b),
            !bounds.areKeys || (a == 0) == (b == 0)
        else {
            throw .corrupt(
                bounds.areKeys ? "key" : "pair", at: 0, got: max(a, b),
                expected: .atMost(max(bounds.first.upperBound, bounds.second.upperBound)))
        }
        return a << 32 | b
    }

    /// Finds both columns of a page; they are all of it, and begin with what the index says.
    private static func reading<Result>(
        _ bytes: [UInt8], count: Int, _ bounds: Bounds,
        _ body: (CodedColumn, CodedColumn?) throws(FormatError) -> Result
    ) throws(FormatError) -> Result {
        // SAFETY: the buffer is used inside the closure only.
        try unsafe bytes.withUnsafeBufferPointer { (buffer) throws(FormatError) in
            var reader = unsafe ColumnReader(UnsafeRawBufferPointer(buffer))
            let first = try CodedColumn(plain: &reader, count: count)
            let second =
                bounds.columnCount == 1 ? nil : try CodedColumn(plain: &reader, count: count)
            try reader.checkEnd()
            if let expected = bounds.pageFirst {
                let found = first.value(0)
                guard found == expected else {
                    throw .corrupt("first", at: 0, got: found, expected: .exactly(expected))
                }
            }
            return try body(first, second)
        }
    }
}
