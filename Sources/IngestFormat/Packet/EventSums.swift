// [packet] → decode → ring → [admit] → block → [segment] → compaction → snapshot → query

/// What became of the events of a sender epoch that are durable, as an answer to a heartbeat tells it.
///
/// **Layout** counted u64, repeated u64, refused u64: its low 56 bits are the events, its high 8 the raw value of the
/// `Verdict` by which most of them were refused; 0 where none was.
package struct EventSums: Equatable, Sendable, BitwiseCopyable {
    package static let byteCount = 24
    private static let refusedMax: UInt64 = 1 << 56 - 1

    package private(set) var counted: UInt64 = 0
    package private(set) var repeated: UInt64 = 0
    package private(set) var refused: UInt64 = 0
    private var reasonCode: UInt8 = 0

    package init() {}

    /// Sums up events by verdict, indexed by its raw value.
    package init(_ events: [UInt64]) {
        var most: UInt64 = 0
        for (code, count) in events.enumerated() where count > 0 {
            guard let verdict = Verdict(rawValue: UInt8(code)) else { continue }
            switch verdict {
            case .counted: counted = count
            case .duplicate, .conflict, .sessionRepeat: repeated = repeated.saturatingSum(count)
            default:
                refused = min(refused.saturatingSum(count), Self.refusedMax)
                if count > most { (most, reasonCode) = (count, UInt8(code)) }
            }
        }
    }

    /// From its three words.
    package init(counted: UInt64, repeated: UInt64, refusedAndReason: UInt64) {
        self.counted = counted
        self.repeated = repeated
        refused = refusedAndReason & Self.refusedMax
        reasonCode = UInt8(refusedAndReason >> 56)
    }

    /// By which most were refused; `nil` where none was, and for a code that this version does not know.
    package var reason: Verdict? {
        guard refused > 0, let verdict = Verdict(rawValue: reasonCode), verdict.isRefusal else {
            return nil
        }
        return verdict
    }

    /// Events that became anything.
    package var total: UInt64 { counted.saturatingSum(repeated).saturatingSum(refused) }

    var refusedAndReason: UInt64 { UInt64(reasonCode) << 56 | refused }
}
