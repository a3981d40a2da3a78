// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters. The rule of what counts where is written here
// a second time, from docs/format/run.md, on purpose.

import IngestFormat

/// Counts rows, block after block. Owned by one worker of a `verify`.
///
/// **Cost** 128 KiB; about 4 ns a row while its place is in the caches. Nothing is allocated for a row but for
/// the first of its place.
struct RowRecount {
    struct Outcome {
        /// Rows by verdict, by its raw value.
        var verdicts = [UInt64](repeating: 0, count: Verdict.allCases.count)
        /// Rows that must not be: of events that opted out.
        var optedOutCount = 0
        /// Rows whose attributes name no type or no verdict, or money that is not there or below 0.
        var senselessCount = 0
    }

    /// What a row of some attributes does, in 16 bits.
    ///
    /// **Layout** bits 0–3 kind; 4–7 verdict; 8 plain: it is of a kind that has a number of its own; 9 has money; 10 its
    /// money counts; 15 known.
    private struct Rule {
        var bits: UInt16 = 0

        var kind: Int { Int(bits & 15) }
        var verdict: Int { Int(bits >> 4 & 15) }
        var isPlain: Bool { bits & 1 << 8 != 0 }
        var hasMoney: Bool { bits & 1 << 9 != 0 }
        var countsMoney: Bool { bits & 1 << 10 != 0 }
        var isKnown: Bool { bits & 1 << 15 != 0 }
    }

    /// Where the count stands in a block.
    private struct Place {
        var row = 0
        /// Rows with money so far.
        var money = 0
        /// The slots of rows from `row` on, `aheadCount` of them.
        var ahead = InlineArray<64, UInt32>(repeating: 0)
        var aheadCount = 0
        /// Whether the row at hand has to be counted by itself.
        var isHalted = false
        /// Of no meaning: keeps the compiler from leaving out the loads that bring counters near.
        var touched: UInt32 = 0
    }

    /// By attributes; found out for each when it comes up.
    private var rules = [Rule](repeating: Rule(), count: 1 << 16)
    /// Rows by verdict in four lanes, so that one popular verdict does not make each row wait for the last.
    private var verdicts = [UInt32](repeating: 0, count: 4 * 16)

    /// Counts all rows of a decoded block.
    /// - Parameters:
    ///   - rows: the columns attributes, key, day, revenue and spend are read.
    ///   - keyCount: keys are below it.
    mutating func count(_ rows: BlockRows, keyCount: Int, into tally: inout Tally) -> Outcome {
        var outcome = Outcome()
        var place = Place()
        tally.prepare(itemCount: keyCount, rowCount: rows.rowCount)
        for index in verdicts.indices { verdicts[index] = 0 }
        while true {
            Self.lookAhead(rows, from: &place, heads: tally.heads, tally.narrow)
            Self.countPlain(
                rows, from: &place, by: rules, into: &tally.narrow, &tally.slots, &verdicts)
            if place.row >= rows.rowCount { break }
            if place.isHalted { countAny(rows, at: &place, into: &tally, &outcome) }
        }
        for index in verdicts.indices where index & 15 < outcome.verdicts.count {
            outcome.verdicts[index & 15] += UInt64(verdicts[index])
        }
        return outcome
    }

    /// Finds the slots of the next rows, up to the first whose place is not the last one of its key, and touches
    /// their counters: the loop is so short that the processor waits for many of them at once.
    private static func lookAhead(
        _ rows: BlockRows, from place: inout Place, heads: [Tally.Head], _ narrow: [Tally.Narrow]
    ) {
        let (heads, narrow) = (heads.span, narrow.span)
        let first = place.row
        let count = min(rows.rowCount - first, place.ahead.count)
        var touched = place.touched
        var index = 0
        while index < count {
            // SAFETY: first + index < rowCount: a decoder filled so many elements of the dense columns.
            let key = unsafe Int(rows.key[first &+ index])
            let day = unsafe rows.day[first &+ index]
            guard key < heads.count else { break }
            let head = heads[key]
            guard head.slot != 0, head.day == day else { break }
            place.ahead[index] = head.slot &- 1
            touched |= narrow[Int(head.slot &- 1)][0]
            index &+= 1
        }
        place.aheadCount = index
        place.touched = touched
    }

    /// Counts the rows that were looked for, up to the first that is not plain.
    private static func countPlain(
        _ rows: BlockRows, from place: inout Place, by rules: [Rule],
        into narrow: inout [Tally.Narrow], _ slots: inout [Tally.Slot], _ verdicts: inout [UInt32]
    ) {
        let rules = rules.span
        var narrow = narrow.mutableSpan
        var verdicts = verdicts.mutableSpan
        let first = place.row
        var money = place.money
        var index = 0
        while index < place.aheadCount {
            // SAFETY: first + index < rowCount: a decoder filled so many elements of the dense columns.
            let rule = unsafe rules[Int(rows.attributes[first &+ index])]
            guard rule.isPlain else { break }
            let slot = Int(place.ahead[index])
            if rule.hasMoney {
                guard addMoney(rows, at: money, rule, to: &slots[slot]) else { break }
                money &+= 1
            }
            narrow[slot][rule.kind] &+= 1
            verdicts[(index & 3) << 4 | rule.verdict] &+= 1
            index &+= 1
        }
        (place.row, place.money) = (first &+ index, money)
        place.isHalted = index < place.ahead.count
    }

