// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

import IngestFormat
import Synchronization

/// The tail's counters by business and day, made of its reward-days when they are first asked for. Shared by
/// all queries of one cut.
///
/// **Cost** A look-up of the key's business for each row of the tail, once; 200 bytes a row while it is made.
final class TailDays: Sendable {
    private let rewardDays: [CounterTable]
    private let path: String
    private let made = Mutex<[CounterTable]?>(nil)

    /// - Parameter path: the directory, for messages.
    init(_ rewardDays: [CounterTable], path: String) {
        self.rewardDays = rewardDays
        self.path = path
    }

    /// One table, or none where the tail is empty.
    /// - Parameter names: those of the query that asks.
    func tables(_ names: any NameSource) throws(ReaderError) -> [CounterTable] {
        if rewardDays.isEmpty { return [] }
        return try made.withLock { (made) throws(ReaderError) in
            if let made { return made }
            let tables = try [sum(names)]
            made = tables
            return tables
        }
    }

    private func sum(_ names: any NameSource) throws(ReaderError) -> CounterTable {
        var places: [UInt64: Int] = [:]
        var rows: [(order: UInt64, counters: CounterRow)] = []
        let page = CounterPage()
        for table in rewardDays {
            var cursor = table.makeCursor()
            while try next(&cursor, into: page) {
                for row in 0..<page.rowCount {
                    let key = KeyOrdinal(rawValue: page.key(row))
                    let order = CounterPage.order(
                        key: try names.names(of: key).business.rawValue, day: page.day(row))
                    if let place = places[order] {
                        guard rows[place].counters.add(page.counters(row)) else {
                            throw .overflow
                        }
                    } else {
                        places[order] = rows.count
                        rows.append((order, page.counters(row)))
                    }
                }
            }
        }
        rows.sort { $0.order < $1.order }
        var encoder = CounterTableEncoder(hasDay: true)
        for row in rows {
            encoder.append(
                key: UInt32(truncatingIfNeeded: row.order >> 32),
                day: CounterPage.day(ofOrder: row.order), counters: row.counters)
        }
        return encoder.finish()
    }

    /// The table was encoded by this process; an error is one of its memory.
    private func next(
        _ cursor: inout CounterTable.Cursor, into page: CounterPage
    ) throws(ReaderError) -> Bool {
        do throws(FormatError) { return try cursor.nextPage(into: page) } catch {
            throw ReaderError(error, path: path)
        }
    }
}
