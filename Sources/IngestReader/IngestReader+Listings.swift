// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// Listings, a row at a time: each for a body that does not throw, and for one that does, whose error ends the
/// listing and comes out as it is.
extension IngestReader {
    /// Gives rewards, bytewise by id or in the order that the query names.
    ///
    /// **Cost** By id: memory for the counters of a million rewards at a time and some bytes for each name and
    /// key of the directory, whatever there is to list. The greatest: one pass over one counter.
    /// - Parameters:
    ///   - query: which of them, and of which days.
    ///   - body: takes each row, and says whether it wants another.
    public func forEachReward(
        _ query: RewardsQuery = RewardsQuery(), _ body: (RewardRow) -> Iteration
    ) throws(ReaderError) {
        try CounterQuery(snapshot).forEachReward(query) { body(RewardRow($0)) == .next }
    }

    /// As the one above, for a body that may throw.
    public func forEachReward(
        _ query: RewardsQuery = RewardsQuery(), _ body: (RewardRow) throws -> Iteration
    ) throws {
        var taker = Taker()
        try forEachReward(query) { row in taker.hold { try body(row) } }
        try taker.release()
    }

    /// Gives business-days, bytewise by `{businessId}#{date}`.
    ///
    /// **Cost** Memory for the counters of a million rows at a time, and the names of all businesses.
    /// - Parameters:
    ///   - query: which of them, and of which days.
    ///   - body: takes each row, and says whether it wants another.
    public func forEachDay(
        _ query: DaysQuery = DaysQuery(), _ body: (DayRow) -> Iteration
    ) throws(ReaderError) {
        try CounterQuery(snapshot).forEachDay(query) { body(DayRow($0)) == .next }
    }

    /// As the one above, for a body that may throw.
    public func forEachDay(
        _ query: DaysQuery = DaysQuery(), _ body: (DayRow) throws -> Iteration
    ) throws {
        var taker = Taker()
        try forEachDay(query) { row in taker.hold { try body(row) } }
        try taker.release()
    }

    /// Gives reward-days, bytewise by reward, then business, then date.
    ///
    /// **Cost** As `forEachReward`; of one reward, that of its rows alone.
    /// - Parameters:
    ///   - query: which of them, and of which days.
    ///   - body: takes each row, and says whether it wants another.
    public func forEachRewardDay(
        _ query: RewardDaysQuery = RewardDaysQuery(), _ body: (RewardDayRow) -> Iteration
    ) throws(ReaderError) {
        try CounterQuery(snapshot).forEachRewardDay(query) { body(RewardDayRow($0)) == .next }
    }

    /// As the one above, for a body that may throw.
    public func forEachRewardDay(
        _ query: RewardDaysQuery = RewardDaysQuery(), _ body: (RewardDayRow) throws -> Iteration
    ) throws {
        var taker = Taker()
        try forEachRewardDay(query) { row in taker.hold { try body(row) } }
        try taker.release()
    }

    // MARK: All rows at once

    /// The rows of `forEachReward` in memory: for listings that are known to be short.
    public func rewards(_ query: RewardsQuery = RewardsQuery()) throws(ReaderError) -> [RewardRow] {
        var rows: [RewardRow] = []
        try forEachReward(query) { row in
            rows.append(row)
            return .next
        }
        return rows
    }

    /// The rows of `forEachDay` in memory.
    public func days(_ query: DaysQuery = DaysQuery()) throws(ReaderError) -> [DayRow] {
        var rows: [DayRow] = []
        try forEachDay(query) { row in
            rows.append(row)
            return .next
        }
        return rows
    }

    /// The rows of `forEachRewardDay` in memory.
    public func rewardDays(
        _ query: RewardDaysQuery = RewardDaysQuery()
    ) throws(ReaderError) -> [RewardDayRow] {
        var rows: [RewardDayRow] = []
        try forEachRewardDay(query) { row in
            rows.append(row)
            return .next
        }
        return rows
    }

    // MARK: For who formats rows as bytes

    package func listRewards(
        _ query: RewardsQuery, _ body: (ListedRow) throws -> Void
    ) throws {
        var taker = Taker()
        try CounterQuery(snapshot).forEachReward(query) { row in taker.takes { try body(row) } }
        try taker.release()
    }

    package func listDays(_ query: DaysQuery, _ body: (ListedRow) throws -> Void) throws {
        var taker = Taker()
        try CounterQuery(snapshot).forEachDay(query) { row in taker.takes { try body(row) } }
        try taker.release()
    }

    package func listRewardDays(
        _ query: RewardDaysQuery, _ body: (ListedRow) throws -> Void
    ) throws {
        var taker = Taker()
        try CounterQuery(snapshot).forEachRewardDay(query) { row in taker.takes { try body(row) } }
        try taker.release()
    }

    package func listEvents(
        _ query: EventsQuery, _ body: (ListedEvent) throws -> Void
    ) throws {
        var taker = Taker()
        try snapshot.forEachEvent(query) { row in taker.takes { try body(row) } }
        try taker.release()
    }
}
