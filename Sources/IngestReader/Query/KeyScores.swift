// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// One or two counters of each key of a stretch, dense, and whose they are: what the greatest rewards are found in.
/// Owned by one thread, which moves it from stretch to stretch; or of all keys, of which threads of one query fill
/// different ranges at once.
///
/// **Layout** By key: an *owner*, the ordinal of its reward in bits 0–30 (0 of a lost key, which is its own;
/// `notAsked` of a key that does not count), bit 31 once it has a row; and a sum for each counter.
/// **Cost** 12 bytes a key, 20 with divisors; 1 to 2 ns a row.
@safe final class KeyScores: @unchecked Sendable {
    static let notAsked: UInt32 = 0x7FFF_FFFF
    private static let seenBit: UInt32 = 0x8000_0000

    private let capacity: Int
    /// The stretch begins with this key.
    private var firstKey = 0
    private let isQuotient: Bool
    private let owners: LineMemory<UInt32>
    private let values: LineMemory<UInt64>
    /// What the values are divided by, where they are.
    private let divisors: LineMemory<UInt64>

    /// - Parameter capacity: keys of the longest stretch.
    init(capacity: Int, isQuotient: Bool) {
        self.capacity = capacity
        self.isQuotient = isQuotient
        owners = LineMemory(capacity: capacity)
        values = LineMemory(capacity: capacity)
        divisors = LineMemory(capacity: isQuotient ? capacity : 0)
    }

    /// Goes to the stretch that begins with a key; what was there is forgotten.
    func move(to key: Int) { firstKey = key }

    /// Where keys lie in the stretch.
    private func places(_ keys: Range<Int>) -> Range<Int> {
        precondition(keys.lowerBound >= firstKey && keys.upperBound - firstKey <= capacity)
        return keys.lowerBound - firstKey..<keys.upperBound - firstKey
    }

    private func place(_ key: Int) -> Int {
        precondition(key >= firstKey && key - firstKey < capacity)
        return key - firstKey
    }

    /// Makes all sums of some keys 0, before owners are set.
    func begin(_ keys: Range<Int>) {
        let places = places(keys)
        // SAFETY: the places are inside what was reserved.
        unsafe (values.base + places.lowerBound).initialize(repeating: 0, count: places.count)
        if isQuotient {
            unsafe (divisors.base + places.lowerBound).initialize(repeating: 0, count: places.count)
        }
    }

    /// Sets the owners of keys from `first` on.
    /// - Parameters:
    ///   - pairs: as `NameSource.forEachKeys` gives them.
    ///   - business: only its keys are asked for; `nil` is all.
    ///   - ascent: the greatest reward of the keys before; it becomes `UInt32.max` where one is not greater
    ///     than those before it.
    /// - Returns: `false` for a name that was never given.
    func setOwners(
        from first: Int, _ pairs: Span<UInt64>, business: UInt32?, nextName: UInt32,
        ascent: inout UInt32
    ) -> Bool {
        let places = places(first..<first + pairs.count)
        var last = ascent
        var isValid = true
        // SAFETY: the places are inside what was reserved.
        let target = unsafe owners.base + places.lowerBound
        for place in pairs.indices {
            let reward = UInt32(truncatingIfNeeded: pairs[place] >> 32)
            let its = UInt32(truncatingIfNeeded: pairs[place])
            isValid = isValid && reward < nextName && its < nextName
            unsafe target[place] = business == nil || business == its ? reward : Self.notAsked
            if reward != 0 { last = reward > last ? reward : .max }
        }
        ascent = last
        return isValid
    }

    /// Adds the rows of a page.
    /// - Parameters:
    ///   - keys: those whose owners were set; the page has no others.
    ///   - value: what is summed; `divisor` what it is divided by.
    /// - Returns: `false` if a sum does not fit 64 bits.
    func add(
        _ page: CounterPage, keys: Range<Int>, value: CounterColumn, divisor: CounterColumn?
    ) -> Bool {
        _ = places(keys)
        precondition(isQuotient == (divisor != nil))
        if page.rowCount == 0 { return true }
        return page.withOrders { orders in
            let first = RowOrder.ordinal(orders[0])
            let last = RowOrder.ordinal(orders[orders.count - 1])
            precondition(keys.contains(first) && keys.contains(last))
            let isRun = last &- first == orders.count &- 1 && page.hasEachKeyOnce
            let run = isRun ? first &- firstKey : nil
            markSeen(orders, run)
            let fits = unsafe add(page, value, orders, run, to: values.base)
            guard let divisor else { return fits }
            return unsafe add(page, divisor, orders, run, to: divisors.base) && fits
        }
    }

    /// - Parameters:
    ///   - orders: of a page's rows.
    ///   - run: the first key's place, where the keys follow each other without gaps.
    private func markSeen(_ orders: Span<UInt64>, _ run: Int?) {
        if let run {
            // SAFETY: the caller found the first and the last of the keys to be inside.
            let target = unsafe owners.base + run
            for row in 0..<orders.count { unsafe target[row] |= Self.seenBit }
            return
        }
        for row in orders.indices {
            let place = place(RowOrder.ordinal(orders[row]))
            // SAFETY: the place is inside.
            unsafe owners.base[place] |= Self.seenBit
        }
    }

