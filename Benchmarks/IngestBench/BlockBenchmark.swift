// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query
import Glibc
import IngestFormat

/// Encodes and decodes blocks of realistic rows and prints what an event costs, in time and in bytes,
/// for each section: what docs/format/block.md says it costs is from here.
func blockBenchmark() {
    for rowCount in [10_000, 65_536] {
        for isZipf in [true, false] {
            let keys = KeyDraw(count: 100_000, isZipf: isZipf)
            let blocks = (0..<8).map { BlockRows(realistic: rowCount, keys: keys, seed: $0) }
            let title = "\(rowCount) rows, 100,000 keys \(isZipf ? "by Zipf" : "uniform")"
            BlockMeasurement(blocks: blocks, title: title).report()
        }
    }
}

/// Timings over some blocks, in turn, so that no branch or cache line is learnt by heart.
private struct BlockMeasurement {
    let blocks: [BlockRows]
    let title: String
    let encoder = BlockEncoder()
    let decoder = BlockDecoder()
    let buffer = BlockBuffer()
    private let rounds = 40

    private var eventCount: Int { blocks.reduce(0) { $0 + $1.rowCount } }

    func report() {
        let images = blocks.map { rows in
            _ = encode(rows)
            return buffer.copy
        }
        let byteCount = images.reduce(0) { $0 + $1.count }
        let encodeNanoseconds = time { encode($0) }
        let scratch = BlockRows()
        let decode = { (wanted: BlockSections) in
            time(images) { unsafe try decoder.decode($0.span.bytes, wanted: wanted, into: scratch) }
        }
        print("block: \(title)")
        print("  encode            \(fixed(encodeNanoseconds)) ns/event")
        print("  decode all        \(fixed(decode(.all))) ns/event")
        print("  decode counters   \(fixed(decode(.counters))) ns/event")
        print("  decode identity   \(fixed(decode(.identity))) ns/event")
        print(
            "  check only        \(fixed(time(images) { unsafe try decoder.check($0.span.bytes) })) ns/event"
        )
        print("  all               \(fixed(Double(byteCount) / Double(eventCount))) bytes/event")
        reportSections(images, encodeNanoseconds: encodeNanoseconds)
    }

    /// Encoding a section is measured by what it saves to make its column constant.
    private func reportSections(_ images: [[UInt8]], encodeNanoseconds: Double) {
        for kind in BlockSectionKind.allCases where kind.rawValue >= 16 && kind.isDefined {
            let entries = images.compactMap { image in
                unsafe try? decoder.sections(image.span.bytes).first { $0.kind == kind }
            }
            let stored = entries.reduce(0) { $0 + $1.byteCount }
            let raw = entries.reduce(0) { $0 + $1.rawByteCount }
            let bytes = fixed(Double(stored) / Double(eventCount))
            let before = fixed(Double(raw) / Double(eventCount))
            var line = "  \(padded(kind.name)) \(bytes) bytes/event, \(before) before LZ4"
            if let form = entries.first?.encoding.form { line += ", \(form)" }
            if let without = nanosecondsWithout(kind) {
                line += ", encode \(fixed(encodeNanoseconds - without)) ns/event"
            }
            print(line)
        }
    }

    private func nanosecondsWithout(_ kind: BlockSectionKind) -> Double? {
        let flat = blocks.map { $0.copy(flattening: kind) }
        guard flat.allSatisfy({ $0 != nil }) else { return nil }
        return BlockMeasurement(blocks: flat.compactMap { $0 }, title: title).time { rows in
            encode(rows)
        }
    }

    @discardableResult
    private func encode(_ rows: BlockRows) -> BlockSummary {
        encoder.encode(
            rows: rows, names: NewNames(), keys: [], ledger: [], context: .benchmark, into: buffer)
    }

    private func time(_ body: (BlockRows) -> BlockSummary) -> Double {
        best { for rows in blocks { _ = body(rows) } }
    }

    private func time<Result>(_ images: [[UInt8]], _ body: ([UInt8]) throws -> Result) -> Double {
        best {
            for image in images {
                guard (try? body(image)) != nil else { fatalError("a block did not decode") }
            }
        }
    }

    /// Nanoseconds of this thread's processor time an event, in the fastest tenth round: the others were
    /// disturbed.
    private func best(_ body: () -> Void) -> Double {
        let times = (0..<rounds).map { _ in
            let start = threadNanoseconds()
            body()
            return threadNanoseconds() - start
        }
        return Double(times.sorted()[rounds / 10]) / Double(eventCount)
    }

    private func threadNanoseconds() -> Int {
        var now = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
        return now.tv_sec * 1_000_000_000 + now.tv_nsec
    }
}

/// Draws reward keys, uniform or by Zipf's law with exponent 1.
private struct KeyDraw {
    private let cumulative: [Double]

    init(count: Int, isZipf: Bool) {
        var sum = 0.0
        cumulative = (1...count).map { rank in
            sum += isZipf ? 1 / Double(rank) : 1
            return sum
        }
    }

    func next(_ random: inout BlockRandom) -> UInt32 {
        let mark = random.unit() * cumulative[cumulative.count - 1]
        var (low, high) = (0, cumulative.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if cumulative[middle] < mark { low = middle + 1 } else { high = middle }
        }
        // Popular keys are not those that were seen first.
        return UInt32(low * 7_919 % cumulative.count)
    }
}

private struct BlockRandom {
    private var state: UInt64
    init(seed: Int) { state = UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 &+ 1 }

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state &* 0x2545_F491_4F6C_DD1D
    }
    mutating func below(_ bound: Int) -> Int { Int(next() >> 33) % bound }
    mutating func unit() -> Double { Double(next() >> 11) / Double(1 << 53) }
}

