// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what merges counters.

import IngestFormat

extension Tally {
    /// The sums of two tallies, in one pass over both.
    ///
    /// **Cost** Some nanoseconds a place.
    static func sum(_ first: Tally, _ second: Tally) -> Tally {
        if first.isEmpty { return second }
        if second.isEmpty { return first }
        var builder = TallyBuilder(capacity: first.placeCount + second.placeCount)
        builder.merge(first, second)
        return builder.finish()
    }

    /// The sums of all of them, the smallest first.
    static func sum(of tallies: [Tally]) -> Tally {
        var rest = tallies.filter { !$0.isEmpty }.sorted { $0.placeCount > $1.placeCount }
        while let first = rest.popLast() {
            guard let second = rest.popLast() else { return first }
            let sum = sum(first, second)
            let place = rest.firstIndex { $0.placeCount < sum.placeCount } ?? rest.endIndex
            rest.insert(sum, at: place)
        }
        return Tally()
    }

    /// The sums over all days of each item, as of day 0.
    func withoutDays() -> Tally {
        var builder = TallyBuilder(capacity: placeCount)
        let day = Place(item: 0, day: 0).order
        builder.mergeNeighbours(self) { $0 & ~0xFFFF_FFFF | day }
        return builder.finish()
    }

    /// The same counters under other items.
    /// - Parameter item: below `itemCountMax`.
    ///
    /// **Cost** 16 MB, and 10 ns a place.
    func folded(_ item: (UInt32) -> UInt32) -> Tally {
        var sums = PlaceSums()
        var stack = TallyStack()
        var (last, folded): (UInt32?, UInt32) = (nil, 0)
        var (group, base) = (UInt64.max, 0)
        for index in 0..<placeCount {
            let line = lines[index]
            let place = Place(order: line.order)
            if place.item != last { (last, folded) = (place.item, item(place.item)) }
            let order = Place(item: folded, day: place.day).order
            if PlaceSums.group(of: order) != group {
                if sums.isFull { stack.add(sums.takeTally()) }
                group = PlaceSums.group(of: order)
                base = sums.base(of: group)
            }
            let slot = base + PlaceSums.place(of: order)
            if line.extra == 0 {
                sums.add(line, at: slot)
            } else {
                sums.add(row(at: index), at: slot)
            }
        }
        stack.add(sums.takeTally())
        return stack.sum
    }
}

/// Tallies to be added up, the larger ones seldom: each place is moved about log2(tallies) times in all.
struct TallyStack: Sendable {
    /// Each at least twice as large as the next.
    private var tallies: [Tally] = []

    mutating func add(_ tally: Tally) {
        var sum = tally
        while let last = tallies.last, last.placeCount < 2 * sum.placeCount {
            tallies.removeLast()
            sum = Tally.sum(last, sum)
        }
        if !sum.isEmpty { tallies.append(sum) }
    }

    /// All of them. **Cost** A pass over each but the first.
    var sum: Tally { Tally.sum(of: tallies) }

    /// Makes one of all, for those that ask for `sum` several times.
    mutating func join() { tallies = [sum] }

    /// All revenue and spend; at most 2^64 − 1.
    var moneyMicros: UInt64 { tallies.reduce(0) { $0.saturatingSum($1.moneyMicros) } }
}

/// The counters of a log, to which those of segment after segment are added: where they are, as long as their place is
/// there already, since memory that is new has to be cleared first.
///
/// **Cost** Of what is added, and of a pass over what is there where both are of one size.
struct TallyTotal: Sendable {
    /// Each place is in one of them; each is larger than the next.
    private var tallies: [Tally] = []

    mutating func add(_ tally: Tally) {
        var rest = tally
        for index in tallies.indices where !rest.isEmpty {
            rest = tallies[index].absorb(rest)
        }
        while let last = tallies.last, last.placeCount <= rest.placeCount {
            tallies.removeLast()
            rest = Tally.sum(last, rest)
        }
        if !rest.isEmpty { tallies.append(rest) }
    }

    /// All of it. **Cost** A pass, and as much memory once more.
    var sum: Tally { Tally.sum(of: tallies) }
}

