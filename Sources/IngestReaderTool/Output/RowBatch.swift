// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestReader

/// Some rows of a listing, in their order. Parts of them may be read side by side, on several threads.
package protocol RowBatch: Sendable {
    associatedtype Row: OutputRow
    var rowCount: Int { get }
    /// - Parameter part: inside `0 ..< rowCount`.
    func forEachRow(in part: Range<Int>, _ body: (Row) throws -> Void) rethrows
}

/// Gives all rows of a listing, batch by batch; the same ones at each call.
package typealias Rows<Batch: RowBatch> = ((Batch) throws -> Void) throws -> Void

extension RowBatch {
    func forEachRow(_ body: (Row) throws -> Void) rethrows {
        try forEachRow(in: 0..<rowCount, body)
    }
}

extension Array: RowBatch where Element: OutputRow {
    package var rowCount: Int { count }
    package func forEachRow(in part: Range<Int>, _ body: (Element) throws -> Void) rethrows {
        for row in self[part] { try body(row) }
    }
}

/// Rows of counters.
package struct ListedRows<Row: CounterListedRow & OutputRow>: RowBatch {
    fileprivate let range: ListedRange
    fileprivate let start: Int
    package let rowCount: Int

    package func forEachRow(in part: Range<Int>, _ body: (Row) throws -> Void) rethrows {
        try range.forEachRow(in: start + part.lowerBound..<start + part.upperBound) { row in
            try body(Row(row))
            return true
        }
    }
}

extension IngestReader {
    private static var batchRowCountMax: Int { 1 << 13 }
    /// Of rows that are made one by one.
    private static var madeRowCountMax: Int { 1 << 12 }

    func rows<Listing: CounterListing>(
        of listing: Listing
    ) -> Rows<ListedRows<Listing.Row>> where Listing.Row: OutputRow {
        { body in
            try forEachRange(of: listing) { range in
                for start in stride(from: 0, to: range.rowCount, by: Self.batchRowCountMax) {
                    let count = min(Self.batchRowCountMax, range.rowCount - start)
                    try body(ListedRows(range: range, start: start, rowCount: count))
                }
            }
        }
    }

    func rows(of query: EventsQuery) -> Rows<[EventRow]> {
        Self.gathered { give in try forEachEvent(query) { try give($0) } }
    }

    func rows(of query: CampaignsQuery) -> Rows<[CampaignRow]> {
        Self.gathered { give in try forEachCampaign(query) { try give($0) } }
    }

    func rows(ofEvent id: [UInt8], business: String) -> Rows<[FoundEvent]> {
        Self.gathered { give in
            try forEachFound(eventID: id, business: business) { try give($0) }
        }
    }

    private static func gathered<Row: OutputRow>(
        _ list: @escaping ((Row) throws -> Iteration) throws -> Void
    ) -> Rows<[Row]> {
        { body in
            var rows: [Row] = []
            try list { row in
                rows.append(row)
                if rows.count == madeRowCountMax {
                    try body(rows)
                    rows.removeAll(keepingCapacity: true)
                }
                return .next
            }
            if !rows.isEmpty { try body(rows) }
        }
    }
}
