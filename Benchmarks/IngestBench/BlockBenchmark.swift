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

/// JSON lines decoded into rows, hashes taken, from memory and on one core: what an event costs the receive queue by
/// itself, for lines of the usual form and for others.
enum JSONMeasurement {
    private static let lineCount = 20_000
    private static let roundCount = 30
    /// What a datagram on a path of 1,500 bytes has room for.
    private static let packetByteCountMax = 1_472

    static func reportAll() {
        var mix = EventMix(EventMix.Options(rewardCount: 1_000_000))
        var random = SeededRandom(seed: 2)
        let lines = (0..<lineCount).map { _ in line(mix.next(), mix.bytes, &random) }
        let byteCount = lines.reduce(0) { $0 + $1.utf8.count }
        Report.line("bytes a line", "\(byteCount / lineCount)")
        report("usual form", lines)
        report("one a packet", lines, packetByteCountMax: 1)
        // A tab that JSON allows takes a line out of the usual form.
        report("other form", lines.map { "{\t" + $0.dropFirst() })
    }

    private static func line(
        _ event: EventDescriptor, _ bytes: [UInt8], _ random: inout SeededRandom
    ) -> String {
        func text(_ offset: UInt16, _ byteCount: UInt8) -> String {
            String(decoding: bytes[Int(offset)...].prefix(Int(byteCount)), as: UTF8.self)
        }
        func digits(_ count: Int) -> String {
            var all = ""
            for _ in 0..<count { all += String(random.next() % 16, radix: 16) }
            return all
        }
        let id = [8, 4, 4, 4, 12].map(digits).joined(separator: "-")
        var metadata = "\"platform\":\"\(text(event.platformOffset, event.platformByteCount))\""
        if event.flags & EventDescriptor.Flags.isMeasured != 0 {
            metadata += ",\"viewability\":0.\(100_000 + random.next() % 900_000)"
            metadata += ",\"duration\":\(random.next() % 9).\(100 + random.next() % 900)"
        }
        if event.revenueMicros > 0 { metadata += ",\"revenue\":\"12.50\",\"spend\":\"0.31\"" }
        let type = ["impression", "click", "redemption"][Int(event.type) - 1]
        return """
            {"eventType":"\(type)","rewardId":"\(text(event.rewardOffset, event.rewardByteCount))",\
            "businessId":"\(text(event.businessOffset, event.businessByteCount))",\
            "timestamp":"2026-11-20T10:\(10 + random.next() % 50):\(10 + random.next() % 50).123Z",\
            "eventId":"\(id)","consent":"optIn","metadata":{\(metadata)}}
            """
    }

    private static func report(
        _ name: String, _ lines: [String], packetByteCountMax: Int = Self.packetByteCountMax
    ) {
        let packets = packets(lines, packetByteCountMax)
        let decoder = JSONEventDecoder(hash: KeyedHash(key: .init(repeating: 7)))
        let scratch = EventScratch()
        var rows = PacketRows()
        var copy = [UInt8](repeating: 0, count: Limits.packetByteCountMax)
        var rowCount = 0
        let best = ThreadTime.best(ofRounds: roundCount) {
            rowCount = 0
            for packet in packets {
                // Decoded in a copy, as escapes and UUIDs are replaced in place.
                copy.replaceSubrange(..<packet.count, with: packet)
                // SAFETY: the copy has room for any packet, and the scratch for its events.
                unsafe copy.withUnsafeMutableBytes {
                    _ = unsafe decoder.decode(
                        packet: $0.baseAddress!, payloadOffset: 0, payloadByteCount: packet.count,
                        onlyOf: nil, into: &rows, by: scratch)
                }
                rowCount += rows.count
            }
        }
        Report.cost("\(name), \(rowCount) rows", best, lines.count, "ns/event")
    }

    /// As many lines as fit one packet, one at least.
    private static func packets(_ lines: [String], _ byteCountMax: Int) -> [[UInt8]] {
        var packets: [[UInt8]] = []
        var packet: [UInt8] = []
        for line in lines {
            if !packet.isEmpty, packet.count + 1 + line.utf8.count > byteCountMax {
                packets.append(packet)
                packet = []
            }
            if !packet.isEmpty { packet.append(0x0A) }
            packet += line.utf8
        }
        return packets + [packet]
    }
}
