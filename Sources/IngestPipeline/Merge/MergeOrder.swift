// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestFormat
import IngestStorage

/// What is to be merged: made by the compact queue from its manifest, carried out by the merge queue, which needs
/// nothing but files that never change.
package struct MergeOrder: Sendable {
    /// Parts of the counter tables that become one run of each: the newest runs, and level 0 from its oldest footer on.
    package struct Tables: Sendable {
        /// Of all tables; of an order to make runs again, those that are bad.
        var runs: [RunEntry]
        let level0: [SealedSegment]
        package let span: LogSpan
        /// Of the run of the first table; the others' follow.
        package let firstNumber: FileNumber
    }

    /// Segments whose rows are to expire, once runs have their counters.
    package struct Expiry: Sendable {
        package let segments: [SealedSegment]
        /// The newest of what is left of earlier ones, to be merged with it.
        let older: [ExpiredEntry]
        let firstNumber: FileNumber
    }

    package let tables: Tables?
    package let names: (inputs: [NamesRunEntry], number: FileNumber)?
    package let expiry: Expiry?
    /// The generation that the runs are made for, as far as it is known.
    package let manifest: Manifest
    /// Whether no generation can be published before it is done.
    package let isNeeded: Bool
    /// Where tables or names are not merged but made again from the log: the first of the numbers of what is written then.
    var rebuildNumber: FileNumber?

    /// The runs that are read, of tables and of names.
    var inputs: [FileName] {
        (tables?.runs.map(\.fileName) ?? []) + (names?.inputs.map(\.fileName) ?? [])
    }
}

/// Runs that were merged, each with what they take the place of.
package struct MergedRuns: Sendable {
    package typealias Tables = (inputs: MergeOrder.Tables, runs: [RunEntry])
    package typealias Names = (inputs: [NamesRunEntry], run: NamesRunEntry)
    package var tables: Tables?
    package var names: Names?
    package var expired: ExpiredOutput?
    /// For the log: what runs that were made again lack.
    package var losses: [String] = []

    package init() {}

    package var isEmpty: Bool { tables == nil && names == nil && expired == nil }
}

/// How an order came back. Without runs and without a refusal a stop has ended it.
package struct MergeResult: Sendable {
    /// The parts that are done.
    package var runs = MergedRuns()
    /// The `Shortage` for which another part is not, if one is not; nothing of that is left.
    package var refusal: PipelineError?
    /// What is wrong with a run that could not be read; nothing of what was to be made of it is left. With an order to make
    /// runs again: what of the log they cannot be made of.
    package var damage: StorageError?
    /// Why the segments that were to expire have not; nothing is left of that.
    package var expiryFailure: StorageError?
    package let order: MergeOrder

    package init(_ order: MergeOrder) { self.order = order }

    /// For the log: that runs cannot be read, and what becomes of it; `nil` if there is nothing to say.
    var damageLine: String? {
        let isRebuild = order.rebuildNumber != nil
        guard let damage else {
            let lines = ["derived files rebuilt from the log"] + runs.losses
            return isRebuild && !runs.isEmpty ? lines.joined(separator: "; ") : nil
        }
        return isRebuild
            ? "rebuild failed, retrying in a minute: \(damage)"
            : "merge failed, making derived files again from the log: \(damage)"
    }
}

extension Manifest {
    /// Names runs up to which a table of names may grow while a merge is on its way.
    private static var namesRunCountMax: Int { 2 * Limits.runCountMax }

    /// Whether one more generation with a sealed segment may come: level 0 and names have room.
    package var hasRoomForSegments: Bool {
        namesRuns.count < Self.namesRunCountMax && level0.count < Limits.level0CountMax
    }

