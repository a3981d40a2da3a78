// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat

/// Makes a tally, place after place in ascending order. Owned by one thread.
///
/// **Cost** The memory of the tally; of the address space, as many lines as there may be.
@safe struct TallyBuilder: ~Copyable {
    let memory: LineMemoryBox
    /// Of the memory: that every access to an object's own property is checked costs more than the access.
    var base: UnsafeMutablePointer<Tally.Line>
    var count = 0
    var extras: [Tally.Extra] = []
    var wide: [UInt64] = []

    /// - Parameter capacity: how many places there are at most; `append` of a row goes beyond it.
    init(capacity: Int) {
        memory = LineMemoryBox(capacity: capacity)
        unsafe base = memory.base
    }

    consuming func finish() -> Tally {
        guard count > 0 else { return Tally() }
        return Tally(lines: TallyLines(memory, count: count), extras: extras, wide: wide)
    }

    // MARK: Whole places

    /// Adds a place behind the others.
    mutating func append(_ row: CheckedRow, at place: Tally.Place) {
        if count == memory.capacity {
            memory.reserve(2 * count, keeping: count)
            unsafe base = memory.base
        }
        precondition(count == 0 || place.order > line(at: count - 1).order)
        append(Tally.Line(order: place.order))
        let index = count - 1
        guard let kinds = row.kinds else {
            for column in 0..<Tally.columnCount {
                add(row.counters.values[column], to: column, at: index)
            }
            if row.overflows != 0 { extras[extra(at: index)].overflows |= row.overflows }
            return
        }
        for (kind, rowCount) in kinds {
            var line = line(at: index)
            line.set(kind.rawValue, to: rowCount)
            set(line, at: index)
        }
        for column in [CounterColumn.revenueMicros, .spendMicros] {
            add(row.counters[column], to: column.rawValue, at: index)
        }
    }

    /// Adds a line behind the others; there is room.
    mutating func append(_ line: Tally.Line) {
        precondition(count < memory.capacity)
        // SAFETY: below the capacity.
        unsafe base[count] = line
        count += 1
    }

    func line(at index: Int) -> Tally.Line {
        precondition(index >= 0 && index < count)
        // SAFETY: below count.
        return unsafe base[index]
    }

    mutating func set(_ line: Tally.Line, at index: Int) {
        precondition(index >= 0 && index < count)
        // SAFETY: below count.
        unsafe base[index] = line
    }

    // MARK: Parts of a place

    mutating func add(_ amount: UInt64, to column: Int, at index: Int) {
        guard amount != 0 else { return }
        let extra = extra(at: index)
        let overflow: Bool
        switch CounterColumn(rawValue: column) {
        case .revenueMicros:
            (extras[extra].revenue, overflow) = extras[extra].revenue
                .addingReportingOverflow(amount)
        case .spendMicros:
            (extras[extra].spend, overflow) = extras[extra].spend.addingReportingOverflow(amount)
        default:
            let place = wideRow(of: extra) + column
            (wide[place], overflow) = wide[place].addingReportingOverflow(amount)
        }
        if overflow { extras[extra].overflows |= 1 << UInt32(column) }
    }

    /// Adds rows of the kind that has no number in the line.
    mutating func add(unlined rowCount: UInt32, at index: Int) {
        let extra = extra(at: index)
        let (sum, overflow) = extras[extra].unlinedRowCount.addingReportingOverflow(rowCount)
        guard overflow else { return extras[extra].unlinedRowCount = sum }
        add(UInt64(rowCount), ofColumnsOf: .unlined, at: index)
    }

    /// Moves numbers of rows that are too large for a finished line.
    mutating func carry(at index: Int) {
        var line = line(at: index)
        for lane in 0..<Tally.Kind.linedCount {
            let rowCount = line.rowCount(lane)
            guard rowCount > UInt64(Tally.Line.countMax), let kind = Tally.Kind(rawValue: lane)
            else { continue }
            line.set(lane, to: 0)
            set(line, at: index)
            add(rowCount, ofColumnsOf: kind, at: index)
            line = self.line(at: index)
        }
    }

    /// Adds an extra of another tally to a place.
    mutating func add(_ other: Tally.Extra, _ otherWide: [UInt64], at index: Int) {
        add(other.revenue, to: CounterColumn.revenueMicros.rawValue, at: index)
        add(other.spend, to: CounterColumn.spendMicros.rawValue, at: index)
        if other.unlinedRowCount != 0 { add(unlined: other.unlinedRowCount, at: index) }
        if other.wide != 0 {
            let base = (Int(other.wide) - 1) * Tally.columnCount
            for column in 0..<Tally.columnCount {
                add(otherWide[base + column], to: column, at: index)
            }
        }
        if other.overflows != 0 { extras[extra(at: index)].overflows |= other.overflows }
    }

    private mutating func add(
        _ rowCount: UInt64, ofColumnsOf kind: Tally.Kind, at index: Int
    ) {
        for column in kind.columns { add(rowCount, to: column.rawValue, at: index) }
    }

    /// The place's extra, made if it has none.
    private mutating func extra(at index: Int) -> Int {
        var line = line(at: index)
        if line.extra == 0 {
            extras.append(Tally.Extra())
            line.set(extra: extras.count)
            set(line, at: index)
        }
        return line.extra - 1
    }

    private mutating func wideRow(of extra: Int) -> Int {
        if extras[extra].wide == 0 {
            wide.append(contentsOf: repeatElement(0, count: Tally.columnCount))
            extras[extra].wide = UInt32(wide.count / Tally.columnCount)
        }
        return (Int(extras[extra].wide) - 1) * Tally.columnCount
    }
}

extension CheckedRow {
    /// The rows of the kinds that these counters are of, money apart; `nil` if they are of other kinds too, or too many.
    fileprivate var kinds: [(kind: Tally.Kind, rowCount: UInt16)]? {
        guard overflows == 0 else { return nil }
        var rest = counters
        rest[.revenueMicros] = 0
        rest[.spendMicros] = 0
        let kinds: [(Tally.Kind, CounterColumn)] = [
            (.viewable, .viewableImpressions), (.undetermined, .undeterminedImpressions),
            (.click, .clicks), (.redemption, .redemptions),
            (.notViewable, .notViewableImpressions), (.duplicateImpression, .duplicateImpressions),
            (.invalidImpression, .invalidImpressions),
        ]
        var found: [(kind: Tally.Kind, rowCount: UInt16)] = []
        for (kind, column) in kinds where counters[column] != 0 {
            let rowCount = counters[column]
            guard rowCount <= UInt64(Tally.Line.countMax) else { return nil }
            found.append((kind, UInt16(rowCount)))
            kind.forEachColumn { rest[$0] &-= rowCount }
        }
        return rest == CounterRow() ? found : nil
    }
}
