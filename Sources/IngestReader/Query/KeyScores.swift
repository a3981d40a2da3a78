// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// One or two counters of every key of a cut, dense, and whose they are: what the greatest rewards are found in.
/// Owned by one query; threads of it work on different keys at once, or one on all.
///
/// **Layout** By key: an *owner*, the ordinal of its reward in bits 0–30 (0 of a lost key, which is its own;
/// `notAsked` of a key that does not count), bit 31 once it has a row; and a sum for each counter.
/// **Cost** 12 bytes a key, 20 with divisors, in huge pages; 1 to 2 ns a row.
@safe final class KeyScores: @unchecked Sendable {
    static let notAsked: UInt32 = 0x7FFF_FFFF
    private static let seenBit: UInt32 = 0x8000_0000

    let keyCount: Int
    private let isQuotient: Bool
    private let owners: LineMemory<UInt32>
    private let values: LineMemory<UInt64>
    /// What the values are divided by, where they are.
    private let divisors: LineMemory<UInt64>

    init(keyCount: Int, isQuotient: Bool) {
        self.keyCount = keyCount
        self.isQuotient = isQuotient
        owners = LineMemory(capacity: keyCount)
        values = LineMemory(capacity: keyCount)
        divisors = LineMemory(capacity: isQuotient ? keyCount : 0)
    }

    /// Makes all sums of some keys 0, before owners are set.
    func begin(_ keys: Range<Int>) {
        precondition(keys.lowerBound >= 0 && keys.upperBound <= keyCount)
        // SAFETY: the keys are inside what was reserved.
        unsafe (values.base + keys.lowerBound).initialize(repeating: 0, count: keys.count)
        if isQuotient {
            unsafe (divisors.base + keys.lowerBound).initialize(repeating: 0, count: keys.count)
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
        precondition(first >= 0 && pairs.count <= keyCount - first)
        var last = ascent
        var isValid = true
        // SAFETY: the keys are inside what was reserved.
        let target = unsafe owners.base + first
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
        precondition(keys.lowerBound >= 0 && keys.upperBound <= keyCount)
        precondition(isQuotient == (divisor != nil))
        if page.rowCount == 0 { return true }
        return page.withOrders { orders in
            let first = RowOrder.ordinal(orders[0])
            let last = RowOrder.ordinal(orders[orders.count - 1])
            precondition(keys.contains(first) && keys.contains(last))
            let isRun = last &- first == orders.count &- 1 && page.hasEachKeyOnce
            let run = isRun ? first : nil
            markSeen(orders, run)
            let fits = unsafe add(page, value, orders, run, to: values.base)
            guard let divisor else { return fits }
            return unsafe add(page, divisor, orders, run, to: divisors.base) && fits
        }
    }

    /// - Parameters:
    ///   - orders: of a page's rows.
    ///   - run: the first key, where the keys follow each other without gaps.
    private func markSeen(_ orders: Span<UInt64>, _ run: Int?) {
        if let run {
            // SAFETY: the caller found the first and the last of the keys to be inside.
            let target = unsafe owners.base + run
            for row in 0..<orders.count { unsafe target[row] |= Self.seenBit }
            return
        }
        for row in orders.indices {
            let key = RowOrder.ordinal(orders[row])
            precondition(key < keyCount)
            // SAFETY: as just found; an ordinal is not negative.
            unsafe owners.base[key] |= Self.seenBit
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
                let key = RowOrder.ordinal(orders[row])
                let (a, b) = unsafe (sums[key], source[row])
                let sum = a &+ b
                carries |= a & b | (a | b) & ~sum
                unsafe sums[key] = sum
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
        precondition(key >= 0 && key < keyCount)
        // SAFETY: the key is inside.
        let owner = unsafe owners.base[key] & ~Self.seenBit
        return owner == 0 ? nil : NameOrdinal(rawValue: owner)
    }

    func score(_ key: Int) -> Score {
        precondition(key >= 0 && key < keyCount)
        // SAFETY: the key is inside; divisors are there where they divide.
        return unsafe Score(
            value: values.base[key], divisor: isQuotient ? divisors.base[key] : 1)
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
        precondition(keys.lowerBound >= 0 && keys.upperBound <= keyCount)
        // Of nearly all keys one number decides.
        var floor = floor(of: bound)
        for key in keys {
            // SAFETY: the keys are inside.
            guard unsafe Self.counts(owners.base[key]), unsafe values.base[key] >= floor else {
                continue
            }
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

    /// Joins the keys of one reward: the first of them gets all sums, the others count no more.
    /// - Returns: `false` if a sum does not fit 64 bits.
    ///
    /// **Cost** 4 bytes a name; some ns a key.
    func join(nextName: UInt32) -> Bool {
        var firstKeys = [UInt32](repeating: .max, count: Int(nextName))
        var overflows = false
        for key in 0..<keyCount {
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