    /// Orders the merge that is due, if one is; the file numbers of what it writes are given.
    ///
    /// - Parameters:
    ///   - level0CountMin: as many footers gather before they are merged; at once where the next are to expire.
    ///   - due: the oldest sealed segments, whose rows are to expire: an order of its own, behind that of tables.
    ///   - isRefused: whether the order before was refused: then what can expire comes first, as it makes room.
    package mutating func orderMerge(
        at createdAt: Int64, level0CountMin: Int = Limits.level0MergeCount,
        expiring due: ArraySlice<SealedSegment> = [], isRefused: Bool = false
    ) -> MergeOrder? {
        let covered = due.prefix { $0.number <= mergedEnd.segment }
        let waits = covered.isEmpty && !due.isEmpty
        var origin = self
        origin.generation = generation.next
        origin.createdAt = createdAt
        if isRefused && !covered.isEmpty { return planExpiry(of: covered, origin) }
        let names = CompactionPlan(
            ripe: namesRuns.map(\.itemCount), runCountMax: Self.namesRunCountMax
        ).mergedRunCount
        // What makes room is tried although there is little.
        let isNeeded = !hasRoomForSegments || waits
        let namesPart =
            names > 0 ? (Array(namesRuns.suffix(names)), takeFileNumbers(1)) : nil
        let tablesPart = level0.count >= level0CountMin || waits ? planTables() : nil
        if namesPart == nil && tablesPart == nil {
            return covered.isEmpty ? nil : planExpiry(of: covered, origin)
        }
        origin.nextFileNumber = nextFileNumber
        return MergeOrder(
            tables: tablesPart, names: namesPart, expiry: nil, manifest: origin,
            isNeeded: isNeeded)
    }

    /// Orders that bad runs of counters, or all names, are made again from the log.
    ///
    /// - Parameter bad: the runs; none: the names.
    mutating func orderRebuild(of bad: Set<FileName>, at createdAt: Int64) -> MergeOrder {
        var origin = self
        origin.createdAt = createdAt
        let count = sealed.count + 2
        // Parts of tables, which are merged again, and of names.
        let number = takeFileNumbers(4 * count)
        let tables = MergeOrder.Tables(
            runs: runs.filter { bad.contains($0.fileName) }, level0: [],
            span: LogSpan(firstSegment: LogPosition.start.segment.next, end: cut),
            firstNumber: number)
        return MergeOrder(
            tables: bad.isEmpty ? nil : tables, names: bad.isEmpty ? (namesRuns, number) : nil,
            expiry: nil,
            manifest: origin, isNeeded: false, rebuildNumber: number)
    }

    private mutating func planExpiry(
        of due: ArraySlice<SealedSegment>, _ origin: Manifest
    ) -> MergeOrder {
        let plan = CompactionPlan(
            runs: expired.map { Int($0.span.segmentCount) },
            newSegmentCount: min(due.count, Limits.level0MergeCountMax))
        let expiry = MergeOrder.Expiry(
            segments: Array(due), older: expired.suffix(plan.mergedRunCount),
            firstNumber: takeFileNumbers(2))
        return MergeOrder(
            tables: nil, names: nil, expiry: expiry, manifest: origin, isNeeded: true)
    }

    /// The oldest of level 0, and the newest runs that are no larger.
    private mutating func planTables() -> MergeOrder.Tables? {
        let footers = Array(level0.prefix(Limits.level0MergeCountMax))
        guard let first = footers.first, let last = footers.last else { return nil }
        let spans = runs(of: .rewardDays).map(\.span)
        let plan = CompactionPlan(
            runs: spans.map { Int($0.segmentCount) }, newSegmentCount: footers.count)
        let start = spans.suffix(plan.mergedRunCount).first?.firstSegment ?? first.number
        return MergeOrder.Tables(
            runs: runs.filter { $0.span.firstSegment >= start }, level0: footers,
            span: LogSpan(
                firstSegment: start,
                end: LogPosition(segment: last.number, blockCount: last.blockCount)),
            firstNumber: takeFileNumbers(TableKind.counterTables.count))
    }

    /// Puts runs that were merged in the place of what they were made of.
    package mutating func replace(_ merged: MergedRuns) {
        if let tables = merged.tables {
            runs.removeAll { tables.inputs.runs.contains($0) }
            for run in tables.runs { insert(run) }
        }
        if let expired = merged.expired { expire(expired.entry) }
        guard let names = merged.names, let first = names.inputs.first,
            let place = namesRuns.firstIndex(of: first)
        else { return }
        namesRuns.replaceSubrange(place..<place + names.inputs.count, with: [names.run])
    }

    /// Puts a run in its place: by table, then by segments.
    private mutating func insert(_ run: RunEntry) {
        let place = runs.firstIndex {
            ($0.table.rawValue, $0.span.firstSegment)
                > (run.table.rawValue, run.span.firstSegment)
        }
        runs.insert(run, at: place ?? runs.count)
    }

    /// The numbers of the next files; the first of them.
    mutating func takeFileNumbers(_ count: Int) -> FileNumber {
        defer { nextFileNumber = nextFileNumber.advanced(by: count) }
        return nextFileNumber
    }
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
