// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// Which events to list.
public struct EventsQuery: Sendable {
    /// Only this reward's events; `nil` for all.
    public var reward: String?
    /// Only this business's events; `nil` for all.
    public var business: String?
    /// Only events of these business-days.
    public var days: DayRange

    public init(reward: String? = nil, business: String? = nil, days: DayRange = .all) {
        self.reward = reward
        self.business = business
        self.days = days
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

    private static func day(of timestamp: Int64) -> Int64 {
        let (day, rest) = timestamp.quotientAndRemainder(dividingBy: dayMicroseconds)
        return rest < 0 ? day - 1 : day
    }
}
