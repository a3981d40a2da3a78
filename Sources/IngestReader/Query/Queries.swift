// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// A range of days, both ends included; an end that is `nil` is open.
public struct DayRange: Sendable, Hashable {
    public var from: CivilDay?
    public var to: CivilDay?

    public init(from: CivilDay? = nil, to: CivilDay? = nil) {
        self.from = from
        self.to = to
    }

    public static let all = DayRange()

    /// Whether the range leaves any day out.
    public var isBounded: Bool { from != nil || to != nil }

    public func contains(_ day: CivilDay) -> Bool { contains(day.dayNumber) }

    package func contains(_ dayNumber: Int32) -> Bool {
        dayNumber >= from?.dayNumber ?? .min && dayNumber <= to?.dayNumber ?? .max
    }

    /// `nil` where no day is in the range.
    package var dayNumbers: ClosedRange<Int32>? {
        let (first, last) = (from?.dayNumber ?? .min, to?.dayNumber ?? .max)
        return first <= last ? first...last : nil
    }
}

/// Which rewards to list, and how.
public struct RewardsQuery: Sendable {
    /// Greatest first; equal ones bytewise by id. A reward without impressions has no `ctr`, comes last.
    public enum Order: String, Sendable, CaseIterable {
        case impressions, clicks, redemptions, ctr, revenue, spend
    }

    /// Only this business's counts; `nil` for all.
    public var business: String?
    /// Only events of these days.
    public var days: DayRange
    /// `nil`: bytewise by id.
    public var order: Order?
    /// Maximum number of rows, the greatest by `order` or else the first by id; `nil` for all, below 0 none.
    public var limit: Int?

    public init(
        business: String? = nil, days: DayRange = .all, order: Order? = nil, limit: Int? = nil
    ) {
        self.business = business
        self.days = days
        self.order = order
        self.limit = limit
    }
}

/// Which business-days to list.
public struct DaysQuery: Sendable {
    public var business: String?
    public var days: DayRange
    /// Maximum number of rows; `nil` for all, below 0 none.
    public var limit: Int?

    public init(business: String? = nil, days: DayRange = .all, limit: Int? = nil) {
        self.business = business
        self.days = days
        self.limit = limit
    }
}

/// Which reward-days to list.
public struct RewardDaysQuery: Sendable {
    public var reward: String?
    public var business: String?
    public var days: DayRange
    /// Maximum number of rows; `nil` for all, below 0 none.
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

/// Which counters by campaign and source to list.
public struct CampaignsQuery: Sendable {
    /// Only this reward's; `nil` for all.
    public var reward: String?
    public var business: String?
    /// Only events of these days.
    public var days: DayRange
    /// Maximum number of rows; `nil` for all, below 0 none.
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
