// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters. The rule of what counts where is written here
// a second time, from docs/format/run.md, on purpose.
import IngestFormat

/// What rows of one type and outcome are: the kinds of rows that are counted apart.
enum Lane {
    static let count = 32
    /// Of attributes that no row may have.
    static let none: UInt8 = 255

    private enum Outcome: Int, CaseIterable {
        case counted, unchecked, undetermined, undeterminedUnchecked
        case notViewable, invalid, duplicate, conflict, refused, refusedUndetermined
    }

    /// By attributes.
    static let ofAttributes: [UInt8] = (0...UInt16.max).map {
        let attributes = RowAttributes(rawValue: $0)
        guard attributes.isValid, let type = attributes.type, let verdict = attributes.verdict
        else { return none }
        let outcome = outcome(type, verdict, attributes)
        return UInt8(Int(type.rawValue - 1) * Outcome.allCases.count + outcome.rawValue)
    }

    /// By lane: the columns to which a row of it adds one.
    static let columns: [[Int]] = (0..<count).map { lane in
        let (type, number) = (lane / Outcome.allCases.count, lane % Outcome.allCases.count)
        guard type < 3, let outcome = Outcome(rawValue: number) else { return [] }
        return columns(type, outcome).map(\.rawValue)
    }

    private static func outcome(
        _ type: EventType, _ verdict: Verdict, _ attributes: RowAttributes
    ) -> Outcome {
        let isUndetermined = type == .impression && !attributes.isMeasured
        switch verdict {
        case .counted:
            let isComparable = attributes.hasEventID || attributes.hasSession
            let isUnchecked = attributes.isOutsideWindow || !isComparable
            return isUndetermined
                ? (isUnchecked ? .undeterminedUnchecked : .undetermined)
                : (isUnchecked ? .unchecked : .counted)
        case .notViewable where type == .impression: return .notViewable
        case .invalidTraffic: return .invalid
        case .duplicate, .sessionRepeat: return .duplicate
        case .conflict: return .conflict
        case .undetermined where isUndetermined: return .refusedUndetermined
        default: return .refused
        }
    }

    private static func columns(_ type: Int, _ outcome: Outcome) -> [CounterColumn] {
        func of(_ first: CounterColumn) -> CounterColumn {
            CounterColumn(rawValue: first.rawValue + type) ?? first
        }
        let counted: [CounterColumn] =
            type == 0 ? [.impressions, .viewableImpressions] : [of(.impressions)]
        switch outcome {
        case .counted: return counted
        case .unchecked: return counted + [.uncheckedEvents]
        case .undetermined: return [.impressions, .undeterminedImpressions]
        case .undeterminedUnchecked:
            return [.impressions, .undeterminedImpressions, .uncheckedEvents]
        case .notViewable: return [.notViewableImpressions]
        case .invalid: return [of(.invalidImpressions)]
        case .duplicate: return [of(.duplicateImpressions)]
        case .conflict: return [of(.conflictImpressions)]
        case .refused: return [of(.refusedImpressions)]
        case .refusedUndetermined: return [.refusedImpressions, .undeterminedImpressions]
        }
    }
}