    /// Parameters as those of `markSeen`, which has found the keys to be inside.
    private func add(
        _ page: CounterPage, _ column: CounterColumn, _ orders: Span<UInt64>, _ run: Int?,
        to sums: UnsafeMutablePointer<UInt64>
    ) -> Bool {
        guard page.nonzero.contains(column) else { return true }
        // SAFETY: a column has a value for each row.
        let source = unsafe page.values + column.rawValue &* CounterPage.columnStride
        // The carries out of the top bit, in a form that vectors have.
        var carries: UInt64 = 0
        if let run {
            let target = unsafe sums + run
            for row in 0..<orders.count {
                let (a, b) = unsafe (target[row], source[row])
                let sum = a &+ b
                carries |= a & b | (a | b) & ~sum
                unsafe target[row] = sum
            }
        } else {
            for row in orders.indices {
                let place = RowOrder.ordinal(orders[row]) &- firstKey
                let (a, b) = unsafe (sums[place], source[row])
                let sum = a &+ b
                carries |= a & b | (a | b) & ~sum
                unsafe sums[place] = sum
            }
        }
        return carries >> 63 == 0
    }

    /// Whether a key has rows that are asked for, and was not joined to another.
    @inline(__always)
    private static func counts(_ owner: UInt32) -> Bool {
        owner >= seenBit && owner != notAsked | seenBit
    }

    /// The name of a key's reward; `nil` of a lost key.
    func name(ofKey key: Int) -> NameOrdinal? {
        // SAFETY: the place is inside.
        let owner = unsafe owners.base[place(key)] & ~Self.seenBit
        return owner == 0 ? nil : NameOrdinal(rawValue: owner)
    }

    func score(_ key: Int) -> Score {
        let place = place(key)
        // SAFETY: the place is inside; divisors are there where they divide.
        return unsafe Score(
            value: values.base[place], divisor: isQuotient ? divisors.base[place] : 1)
    }

    /// Which keys are looked for: all, or those with a score from `least` on, or only above it.
    struct Bound: Sendable {
        var least: Score?
        var isOpen = false

        /// Whether a score is left out.
        @inline(__always)
        func leavesOut(_ score: Score) -> Bool {
            guard let least else { return false }
            return isOpen ? !(least < score) : score < least
        }
    }

    /// Calls `body` with the keys that count, ascending, of which the score is inside the bound.
    /// - Parameter bound: is looked at again after each call of `body`, which may raise it.
    @inline(__always)
    func forEachKey(
        in keys: Range<Int>, _ bound: inout Bound, _ body: (Int, Score, inout Bound) -> Void
    ) {
        // Of nearly all keys one number decides.
        var floor = floor(of: bound)
        for place in places(keys) {
            // SAFETY: the places are inside.
            guard unsafe Self.counts(owners.base[place]), unsafe values.base[place] >= floor
            else { continue }
            let key = place &+ firstKey
            let score = score(key)
            if bound.leavesOut(score) { continue }
            body(key, score, &bound)
            floor = self.floor(of: bound)
        }
    }

    /// What the value of no score inside the bound is below.
    private func floor(of bound: Bound) -> UInt64 {
        guard !isQuotient, let least = bound.least else { return 0 }
        return bound.isOpen ? least.value.saturatingSum(1) : least.value
    }

    /// Joins the keys of one reward, where this is of all keys: the first of them gets all sums, the others count
    /// no more.
    /// - Returns: `false` if a sum does not fit 64 bits.
    ///
    /// **Cost** 4 bytes a name; some ns a key.
    func join(nextName: UInt32) -> Bool {
        var firstKeys = [UInt32](repeating: .max, count: Int(nextName))
        var overflows = false
        precondition(firstKey == 0)
        for key in 0..<capacity {
            // SAFETY: the key is inside; so is the first one of its reward.
            let owner = unsafe owners.base[key]
            guard Self.counts(owner), owner != Self.seenBit else { continue }
            let reward = Int(owner & ~Self.seenBit)
            if firstKeys[reward] == .max {
                firstKeys[reward] = UInt32(key)
                continue
            }
            let first = Int(firstKeys[reward])
            unsafe owners.base[key] = Self.notAsked
            let fits = unsafe Self.add(key, to: first, values.base)
            let divisorFits = unsafe !isQuotient || Self.add(key, to: first, divisors.base)
            overflows = overflows || !fits || !divisorFits
        }
        return !overflows
    }
    /// - Parameters: two keys inside of `sums`.
    private static func add(
        _ key: Int, to first: Int, _ sums: UnsafeMutablePointer<UInt64>
    ) -> Bool {
        // SAFETY: both are inside.
        let (sum, overflow) = unsafe sums[first].addingReportingOverflow(sums[key])
        unsafe sums[first] = sum
        return !overflow
    }
}
