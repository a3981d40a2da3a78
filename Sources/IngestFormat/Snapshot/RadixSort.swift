// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → query

/// Sorts plain items by a number, a byte of it at a time from the lowest on.
///
/// **Cost** 1 ns an item to look at them, 3 to 5 ns for each byte in which the numbers differ; items that are in order
/// already are only looked at. Memory for as many items again.
enum RadixSort {
    private static var bucketCount: Int { 256 }
    private static var digitCount: Int { 8 }
    /// Fewer are compared with each other: to count them costs more.
    private static var countMin: Int { 64 }

    /// Sorts items so that their numbers ascend; those of equal numbers stay in their order.
    ///
    /// - Parameter scratch: as many places or more, of which nothing is kept.
    @inline(__always)
    static func sort<Item: BitwiseCopyable>(
        _ items: UnsafeMutableBufferPointer<Item>, _ scratch: UnsafeMutableBufferPointer<Item>,
        by number: (Item) -> UInt64
    ) {
        precondition(scratch.count >= items.count && items.count <= Int(UInt32.max))
        guard items.count >= countMin else {
            return unsafe insert(items, by: number)
        }
        unsafe withUnsafeTemporaryAllocation(of: UInt32.self, capacity: digitCount * bucketCount) {
            starts in
            unsafe starts.initialize(repeating: 0)
            let differing = unsafe count(items, starts, number)
            // SAFETY: both have as many places as there are items.
            var source = unsafe items
            var target = unsafe UnsafeMutableBufferPointer(rebasing: scratch[..<items.count])
            for digit in 0..<digitCount where differing >> UInt64(digit * 8) & 0xFF != 0 {
                unsafe move(
                    source, target, digit,
                    UnsafeMutableBufferPointer(
                        rebasing: starts[digit * bucketCount..<(digit + 1) * bucketCount]), number)
                unsafe (source, target) = (target, source)
            }
            if unsafe source.baseAddress != items.baseAddress {
                unsafe items.baseAddress!.update(from: source.baseAddress!, count: items.count)
            }
        }
    }

    /// Counts the items by each byte of their numbers.
    /// - Returns: the bits in which the numbers differ; none if they ascend already.
    @inline(__always)
    private static func count<Item: BitwiseCopyable>(
        _ items: UnsafeMutableBufferPointer<Item>, _ counts: UnsafeMutableBufferPointer<UInt32>,
        _ number: (Item) -> UInt64
    ) -> UInt64 {
        var (all, any, last) = (UInt64.max, UInt64(0), UInt64(0))
        var ascends = true
        for place in 0..<items.count {
            // SAFETY: the place is inside.
            let value = unsafe number(items[place])
            ascends = ascends && value >= last
            last = value
            any |= value
            all &= value
            for digit in 0..<digitCount {
                let byte = Int(truncatingIfNeeded: value >> UInt64(digit &* 8) & 0xFF)
                // SAFETY: digit < 8 and byte < 256.
                unsafe counts[digit &* bucketCount &+ byte] &+= 1
            }
        }
        return ascends ? 0 : any ^ all
    }

    /// Moves the items to where their byte says, in their order.
    /// - Parameter starts: how many there are of each byte.
    @inline(__always)
    private static func move<Item: BitwiseCopyable>(
        _ source: UnsafeMutableBufferPointer<Item>, _ target: UnsafeMutableBufferPointer<Item>,
        _ digit: Int, _ starts: UnsafeMutableBufferPointer<UInt32>, _ number: (Item) -> UInt64
    ) {
        var start: UInt32 = 0
        for byte in 0..<bucketCount {
            // SAFETY: byte < 256.
            let count = unsafe starts[byte]
            unsafe starts[byte] = start
            start &+= count
        }
        for place in 0..<source.count {
            let item = unsafe source[place]
            let byte = Int(truncatingIfNeeded: number(item) >> UInt64(digit &* 8) & 0xFF)
            // SAFETY: the counts add up to the number of items, so every place is inside, and each comes once.
            unsafe target[Int(starts[byte])] = item
            unsafe starts[byte] &+= 1
        }
    }

    /// Puts each item behind those before it that are not larger.
    @inline(__always)
    private static func insert<Item: BitwiseCopyable>(
        _ items: UnsafeMutableBufferPointer<Item>, by number: (Item) -> UInt64
    ) {
        for place in 1..<max(1, items.count) {
            // SAFETY: all places are inside.
            let item = unsafe items[place]
            let value = number(item)
            var free = place
            while free > 0, unsafe number(items[free &- 1]) > value {
                unsafe items[free] = items[free &- 1]
                free &-= 1
            }
            unsafe items[free] = item
        }
    }
}