extension BlockContext {
    fileprivate static let benchmark = BlockContext(
        directory: DirectoryID(rawValue: 1), segment: SegmentNumber(rawValue: 1), blockOrdinal: 0,
        commitEpoch: 1, previousChecksum: 0, admissionTime: 0, policyVersion: 1,
        firstName: NameOrdinal(rawValue: 200_000), firstKey: KeyOrdinal(rawValue: 100_000))
}

extension BlockRows {
    /// 96 % impressions, half of them measured; ids on all; times within a second and one in a thousand
    /// up to an hour late; four platforms, campaign and source on a third; money on redemptions.
    fileprivate convenience init(realistic count: Int, keys: KeyDraw, seed: Int) {
        self.init()
        var random = BlockRandom(seed: seed + 1)
        let now: Int64 = 1_795_000_000_000_000
        for _ in 0..<count {
            let kind = random.below(1000)
            let type: EventType = kind < 960 ? .impression : kind < 995 ? .click : .redemption
            let isMeasured = type == .impression && random.below(2) == 0
            let hasMoney = type == .redemption
            var bits = RowAttributes.eventID
            var verdict = Verdict.counted
            if isMeasured {
                bits |= RowAttributes.measured
                let ppm = random.below(3) == 0 ? 1_000_000 : random.below(1_000_000)
                let milliseconds = random.below(30_000)
                unsafe visible[measuredCount] = UInt32(ppm)
                unsafe duration[measuredCount] = UInt32(milliseconds)
                measuredCount += 1
                if ppm < 500_000 || milliseconds < 1000 { verdict = .notViewable }
            }
            if hasMoney {
                bits |= RowAttributes.money
                unsafe revenue[moneyCount] = Int64(random.below(20_000)) * 10_000
                unsafe spend[moneyCount] = Int64(random.below(500)) * 10_000
                moneyCount += 1
            }
            if random.below(200) == 0 { verdict = .duplicate }
            let consent: Consent = random.below(4) == 0 ? .notSet : .optIn
            let late = random.below(1000) == 0 ? Int64(random.below(3_600_000)) * 1000 : 0
            let isAttributed = random.below(3) == 0
            unsafe key[rowCount] = keys.next(&random)
            unsafe timestamp[rowCount] = now - Int64(random.below(1_000_000)) - late
            unsafe day[rowCount] = 20_775
            unsafe attributes[rowCount] =
                RowAttributes(
                    type: type.rawValue, verdict: verdict, consent: consent.rawValue, format: 0,
                    bits: bits
                ).rawValue
            unsafe platform[rowCount] = [101, 101, 101, 102, 102, 103, 104][random.below(7)]
            unsafe campaign[rowCount] = isAttributed ? UInt32(1000 + random.below(50)) : 0
            unsafe source[rowCount] = isAttributed ? UInt32(2000 + random.below(8)) : 0
            unsafe eventHash[rowCount] = random.next()
            rowCount += 1
        }
        eventHashCount = rowCount
    }

    /// The same rows with one column constant; `nil` for a column that the others hang on.
    fileprivate func copy(flattening kind: BlockSectionKind) -> BlockRows? {
        let copy = BlockRows()
        copy.mark = mark
        unsafe copy.key.update(from: key, count: rowCount)
        unsafe copy.timestamp.update(from: timestamp, count: rowCount)
        unsafe copy.day.update(from: day, count: rowCount)
        unsafe copy.attributes.update(from: attributes, count: rowCount)
        unsafe copy.platform.update(from: platform, count: rowCount)
        unsafe copy.campaign.update(from: campaign, count: rowCount)
        unsafe copy.source.update(from: source, count: rowCount)
        unsafe copy.eventHash.update(from: eventHash, count: eventHashCount)
        unsafe copy.visible.update(from: visible, count: measuredCount)
        unsafe copy.duration.update(from: duration, count: measuredCount)
        unsafe copy.revenue.update(from: revenue, count: moneyCount)
        unsafe copy.spend.update(from: spend, count: moneyCount)
        switch kind {
        case .key: unsafe copy.key.update(repeating: 1, count: rowCount)
        case .timestamp: unsafe copy.timestamp.update(repeating: 1, count: rowCount)
        case .day: unsafe copy.day.update(repeating: 1, count: rowCount)
        case .platform: unsafe copy.platform.update(repeating: 1, count: rowCount)
        case .campaign: unsafe copy.campaign.update(repeating: 1, count: rowCount)
        case .source: unsafe copy.source.update(repeating: 1, count: rowCount)
        case .visible: unsafe copy.visible.update(repeating: 1, count: measuredCount)
        case .duration: unsafe copy.duration.update(repeating: 1, count: measuredCount)
        case .revenue: unsafe copy.revenue.update(repeating: 1, count: moneyCount)
        case .spend: unsafe copy.spend.update(repeating: 1, count: moneyCount)
        default: return nil
        }
        return copy
    }
}

private func padded(_ text: String) -> String {
    text + String(repeating: " ", count: max(0, 12 - text.count))
}

/// Two decimals, without Foundation.
private func fixed(_ value: Double) -> String {
    let hundredths = Int(value * 100 + (value < 0 ? -0.5 : 0.5))
    let rest = abs(hundredths % 100)
    let sign = hundredths < 0 && hundredths > -100 ? "-" : ""
    return "\(sign)\(hundredths / 100).\(rest < 10 ? "0" : "")\(rest)"
}
