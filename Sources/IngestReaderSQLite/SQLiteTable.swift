// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Foundation
import GRDB
import IngestReader
import IngestReaderTool

/// One export as an SQLite table, with its indexes, in one transaction; in the place of one of that name.
///
/// The columns are those of CSV, and two more: money as text of its decimals is exact and what every other format
/// has, and cannot be summed; `revenueMicros` and `spendMicros` can, where they fit the integers of SQLite, and are text
/// where they do not.
///
/// **Cost** A statement a row with an array of its values, and the sorting of the indexes; SQLite's page cache of 64 MiB.
enum SQLiteTable {
    /// **Errors** `ReaderError` of the rows; `SQLiteFailure`, also for a counter of more than 63 bits that is no money.
    static func write(_ job: ExportJob, to path: String, _ onRows: (Int) -> Void) throws {
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.inTransaction(.exclusive) { database in
                try job.give(to: Inserter(job.table, database), onRows)
                return .commit
            }
            try queue.close()
        } catch let error as DatabaseError {
            throw SQLiteFailure(
                error.message ?? "SQLite error \(error.resultCode.rawValue)",
                mayBeOfFile: ofFile.contains(error.resultCode))
        }
    }

    /// What a file that has tables of others may be answered with.
    private static let ofFile: [ResultCode] = [
        .SQLITE_ERROR, .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_CONSTRAINT, .SQLITE_READONLY,
    ]

    /// Nobody sees the file before it is complete, synced and renamed: a journal would protect nothing.
    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.journalMode = .default
        configuration.foreignKeysEnabled = false
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
}

/// Puts the rows of one table into a database.
private struct Inserter: RowVisitor {
    let table: ExportJob.Table
    let database: Database

    init(_ table: ExportJob.Table, _ database: Database) {
        self.table = table
        self.database = database
    }

    func visit<Batch: RowBatch>(_ rows: Rows<Batch>) throws {
        let schema = SQLiteSchema(table, Batch.Row.columns)
        // Of an export before; its indexes go with it.
        try database.execute(sql: schema.dropTable)
        try database.execute(sql: schema.createTable)
        let statement = try database.makeStatement(sql: schema.insert)
        let encoding = try String.fetchOne(database, sql: "PRAGMA encoding")
        func insert(_ row: some OutputRow) throws {
            var sink = SQLiteValues()
            row.give(to: &sink)
            if let count = sink.overflow {
                throw SQLiteFailure("a counter of \(count) does not fit an integer of SQLite")
            }
            // The cast of bytes loses some of them there.
            if sink.hasNUL, encoding != "UTF-8" {
                throw SQLiteFailure(
                    "a name has NUL, which a file in \(encoding ?? "UTF-16") cannot take",
                    mayBeOfFile: true)
            }
            statement.setUncheckedArguments(StatementArguments(sink.values + sink.micros))
            try statement.execute()
        }
        try rows { batch in
            try batch.forEachRow(in: 0..<batch.rowCount) { try insert($0) }
        }
        for index in schema.createIndexes { try database.execute(sql: index) }
    }
}

/// The values of a row, and behind them its money as integers.
private struct SQLiteValues: ValueSink {
    private(set) var values: [DatabaseValue] = []
    private(set) var micros: [DatabaseValue] = []
    /// A number of more than 63 bits: SQLite has no such integers, and what it makes of them instead is rounded.
    private(set) var overflow: UInt64?
    /// Whether a name has NUL.
    private(set) var hasNUL = false

    mutating func put(
        _ name: StaticString, _ kind: OutputColumn.Kind, _ cell: @autoclosure () -> Cell
    ) {
        switch cell() {
        // GRDB hands over texts as C strings: of one with NUL SQLite would take what stands before that. Bytes become text
        // by a cast.
        case .text(let text) where text.utf8.contains(0):
            hasNUL = true
            values.append(Data(text.utf8).databaseValue)
        case .text(let text), .decimal(let text): values.append(text.databaseValue)
        case .count(let count): values.append(value(count))
        case .number(let text): values.append(Double(text).databaseValue)
        case .flag(let isSet): values.append(isSet.databaseValue)
        case .none, .fields, .list: values.append(.null)
        }
    }

    mutating func money(_ name: StaticString, _ micros: UInt128?) {
        values.append(micros.map { Money(micros: $0).description }.databaseValue)
        let integer = micros.flatMap { Int64(exactly: $0) }.databaseValue
        self.micros.append(integer.isNull ? micros.map { "\($0)" }.databaseValue : integer)
    }

    private mutating func value(_ count: UInt64) -> DatabaseValue {
        guard let count = Int64(exactly: count) else {
            overflow = count
            return .null
        }
        return count.databaseValue
    }
}

/// The table that one export becomes, as SQL: columns, indexes.
struct SQLiteSchema {
    private let name: String
    /// Each with its type.
    private let columns: [(name: String, type: String)]
    /// The columns of each index.
    private let indexes: [[String]]

    /// - Parameter columns: of its rows; each of money has another one, that can be summed, behind them all.
    init(_ table: ExportJob.Table, _ columns: [OutputColumn]) {
        // A name that SQL takes without quotes.
        name = table == .rewardDays ? "reward_days" : table.rawValue
        let money = columns.filter { $0.kind == .decimal }
        self.columns =
            columns.map { ($0.name, Self.type(of: $0)) }
            // Without a type: of a text that should be an integer SQLite makes a rounded number.
            + money.map { ("\($0.name)Micros", "") }
        switch table {
        // Not unique: a stored name may read like `(lost:N)`.
        case .rewards: indexes = [["id"], ["businessId"]]
        case .days: indexes = [["id"], ["businessId", "date"], ["date"]]
        case .rewardDays: indexes = [["id", "date"], ["businessId", "date"], ["date"]]
        case .campaigns: indexes = [["id"], ["businessId"], ["campaign", "source"]]
        case .events: indexes = [["rewardId", "date"], ["businessId", "date"], ["date"]]
        }
    }

    var dropTable: String { "DROP TABLE IF EXISTS \(name)" }

    var createTable: String {
        let list = columns.map { "\($0.name) \($0.type)" }
        return "CREATE TABLE \(name) (\(list.joined(separator: ", ")))"
    }

    var insert: String {
        let values = columns.map { $0.type == "TEXT" ? "CAST(? AS TEXT)" : "?" }
        return "INSERT INTO \(name) VALUES (\(values.joined(separator: ", ")))"
    }

    var createIndexes: [String] {
        indexes.map { columns in
            "CREATE INDEX \(name)_\(columns.joined(separator: "_")) "
                + "ON \(name) (\(columns.joined(separator: ", ")))"
        }
    }

    private static func type(of column: OutputColumn) -> String {
        switch column.kind {
        case .text, .decimal, .nested: "TEXT"
        case .number: "REAL"
        case .count, .flag: "INTEGER"
        }
    }
}
