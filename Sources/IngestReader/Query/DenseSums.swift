// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import Dispatch
import IngestFormat
import Synchronization

/// One or two counters of each reward, dense by the ordinal of its name: what the greatest rewards are found in. Owned by
/// one query, whose threads each add the keys of a part, to rewards that no other part has.
///
/// Keys are given with their rewards, and both in their order: so the rewards of a part of the keys are nearly always a
/// range of ordinals that is its own. Where they are not, all keys are one part.
///
/// **Layout** A word a reward: bit `bitWidth - 1` once it has a row, the sum below. Lost keys, each a reward of its own,
/// stand behind the last name.
/// **Cost** 4 bytes a name (8, 16 where a sum does not fit), twice that of a quotient; 3 to 4 ns a row.
@safe
final class DenseSums<Sum: FixedWidthInteger & UnsignedInteger & BitwiseCopyable & Sendable>:
    @unchecked Sendable
{
    /// Keys that are read at a time.
    private static var stretchKeyCount: Int { 1 << 16 }
    private static var seenBit: Sum { 1 << Sum(Sum.bitWidth - 1) }

    /// What was found beside the sums.
    private struct Outcome: Sendable {
        /// Those that are asked for.
        var lostKeys: [UInt32] = []
        var overflows = false
        /// Whether a reward of another part came up.
        var isForeign = false
    }

    private let request: SumRequest
    let nextName: Int
    private let nextKey: Int
    private let values: LineMemory<Sum>
    /// What the values are divided by, where they are.
    private let divisors: LineMemory<Sum>
    /// Groups of lost keys.
    private(set) var lostGroups: [Int] = []

    /// - Parameter names: of the query.
    init(_ request: SumRequest, _ names: any NameSource) {
        self.request = request
        nextName = Int(names.nextName)
        nextKey = Int(names.nextKey)
        // What is not used is never touched.
        values = LineMemory(capacity: nextName + nextKey)
        divisors = LineMemory(capacity: request.divisor == nil ? 0 : nextName + nextKey)
    }

    /// The lost key that is a group, if it is one.
    func lostKey(ofGroup group: Int) -> UInt32? {
        group < nextName ? nil : UInt32(group - nextName)
    }

    /// The score of a group that has rows.
    func score(_ group: Int) -> Score? {
        precondition(group >= 0 && group < nextName + nextKey)
        // SAFETY: the group is inside; divisors are there where they divide.
        let value = unsafe values.base[group]
        guard value & Self.seenBit != 0 else { return nil }
        let divisor = request.divisor == nil ? 1 : unsafe divisors.base[group]
        return Score(value: UInt128(value & ~Self.seenBit), divisor: UInt64(clamping: divisor))
    }

    /// Which groups are looked for: all, or those with a score from `least` on, or only above it.
    struct Bound: Sendable {
        var least: Score?
        var isOpen = false

        @inline(__always)
        fileprivate func leavesOut(_ score: Score) -> Bool {
            guard let least else { return false }
            return isOpen ? !(least < score) : score < least
        }
    }

    /// Calls `body` with the groups that have rows and a score inside the bound, ascending.
    ///
    /// **Cost** Half a nanosecond a group that is outside; of a quotient some.
    /// - Parameter bound: is looked at again after each call of `body`, which may raise it.
    @inline(__always)
    func forEach(
        in groups: Range<Int>, _ bound: inout Bound, _ body: (Int, Score, inout Bound) -> Void
    ) {
        precondition(groups.lowerBound >= 0 && groups.upperBound <= nextName + nextKey)
        // Of nearly all groups one number decides.
        var floor = floor(of: bound)
        for group in groups {
            // SAFETY: the groups are inside.
            guard unsafe values.base[group] >= floor, let score = score(group),
                !bound.leavesOut(score)
            else { continue }
            body(group, score, &bound)
            floor = self.floor(of: bound)
        }
    }

    /// What the word of no group inside the bound is below.
    private func floor(of bound: Bound) -> Sum {
        guard request.divisor == nil, let least = bound.least else { return Self.seenBit }
        // A score comes from a sum, so that it fits; above the greatest there is none.
        let value = Sum(truncatingIfNeeded: least.value) | Self.seenBit
        return bound.isOpen && value < .max ? value + 1 : value
    }

    /// Adds all rows.
    /// - Parameter partCount: of the keys, gone through side by side.
    /// - Returns: `false` if a sum does not fit.
    func fold(_ names: any NameSource, partCount: Int) throws(ReaderError) -> Bool {
        let ends = (0...partCount).map { nextKey * $0 / partCount }
        // The rewards of a part begin with that of its first key.
        var firstGroups = [0]
        for part in 1..<max(2, partCount) where part < partCount {
            let first = try names.names(of: KeyOrdinal(rawValue: UInt32(ends[part])))
            firstGroups.append(
                max(firstGroups[part - 1], min(Int(first.reward.rawValue), nextName)))
        }
        firstGroups.append(nextName)
        let starts = firstGroups
        let found = try inParallel(partCount) { (part) throws(ReaderError) in
            try self.fold(
                keys: ends[part]..<ends[part + 1],
                groups: starts[part]..<starts[part + 1])
        }
        if found.contains(where: \.isForeign) { return try fold(names, partCount: 1) }
        lostGroups = found.flatMap(\.lostKeys).map { nextName + Int($0) }
        return !found.contains(where: \.overflows)
    }

    // MARK: A part

    /// - Parameter groups: those of the part; their sums begin here.
    private func fold(
        keys: Range<Int>, groups own: Range<Int>
    ) throws(ReaderError) -> Outcome {
        clear(own)
        let names = request.source.makeNames()
        var outcome = Outcome()
        var groups = [UInt32](repeating: 0, count: min(max(keys.count, 1), Self.stretchKeyCount))
        var start = keys.lowerBound
        repeat {
            let stretch = start..<min(start + Self.stretchKeyCount, keys.upperBound)
            try readGroups(of: stretch, own, names, into: &groups, &outcome)
            if outcome.isForeign { break }
            try request.forEachPage(stretch, isLast: stretch.upperBound == nextKey, names) { page in
                add(page, stretch.lowerBound, groups.span, &outcome)
            }
            start = stretch.upperBound
        } while start < keys.upperBound && !outcome.overflows
        return outcome
    }

    private func clear(_ groups: Range<Int>) {
        precondition(groups.lowerBound >= 0 && groups.upperBound <= nextName + nextKey)
        // SAFETY: the groups are inside; no other thread has them.
        unsafe (values.base + groups.lowerBound).initialize(repeating: 0, count: groups.count)
        if request.divisor != nil {
            unsafe (divisors.base + groups.lowerBound).initialize(repeating: 0, count: groups.count)
        }
    }

    /// By key of a stretch: its group, `UInt32.max` where it is not asked for.
    private func readGroups(
        of keys: Range<Int>, _ own: Range<Int>, _ names: any NameSource,
        into groups: inout [UInt32], _ outcome: inout Outcome
    ) throws(ReaderError) {
        let business = request.business?.rawValue
        let nextName = UInt32(nextName)
        var next = keys.lowerBound
        var lost: [UInt32] = []
        var isForeign = false
        try names.forEachKeys(
            in: UInt32(keys.lowerBound)..<UInt32(keys.upperBound)
        ) { (first, pairs) throws(ReaderError) in
            guard first == next, pairs.count <= keys.upperBound - next else { throw .impossibleRow }
            var target = groups.mutableSpan
            let offset = next - keys.lowerBound
            var isValid = true
            for place in pairs.indices {
                let reward = UInt32(truncatingIfNeeded: pairs[place] >> 32)
                let its = UInt32(truncatingIfNeeded: pairs[place])
                isValid = isValid && reward < nextName && its < nextName
                let isAsked = business == nil || business == its
                target[offset + place] = isAsked ? reward : .max
                if isAsked && reward == 0 {
                    lost.append(first + UInt32(place))
                    target[offset + place] = nextName + first + UInt32(place)
                } else if isAsked && !own.contains(Int(reward)) {
                    isForeign = true
                }
            }
            guard isValid else { throw .impossibleRow }
            next += pairs.count
        }
        guard next == keys.upperBound else { throw .impossibleRow }
        for key in lost { clear(Int(nextName + key)..<Int(nextName + key) + 1) }
        outcome.lostKeys += lost
        outcome.isForeign = isForeign
    }

    /// - Parameters:
    ///   - firstKey: that of `groups`, which has all keys of the page.
    private func add(
        _ page: CounterPage, _ firstKey: Int, _ groups: Span<UInt32>, _ outcome: inout Outcome
    ) {
        var fits = unsafe add(page, request.value, firstKey, groups, Self.seenBit, to: values.base)
        if let divisor = request.divisor {
            fits = unsafe add(page, divisor, firstKey, groups, 0, to: divisors.base) && fits
        }
        if !fits { outcome.overflows = true }
    }

    /// - Parameter mark: is set in the sum of each row's reward.
    /// - Returns: `false` if a sum does not fit below the top bit.
    private func add(
        _ page: CounterPage, _ column: CounterColumn, _ firstKey: Int, _ groups: Span<UInt32>,
        _ mark: Sum, to sums: UnsafeMutablePointer<Sum>
    ) -> Bool {
        // A column that is 0 in all rows holds zeros.
        let source = unsafe page.values + column.rawValue &* CounterPage.columnStride
        let high = column.high.map { CounterColumnSet([$0]) } ?? []
        let isWide = !page.nonzero.isDisjoint(with: high)
        if isWide && Sum.bitWidth < UInt128.bitWidth { return false }
        let highs =
            unsafe page.values + (column.high ?? column).rawValue &* CounterPage.columnStride
        let greatest = ~Self.seenBit
        return page.withOrders { orders in
            // All values and all sums, one bit over the other.
            var (values, totals): (UInt64, Sum) = (0, 0)
            for row in orders.indices {
                let group = groups[RowOrder.ordinal(orders[row]) &- firstKey]
                if group == .max { continue }
                // SAFETY: groups are below nextName + nextKey, and of this part alone.
                let value = unsafe source[row]
                var sum = unsafe (sums[Int(group)] & greatest) &+ Sum(truncatingIfNeeded: value)
                values |= value
                totals |= sum
                if Sum.bitWidth == UInt128.bitWidth && isWide {
                    let high = unsafe highs[row]
                    // Below 2^126, so that the sum does not wrap.
                    totals |= high >> 62 == 0 ? 0 : Self.seenBit
                    sum &+= Sum(truncatingIfNeeded: high) << 64
                    totals |= sum
                }
                unsafe sums[Int(group)] = sum | mark
            }
            return totals <= greatest && values <= UInt64(clamping: greatest)
        }
    }
}

