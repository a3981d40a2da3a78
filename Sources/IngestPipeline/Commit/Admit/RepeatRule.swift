// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// The rule of repeats: the same (business, type, event id) counts once, as far back as the index reaches. Owned by the
/// commit queue; made at start from the rows of the log.
///
/// Only events that would count are asked about, and only they claim their id.
package struct RepeatRule: ~Copyable {
    struct Answer {
        let verdict: Verdict
        /// Counted or refused although an older event with its id may have been forgotten.
        let isOutsideWindow: Bool
    }

    private var index: DedupIndex
    private let policy: CountingPolicy
    /// What was forgotten before the index was made, as `completeSince`.
    private var completeSinceStart: Int64

    /// - Parameter completeSince: the newest commit time of rows with ids that `index` was not told of.
    package init(_ index: consuming DedupIndex, _ policy: CountingPolicy, completeSince: Int64) {
        self.index = index
        self.policy = policy
        completeSinceStart = completeSince
    }

    /// Of a new directory.
    package static func empty(_ policy: CountingPolicy = CountingPolicy()) -> RepeatRule {
        RepeatRule(
            DedupIndex(
                keyCountMax: policy.keyCountMax, windowMicroseconds: policy.windowMicroseconds),
            policy, completeSince: .min)
    }

    /// The newest commit time of a claim that is no longer known, µs since 1970; `Int64.min` if all are.
    var completeSinceMicroseconds: Int64 {
        max(completeSinceStart, index.completeSinceMicroseconds)
    }

    /// To be called for each block, before its first row.
    mutating func open(admissionTime: Int64) { index.open(admissionTime: admissionTime) }

    /// Starts the load that `judge` of the same hash will wait for.
    @inline(__always)
    mutating func prefetch(_ hash: UInt64) { index.prefetch(hash) }

    /// Likewise, once that load is done: for what lies further on.
    @inline(__always)
    mutating func prefetchFurther(_ hash: UInt64) { index.prefetchFurther(hash) }

    /// To be called between packets, now and then.
    mutating func goOn() { index.goOn() }

    /// Judges an event that would count.
    ///
    /// - Parameters:
    ///   - hash: the keyed hash of (business, type, event id).
    ///   - check: of what a duplicate has in common with it.
    @inline(__always)
    mutating func judge(_ hash: UInt64, check: UInt16, timestamp: Int64) -> Answer {
        // No event is committed before its own time less the lead.
        let isOutside = timestamp &- policy.leadMicrosecondsMax <= completeSinceMicroseconds
        let answer =
            isOutside && policy.refusesOutsideWindow
            ? index.find(hash, check: check) : index.claim(hash, check: check)
        switch answer {
        case .first:
            return Answer(
                verdict: isOutside && policy.refusesOutsideWindow ? .outsideWindow : .counted,
                isOutsideWindow: isOutside)
        case .duplicate: return Answer(verdict: .duplicate, isOutsideWindow: false)
        case .conflict: return Answer(verdict: .conflict, isOutsideWindow: false)
        }
    }

    /// Whether an id was counted, without a claim of it; `nil` if not.
    mutating func verdict(onRepeat hash: UInt64, check: UInt16) -> Verdict? {
        switch index.find(hash, check: check) {
        case .first: nil
        case .duplicate: .duplicate
        case .conflict: .conflict
        }
    }

    /// Whether `judge` refuses an event whose reward is not known, so that it is no duplicate.
    mutating func refusesNew(_ hash: UInt64, timestamp: Int64) -> Bool {
        guard policy.refusesOutsideWindow,
            timestamp &- policy.leadMicrosecondsMax <= completeSinceMicroseconds
        else { return false }
        return verdict(onRepeat: hash, check: 0) == nil
    }

    /// 16 bits of what a repeat must have in common with the first to be a duplicate: reward and business, amounts.
    @inline(__always)
    static func check(key: UInt32, revenue: Int64, spend: Int64) -> UInt16 {
        var bits = UInt64(key)
        // Mixed one after the other: a sum of them would be the same for many pairs.
        if revenue | spend != 0 {
            bits ^= SplitMix.finish(
                SplitMix.finish(UInt64(bitPattern: revenue)) ^ UInt64(bitPattern: spend))
        }
        return UInt16(truncatingIfNeeded: SplitMix.finish(bits) >> 48)
    }
}