    /// - Returns: `false`, with nothing added, for money that is not there or below 0, or a sum that does not fit.
    @inline(__always)
    private static func addMoney(
        _ rows: BlockRows, at index: Int, _ rule: Rule, to slot: inout Tally.Slot
    ) -> Bool {
        guard index < rows.moneyCount else { return false }
        // SAFETY: a decoder filled moneyCount elements of the money columns.
        let (revenue, spend) = unsafe (rows.revenue[index], rows.spend[index])
        guard revenue >= 0, spend >= 0 else { return false }
        guard rule.countsMoney else { return true }
        let (revenueSum, revenueOverflow) = slot.revenue.addingReportingOverflow(UInt64(revenue))
        let (spendSum, spendOverflow) = slot.spend.addingReportingOverflow(UInt64(spend))
        guard !revenueOverflow, !spendOverflow else { return false }
        slot.revenue = revenueSum
        slot.spend = spendSum
        return true
    }

    /// Counts one row, whatever it is.
    private mutating func countAny(
        _ rows: BlockRows, at place: inout Place, into tally: inout Tally, _ outcome: inout Outcome
    ) {
        let row = place.row
        place.row += 1
        // SAFETY: row < rowCount: a decoder filled so many elements of the dense columns.
        let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
        let key = unsafe rows.key[row]
        let day = unsafe rows.day[row]
        guard let type = attributes.type, let verdict = attributes.verdict,
            key < Tally.itemCountMax
        else {
            outcome.senselessCount += 1
            return
        }
        learn(attributes, type, verdict)
        outcome.verdicts[Int(verdict.rawValue)] += 1
        if attributes.consent == .optOut { outcome.optedOutCount += 1 }
        let slot = tally.slot(item: key, day: day)
        let rule = rules[Int(attributes.rawValue)]
        if rule.isPlain, let kind = Tally.Kind(rawValue: rule.kind) {
            tally.add(1, of: kind, at: slot)
        } else {
            for column in Self.columns(type, verdict, attributes) {
                tally.add(1, to: column.rawValue, at: slot)
            }
        }
        guard attributes.hasMoney else { return }
        guard place.money < rows.moneyCount else {
            outcome.senselessCount += 1
            return
        }
        // SAFETY: a decoder filled moneyCount elements of the money columns.
        let (revenue, spend) = unsafe (rows.revenue[place.money], rows.spend[place.money])
        place.money += 1
        if revenue < 0 || spend < 0 { outcome.senselessCount += 1 }
        guard verdict == .counted else { return }
        tally.add(UInt64(clamping: revenue), to: CounterColumn.revenueMicros.rawValue, at: slot)
        tally.add(UInt64(clamping: spend), to: CounterColumn.spendMicros.rawValue, at: slot)
    }

    // MARK: Rules

    /// Notes what rows of these attributes do, so that the next ones can be plain.
    private mutating func learn(
        _ attributes: RowAttributes, _ type: EventType, _ verdict: Verdict
    ) {
        guard !rules[Int(attributes.rawValue)].isKnown else { return }
        let columns = Self.columns(type, verdict, attributes)
        var bits: UInt16 = 1 << 15 | UInt16(verdict.rawValue) << 4
        if let kind = Tally.Kind.allCases.first(where: { $0.columns == columns }),
            attributes.consent != .optOut
        {
            bits |= 1 << 8 | UInt16(kind.rawValue)
        }
        if attributes.hasMoney { bits |= 1 << 9 }
        if attributes.hasMoney && verdict == .counted { bits |= 1 << 10 }
        rules[Int(attributes.rawValue)] = Rule(bits: bits)
    }

    private static func columns(
        _ type: EventType, _ verdict: Verdict, _ attributes: RowAttributes
    ) -> [CounterColumn] {
        var columns: [CounterColumn] = []
        switch (verdict, type) {
        case (.counted, .impression):
            columns = [.impressions]
            columns.append(attributes.isMeasured ? .viewableImpressions : .undeterminedImpressions)
        case (.counted, .click): columns = [.clicks]
        case (.counted, .redemption): columns = [.redemptions]
        case (.notViewable, .impression): columns = [.notViewableImpressions]
        case (.invalidTraffic, .impression): columns = [.invalidImpressions]
        case (.invalidTraffic, .click): columns = [.invalidClicks]
        case (.invalidTraffic, .redemption): columns = [.invalidRedemptions]
        case (.duplicate, .impression), (.sessionRepeat, .impression):
            columns = [.duplicateImpressions]
        case (.duplicate, .click), (.sessionRepeat, .click): columns = [.duplicateClicks]
        case (.duplicate, .redemption), (.sessionRepeat, .redemption):
            columns = [.duplicateRedemptions]
        case (.conflict, .impression): columns = [.conflictImpressions]
        case (.conflict, .click): columns = [.conflictClicks]
        case (.conflict, .redemption): columns = [.conflictRedemptions]
        case (.undetermined, .impression):
            columns = [.refusedImpressions]
            if !attributes.isMeasured { columns.append(.undeterminedImpressions) }
        case (_, .impression): columns = [.refusedImpressions]
        case (_, .click): columns = [.refusedClicks]
        case (_, .redemption): columns = [.refusedRedemptions]
        }
        let isComparable = attributes.hasEventID || attributes.hasSession
        if verdict == .counted && (attributes.isOutsideWindow || !isComparable) {
            columns.append(.uncheckedEvents)
        }
        return columns
    }
}
