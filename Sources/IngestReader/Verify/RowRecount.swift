// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters. The rule of what counts where is written here
// a second time, from docs/format/run.md, on purpose.

import IngestFormat

/// Counts rows, block after block.
struct RowRecount {
    struct Outcome {
        /// Rows by verdict, by its raw value.
        var verdicts = [UInt64](repeating: 0, count: Verdict.allCases.count)
        /// Rows that must not be: of events that opted out.
        var optedOutCount = 0
        /// Rows whose attributes name no type or no verdict, or money that is not there or below 0.
        var senselessCount = 0
    }

    /// By attributes: place in `rules` of what a row adds one to, found out once for each that comes up;
    /// 0 = not yet.
    private var ruleOf = [UInt8](repeating: 0, count: 1 << 16)
    private var rules: [[Int]] = [[]]

    mutating func count(
        _ rows: BlockRows, names: inout RecountNames, into tally: inout Tally
    ) -> Outcome {
        var outcome = Outcome()
        var money = 0
        for row in 0..<rows.rowCount {
            // SAFETY: a decoder filled rowCount elements of the dense columns.
            let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
            let key = unsafe rows.key[row]
            let day = unsafe rows.day[row]
            guard attributes.type != nil, let verdict = attributes.verdict else {
                outcome.senselessCount += 1
                continue
            }
            outcome.verdicts[Int(verdict.rawValue)] += 1
            if attributes.consent == .optOut { outcome.optedOutCount += 1 }
            let place = tally.index(item: names.pair(ofKey: key), day: day)
            for column in columns(attributes) { tally.add(1, to: column, at: place) }
            guard attributes.hasMoney else { continue }
            guard money < rows.moneyCount else {
                outcome.senselessCount += 1
                continue
            }
            // SAFETY: a decoder filled moneyCount elements of the money columns.
            let revenue = unsafe rows.revenue[money]
            let spend = unsafe rows.spend[money]
            money += 1
            if revenue < 0 || spend < 0 { outcome.senselessCount += 1 }
            guard verdict == .counted else { continue }
            tally.add(
                UInt64(clamping: revenue), to: CounterColumn.revenueMicros.rawValue, at: place)
            tally.add(UInt64(clamping: spend), to: CounterColumn.spendMicros.rawValue, at: place)
        }
        return outcome
    }

    private mutating func columns(_ attributes: RowAttributes) -> [Int] {
        let known = Int(ruleOf[Int(attributes.rawValue)])
        if known > 0 { return rules[known] }
        guard let type = attributes.type, let verdict = attributes.verdict else { return [] }
        let columns = Self.columns(type, verdict, attributes).map(\.rawValue)
        let place = rules.firstIndex(of: columns) ?? rules.count
        if place == rules.count { rules.append(columns) }
        ruleOf[Int(attributes.rawValue)] = UInt8(place)
        return columns
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
