// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query

/// Where the one merge stands that there can be at a time, and when the next may be ordered. Owned by the publisher,
/// which alone changes it; whoever carries an order to the merge queue brings its result back, whatever that is.
///
///     none → ordered → written → none
///               ↓
///              none: it was stopped, or refused; after a refusal the next one waits
struct MergeProgress {
    private enum State {
        case none
        /// The merge queue has the order.
        case ordered
        /// Runs that no generation names yet.
        case written(MergedRuns)
    }

    private var state = State.none
    /// In a row.
    private var refusalCount = 0
    private var refusedNanoseconds: UInt64 = 0

    /// Whether an order has been given and what it wrote is in no generation yet.
    var isUnderWay: Bool { if case .none = state { false } else { true } }
    var isOrdered: Bool { if case .ordered = state { true } else { false } }
    var written: MergedRuns? { if case .written(let runs) = state { runs } else { nil } }

    /// Whether an order may be given.
    ///
    /// A large merge is not begun again and again on a full disk: after 10 s, 20 s, … 320 s. Where everything waits for
    /// it, after 1, 2 and 4 s, so that the log goes on in time once there is room.
    ///
    /// - Parameters:
    ///   - isNeeded: whether a table is full.
    ///   - mayRest: `false` if there is no time to wait for the disk.
    func mayOrder(at now: UInt64, isNeeded: Bool, mayRest: Bool) -> Bool {
        if isUnderWay { return false }
        guard mayRest, refusalCount > 0 else { return true }
        let rest: UInt64 =
            isNeeded
            ? 1_000_000_000 << UInt64(min(refusalCount - 1, 2))
            : 10_000_000_000 << UInt64(min(refusalCount - 1, 5))
        return now &- refusedNanoseconds >= rest
    }

    mutating func order() { state = .ordered }

    /// Takes an order back.
    mutating func take(_ result: MergeResult, at now: UInt64) {
        state = result.runs.isEmpty ? .none : .written(result.runs)
        refusalCount = result.refusal == nil ? 0 : refusalCount + 1
        refusedNanoseconds = now
    }

    /// What was written is in a generation.
    mutating func publish() { state = .none }
}
