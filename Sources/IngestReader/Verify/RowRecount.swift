// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters. The rule of what counts where is written here
// a second time, from docs/format/run.md, on purpose.

import CIngestLinux
import IngestFormat

/// Counts rows, block after block. Owned by one worker of a `verify`.
///
/// **Cost** 128 KiB; about 3 ns a row while its place is in the caches. Nothing is allocated for a row but for
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
        /// The rows whose slots were looked for, from `start` on. A slot is 0 where the item had none then.
        var ahead = InlineArray<256, UInt32>(repeating: 0)
        var start = 0
        var end = 0
    }

    /// What the loop over rows reads and writes; valid inside one call.
    @unsafe private struct Hot {
        /// Of the tally: by item, more than any row's key; by slot; by the place in a line.
        let heads: UnsafePointer<UInt32>
        let lines: UnsafeMutablePointer<Tally.Line>
        let money: UnsafeMutableBufferPointer<Tally.Money>
        /// By attributes.
        let rules: UnsafePointer<Rule>
        /// By verdict, four lanes.
        let verdicts: UnsafeMutablePointer<UInt32>
    }

    /// By attributes; found out for each when it comes up.
    private var rules = [Rule](repeating: Rule(), count: 1 << 16)
    /// Rows by verdict in four lanes, so that one popular verdict does not make each row wait for the last.
    private var verdicts = [UInt32](repeating: 0, count: 4 * 16)

    /// Counts all rows of a decoded block.
    /// - Parameters:
    ///   - rows: the columns attributes, key, day, revenue and spend are read.
    ///   - keyCount: keys are below it, or the rows are counted one by one.
    mutating func count(_ rows: BlockRows, keyCount: Int, into tally: inout Tally) -> Outcome {
        var outcome = Outcome()
        var place = Place()
        tally.prepare(itemCount: keyCount, rowCount: rows.rowCount)
        let isBounded = Self.keyBound(rows) <= tally.heads.count
        for index in verdicts.indices { verdicts[index] = 0 }
        while place.row < rows.rowCount {
            if isBounded { countPlain(rows, from: &place, into: &tally) }
            if place.row < rows.rowCount { countAny(rows, at: &place, into: &tally, &outcome) }
        }
        for index in verdicts.indices where index & 15 < outcome.verdicts.count {
            outcome.verdicts[index & 15] += UInt64(verdicts[index])
        }
        return outcome
    }

    /// A power of two above all keys; more than any tally has heads where a row is of no day.
    private static func keyBound(_ rows: BlockRows) -> Int {
        var bits: UInt32 = 0
        var hasNoDay = false
        for row in 0..<rows.rowCount {
            // SAFETY: a decoder filled rowCount elements of the dense columns.
            unsafe bits |= rows.key[row]
            let isNone = unsafe rows.day[row] == Tally.noDay
            hasNoDay = hasNoDay || isNone
        }
        return hasNoDay ? .max : 1 << (UInt32.bitWidth - bits.leadingZeroBitCount)
    }

    /// Counts rows up to the first that is not plain.
    private mutating func countPlain(
        _ rows: BlockRows, from place: inout Place, into tally: inout Tally
    ) {
        unsafe tally.withHotMemory { heads, lines, money in
            unsafe rules.withUnsafeBufferPointer { rules in
                unsafe verdicts.withUnsafeMutableBufferPointer { verdicts in
                    // SAFETY: none of the arrays is empty; 2^16 rules, 64 verdicts.
                    let hot = unsafe Hot(
                        heads: heads, lines: lines, money: money, rules: rules.baseAddress!,
                        verdicts: verdicts.baseAddress!)
                    var isHalted = false
                    while !isHalted, place.row < rows.rowCount {
                        if place.row >= place.end { unsafe Self.lookAhead(rows, &place, hot) }
                        isHalted = unsafe !Self.countPlain(rows, from: &place, hot)
                    }
                }
            }
        }
    }

    /// Finds the slots of the next rows and asks for their lines: the loop is so short that the processor
    /// waits for many of them at once.
    private static func lookAhead(_ rows: BlockRows, _ place: inout Place, _ hot: Hot) {
        let (first, last) = (place.row, rows.rowCount &- 1)
        let count = min(rows.rowCount - first, place.ahead.count)
        let (keys, heads, lines) = unsafe (UnsafePointer(rows.key), hot.heads, hot.lines)
        var ahead = place.ahead.mutableSpan
        for index in 0..<count {
            // SAFETY: rows up to `last` are there, and `keyBound` held their keys against the heads.
            unsafe ingest_prefetch(heads + Int(keys[min(first &+ index &+ 32, last)]))
            let slot = unsafe heads[Int(keys[first &+ index])]
            unsafe ahead[unchecked: index] = slot
            unsafe ingest_prefetch(
                UnsafeRawPointer(lines + Int(slot)) + Tally.Lane.day &* MemoryLayout<UInt32>.stride)
        }
        place.start = first
        place.end = first + count
    }

    /// Counts the rows that were looked for.
    /// - Returns: `false` at a row that is not plain, or whose place is not the one that was found.
    private static func countPlain(
        _ rows: BlockRows, from place: inout Place, _ hot: Hot
    ) -> Bool {
        let days = unsafe UnsafePointer(rows.day)
        let attributes = unsafe UnsafePointer(rows.attributes)
        let (rules, verdicts) = unsafe (hot.rules, hot.verdicts)
        let lines = unsafe UnsafeMutableRawPointer(hot.lines).assumingMemoryBound(to: UInt32.self)
        let ahead = place.ahead.span
        let (start, end) = (place.start, place.end)
        var (row, money) = (place.row, place.money)
        defer { (place.row, place.money) = (row, money) }
        while row < end {
            // SAFETY: row < end ≤ rowCount; slots lead to lines, that of no item to line 0, of which no
            // row's day is; a rule's kind is a lane of the line, its verdict below 16.
            let line = unsafe lines + Int(ahead[unchecked: row &- start]) &* 16
            let rule = unsafe rules[Int(attributes[row])]
            let isSame = unsafe line[Tally.Lane.day] == UInt32(bitPattern: days[row])
            guard isSame, rule.isPlain else { return false }
            if rule.hasMoney {
                guard unsafe addMoney(rows, at: money, rule, line, hot) else { return false }
                money &+= 1
            }
            unsafe line[Tally.Lane.kinds &+ rule.kind] &+= 1
            unsafe verdicts[(row & 3) << 4 | rule.verdict] &+= 1
            row &+= 1
        }
        return true
    }

    /// - Returns: `false`, with nothing added, for money that is not there or below 0, the first of its place, or
    ///   a sum that does not fit.
    @inline(__always)
    private static func addMoney(
        _ rows: BlockRows, at index: Int, _ rule: Rule, _ line: UnsafeMutablePointer<UInt32>,
        _ hot: Hot
    ) -> Bool {
        guard index < rows.moneyCount else { return false }
        // SAFETY: a decoder filled moneyCount elements of the money columns; a line's money is one of the tally's.
        let (revenue, spend) = unsafe (rows.revenue[index], rows.spend[index])
        guard revenue >= 0, spend >= 0 else { return false }
        guard rule.countsMoney else { return true }
        let place = unsafe Int(line[Tally.Lane.money]) &- 1
        guard place >= 0 else { return false }
        let sums = unsafe hot.money[place]
        let (revenueSum, revenueOverflow) = sums.revenue.addingReportingOverflow(UInt64(revenue))
        let (spendSum, spendOverflow) = sums.spend.addingReportingOverflow(UInt64(spend))
        guard !revenueOverflow, !spendOverflow else { return false }
        unsafe hot.money[place] = Tally.Money(revenue: revenueSum, spend: spendSum)
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

extension Tally {
    /// The memory that rows are counted in, for the length of the call; none of it moves.
    fileprivate mutating func withHotMemory(
        _ body: (
            UnsafePointer<UInt32>, UnsafeMutablePointer<Line>, UnsafeMutableBufferPointer<Money>
        ) -> Void
    ) {
        let heads = heads
        unsafe heads.withUnsafeBufferPointer { heads in
            unsafe lines.withUnsafeMutableBufferPointer { lines in
                unsafe money.withUnsafeMutableBufferPointer { money in
                    guard let headBase = heads.baseAddress, let lineBase = lines.baseAddress else {
                        return
                    }
                    unsafe body(headBase, lineBase, money)
                }
            }
        }
    }
}
