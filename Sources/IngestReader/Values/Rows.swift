// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// The counters of one reward, over all its businesses or (where the query names one) of one.
public struct RewardRow: Sendable, Equatable {
    /// The reward id; `(lost:N)` where the block that held the name was lost.
    public let id: String
    /// The business; of several the bytewise smallest.
    public let businessID: String
    /// How many businesses the counters span; at least 1.
    public let businessCount: Int
    public let counters: Counters

    package init(id: String, businessID: String, businessCount: Int, counters: Counters) {
        self.id = id
        self.businessID = businessID
        self.businessCount = businessCount
        self.counters = counters
    }
}

/// The counters of one business on one day.
public struct DayRow: Sendable, Equatable {
    public let businessID: String
    public let date: CivilDay
    public let counters: Counters

    /// `{businessId}#{YYYY-MM-DD}`.
    public var id: String { "\(businessID)#\(date)" }

    package init(businessID: String, date: CivilDay, counters: Counters) {
        self.businessID = businessID
        self.date = date
        self.counters = counters
    }
}

/// The counters of one reward at one business on one day.
public struct RewardDayRow: Sendable, Equatable {
    /// The reward id.
    public let id: String
    public let businessID: String
    public let date: CivilDay
    public let counters: Counters

    package init(id: String, businessID: String, date: CivilDay, counters: Counters) {
        self.id = id
        self.businessID = businessID
        self.date = date
        self.counters = counters
    }
}

/// The place in the log up to which an answer counts: every block of the segments before `segment`,
/// and the first `block` blocks of it. A greater cut never shows smaller counters.
public struct Cut: Sendable, Hashable, Comparable {
    /// Segment number, from 1; 0 where the log is empty.
    public let segment: UInt32
    /// Blocks of that segment.
    public let block: UInt32

    public init(segment: UInt32, block: UInt32) {
        self.segment = segment
        self.block = block
    }

    public static func < (a: Self, b: Self) -> Bool {
        (a.segment, a.block) < (b.segment, b.block)
    }
}