/// Which counters are summed, and of which rows. Shared by the threads of a query.
struct SumRequest: Sendable {
    let source: any CounterSource
    let days: DayRange
    /// Only its keys; `nil` is all.
    let business: NameOrdinal?
    let value: CounterColumn
    /// What the value is divided by.
    let divisor: CounterColumn?

    init(
        _ source: any CounterSource, _ days: DayRange, _ business: NameOrdinal?,
        _ order: RewardsQuery.Order
    ) {
        self.source = source
        self.days = days
        self.business = business
        switch order {
        case .impressions: value = .impressions
        case .clicks, .ctr: value = .clicks
        case .redemptions: value = .redemptions
        case .revenue: value = .revenueMicros
        case .spend: value = .spendMicros
        }
        divisor = order == .ctr ? .impressions : nil
    }

    /// Gives the rows of some keys.
    /// - Parameter isLast: whether there are no keys behind them, and rows of such are damage.
    func forEachPage(
        _ keys: Range<Int>, isLast: Bool, _ names: any NameSource, _ body: (CounterPage) -> Void
    ) throws(ReaderError) {
        guard let wanted = days.dayNumbers, !keys.isEmpty || isLast else { return }
        let asked = UInt32(keys.lowerBound)...(isLast ? .max : UInt32(keys.upperBound - 1))
        let columns = CounterColumnSet([value, value.high, divisor].compactMap { $0 })
        try source.forEachPage(of: days.isBounded ? .rewardDays : .rewards, columns, asked, names) {
            (page) throws(ReaderError) in
            guard page.rowCount > 0 else { return }
            guard keys.contains(Int(page.key(0))), keys.contains(Int(page.key(page.rowCount - 1)))
            else { throw .impossibleRow }
            if days.isBounded {
                try page.withOrders { (orders) throws(ReaderError) in
                    for row in orders.indices { _ = try days.admits(RowOrder.day(orders[row])) }
                }
                page.keep(days: wanted)
            }
            body(page)
        }
    }
}

/// What `body` makes of each number below `count`, in their order; it is called on several threads at once.
/// **Errors** The first one's that has one.
package func inParallel<Output: Sendable>(
    _ count: Int, _ body: @Sendable (Int) throws(ReaderError) -> Output
) throws(ReaderError) -> [Output] {
    let results = Mutex<[Int: Result<Output, ReaderError>]>([:])
    DispatchQueue.concurrentPerform(iterations: count) { number in
        let result: Result<Output, ReaderError>
        do throws(ReaderError) { result = .success(try body(number)) } catch {
            result = .failure(error)
        }
        results.withLock { $0[number] = result }
    }
    let found = results.withLock { $0 }
    var outputs: [Output] = []
    for number in 0..<count {
        if let result = found[number] { outputs.append(try result.get()) }
    }
    return outputs
}