extension Tally {
    /// Adds the counters of places that are here.
    /// - Returns: the others.
    mutating func absorb(_ other: Tally) -> Tally {
        let isOwn = isKnownUniquelyReferenced(&lines)
        var edited = TallyBuilder(editing: self, isOwn: isOwn)
        self = Tally()
        var rest = TallyBuilder(capacity: other.placeCount)
        var place = 0
        for index in 0..<other.placeCount {
            let line = other.lines[index]
            place = edited.seek(line.order, from: place)
            if place < edited.count, edited.line(at: place).order == line.order {
                edited.add(line, of: other, at: place)
            } else {
                rest.append(Line(order: line.order))
                rest.add(line, of: other, at: rest.count - 1)
            }
        }
        self = edited.finish()
        return rest.finish()
    }
}

/// Sums by place in any order, a few at a time: in groups of 16 days, since an item's places lie together.
private struct PlaceSums {
    private static let groupCountMax = 1 << 12
    private static let capacity = 4 * groupCountMax
    private static let dayBits: UInt64 = 4
    private static let laneCount = Tally.Kind.linedCount

    /// Group, and its first slot + 1; 0 = free.
    private var table = [(group: UInt64, slot: Int)](repeating: (0, 0), count: capacity)
    private var groups: [UInt64] = []
    /// By slot. Whether anything was added.
    private var isUsed: [Bool] = []
    private var rows: [CheckedRow] = []
    /// Rows of the kinds that have a number in a line; fewer than 2^64 are never counted.
    private var rowCounts: [UInt64] = []

    static func group(of order: UInt64) -> UInt64 { order >> dayBits }
    static func place(of order: UInt64) -> Int { Int(order & (1 << dayBits - 1)) }
    private static let groupSlotCount = 1 << Int(dayBits)

    var isFull: Bool { groups.count >= Self.groupCountMax }

    /// The first slot of a group, of which there may be one more.
    mutating func base(of group: UInt64) -> Int {
        let product = group.multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        var index = Int(truncatingIfNeeded: product.low >> 32 ^ product.high) & (Self.capacity - 1)
        while table[index].slot != 0, table[index].group != group {
            index = (index + 1) & (Self.capacity - 1)
        }
        if table[index].slot == 0 {
            table[index] = (group, groups.count * Self.groupSlotCount + 1)
            groups.append(group)
            let count = Self.groupSlotCount
            isUsed.append(contentsOf: repeatElement(false, count: count))
            rows.append(contentsOf: repeatElement(CheckedRow(), count: count))
            rowCounts.append(contentsOf: repeatElement(0, count: count * Self.laneCount))
        }
        return table[index].slot - 1
    }

    mutating func add(_ row: CheckedRow, at slot: Int) {
        isUsed[slot] = true
        rows[slot].add(row)
    }

    /// Adds a line that has no extra.
    mutating func add(_ line: Tally.Line, at slot: Int) {
        isUsed[slot] = true
        let first = slot * Self.laneCount
        for lane in 0..<Self.laneCount { rowCounts[first + lane] &+= line.rowCount(lane) }
    }

    /// What was added since the last time.
    mutating func takeTally() -> Tally {
        var builder = TallyBuilder(capacity: isUsed.count)
        for index in groups.indices.sorted(by: { groups[$0] < groups[$1] }) {
            for place in 0..<Self.groupSlotCount {
                let slot = index * Self.groupSlotCount + place
                guard isUsed[slot] else { continue }
                let order = groups[index] << Self.dayBits | UInt64(place)
                builder.append(row(at: slot), at: Tally.Place(order: order))
            }
        }
        groups.removeAll(keepingCapacity: true)
        isUsed.removeAll(keepingCapacity: true)
        rows.removeAll(keepingCapacity: true)
        rowCounts.removeAll(keepingCapacity: true)
        for index in table.indices { table[index] = (0, 0) }
        return builder.finish()
    }

    private func row(at slot: Int) -> CheckedRow {
        var row = rows[slot]
        for kind in Tally.Kind.allCases where kind.rawValue < Self.laneCount {
            let rowCount = rowCounts[slot * Self.laneCount + kind.rawValue]
            kind.forEachColumn { row.add(rowCount, to: $0.rawValue) }
        }
        return row
    }
}

extension TallyBuilder {
    /// What is in a tally. - Parameter isOwn: whether nobody else has its lines; else they are copied.
    init(editing tally: Tally, isOwn: Bool) {
        memory = isOwn ? tally.lines.box : LineMemoryBox(capacity: tally.placeCount)
        unsafe base = memory.base
        (count, extras, wide) = (tally.placeCount, tally.extras, tally.wide)
        // SAFETY: there is room for so many lines.
        if !isOwn { unsafe base.update(from: tally.lines.base, count: count) }
    }

