// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what sorts names and counters for runs.

import IngestFormat

/// Integers of 64 bits, put in the order of some of their bits; those of equal bits stay in their order. Owned by one
/// thread.
///
/// **Cost** 16 bytes each; 1 to 3 ns each for every 11 bits.
@safe struct WordSorter: ~Copyable {
    private var from = SequentialMemory<UInt64>()
    private var to = SequentialMemory<UInt64>()
    private var digits = SequentialMemory<UInt32>(capacity: 1 << digitWidthMax)
    private(set) var count = 0

    private static let digitWidthMax = 11

    /// `count` words, valid until the next call.
    var words: UnsafeMutablePointer<UInt64> { unsafe from.base }

    mutating func removeAll() { count = 0 }

    mutating func append(_ word: UInt64) {
        if count == from.capacity { from.reserve(2 * count, keeping: count) }
        // SAFETY: below the capacity.
        unsafe from.base[count] = word
        count &+= 1
    }

    mutating func append(_ words: UnsafePointer<UInt64>, count added: Int) {
        if count + added > from.capacity { from.reserve(2 * (count + added), keeping: count) }
        // SAFETY: there is room for the words, as many as the caller has.
        unsafe (from.base + count).update(from: words, count: added)
        count += added
    }

    func forEach(_ body: (UInt64) -> Void) {
        // SAFETY: below count.
        for index in 0..<count { body(unsafe from.base[index]) }
    }

    /// Sorts by some bits, the lowest first.
    mutating func sort(bitsFrom shift: UInt64, width: Int) {
        precondition(count <= Int(UInt32.max))
        guard width > 0, count > 1 else { return }
        if count > to.capacity { to.reserve(from.capacity, keeping: 0) }
        let passCount = (width + Self.digitWidthMax - 1) / Self.digitWidthMax
        let digitWidth = (width + passCount - 1) / passCount
        for pass in 0..<passCount {
            sort(byDigitAt: shift + UInt64(pass * digitWidth), width: digitWidth)
        }
    }

    private mutating func sort(byDigitAt shift: UInt64, width: Int) {
        let (from, to, digits) = unsafe (from.base, to.base, digits.base)
        let mask: UInt64 = 1 &<< UInt64(width) &- 1
        // SAFETY, of all below: a digit is below 2^width; places are below count, as there are so many words.
        unsafe digits.update(repeating: 0, count: 1 << width)
        for index in 0..<count {
            unsafe digits[Int(truncatingIfNeeded: from[index] &>> shift & mask)] &+= 1
        }
        var sum: UInt32 = 0
        for digit in 0..<1 << width {
            let digitCount = unsafe digits[digit]
            unsafe digits[digit] = sum
            sum &+= digitCount
        }
        for index in 0..<count {
            let word = unsafe from[index]
            let digit = Int(truncatingIfNeeded: word &>> shift & mask)
            let place = unsafe digits[digit]
            unsafe to[Int(place)] = word
            unsafe digits[digit] = place &+ 1
        }
        swap(&self.from, &self.to)
    }
}
