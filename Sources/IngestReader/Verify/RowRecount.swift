// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters. The rule of what counts where is written here
// a second time, from docs/format/run.md, on purpose.

import IngestFormat

/// Says of each row what it counts for, block after block. Owned by one worker of a `verify`.
///
/// **Cost** 128 KiB; about 3 ns a row, and what `RowGather` says. Nothing is allocated for a row.
struct RowRecount {
    struct Outcome {
        /// Rows by verdict, by its raw value.
        var verdicts = [UInt64](repeating: 0, count: Verdict.allCases.count)
        /// Rows that must not be: of events that opted out.
        var optedOutCount = 0
        /// Rows whose attributes name no type or no verdict, of a day on which it was nowhere the row's time, or
        /// money that is not there or below 0.
        var senselessCount = 0
    }

    /// What a row of some attributes does, in 16 bits.
    ///
    /// **Layout** bits 0–3 kind; 4–7 verdict; 8 of a kind; 11 plain: adds one to a number in the
    /// line, and no more; 15 known.
    private struct Rule {
        var bits: UInt16 = 0

        var kind: Int { Int(bits & 15) }
        var verdict: Int { Int(bits >> 4 & 15) }
        var isOfKind: Bool { bits & 1 << 8 != 0 }
        var isPlain: Bool { bits & 1 << 11 != 0 }
    }

    /// Where the count stands in a block.
    private struct Place {
        var row = 0
        /// Rows with money so far.
        var money = 0
        /// Of the block.
        var admissionTime: Int64 = 0
    }

    /// By attributes; found out for each when it comes up.
    private var rules = [Rule](repeating: Rule(), count: 1 << 16)
    /// Rows by verdict in four lanes, so that one popular verdict does not make each row wait for the last.
    private var verdicts = [UInt32](repeating: 0, count: 4 * 16)

    /// Counts all rows of a decoded block.
    /// - Parameters:
    ///   - rows: the columns attributes, key, timestamp, day, revenue and spend are read.
    ///   - admissionTime: of the block.
    mutating func count(
        _ rows: BlockRows, admissionTime: Int64, into gather: RowGather
    ) -> Outcome {
        var outcome = Outcome()
        var place = Place()
        place.admissionTime = min(max(admissionTime, 0), Limits.timestampMicrosecondsMax)
        gather.prepare(rowCount: rows.rowCount)
        for index in verdicts.indices { verdicts[index] = 0 }
        while place.row < rows.rowCount {
            countPlain(rows, from: &place, into: gather)
            if place.row < rows.rowCount { countAny(rows, at: &place, into: gather, &outcome) }
        }
        for index in verdicts.indices where index & 15 < outcome.verdicts.count {
            outcome.verdicts[index & 15] += UInt64(verdicts[index])
        }
        return outcome
    }

    /// Counts rows up to the first that is not plain.
    private mutating func countPlain(
        _ rows: BlockRows, from place: inout Place, into gather: RowGather
    ) {
        unsafe rules.withUnsafeBufferPointer { rules in
            unsafe verdicts.withUnsafeMutableBufferPointer { verdicts in
                // SAFETY: neither is empty; 2^16 rules, 64 verdicts.
                unsafe place.row = Self.countPlain(
                    rows, from: place.row, into: gather, rules.baseAddress!, verdicts.baseAddress!)
            }
        }
    }

    /// - Returns: the first row that is not plain.
    private static func countPlain(
        _ rows: BlockRows, from start: Int, into gather: RowGather,
        _ rules: UnsafePointer<Rule>, _ verdicts: UnsafeMutablePointer<UInt32>
    ) -> Int {
        typealias Code = RowGather.Code
        let (keys, days) = unsafe (UnsafePointer(rows.key), UnsafePointer(rows.day))
        let times = unsafe UnsafePointer(rows.timestamp)
        let attributes = unsafe UnsafePointer(rows.attributes)
        let (codes, ends) = unsafe (gather.codes.base, gather.ends.base)
        let (shift, count) = (gather.itemShift, rows.rowCount)
        var row = start
        while row < count {
            // SAFETY: a decoder filled rowCount elements of the dense columns; a part is below partCount; `prepare` made
            // room for so many codes; verdicts are below 16.
            let rule = unsafe rules[Int(attributes[row])]
            let (key, day) = unsafe (keys[row], days[row])
            guard rule.isPlain, key < Tally.itemCountMax,
                unsafe Self.isPossible(day, at: times[row])
            else { return row }
            let part = min(Int(key &>> shift), RowGather.partCount &- 1)
            var end = unsafe ends[part]
            if RowGather.isChunkEnd(end) { end = gather.beginChunk(behind: end) }
            unsafe codes[Int(end)] =
                UInt64(key) &<< Code.itemShift
                | UInt64(UInt32(bitPattern: day &+ 1)) &<< Code.dayShift
                | UInt64(truncatingIfNeeded: rule.kind)
            unsafe ends[part] = end &+ 1
            unsafe verdicts[(row & 3) << 4 | rule.verdict] &+= 1
            row &+= 1
        }
        return row
    }

