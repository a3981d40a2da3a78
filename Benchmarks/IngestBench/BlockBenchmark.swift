import IngestFormat
import IngestPipeline

/// Encodes and decodes blocks of realistic rows and prints what an event costs, in time and in bytes, for each section.
struct BlockMeasurement {
    private let blocks: [BlockRows]
    private let encoder = BlockEncoder()
    private let decoder = BlockDecoder()
    private let buffer = BlockBuffer()
    private let eventCount: Int

    static func reportAll() {
        for rowCount in [10_000, 65_536] {
            for shape in [Popularity.Shape.zipf, .uniform] {
                BlockMeasurement(rowCount: rowCount, shape).report("\(rowCount) rows, \(shape)")
            }
        }
    }

    /// Several blocks in turn, so that no branch or cache line is learnt by heart.
    private init(rowCount: Int, _ shape: Popularity.Shape) {
        var popularity = Popularity(shape, count: 100_000)
        var random = SeededRandom(seed: 1)
        blocks = (0..<8).map { _ in
            BlockRows(realistic: rowCount, &popularity, &random)
        }
        eventCount = blocks.reduce(0) { $0 + $1.rowCount }
    }

    private func report(_ title: String) {
        Report.heading("block: \(title), 100,000 keys")
        let images = blocks.map { rows in
            encode(rows)
            return buffer.copy
        }
        time("encode") { for rows in blocks { encode(rows) } }
        let scratch = BlockRows()
        for (name, wanted) in [
            ("decode all", BlockSections.all), ("decode counters", .counters),
            ("decode identity", .identity),
        ] {
            time(name) {
                for image in images {
                    let block = unsafe try? decoder.decode(
                        image.span.bytes, wanted: wanted, into: scratch)
                    precondition(block != nil)
                }
            }
        }
        time("check only") {
            for image in images {
                precondition((unsafe try? decoder.check(image.span.bytes)) != nil)
            }
        }
        let byteCount = images.reduce(0) { $0 + $1.count }
        Report.cost("all", Double(byteCount), eventCount, "bytes/event")
        for kind in BlockSectionKind.allCases where kind.rawValue >= 16 {
            let entries = images.compactMap { image in
                unsafe try? decoder.sections(image.span.bytes).first { $0.kind == kind }
            }
            let stored = Double(entries.reduce(0) { $0 + $1.byteCount }) / Double(eventCount)
            let raw = Double(entries.reduce(0) { $0 + $1.rawByteCount }) / Double(eventCount)
            let form = entries.first?.encoding.form.map { ", \($0)" } ?? ""
            Report.line(
                kind.name, "\(fixed(stored, 2)) bytes/event, \(fixed(raw, 2)) before LZ4\(form)")
        }
    }

    private func time(_ name: String, _ body: () -> Void) {
        Report.cost(name, ThreadTime.best(ofRounds: 40, body), eventCount, "ns/event")
    }

    private func encode(_ rows: BlockRows) {
        _ = encoder.encode(
            rows: rows, names: NewNames(), keys: [], ledger: [],
            context: BlockContext(
                directory: DirectoryID(rawValue: 1), segment: SegmentNumber(rawValue: 1),
                blockOrdinal: 0, commitEpoch: 1, previousChecksum: 0, admissionTime: 0,
                policyVersion: 1, firstName: NameOrdinal(rawValue: 200_000),
                firstKey: KeyOrdinal(rawValue: 100_000)), into: buffer)
    }
}

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
