// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// Which events to list.
public struct EventsQuery: Sendable {
    /// Only this reward's events; `nil` for all.
    public var reward: String?
    /// Only this business's events; `nil` for all.
    public var business: String?
    /// Only events of these business-days.
    public var days: DayRange
    /// At most so many, the oldest in the log; `nil` for all, below 0 none.
    public var limit: Int?

    public init(
        reward: String? = nil, business: String? = nil, days: DayRange = .all, limit: Int? = nil
    ) {
        self.reward = reward
        self.business = business
        self.days = days
        self.limit = limit
    }
}

extension DayRange {
    private static let dayMicroseconds: Int64 = 86_400_000_000

    /// Whether rows of these event times can be of a day of the range. The zones of the world are less than a
    /// day away from UTC, so a row's day is that of its time in UTC, or the one before or after.
    /// **Units** microseconds since 1970 UTC, any values.
    func mayHold(timestamps first: Int64, _ last: Int64) -> Bool {
        let firstDay = Self.day(of: first) - 1
        let lastDay = Self.day(of: last) + 1
        return lastDay >= Int64(from?.dayNumber ?? .min) && firstDay <= Int64(to?.dayNumber ?? .max)
    }

    /// Whether rows of these event times may have been refused from so far away
    /// (`Limits.refusedDayDistanceMicrosecondsMax`) that they belong to the day of their admission, which may be one of the
    /// range: their times are then at least that far from it, but for a day on each side.
    func mayHoldRefused(timestamps first: Int64, _ last: Int64) -> Bool {
        let distance = Limits.refusedDayDistanceMicrosecondsMax / Self.dayMicroseconds - 2
        return Self.day(of: first) <= Int64(to?.dayNumber ?? .max) - distance
            || Self.day(of: last) >= Int64(from?.dayNumber ?? .min) + distance
    }

    private static func day(of timestamp: Int64) -> Int64 {
        let (day, rest) = timestamp.quotientAndRemainder(dividingBy: dayMicroseconds)
        return rest < 0 ? day - 1 : day
    }
}
