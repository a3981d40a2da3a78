// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestReaderTool

/// The table that one export becomes, as SQL: columns, indexes.
struct SQLiteSchema {
    private let name: String
    private let columns: [String]
    /// The columns of each index.
    private let indexes: [[String]]

    init(_ table: ExportJob.Table) {
        let money = ["revenueMicros", "spendMicros"]
        // A name that SQL takes without quotes.
        name = table == .rewardDays ? "reward_days" : table.rawValue
        columns = (table.kind?.columns ?? EventText.columns) + money
        switch table {
        // Not unique: a stored name may read like `(lost:N)`.
        case .rewards: indexes = [["id"], ["businessId"]]
        case .days: indexes = [["id"], ["businessId", "date"], ["date"]]
        case .rewardDays: indexes = [["id", "date"], ["businessId", "date"], ["date"]]
        case .events: indexes = [["rewardId", "date"], ["businessId", "date"], ["date"]]
        }
    }

    var createTable: String {
        "CREATE TABLE \(name) (\(columns.map { "\($0) \(Self.type(of: $0))" }.joined(separator: ", ")))"
    }

    var insert: String {
        "INSERT INTO \(name) VALUES (\(columns.map { _ in "?" }.joined(separator: ", ")))"
    }

    var createIndexes: [String] {
        indexes.map { columns in
            "CREATE INDEX \(name)_\(columns.joined(separator: "_")) "
                + "ON \(name) (\(columns.joined(separator: ", ")))"
        }
    }

    private static let texts: Set = [
        "id", "businessId", "date", "revenue", "spend", "timestamp", "eventType", "rewardId",
        "verdict", "consent", "format", "platform", "campaign", "source",
    ]
    private static let reals: Set = ["ctr", "viewability", "duration"]

    private static func type(of column: String) -> String {
        texts.contains(column) ? "TEXT" : reals.contains(column) ? "REAL" : "INTEGER"
    }
}
