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

        /// Of each run that is read. What is written is as large as the largest of them at least, and as all together
        /// at most.
        var inputByteCounts: [UInt64] {
            switch self {
            case .counters(_, let inputs, _): inputs.map(\.byteCount)
            case .names(let inputs, _): inputs.map(\.byteCount)
            }
        }
    }

    package let parts: [Part]
    /// The generation that the runs are made for, as far as it is known.
    package let manifest: Manifest
    /// Whether no generation can be published before it is done: a table is full.
    package let isNeeded: Bool
}

/// Runs that were merged, each with those that it takes the place of.
package struct MergedRuns: Sendable {
    package var counters: [(inputs: [RunEntry], run: RunEntry)] = []
    package var names: (inputs: [NamesRunEntry], run: NamesRunEntry)?

    package init() {}

    package var isEmpty: Bool { counters.isEmpty && names == nil }
}

/// How an order came back. Without runs and without a refusal a stop has ended it.
package struct MergeResult: Sendable {
    /// The parts that are done.
    package var runs = MergedRuns()
    /// The `Shortage` for which another part is not, if one is not; nothing of that is left.
    package var refusal: PipelineError?
}

extension Manifest {
    /// Names runs up to which a table of names may grow while a merge is on its way.
    private static var namesRunCountMax: Int { 2 * Limits.runCountMax }

    /// The runs of a table.
    package func ownRuns(of table: TableKind) -> [RunEntry] {
        runs.filter { $0.table == table }
    }

    /// Whether one more run may come of each table that a generation adds one to.
    package var hasRoomForRuns: Bool {
        namesRuns.count < Self.namesRunCountMax && hasRoom(runCountMax: Limits.runCountMax)
    }

    /// Whether one may come with a generation that is followed by a merge.
    package var hasRoomForLastRuns: Bool {
        namesRuns.count < Limits.manifestNamesRunCountMax
            && hasRoom(runCountMax: Limits.runCountMax + 1)
    }

    /// Runs of rewards come by merges alone, which see to it that there are no more.
    private func hasRoom(runCountMax: Int) -> Bool {
        [.days, .rewardDays].allSatisfy { ownRuns(of: $0).count < runCountMax }
    }

    /// Orders the merge that is due, if one is; the file numbers of what it writes are given.
    ///
    /// - Parameter runCountMin: as in `CompactionPlan`.
    package mutating func orderMerge(
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
        return MergeOrder(parts: parts, manifest: origin, isNeeded: !hasRoomForRuns)
    }

    private func ripeRuns(of table: TableKind, _ runCountMin: Int) -> [RunEntry] {
        let runs = ownRuns(of: table)
        let plan = CompactionPlan(
            ripe: runs.map(\.span.segmentCount), runCountMin: runCountMin)
        return runs.suffix(plan.mergedRunCount)
    }

    /// The runs of reward-days that no run of rewards covers, and the runs of rewards that they are merged with.
    private func runsToMergeIntoRewards() -> [RunEntry] {
        let own = ownRuns(of: .rewards)
        let end = own.last?.span.end ?? .start
        let fresh = ownRuns(of: .rewardDays).filter { $0.span.end > end }
        if fresh.isEmpty { return [] }
        let plan = CompactionPlan(
            runs: own.map(\.span.segmentCount),
            newSegmentCount: fresh.reduce(0) { $0 + $1.span.segmentCount })
        return own.suffix(plan.mergedRunCount) + fresh
    }

    /// Puts runs that were merged in the place of what they were made of.
    package mutating func replace(_ merged: MergedRuns) {
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
    package mutating func insert(_ run: RunEntry) {
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

/// Decides which runs of one table are merged. Pure.
///
/// Runs are kept like the digits of a binary counter: a merge takes in every older neighbour that is not larger
/// than what has been gathered so far. A row is so rewritten about log2 of the log's length times over its life,
/// and the number of runs is about log2 as well; where that is more than `Limits.runCountMax`, the newest are
/// merged until it is not.
package struct CompactionPlan: Equatable, Sendable {
    /// How many of the newest runs are merged with the new counters; the older ones stay as they are.
    package let mergedRunCount: Int

    /// What is merged into a run of new counters.
    ///
    /// - Parameters:
    ///   - runs: the sizes of the table's runs, oldest first, as segment counts (each ≥ 1) or likewise.
    ///   - newSegmentCount: segments whose counters arrive now, ≥ 1.
    package init(runs: [Int], newSegmentCount: Int, runCountMax: Int = Limits.runCountMax) {
        var gathered = newSegmentCount
        var merged = 0
        while merged < runs.count {
            let older = runs[runs.count - 1 - merged]
            let runCountAfter = runs.count - merged + 1
            if older > gathered && runCountAfter <= runCountMax { break }
            gathered += older
            merged += 1
        }
        mergedRunCount = merged
    }

    /// What is merged into one of the runs that are there: nothing until `Limits.mergeRunCountMin` have gathered
    /// that are not larger than the sum of those behind, so that each merge reads many runs and writes one. Of a
    /// table with room for one more run alone, the newest of any size: there is always room for the run that comes
    /// while a merge is on its way. Of one with more runs than that, so many that there is room again.
    ///
    /// - Parameters:
    ///   - runs: as above.
    ///   - runCountMin: how many gather.
    package init(
        ripe runs: [Int], runCountMin: Int = Limits.mergeRunCountMin,
        runCountMax: Int = Limits.runCountMax
    ) {
        let isFull = runs.count >= runCountMax - 1
        var gathered = runs.last ?? 0
        var merged = min(1, runs.count)
        while merged < runs.count {
            let older = runs[runs.count - 1 - merged]
            let hasRoomAfter = runs.count - merged + 1 < runCountMax
            if older > gathered && hasRoomAfter && !(isFull && merged < runCountMin) { break }
            gathered += older
            merged += 1
        }
        mergedRunCount = merged >= runCountMin ? merged : 0
    }
}
