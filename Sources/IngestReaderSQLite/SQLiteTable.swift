// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import GRDB
import IngestReader
import IngestReaderTool

/// One export as an SQLite table, with its indexes, in one transaction.
///
/// The columns are those of CSV, and two more: money as text of its decimals is exact and what every other format
/// has, and cannot be summed; `revenueMicros` and `spendMicros` can.
///
/// **Cost** A statement a row with an array of its values, and the sorting of the indexes; SQLite's page cache of 64 MiB.
enum SQLiteTable {
    /// **Errors** `ReaderError` of the rows; `SQLiteFailure`.
    static func write(_ job: ExportJob, to path: String, _ onRow: () -> Void) throws {
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.inTransaction(.exclusive) { database in
                let schema = SQLiteSchema(job.table)
                try database.execute(sql: schema.createTable)
                try insert(job, into: schema, of: database, onRow)
                for index in schema.createIndexes { try database.execute(sql: index) }
                return .commit
            }
            try queue.close()
        } catch let error as DatabaseError {
            throw SQLiteFailure(error.message ?? "SQLite error \(error.resultCode.rawValue)")
        }
    }

    /// Nobody sees the file before it is complete, synced and renamed: a journal would protect nothing.
    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.journalMode = .default
        configuration.prepareDatabase { database in
            try database.execute(
                sql: """
                    PRAGMA journal_mode = OFF;
                    PRAGMA synchronous = OFF;
                    PRAGMA cache_size = -65536;
                    """)
        }
        return configuration
    }

    private static func insert(
        _ job: ExportJob, into schema: SQLiteSchema, of database: Database, _ onRow: () -> Void
    ) throws {
        let statement = try database.makeStatement(sql: schema.insert)
        func insert(_ cells: [Cell], _ micros: [Money?]) throws {
            let values = try cells.map(value) + micros.map { try value($0) }
            statement.setUncheckedArguments(StatementArguments(values))
            try statement.execute()
            onRow()
        }
        if let kind = job.table.kind {
            try job.list { row in
                let counters = Counters(row.counters)
                try insert(
                    kind.identityCells(row) + counters.cells, [counters.revenue, counters.spend])
            }
        } else {
            try job.listEvents { event in
                let event = EventRow(event)
                try insert(event.cells, [event.revenue, event.spend])
            }
        }
    }

    /// **Errors** `SQLiteFailure` for a counter of more than 63 bits: SQLite has no such integers, and what it makes
    /// of them instead is rounded.
    private static func value(_ cell: Cell) throws -> DatabaseValue {
        switch cell {
        case .text(let text), .decimal(let text): text.databaseValue
        case .count(let count): try value(count)
        case .number(let text): Double(text).databaseValue
        case .flag(let isSet): isSet.databaseValue
        case .none, .fields, .list: .null
        }
    }

    private static func value(_ money: Money?) throws -> DatabaseValue {
        guard let money else { return .null }
        return try value(money.micros)
    }

    private static func value(_ count: UInt64) throws -> DatabaseValue {
        guard let count = Int64(exactly: count) else {
            throw SQLiteFailure("a counter of \(count) does not fit an integer of SQLite")
        }
        return count.databaseValue
    }
}
