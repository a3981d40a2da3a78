// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]

/// Sums of rows by (business, day): rows of a reward-days table in, rows of a days table out.
final class DaySums {
    enum Outcome {
        case added
        case unknownKey(UInt32)
        case overflow(business: UInt32, day: Int32)
    }

    private let keys: [RewardKey]
    private var rows: [(order: UInt64, counters: CounterRow)] = []
    private var places = OrderTable()
    /// Places in `rows` in order, once no more are added, and the next to be taken.
    private var sorted: [Int] = []
    private var nextRow: Int?

    init(keys: [RewardKey]) { self.keys = keys }

    /// Whether rows have been taken, so that no more can be added.
    var isComplete: Bool { nextRow != nil }

    /// Adds all rows of a page.
    func add(_ page: CounterPage) -> Outcome {
        for row in 0..<page.rowCount {
            let key = page.key(row)
            guard Int(key) < keys.count else { return .unknownKey(key) }
            let business = keys[Int(key)].business.rawValue
            let order = CounterPage.order(key: business, day: page.day(row))
            let place = Int(places.slot(of: order))
            if place == 0 {
                rows.append((order, page.counters(row)))
                places.insert(order, slot: UInt32(truncatingIfNeeded: rows.count))
            } else if !page.add(row, to: &rows[place - 1].counters) {
                return .overflow(business: business, day: page.day(row))
            }
        }
        return .added
    }

    /// Fills `page` with the next sums in order; `false` at the end.
    func takeRows(into page: CounterPage) -> Bool {
        var next = nextRow ?? 0
        // Rows are large and stay where they are.
        if nextRow == nil { sorted = rows.indices.sorted { rows[$0].order < rows[$1].order } }
        page.removeAll()
        while next < sorted.count, page.rowCount < CounterPage.capacity {
            let row = rows[sorted[next]]
            _ = page.append(
                key: UInt32(truncatingIfNeeded: row.order >> 32),
                day: CounterPage.day(ofOrder: row.order), counters: row.counters)
            next += 1
        }
        nextRow = next
        return page.rowCount > 0
    }
}
