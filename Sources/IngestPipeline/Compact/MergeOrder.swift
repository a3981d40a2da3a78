// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestFormat

/// Runs that are to be merged: made by the compact queue from its manifest, carried out by the merge queue, which
/// needs nothing but files that never change.
package struct MergeOrder: Sendable {
    /// One run that is to be written.
    package enum Part: Sendable {
        /// - Parameter inputs: of the table itself; for rewards also runs of reward-days, behind those.
        case counters(TableKind, inputs: [RunEntry], FileNumber)
        case names(inputs: [NamesRunEntry], FileNumber)
    }

    package let parts: [Part]
    /// The generation that the runs are made for, as far as it is known.
    package let manifest: Manifest
}

/// What became of an order: the runs written, each with those that it takes the place of.
package struct MergedRuns: Sendable {
    package var counters: [(inputs: [RunEntry], run: RunEntry)] = []
    package var names: (inputs: [NamesRunEntry], run: NamesRunEntry)?
}

/// How an order came back.
package enum MergeResult: Sendable {
    case merged(MergedRuns)
    /// A stop ended it.
    case stopped
    /// The disk has not taken it, for a `Shortage`; nothing of it is left.
    case refused
}

extension Manifest {
    /// Names runs up to which a table of names may grow while a merge is on its way.
    private static var namesRunCountMax: Int { 2 * Limits.runCountMax }

    /// The runs of a table that cover sealed segments.
    func sealedRuns(of table: TableKind) -> [RunEntry] {
        runs.filter { $0.table == table && $0.span.lastSegment != liveSegment }
    }

    /// Whether one more run of each table may come.
    package var hasRoomForRuns: Bool {
        hasRoom(namesRunCountMax: Self.namesRunCountMax, runCountMax: Limits.runCountMax)
    }

    /// Whether one may come with which the daemon ends: in the place of the live run, which there is none of then.
    package var hasRoomForLastRuns: Bool {
        hasRoom(
            namesRunCountMax: Limits.manifestNamesRunCountMax, runCountMax: Limits.runCountMax + 1)
    }

    private func hasRoom(namesRunCountMax: Int, runCountMax: Int) -> Bool {
        namesRuns.count < namesRunCountMax
            && TableKind.counterTables.allSatisfy { sealedRuns(of: $0).count < runCountMax }
    }

    /// Orders the merge that is due, if one is; the file numbers of what it writes are given.
    ///
    /// - Parameter runCountMin: as in `CompactionPlan`.
    mutating func orderMerge(
        at createdAt: Int64, runCountMin: Int = Limits.mergeRunCountMin
    ) -> MergeOrder? {
        var parts: [MergeOrder.Part] = []
        let ripeNames = CompactionPlan(
            ripe: namesRuns.map(\.itemCount), runCountMin: runCountMin,
            runCountMax: Self.namesRunCountMax
        ).mergedRunCount
        if ripeNames > 0 {
            parts.append(.names(inputs: namesRuns.suffix(ripeNames), takeFileNumber()))
        }
        let days = ripeRuns(of: .days, runCountMin)
        if !days.isEmpty { parts.append(.counters(.days, inputs: days, takeFileNumber())) }
        let rewardDays = ripeRuns(of: .rewardDays, runCountMin)
        if !rewardDays.isEmpty {
            // Where the merged run ends, the runs of rewards do from now on.
            let rewards = runsToMergeIntoRewards()
            if !rewards.isEmpty {
                parts.append(.counters(.rewards, inputs: rewards, takeFileNumber()))
            }
            parts.append(.counters(.rewardDays, inputs: rewardDays, takeFileNumber()))
        }
        if parts.isEmpty { return nil }
        var origin = self
        origin.generation = generation.next
        origin.createdAt = createdAt
        return MergeOrder(parts: parts, manifest: origin)
    }

    private func ripeRuns(of table: TableKind, _ runCountMin: Int) -> [RunEntry] {
        let runs = sealedRuns(of: table)
        let plan = CompactionPlan(
            ripe: runs.map(\.span.segmentCount), runCountMin: runCountMin)
        return runs.suffix(plan.mergedRunCount)
    }

    /// The runs of reward-days that no run of rewards covers, and the runs of rewards that they are merged with.
    private func runsToMergeIntoRewards() -> [RunEntry] {
        let own = sealedRuns(of: .rewards)
        let end = own.last?.span.end ?? .start
        let fresh = sealedRuns(of: .rewardDays).filter { $0.span.end > end }
        if fresh.isEmpty { return [] }
        let plan = CompactionPlan(
            runs: own.map(\.span.segmentCount),
            newSegmentCount: fresh.reduce(0) { $0 + $1.span.segmentCount })
        return own.suffix(plan.mergedRunCount) + fresh
    }

    /// Puts runs that were merged in the place of what they were made of.
    mutating func replace(_ merged: MergedRuns) {
        for (inputs, run) in merged.counters {
            runs.removeAll { $0.table == run.table && inputs.contains($0) }
            insert(run)
        }
        guard let names = merged.names, let first = names.inputs.first,
            let place = namesRuns.firstIndex(of: first)
        else { return }
        namesRuns.replaceSubrange(place..<place + names.inputs.count, with: [names.run])
    }

    /// Puts a run in its place: by table, then by segments.
    mutating func insert(_ run: RunEntry) {
        let place = runs.firstIndex {
            ($0.table.rawValue, $0.span.firstSegment)
                > (run.table.rawValue, run.span.firstSegment)
        }
        runs.insert(run, at: place ?? runs.count)
    }

    /// The number of the next file.
    mutating func takeFileNumber() -> FileNumber {
        defer { nextFileNumber = nextFileNumber.next }
        return nextFileNumber
    }
}

extension LogSpan {
    var segmentCount: Int { Int(lastSegment.rawValue - firstSegment.rawValue) + 1 }
}

extension NamesRunEntry {
    /// What the plan goes by.
    fileprivate var itemCount: Int { max(1, names.count + keys.count) }
}
