// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

extension CounterQuery {
    /// Gives business-days, bytewise by `{businessId}#{date}`.
    ///
    /// **Cost** Of one business: point reads, and the memory of its rows. Of all: three passes over the table,
    /// or two and one for each `Limits.queryRowCountMax` rows; memory is that of `DayRowRange`, the names of
    /// the businesses, and 4 bytes a name.
    package func forEachDay(_ query: DaysQuery, _ body: ListedRow.Body) throws(ReaderError) {
        var limit = RowLimit(query.limit)
        if limit.isReached { return }
        func limited(_ row: ListedRow) -> Bool { limit.goesOn(body(row)) }
        guard let business = query.business else {
            var listing = try DayListing(self, query.days)
            return try listing.give(limited)
        }
        guard let ordinal = try names.ordinal(of: business) else { return }
        var row = ListedRow()
        row.id = Array(business.utf8)
        row.business = row.id
        for day in try rowsByDay(of: .days, ordinal: ordinal.rawValue, query.days) {
            row.day = day.day
            row.counters = day.counters
            guard limited(row) else { return }
        }
    }
}

/// A listing of business-days. Owned by one query.
private struct DayListing {
    private let query: CounterQuery
    private let days: DayRange
    /// The businesses that have rows, and when each is to be shown.
    private let order: DayOrder
    /// By stretch of `order`: its rows, of all parts.
    private var rowCounts: [Int]
    private var range: DayRowRange

    init(_ query: CounterQuery, _ days: DayRange) throws(ReaderError) {
        self.query = query
        self.days = days
        var isSeen = [Bool](repeating: false, count: max(1, Int(query.names.nextName)))
        try query.forEachPage(of: .days, []) { (page) throws(ReaderError) in
            try page.withOrders { (orders) throws(ReaderError) in
                for row in orders.indices {
                    let business = RowOrder.ordinal(orders[row])
                    guard business < isSeen.count else { throw .impossibleRow }
                    if try days.admits(RowOrder.day(orders[row])) { isSeen[business] = true }
                }
            }
        }
        let ordinals = isSeen.indices.filter { isSeen[$0] }.map { UInt32($0) }
        let order = DayOrder(try query.names.texts(of: ordinals))
        self.order = order
        var counts = [Int](repeating: 0, count: order.stretches.count)
        try Self.forEachRow(of: query, days, order, []) { stretch, _, _, _ in
            counts[stretch] += 1
        }
        rowCounts = counts
        range = DayRowRange(
            rowCount: counts.reduce(0, +), rowCountMax: query.rowCountMax)
    }

    mutating func give(_ body: ListedRow.Body) throws(ReaderError) {
        var first = 0
        for (number, count) in rowCounts.enumerated() {
            if !range.hasRoom(for: count) {
                guard try giveRange(first..<number, body) else { return }
                first = number
            }
            range.enterUnit(rowCount: count)
        }
        _ = try giveRange(first..<rowCounts.count, body)
    }

    /// Folds and gives the stretches entered; none are entered then.
    private mutating func giveRange(
        _ numbers: Range<Int>, _ body: ListedRow.Body
    ) throws(ReaderError) -> Bool {
        try Self.forEachRow(of: query, days, order, .all) {
            (stretch, page, row, columns) throws(ReaderError) in
            guard numbers.contains(stretch) else { return }
            try range.add(
                row, of: page, columns, day: page.day(row), to: stretch - numbers.lowerBound)
        }
        var listed = ListedRow()
        var goesOn = true
        for number in numbers where goesOn {
            listed.id = order.text(ofStretch: number)
            listed.business = listed.id
            goesOn = try range.forEachRow(of: number - numbers.lowerBound) { day, counters in
                listed.day = day
                listed.counters = counters
                return body(listed)
            }
        }
        range.removeAll()
        return goesOn
    }

    private static func forEachRow(
        of query: CounterQuery, _ days: DayRange, _ order: DayOrder,
        _ columns: CounterColumnSet,
        _ body: (_ stretch: Int, _ page: CounterPage, _ row: Int, _ columns: CounterSlab.Columns)
            throws(ReaderError) -> Void
    ) throws(ReaderError) {
        var last = 0
        try query.forEachPage(of: .days, columns) { (page) throws(ReaderError) in
            let columns = CounterSlab.Columns(of: page)
            for row in 0..<page.rowCount {
                let (business, day) = (page.key(row), page.day(row))
                guard try days.admits(day) else { continue }
                if !order.contains(business, day, inStretch: last) {
                    guard let stretch = order.stretch(of: business, day) else {
                        throw .impossibleRow
                    }
                    last = stretch
                }
                try body(last, page, row, columns)
            }
        }
    }
}
