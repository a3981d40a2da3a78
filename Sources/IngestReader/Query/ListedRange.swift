// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Rows of a listing that were folded together, in the order in which they are shown. Nothing of it changes, so that
/// several threads may read parts of it side by side.
///
/// **Cost** 76 bytes a row, 8 more for each rare counter that any row has; 24 and the texts a unit.
package struct ListedRange: Sendable {
    /// What rows in a row have in common: texts by where they lie in `texts`.
    struct Unit: Sendable {
        /// For who made it.
        var tag: UInt32 = 0
        let id: Range<UInt32>
        var business: Range<UInt32> = 0..<0
        var businessCount: UInt32 = 0
    }

    struct Row: Sendable {
        let unit: UInt32
        /// Of the slab.
        let slot: UInt32
        /// 0 in `rewards`.
        let day: Int32
    }

    /// What a range lies in. Of a range that nobody has any more it is taken for another: memory that was touched before
    /// costs less.
    ///
    /// `@unchecked Sendable`: one query fills it; then it goes into a range, and is only read.
    final class Memory: @unchecked Sendable {
        var texts: [UInt8] = []
        var units: [Unit] = []
        var rows: [Row] = []
        let slab: CounterSlab

        init(rowCount: Int) { slab = CounterSlab(capacity: rowCount) }
    }

    private let memory: Memory
    package private(set) var rowCount: Int

    /// Takes each range; `false` ends the listing.
    package typealias Body = (ListedRange) throws(ReaderError) -> Bool

    init(_ memory: Memory) {
        self.memory = memory
        rowCount = memory.rows.count
    }

    /// A few rows that were found one by one.
    init(_ listed: [ListedRow]) {
        let memory = Memory(rowCount: listed.count)
        func place(_ text: [UInt8]) -> Range<UInt32> {
            memory.texts += text
            return UInt32(memory.texts.count - text.count)..<UInt32(memory.texts.count)
        }
        memory.slab.clear(listed.count)
        memory.units = listed.map {
            Unit(
                id: place($0.id), business: place($0.business),
                businessCount: UInt32($0.businessCount))
        }
        memory.rows = listed.indices.map {
            memory.slab.set(listed[$0].counters, $0)
            return Row(unit: UInt32($0), slot: UInt32($0), day: listed[$0].day)
        }
        self.init(memory)
    }

    /// Leaves out all rows but the first ones.
    mutating func keepFirst(_ count: Int) { rowCount = min(rowCount, max(0, count)) }

    /// Gives some of the rows.
    ///
    /// **Cost** About 20 ns a row.
    /// - Parameters:
    ///   - part: inside `0 ..< rowCount`.
    ///   - body: takes each row; `false` is the last one.
    /// - Returns: `false` if `body` did.
    @discardableResult
    package func forEachRow<Row: CounterListedRow>(
        in part: Range<Int>, _ body: (Row) throws -> Bool
    ) rethrows -> Bool {
        // One row, changed in place: a copy would cost as much as what changes.
        var row = Row(ListedRow())
        var unit = UInt32.max
        for place in part {
            read(place, &unit, into: &row.row)
            guard try body(row) else { return false }
        }
        return true
    }

    /// - Parameter unit: of the row that `row` was, and then of the one that it is.
    private func read(_ place: Int, _ unit: inout UInt32, into row: inout ListedRow) {
        let next = memory.rows[place]
        if next.unit != unit {
            unit = next.unit
            let shown = memory.units[Int(unit)]
            put(shown.id, into: &row.id)
            put(shown.business, into: &row.business)
            row.businessCount = Int(shown.businessCount)
        }
        row.day = next.day
        memory.slab.read(Int(next.slot), into: &row.counters)
    }

    private func put(_ place: Range<UInt32>, into text: inout [UInt8]) {
        text.removeAll(keepingCapacity: true)
        text.append(contentsOf: memory.texts[Int(place.lowerBound)..<Int(place.upperBound)])
    }
}

/// A query whose answer is a listing of counters.
package protocol CounterListing: Sendable {
    associatedtype Row: CounterListedRow
    /// As in `RewardsQuery`.
    var limit: Int? { get }
    /// Gives all rows: those beyond the limit too.
    func forEachUnlimited(
        in query: CounterQuery, _ body: ListedRange.Body
    ) throws(ReaderError)
}

/// A row of counters as the library shows it.
package protocol CounterListedRow: Sendable {
    var row: ListedRow { get set }
    init(_ row: ListedRow)
}

extension CounterListing {
    /// Gives the ranges of a listing that have rows.
    package func forEachRange(
        in query: CounterQuery, _ body: ListedRange.Body
    ) throws(ReaderError) {
        var left = limit ?? .max
        if left <= 0 { return }
        try forEachUnlimited(in: query) { (range) throws(ReaderError) in
            var range = range
            range.keepFirst(left)
            left -= range.rowCount
            if range.rowCount > 0, try !body(range) { return false }
            return left > 0
        }
    }

    /// Gives the rows one after the other.
    package func forEachRow(
        in query: CounterQuery, _ body: (Row) -> Bool
    ) throws(ReaderError) {
        try forEachRange(in: query) { $0.forEachRow(in: 0..<$0.rowCount, body) }
    }
}
