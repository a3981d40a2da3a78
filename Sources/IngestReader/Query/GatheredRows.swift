// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Rows of (ordinal, day) gathered from the parts of a cut and added up, to be put in order.
///
/// **Cost** 168 bytes for each distinct (ordinal, day) and its entry in a dictionary; adding to one is a
/// look-up.
package struct GatheredRows {
    package struct Row {
        /// Index into `ordinals`.
        package let ordinalIndex: Int
        package let day: Int32
        package var counters: CounterRow
    }

    /// The distinct ordinals, in the order in which they came.
    package private(set) var ordinals: [UInt32] = []
    private var indices: [UInt32: Int] = [:]
    private var rows: [Row] = []
    /// By `CounterPage.order`: index into `rows`.
    private var places: [UInt64: Int] = [:]
    private var last: (ordinal: UInt32, index: Int)?

    package init() {}

    package mutating func add(
        _ ordinal: UInt32, _ day: Int32, _ counters: CounterRow
    ) throws(ReaderError) {
        let order = CounterPage.order(key: ordinal, day: day)
        if let place = places[order] {
            guard rows[place].counters.add(counters) else { throw .overflow }
            return
        }
        places[order] = rows.count
        rows.append(Row(ordinalIndex: index(of: ordinal), day: day, counters: counters))
    }

    private mutating func index(of ordinal: UInt32) -> Int {
        if let last, last.ordinal == ordinal { return last.index }
        let index = indices[ordinal] ?? ordinals.count
        if index == ordinals.count {
            indices[ordinal] = index
            ordinals.append(ordinal)
        }
        last = (ordinal, index)
        return index
    }

    /// The rows by their ordinal's rank, then by day.
    /// - Parameter ranks: by index into `ordinals`; no two are equal.
    package func sorted(byRanks ranks: [UInt32]) -> [Row] {
        let orders = rows.map { CounterPage.order(key: ranks[$0.ordinalIndex], day: $0.day) }
        return rows.indices.sorted { orders[$0] < orders[$1] }.map { rows[$0] }
    }
}
