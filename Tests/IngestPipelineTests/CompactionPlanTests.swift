import IngestFormat
import IngestPipeline
import Testing

@Suite("Which runs are merged")
struct CompactionPlanTests {
    /// Lets segments arrive one by one (or `batch` at once) and returns what was written per segment.
    private func run(segmentCount: Int, batch: Int = 1) -> (runs: [Int], written: Int, most: Int) {
        var runs: [Int] = []
        var written = 0
        var most = 0
        for _ in 0..<segmentCount / batch {
            let plan = CompactionPlan(runs: runs, newSegmentCount: batch)
            let merged = runs.suffix(plan.mergedRunCount).reduce(batch, +)
            runs.removeLast(plan.mergedRunCount)
            runs.append(merged)
            written += merged
            most = max(most, runs.count)
        }
        return (runs, written, most)
    }

    @Test("there are never more runs than the limit, and no segment is lost")
    func bounded() {
        for batch in [1, 3, 7] {
            let result = run(segmentCount: 21_000, batch: batch)
            #expect(result.most <= Limits.runCountMax)
            #expect(result.runs.reduce(0, +) == 21_000 / batch * batch)
        }
    }

    @Test("a segment's counters are rewritten about log2(segments) times")
    func writeAmplification() {
        #expect(run(segmentCount: 128).written <= 128 * 8)
    }

    @Test("an older run is left alone while it spans more than what arrives")
    func leavesLarger() {
        #expect(CompactionPlan(runs: [8, 4, 2], newSegmentCount: 1).mergedRunCount == 0)
        #expect(CompactionPlan(runs: [8, 4, 1], newSegmentCount: 1).mergedRunCount == 1)
        #expect(CompactionPlan(runs: [4, 2, 1], newSegmentCount: 1).mergedRunCount == 3)
        #expect(CompactionPlan(runs: [], newSegmentCount: 5).mergedRunCount == 0)
    }
}
