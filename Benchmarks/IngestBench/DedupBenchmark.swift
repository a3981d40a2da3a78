import IngestPipeline

/// Fills the index of repeats and asks it, and prints what a claim costs and how much memory a key takes.
struct DedupMeasurement {
    private let count: Int
    private static let aheadCount = 16
    private static let blockCount = 10_000
    private static let askedCount = 2_000_000

    static func reportAll() {
        for count in [1_000_000, 10_000_000, 100_000_000] {
            DedupMeasurement(count: count).report()
        }
    }

    private func report() {
        Report.heading("dedup: \(count) ids")
        var index = DedupIndex(keyCountMax: count, windowMicroseconds: 604_800_000_000)
        var longest: UInt64 = 0
        let start = ThreadTime.nanoseconds
        for first in stride(from: 0, to: count, by: Self.blockCount) {
            let before = ThreadTime.nanoseconds
            index.open(admissionTime: Int64(first))
            claim(first..<min(count, first + Self.blockCount), in: &index, expecting: .first)
            index.goOn()
            longest = max(longest, ThreadTime.nanoseconds - before)
        }
        Report.cost("claim while it fills", Double(ThreadTime.nanoseconds - start), count)
        Report.line("longest block of 10,000", "\(fixed(Double(longest) / 1e6, 2)) ms")
        Report.cost("memory", Double(index.byteCount), index.keyCount, "bytes/key")
        Report.line("keys held", "\(index.keyCount)")
        let asked = (count - Self.askedCount / 2)..<count
        let lookUp = ThreadTime.nanoseconds
        claim(asked, in: &index, expecting: .duplicate)
        Report.cost("look-up of a repeat", Double(ThreadTime.nanoseconds - lookUp), asked.count)
        let full = ThreadTime.nanoseconds
        claim(count..<count + Self.askedCount, in: &index, expecting: .first)
        Report.cost("claim once it is full", Double(ThreadTime.nanoseconds - full), Self.askedCount)
        Report.line("waited for a whole sweep", "\(index.wholeSweepCount) blocks")
    }

    private func claim(
        _ places: Range<Int>, in index: inout DedupIndex, expecting answer: DedupIndex.Answer
    ) {
        for place in places {
            index.prefetch(Self.hash(place + Self.aheadCount))
            index.prefetchFurther(Self.hash(place + Self.aheadCount / 2))
            // Not inside the precondition, which would move the whole index into a closure and back.
            let given = index.claim(Self.hash(place), check: 1)
            precondition(given == answer)
        }
    }

    private static func hash(_ place: Int) -> UInt64 { SeededRandom.mix(UInt64(place)) }
}
