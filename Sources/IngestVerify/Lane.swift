// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters. The rule of what counts where is written here
// a second time, from docs/format/run.md, on purpose.
import IngestFormat

/// What rows of one type and outcome are: the kinds of rows that are counted apart.
enum Lane {
    static let count = 64
    /// Of attributes that no row may have.
    static let none: UInt8 = 255

    /// Of one type. A counted row has three more bits: undetermined or orphan, unchecked, overflow.
    private enum Outcome: Int, CaseIterable {
        case counted = 0
        case notViewable = 8
        case invalid, duplicate, conflict, refused, refusedUndetermined
        static let count = 16
    }
    private static let (markedBit, uncheckedBit, overflowBit) = (1, 2, 4)

    /// By attributes.
    static let ofAttributes: [UInt8] = (0...UInt16.max).map {
        let attributes = RowAttributes(rawValue: $0)
        guard attributes.isValid, let type = attributes.type, let verdict = attributes.verdict
        else { return none }
        let outcome = outcome(type, verdict, attributes)
        return UInt8(Int(type.rawValue - 1) * Outcome.count + outcome)
    }

    /// By lane: the columns to which a row of it adds one.
    static let columns: [[Int]] = (0..<count).map { lane in
        let (type, number) = (lane / Outcome.count, lane % Outcome.count)
        guard type < 3 else { return [] }
        if let outcome = Outcome(rawValue: number), outcome != .counted {
            return columns(type, outcome).map(\.rawValue)
        }
        return number < Outcome.notViewable.rawValue
            ? columns(type, ofCounted: number).map(\.rawValue) : []
    }

    private static func outcome(
        _ type: EventType, _ verdict: Verdict, _ attributes: RowAttributes
    ) -> Int {
        let isUndetermined = type == .impression && !attributes.isMeasured
        let outcome: Outcome
        switch verdict {
        case .counted:
            let bits = attributes.rawValue
            let isOrphan = type != .impression && bits & RowAttributes.orphan != 0
            return (isUndetermined || isOrphan ? markedBit : 0)
                | (bits & RowAttributes.unchecked != 0 ? uncheckedBit : 0)
                | (bits & RowAttributes.overflow != 0 ? overflowBit : 0)
        case .notViewable where type == .impression: outcome = .notViewable
        case .invalidTraffic: outcome = .invalid
        case .duplicate, .sessionRepeat: outcome = .duplicate
        case .conflict: outcome = .conflict
        case .undetermined where isUndetermined: outcome = .refusedUndetermined
        default: outcome = .refused
        }
        return outcome.rawValue
    }

    /// The column of a type, of three that follow each other.
    private static func column(_ type: Int, from first: CounterColumn) -> CounterColumn {
        CounterColumn(rawValue: first.rawValue + type) ?? first
    }

    private static func columns(_ type: Int, ofCounted bits: Int) -> [CounterColumn] {
        var columns = [column(type, from: .impressions)]
        let isMarked = bits & markedBit != 0
        switch type {
        case 0: columns.append(isMarked ? .undeterminedImpressions : .viewableImpressions)
        case 1: if isMarked { columns.append(.orphanClicks) }
        default: if isMarked { columns.append(.orphanRedemptions) }
        }
        if bits & uncheckedBit != 0 { columns.append(.uncheckedEvents) }
        if bits & overflowBit != 0 { columns.append(.overflowEvents) }
        return columns
    }

    private static func columns(_ type: Int, _ outcome: Outcome) -> [CounterColumn] {
        switch outcome {
        case .counted: []
        case .notViewable: [.notViewableImpressions]
        case .invalid: [column(type, from: .invalidImpressions)]
        case .duplicate: [column(type, from: .duplicateImpressions)]
        case .conflict: [column(type, from: .conflictImpressions)]
        case .refused: [column(type, from: .refusedImpressions)]
        case .refusedUndetermined: [.refusedImpressions, .undeterminedImpressions]
        }
    }
}
