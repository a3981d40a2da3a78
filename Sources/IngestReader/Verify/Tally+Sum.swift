// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import CIngestLinux
import IngestFormat

// Sums of tallies. The heads and lines of the places to come are prefetched: each is a cache miss, and
// many of them are under way at once.

extension Tally {
    /// The kinds of rows that have a number of their own.
    enum Kind: Int, CaseIterable {
        case viewable, undetermined, click, redemption, notViewable
        case viewableUnchecked, undeterminedUnchecked, clickUnchecked, redemptionUnchecked
        case duplicateImpression, invalidImpression

        /// What a row of the kind adds one to.
        var columns: [CounterColumn] {
            var columns: [CounterColumn] = []
            forEachColumn { columns.append($0) }
            return columns
        }

        /// Calls `body` with what a row of the kind adds one to.
        func forEachColumn(_ body: (CounterColumn) -> Void) {
            switch self {
            case .viewable, .viewableUnchecked:
                body(.impressions)
                body(.viewableImpressions)
            case .undetermined, .undeterminedUnchecked:
                body(.impressions)
                body(.undeterminedImpressions)
            case .click, .clickUnchecked: body(.clicks)
            case .redemption, .redemptionUnchecked: body(.redemptions)
            case .notViewable: body(.notViewableImpressions)
            case .duplicateImpression: body(.duplicateImpressions)
            case .invalidImpression: body(.invalidImpressions)
            }
            if isUnchecked { body(.uncheckedEvents) }
        }

        private var isUnchecked: Bool {
            switch self {
            case .viewableUnchecked, .undeterminedUnchecked, .clickUnchecked, .redemptionUnchecked:
                true
            default: false
            }
        }
    }

    /// Adds all of `other`.
    mutating func add(_ other: Tally) {
        if placeCount == 0 {
            self = other
            return
        }
        guard other.placeCount > 0 else { return }
        prepare(itemCount: other.heads.count, rowCount: 0)
        forgetCarry()
        addSlots(of: other) { $0 }
    }

    /// The same counters under other items.
    /// - Parameter item: below `itemCountMax`.
    func folded(_ item: (UInt32) -> UInt32) -> Tally {
        var folded = Tally()
        folded.forgetCarry()
        folded.addSlots(of: self, item)
        return folded
    }

    private mutating func addSlots(of other: Tally, _ item: (UInt32) -> UInt32) {
        let lines = other.lines.span
        for number in other.slots {
            if number + Self.distance < lines.count {
                prefetch(item: Int(item(lines[number + Self.distance][Lane.item])))
            }
            let line = lines[number]
            let day = Int32(bitPattern: line[Lane.day])
            if other.isPlain(line) {
                add(line, other.money(of: line), item: item(line[Lane.item]), day: day)
            } else {
                add(other.row(at: number), item: item(line[Lane.item]), day: day)
            }
        }
    }

    /// How many places before it is added to a line is asked for.
    private static var distance: Int { 12 }

    /// Asks for the line of the place of an item that was looked up last.
    @inline(__always)
    private func prefetch(item: Int) {
        guard item < heads.count else { return }
        let slot = Int(heads[item])
        unsafe lines.withUnsafeBufferPointer { lines in
            guard let base = lines.baseAddress else { return }
            // SAFETY: a prefetch reads nothing.
            unsafe ingest_prefetch(base + slot)
        }
    }

    /// Adds a place that has no more than a line and money.
    @inline(__always)
    private mutating func add(_ other: Line, _ money: Money, item: UInt32, day: Int32) {
        let slot = slot(item: item, day: day)
        var amounts = other
        for lane in 0..<Lane.kinds { amounts[lane] = 0 }
        let sum = lines[slot] &+ amounts
        if any(sum .< amounts) {
            for kind in Kind.allCases {
                add(other[Lane.kinds + kind.rawValue], of: kind, at: slot)
            }
        } else {
            lines[slot] = sum
        }
        if money.revenue != 0 { add(money.revenue, to: Self.revenue, at: slot) }
        if money.spend != 0 { add(money.spend, to: Self.spend, at: slot) }
    }
}
