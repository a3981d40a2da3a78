// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
import Glibc
import IngestCounting
import IngestFormat

/// Folds rows into a segment's counters, then codes, decodes, merges and projects the table, and prints
/// what an event or a row costs: what docs/format/run.md says it costs is from here.
func counterBenchmark() {
    for keyCount in [1_000, 100_000, 1_000_000] {
        for isZipf in [true, false] where isZipf || keyCount > 1_000 {
            CounterMeasurement(keyCount: keyCount, isZipf: isZipf).report()
        }
    }
}

private struct CounterMeasurement {
    let keyCount: Int
    let isZipf: Bool
    private let blocks: [BlockRows]
    private let rounds = 15

    init(keyCount: Int, isZipf: Bool) {
        self.keyCount = keyCount
        self.isZipf = isZipf
        let keys = CounterKeyDraw(count: keyCount, isZipf: isZipf)
        // Enough blocks that every round sees all keys anew.
        blocks = (0..<32).map { BlockRows(forCounters: keys, seed: UInt64($0 + 1)) }
    }

    func report() {
        let counters = SegmentCounters()
        print("counters: \(keyCount) keys \(isZipf ? "by Zipf" : "uniform")")
        let first = best(perBlock: { counters.removeAll() }) { expect(counters.fold($0)) }
        show("fold, first rows of a segment", first, "ns/event")
        counters.removeAll()
        for rows in blocks { expect(counters.fold(rows)) }
        show("fold, keys known", best(perBlock: {}) { expect(counters.fold($0)) }, "ns/event")
        reportTables(counters)
    }

    private func reportTables(_ counters: SegmentCounters) {
        let table = counters.encodeTable()
        let rowCount = counters.keyDayCount
        let bytes = Double(table.pages.count) / Double(rowCount)
        show("table of \(rowCount) rows", bytes, "bytes/row")
        show("slots to rows", best(rowCount) { drain(counters.makeCursor()) }, "ns/row")
        show("rows to table", best(rowCount) { _ = counters.encodeTable() }, "ns/row")
        show("decode", best(rowCount) { drain(table.makeCursor()) }, "ns/row")
        let impressions = CounterColumnSet([.impressions])
        show(
            "decode impressions alone",
            best(rowCount) { drain(table.makeCursor(columns: impressions)) }, "ns/row")
        let rewards = rewardsTable(table)
        show(
            "rewards: decode impressions",
            best(rewards.rowCount) { drain(rewards.makeCursor(columns: impressions)) }, "ns/row")
        let points = (0..<1_000).map { UInt32($0 * 7_919 % keyCount) }
        show("rewards: row of a key", best(points.count) { probe(rewards, points) }, "ns")
        show("rows of a key", best(points.count) { probe(table, points) }, "ns")
        let halves = (0..<2).map { half in
            let part = SegmentCounters()
            for rows in blocks[(half * 16)..<(half * 16 + 16)] { expect(part.fold(rows)) }
            return part.encodeTable()
        }
        let inputCount = halves.reduce(0) { $0 + $1.rowCount }
        show(
            "decode and merge of two",
            best(inputCount) { drain(CounterMerge(halves.map { $0.makeCursor() })) }, "ns/row in")
        show(
            "decode and project to rewards",
            best(rowCount) { drain(CounterMerge([table.makeCursor()], dropsDays: true)) },
            "ns/row in")
        let keys = (0..<UInt32(keyCount)).map {
            RewardKey(
                reward: NameOrdinal(rawValue: $0 + 1), business: NameOrdinal(rawValue: 1 + $0 % 997)
            )
        }
        show(
            "decode and sum by business",
            best(rowCount) { drain(DaySumming(table.makeCursor(), into: DaySums(keys: keys))) },
            "ns/row in")
    }

    private func drain<Source: CounterPageSource>(_ source: Source) {
        var source = source
        let page = CounterPage()
        do {
            while try source.nextPage(into: page) {}
        } catch {
            preconditionFailure("a table did not decode: \(error)")
        }
    }

