// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestFormat

/// Decides which runs of one table are merged when counters of new segments arrive. Pure.
///
/// Runs are kept like the digits of a binary counter of segments: a new run swallows every older
/// neighbour that does not span more segments than what has been gathered so far. A row is so rewritten
/// about log2(segments) times over its life, and the number of runs is about log2 as well; where that
/// is more than `Limits.runCountMax`, the newest are merged until it is not.
package struct CompactionPlan: Equatable, Sendable {
    /// How many of the newest runs are merged with the new counters; the older ones stay as they are.
    package let mergedRunCount: Int

    /// - Parameters:
    ///   - runs: the spans of the table's runs, oldest first, as segment counts (each ≥ 1).
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
}
