import Foundation
import TestSupport

/// A plain reference counter: what the first events of a file must add up to. It shares nothing with the
/// daemon, not even the parser.
struct EventModel {
    private(set) var rewards: [String: [String: Int]] = [:]
    private(set) var days: [String: [String: Int]] = [:]
    private(set) var eventCount = 0

    private struct Event: Decodable {
        let eventType: String
        let rewardId: String
        let businessId: String
        let timestamp: String
    }

    init(_ lines: some Sequence<String>) throws {
        let decoder = JSONDecoder()
        for line in lines {
            let event = try decoder.decode(Event.self, from: Data(line.utf8))
            let column = event.eventType + "s"
            rewards[event.rewardId, default: [:]][column, default: 0] += 1
            // The fixture's times are all in UTC, so the day is the date as it is written.
            let day = "\(event.businessId)#\(event.timestamp.prefix(10))"
            days[day, default: [:]][column, default: 0] += 1
            eventCount += 1
        }
    }

    /// The same shape from the reader's rows; counters that are 0 are left out.
    static func counts(of ndjson: String) throws -> [String: [String: Int]] {
        var counts: [String: [String: Int]] = [:]
        for row in try Reader.rows(of: ndjson) {
            guard let id = row["id"] as? String else { continue }
            for column in ["impressions", "clicks", "redemptions"] {
                if let count = row[column] as? Int, count > 0 {
                    counts[id, default: [:]][column] = count
                }
            }
        }
        return counts
    }
}