    private func rewardsTable(_ table: CounterTable) -> CounterTable {
        var encoder = CounterTableEncoder(hasDay: false)
        do {
            try encoder.append(contentsOf: CounterMerge([table.makeCursor()], dropsDays: true))
        } catch {
            preconditionFailure("a table did not decode: \(error)")
        }
        return encoder.finish()
    }

    private func probe(_ table: CounterTable, _ keys: [UInt32]) {
        for key in keys {
            let rows = try? table.rows(of: CounterPoint(key: key))
            precondition(rows != nil)
        }
    }

    private func expect(_ outcome: SegmentCounters.FoldOutcome) {
        precondition(outcome == .folded)
    }

    private func best(perBlock prepare: () -> Void, _ body: (BlockRows) -> Void) -> Double {
        var least = Double.infinity
        for _ in 0..<rounds {
            prepare()
            let start = counterNanoseconds()
            for rows in blocks { body(rows) }
            let events = Double(blocks.count * BlockRows.capacity)
            least = min(least, Double(counterNanoseconds() - start) / events)
        }
        return least
    }

    private func best(_ count: Int, _ body: () -> Void) -> Double {
        let times = (0..<rounds).map { _ in
            let start = counterNanoseconds()
            body()
            return counterNanoseconds() - start
        }
        return Double(times.min() ?? 0) / Double(max(count, 1))
    }

    private func show(_ what: String, _ value: Double, _ unit: String) {
        let dots = String(repeating: " ", count: max(1, 34 - what.count))
        let tenths = Int(value * 10 + 0.5)
        print("  \(what)\(dots)\(tenths / 10).\(tenths % 10) \(unit)")
    }
}

/// Processor time of this thread: other work on the machine does not count.
private func counterNanoseconds() -> Int {
    var now = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Draws reward keys, uniform or by Zipf's law with exponent 1; popular keys lie anywhere.
private struct CounterKeyDraw {
    private let cumulative: [Double]

    init(count: Int, isZipf: Bool) {
        var sum = 0.0
        cumulative = (1...count).map { rank in
            sum += isZipf ? 1 / Double(rank) : 1
            return sum
        }
    }

    func key(_ share: Double) -> UInt32 {
        let mark = share * cumulative[cumulative.count - 1]
        var (low, high) = (0, cumulative.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if cumulative[middle] < mark { low = middle + 1 } else { high = middle }
        }
        return UInt32(low * 7_919 % cumulative.count)
    }
}

extension BlockRows {
    /// A full block: 96 % impressions, half of them measured, 1 % repeats, money on redemptions, one row in
    /// a hundred of the day before.
    fileprivate convenience init(forCounters keys: CounterKeyDraw, seed: UInt64) {
        self.init()
        var state = seed &* 0x9E37_79B9_7F4A_7C15
        func next(_ bound: UInt64) -> UInt64 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return (state &* 0x2545_F491_4F6C_DD1D) >> 33 % bound
        }
        for row in 0..<Self.capacity {
            let kind = next(1_000)
            let type: EventType = kind < 960 ? .impression : kind < 995 ? .click : .redemption
            var bits = RowAttributes.eventID
            var verdict = Verdict.counted
            if type == .impression && next(2) == 0 {
                bits |= RowAttributes.measured
                if next(2) == 0 { verdict = .notViewable }
            }
            if next(100) == 0 { verdict = .duplicate }
            if type == .redemption {
                bits |= RowAttributes.money
                unsafe revenue[moneyCount] = Int64(next(20_000)) * 10_000
                unsafe spend[moneyCount] = Int64(next(500)) * 10_000
                moneyCount += 1
            }
            unsafe key[row] = keys.key(Double(next(1 << 30)) / Double(1 << 30))
            unsafe day[row] = next(100) == 0 ? 20_776 : 20_777
            unsafe attributes[row] =
                RowAttributes(
                    type: type.rawValue, verdict: verdict, consent: 1, format: 0, bits: bits
                ).rawValue
        }
        rowCount = Self.capacity
    }
}
