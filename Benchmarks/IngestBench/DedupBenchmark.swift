// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import Glibc
import IngestPipeline

/// Fills the index of repeats and asks it, and prints what a claim costs and how much memory a key takes.
func dedupBenchmark() {
    for count in [1_000_000, 10_000_000, 100_000_000] { DedupMeasurement(count: count).report() }
}

private struct DedupMeasurement {
    let count: Int
    private static let aheadCount = 16
    private static let blockCount = 10_000
    private static let askedCount = 2_000_000

    init(count: Int) { self.count = count }

    func report() {
        print("dedup: \(count) ids")
        var index = DedupIndex(keyCountMax: count, windowMicroseconds: 604_800_000_000)
        var longest: UInt64 = 0
        var clock = PartClock()
        for first in stride(from: 0, to: count, by: Self.blockCount) {
            let before = clock.nanoseconds
            index.open(admissionTime: Int64(first))
            claim(first..<min(count, first + Self.blockCount), in: &index, expecting: .first)
            index.goOn()
            longest = max(longest, clock.nanoseconds - before)
        }
        clock.show("claim while it fills", count)
        print("  longest block of 10,000: \(fixed(Double(longest) / 1e6, 2)) ms")
        print("  bytes a key: \(fixed(Double(index.byteCount) / Double(index.keyCount), 1))")
        print("  keys held: \(index.keyCount)")
        let asked = (count - Self.askedCount / 2)..<count
        clock = PartClock()
        claim(asked, in: &index, expecting: .duplicate)
        clock.show("look-up of a repeat", asked.count)
        clock = PartClock()
        claim(count..<count + Self.askedCount, in: &index, expecting: .first)
        clock.show("claim once it is full", Self.askedCount)
        print("  blocks that waited for a whole sweep: \(index.wholeSweepCount)")
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

/// This thread's processor time since it was made.
private struct PartClock {
    private let start = PartClock.now()

    var nanoseconds: UInt64 { Self.now() - start }

    func show(_ what: String, _ count: Int) {
        print("  \(what): \(fixed(Double(nanoseconds) / Double(count), 1)) ns")
    }

    private static func now() -> UInt64 {
        var now = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
        return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
    }
}