    /// The first place from `start` on that is not before `order`.
    func seek(_ order: UInt64, from start: Int) -> Int {
        var (low, step) = (start, 1)
        guard low < count, line(at: low).order < order else { return low }
        while low + step < count, line(at: low + step).order < order {
            low += step
            step *= 2
        }
        // Line `low` is before the order, `high` is not, or is the end.
        var high = min(low + step, count)
        while high - low > 1 {
            let middle = (low + high) / 2
            if line(at: middle).order < order { low = middle } else { high = middle }
        }
        return high
    }

    /// Adds what a line of another tally says to a place.
    mutating func add(_ other: Tally.Line, of tally: Tally, at index: Int) {
        var line = line(at: index)
        line.first &+= other.first & ~0xFFFF_FFFF
        line.second &+= other.second
        line.third &+= other.third
        set(line, at: index)
        if line.isLarge { carry(at: index) }
        if other.extra != 0 { add(tally.extras[other.extra - 1], tally.wide, at: index) }
    }

    /// Adds the sums of two tallies; there is room for all of their places.
    mutating func merge(_ first: Tally, _ second: Tally) {
        let (firstCount, secondCount) = (first.placeCount, second.placeCount)
        precondition(count + firstCount + secondCount <= memory.capacity)
        // SAFETY, of all below: places are below the counts, and there is room for every one of them.
        let (a, b) = unsafe (first.lines.base, second.lines.base)
        let target = unsafe base
        var (i, j) = (0, 0)
        while i < firstCount, j < secondCount {
            let (left, right) = unsafe (a[i], b[j])
            // Without a branch: which of the two comes next cannot be foreseen.
            let isLeft: UInt64 = left.order <= right.order ? ~0 : 0
            let isRight: UInt64 = right.order <= left.order ? ~0 : 0
            var line = Tally.Line(order: min(left.order, right.order))
            let (leftFirst, rightFirst) = (left.first & isLeft, right.first & isRight)
            line.first = (leftFirst & ~0xFFFF_FFFF) &+ (rightFirst & ~0xFFFF_FFFF)
            line.second = (left.second & isLeft) &+ (right.second & isRight)
            line.third = (left.third & isLeft) &+ (right.third & isRight)
            let extras = (leftFirst | rightFirst) & 0xFFFF_FFFF
            unsafe target[count] = line
            count &+= 1
            i &-= Int(truncatingIfNeeded: isLeft)
            j &-= Int(truncatingIfNeeded: isRight)
            if extras != 0 || line.isLarge {
                if isLeft != 0 { take(extraOf: left, of: first) }
                if isRight != 0 { take(extraOf: right, of: second) }
                if line.isLarge { carry(at: count - 1) }
            }
        }
        append(first, from: i)
        append(second, from: j)
    }

    /// Adds the places of a tally, those together that get the same order; orders still ascend.
    mutating func mergeNeighbours(_ tally: Tally, order: (UInt64) -> UInt64) {
        let lines = unsafe tally.lines.base
        for index in 0..<tally.placeCount {
            // SAFETY: below placeCount.
            var line = unsafe lines[index]
            line.order = order(line.order)
            let (extra, last) = (line.extra, count - 1)
            line.set(extra: 0)
            if last < 0 || self.line(at: last).order != line.order {
                append(line)
            } else {
                var sum = self.line(at: last)
                sum.first &+= line.first
                sum.second &+= line.second
                sum.third &+= line.third
                set(sum, at: last)
                if sum.isLarge { carry(at: last) }
            }
            if extra != 0 { add(tally.extras[extra - 1], tally.wide, at: count - 1) }
        }
    }

    private mutating func append(_ tally: Tally, from start: Int) {
        for index in start..<tally.placeCount {
            var line = tally.lines[index]
            let extra = line.extra
            line.set(extra: 0)
            append(line)
            if extra != 0 { add(tally.extras[extra - 1], tally.wide, at: count - 1) }
        }
    }

    private mutating func take(extraOf line: Tally.Line, of tally: Tally) {
        guard line.extra != 0 else { return }
        add(tally.extras[line.extra - 1], tally.wide, at: count - 1)
    }
}
