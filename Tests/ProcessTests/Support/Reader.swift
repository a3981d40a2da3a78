import Foundation
import TestSupport

/// `ingest-reader` on the directory of a test.
struct Reader {
    let folder: TemporaryFolder

    @discardableResult
    func run(_ arguments: String...) throws -> Ended { try run(arguments) }

    @discardableResult
    func run(_ arguments: [String]) throws -> Ended {
        try TestSupport.run("ingest-reader", arguments + ["--data", folder.data], in: folder)
    }

    /// What `status` says of packets and events.
    func status() throws -> Status {
        let text = try run("status", "--format", "json").output
        return try JSONDecoder().decode(Status.self, from: Data(text.utf8))
    }

    /// The structure of one file of the directory.
    func inspect(_ name: String) throws -> Ended { try run("inspect", "\(folder.data)/\(name)") }

    /// The three tables as NDJSON, one text: what has to be equal byte for byte.
    func tables() throws -> Tables {
        Tables(
            rewards: try run("rewards", "--format", "ndjson").output,
            days: try run("days", "--format", "ndjson").output,
            rewardDays: try run("reward-days", "--format", "ndjson").output)
    }

    /// The sums of the counters over all rewards.
    func totals() throws -> [String: Int] {
        try Self.sums(of: run("rewards", "--format", "ndjson").output)
    }

    /// Whether all events that the condition asks for have become visible.
    func sees(impressions: Int, clicks: Int) throws -> Bool {
        let totals = try totals()
        return totals["impressions"] == impressions && totals["clicks"] == clicks
    }

    static func rows(of text: String) throws -> [[String: Any]] {
        try text.split(separator: "\n").map {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] ?? [:]
        }
    }

    static func sums(of text: String) throws -> [String: Int] {
        var sums: [String: Int] = [:]
        for row in try rows(of: text) {
            for (name, value) in row {
                if let number = value as? Int { sums[name, default: 0] += number }
            }
        }
        return sums
    }
}

struct Status: Decodable {
    struct Segments: Decodable {
        let sealed: Int
        let unsealed: Int
    }
    struct Expired: Decodable {
        let lastSegment: Int
        let rows: Int
        let newestEvent: String?
        let missingSegments: Int
    }
    let segments: Segments
    let expired: Expired?
    let rows: Int
    let packets: [String: Int]
    let events: [String: Int]
}

struct Tables: Equatable {
    let rewards: String
    let days: String
    let rewardDays: String
}