    /// Whether it can have been the day at that time somewhere: offsets from UTC are below a day.
    @inline(__always)
    private static func isPossible(_ day: Int32, at time: Int64) -> Bool {
        let dayLength: Int64 = 86_400_000_000
        let passed = time &- Int64(day) &* dayLength &+ dayLength
        return UInt64(bitPattern: passed) < UInt64(3 * dayLength) && isDay(day)
    }

    @inline(__always)
    private static func isDay(_ day: Int32) -> Bool {
        day >= Limits.businessDays.lowerBound && day <= Limits.businessDays.upperBound
    }

    /// Counts one row, whatever it is.
    private mutating func countAny(
        _ rows: BlockRows, at place: inout Place, into gather: RowGather, _ outcome: inout Outcome
    ) {
        let row = place.row
        place.row += 1
        // SAFETY: row < rowCount: a decoder filled so many elements of the dense columns.
        let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
        let (key, day) = unsafe (rows.key[row], rows.day[row])
        guard let type = attributes.type, let verdict = attributes.verdict,
            key < Tally.itemCountMax, Self.isDay(day)
        else {
            outcome.senselessCount += 1
            return
        }
        learn(attributes, type, verdict)
        outcome.verdicts[Int(verdict.rawValue)] += 1
        if attributes.consent == .optOut { outcome.optedOutCount += 1 }
        let isPossible = unsafe Self.isPossible(day, at: rows.timestamp[row])
        // What the clock refused from far away belongs to the day on which it came.
        let isRefused = verdict == .tooOld || verdict == .tooEarly
        if !isPossible && !(isRefused && Self.isPossible(day, at: place.admissionTime)) {
            outcome.senselessCount += 1
        }
        var special = special(attributes, type, verdict)
        if attributes.hasMoney {
            addMoney(rows, at: &place.money, isCounted: verdict == .counted, &special, &outcome)
        }
        gather.add(special, item: key, day: day)
    }

    private func special(
        _ attributes: RowAttributes, _ type: EventType, _ verdict: Verdict
    ) -> RowGather.Special {
        var special = RowGather.Special()
        let rule = rules[Int(attributes.rawValue)]
        if rule.isOfKind {
            special.isUnlined = rule.kind == Tally.Kind.unlined.rawValue
            if !special.isUnlined { special.kind = UInt8(rule.kind) }
        } else {
            special.columns = CounterColumnSet(Self.columns(type, verdict, attributes))
        }
        return special
    }

    private func addMoney(
        _ rows: BlockRows, at index: inout Int, isCounted: Bool, _ special: inout RowGather.Special,
        _ outcome: inout Outcome
    ) {
        guard index < rows.moneyCount else {
            outcome.senselessCount += 1
            return
        }
        // SAFETY: a decoder filled moneyCount elements of the money columns.
        let (revenue, spend) = unsafe (rows.revenue[index], rows.spend[index])
        index += 1
        if revenue < 0 || spend < 0 { outcome.senselessCount += 1 }
        guard isCounted else { return }
        special.revenue = UInt64(clamping: revenue)
        special.spend = UInt64(clamping: spend)
    }

    // MARK: Rules

    /// Notes what rows of these attributes do, so that the next ones can be plain.
    private mutating func learn(
        _ attributes: RowAttributes, _ type: EventType, _ verdict: Verdict
    ) {
        guard rules[Int(attributes.rawValue)].bits == 0 else { return }
        let columns = Self.columns(type, verdict, attributes)
        var bits: UInt16 = 1 << 15 | UInt16(verdict.rawValue) << 4
        if let kind = Tally.Kind.allCases.first(where: { $0.columns == columns }) {
            bits |= 1 << 8 | UInt16(kind.rawValue)
            if kind != .unlined && attributes.consent != .optOut && !attributes.hasMoney {
                bits |= 1 << 11
            }
        }
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
