import IngestCounting
import IngestFormat

/// Folds rows into a segment's counters, then codes, decodes, merges and projects the table, and prints what an event or
/// a row costs.
struct CounterMeasurement {
    private let keyCount: Int
    private let blocks: [BlockRows]
    private let rounds = 15

    static func reportAll() {
        for keyCount in [1_000, 100_000, 1_000_000] {
            for shape in [Popularity.Shape.zipf, .uniform] where shape == .zipf || keyCount > 1_000
            {
                CounterMeasurement(keyCount: keyCount, shape).report("\(keyCount) keys, \(shape)")
            }
        }
    }

    private init(keyCount: Int, _ shape: Popularity.Shape) {
        self.keyCount = keyCount
        var popularity = Popularity(shape, count: keyCount)
        var random = SeededRandom(seed: 1)
        // Enough blocks that every round sees all keys anew.
        blocks = (0..<32).map { _ in
            BlockRows(realistic: BlockRows.capacity, &popularity, &random)
        }
    }

    private func report(_ title: String) {
        let counters = SegmentCounters()
        Report.heading("counters: \(title)")
        let first = best(perBlock: { counters.removeAll() }) { expect(counters.fold($0)) }
        show("fold, first rows of a segment", first, "ns/event")
        counters.removeAll()
        for rows in blocks { expect(counters.fold(rows)) }
        show("fold, keys known", best(perBlock: {}) { expect(counters.fold($0)) }, "ns/event")
        reportTables(counters)
    }

    private func reportTables(_ counters: SegmentCounters) {
        let table = counters.encodeTable()
        let rowCount = table.rowCount
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
            least = min(least, ThreadTime.of { for rows in blocks { body(rows) } })
        }
        return least / Double(blocks.count * BlockRows.capacity)
    }

    private func best(_ count: Int, _ body: () -> Void) -> Double {
        ThreadTime.best(ofRounds: rounds, body) / Double(max(count, 1))
    }

    private func show(_ what: String, _ value: Double, _ unit: String) {
        Report.line(what, "\(fixed(value, 1)) \(unit)")
    }
}
