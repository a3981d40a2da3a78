// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Rows of (ordinal, day) gathered from the parts of a cut, to be sorted and added up.
package struct GatheredRows {
    private struct Entry {
        let ordinalIndex: UInt32
        let day: Int32
        let row: UInt32
    }

    package struct Folded {
        /// Index into `ordinals`.
        package let ordinalIndex: Int
        package let day: Int32
        package var counters: CounterRow
    }

    /// The distinct ordinals, in the order in which they came.
    package private(set) var ordinals: [UInt32] = []
    private var indices: [UInt32: UInt32] = [:]
    private var entries: [Entry] = []
    private var rows: [CounterRow] = []
    private var last: (ordinal: UInt32, index: UInt32)?

    package init() {}

    package mutating func append(_ ordinal: UInt32, _ day: Int32, _ row: CounterRow) {
        entries.append(
            Entry(ordinalIndex: index(of: ordinal), day: day, row: UInt32(rows.count)))
        rows.append(row)
    }

    private mutating func index(of ordinal: UInt32) -> UInt32 {
        if let last, last.ordinal == ordinal { return last.index }
        let index: UInt32
        if let known = indices[ordinal] {
            index = known
        } else {
            index = UInt32(ordinals.count)
            indices[ordinal] = index
            ordinals.append(ordinal)
        }
        last = (ordinal, index)
        return index
    }

    /// One row for each (ordinal, day), sorted by the ordinal's rank, then by day.
    /// - Parameter ranks: by index into `ordinals`; no two are equal.
    package func folded(ranks: [UInt32]) throws(ReaderError) -> [Folded] {
        func key(_ entry: Entry) -> UInt64 {
            let day = UInt32(bitPattern: entry.day) ^ 0x8000_0000
            return UInt64(ranks[Int(entry.ordinalIndex)]) << 32 | UInt64(day)
        }
        let sorted = entries.sorted { key($0) < key($1) }
        var folded: [Folded] = []
        var lastKey: UInt64?
        for entry in sorted {
            let row = rows[Int(entry.row)]
            if key(entry) == lastKey {
                guard folded[folded.count - 1].counters.add(row) else { throw .overflow }
            } else {
                folded.append(
                    Folded(
                        ordinalIndex: Int(entry.ordinalIndex), day: entry.day, counters: row))
                lastKey = key(entry)
            }
        }
        return folded
    }
}
