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

    /// Lets segments arrive one by one, `late` of them while a merge is on its way.
    private func gather(
        segmentCount: Int, late: Int = 0
    ) -> (runs: [Int], read: Int, written: Int, most: Int) {
        var runs: [Int] = []
        var (read, written, most) = (0, 0, 0)
        var arrived = 0
        while arrived < segmentCount {
            runs.append(1)
            arrived += 1
            while true {
                let count = CompactionPlan(ripe: runs).mergedRunCount
                if count == 0 { break }
                let place = runs.count - count
                let merged = runs.suffix(count).reduce(0, +)
                for _ in 0..<min(late, segmentCount - arrived) { runs.append(1) }
                arrived += min(late, segmentCount - arrived)
                most = max(most, runs.count)
                runs.replaceSubrange(place..<place + count, with: [merged])
                read += count
                written += 1
            }
            most = max(most, runs.count)
        }
        return (runs, read, written, most)
    }

    @Test("runs are left to gather, and there is always room for one more", arguments: [0, 1])
    func gathers(late: Int) {
        let result = gather(segmentCount: 20_000, late: late)
        #expect(result.most <= Limits.runCountMax)
        #expect(result.runs.reduce(0, +) == 20_000)
        // One merge for three or four segments, each of which reads a few runs and writes one.
        #expect(result.written <= 20_000 / 3 + 1)
        #expect(result.read <= result.written * 5)
        #expect(gather(segmentCount: 64).written == 16)
    }

    @Test("a merge is due when four small runs have gathered, or the table is nearly full")
    func ripe() {
        func count(_ runs: [Int]) -> Int { CompactionPlan(ripe: runs).mergedRunCount }
        #expect(count([]) == 0 && count([1]) == 0 && count([1, 1, 1]) == 0)
        #expect(count([1, 1, 1, 1]) == 4)
        #expect(count([8, 1, 1, 1]) == 0)
        #expect(count([8, 1, 1, 1, 1]) == 4)
        #expect(count([4, 1, 1, 1, 1]) == 5)
        #expect(count([64, 32, 16, 8, 4, 1]) == 0)
        #expect(count([64, 32, 16, 8, 4, 2, 1]) == 4)
        #expect(count([64, 32, 20, 9, 7, 1, 1]) == 4)
        #expect(count([64, 32, 16, 9, 7, 1, 1]) == 7)
    }

    @Test("an older run is left alone while it spans more than what arrives")
    func leavesLarger() {
        #expect(CompactionPlan(runs: [8, 4, 2], newSegmentCount: 1).mergedRunCount == 0)
        #expect(CompactionPlan(runs: [8, 4, 1], newSegmentCount: 1).mergedRunCount == 1)
        #expect(CompactionPlan(runs: [4, 2, 1], newSegmentCount: 1).mergedRunCount == 3)
        #expect(CompactionPlan(runs: [], newSegmentCount: 5).mergedRunCount == 0)
    }
}
