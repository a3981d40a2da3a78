// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestFormat

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
