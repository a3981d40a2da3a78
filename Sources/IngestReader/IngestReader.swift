// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestStorage

/// One consistent durable cut of a data directory, and the answers from it.
///
/// Opening needs no daemon and blocks none: it reads the newest manifest, its runs, and the durable part
/// of the log that they do not cover. All answers of one value are of the same cut, whatever a daemon
/// does meanwhile; a new `open` sees what became durable since. Numbers never fall from cut to cut.
///
/// **Cost** Opening reads heads and page indices, and the tail of the log after the runs; a query what its own
/// comment says. **Concurrency** A value; any number of tasks may ask it at once.
public struct IngestReader: Sendable {
    /// The place in the log up to which every answer counts.
    public let cut: Cut
    let snapshot: any SnapshotSource

    /// Opens a directory that `ingestd` writes or wrote.
    ///
    /// **Errors** `ReaderError`: `notFound` or `missingManifest` if it is not such a directory, `corrupt`
    /// and `newerFormat` naming the file, `io` else. Nothing in the directory is ever changed.
    public static func open(directory path: String) throws(ReaderError) -> IngestReader {
        let fileSystem: LinuxFileSystem
        do throws(StorageError) {
            fileSystem = try LinuxFileSystem(path: path, create: false)
        } catch {
            throw ReaderError(error)
        }
        return try open(fileSystem)
    }

    /// As `open(directory:)`, through the file system seam.
    package static func open(_ fileSystem: some FileSystem) throws(ReaderError) -> IngestReader {
        let snapshot = try SnapshotLoader(fileSystem).load()
        return IngestReader(cut: snapshot.cut, snapshot: snapshot)
    }

    // MARK: One key

    /// The counters of one reward, over its businesses or at one; `nil` if no event of it is stored.
    ///
    /// **Cost** A few small reads, some ten microseconds where they are in memory.
    public func reward(
        _ id: String, business: String? = nil
    ) throws(ReaderError) -> RewardRow? {
        try CounterQuery(snapshot).reward(id, business: business)
    }

    /// The counters of one business on one day; `nil` if no event of it is stored.
    ///
    /// **Cost** As `reward`.
    public func day(business: String, date: CivilDay) throws(ReaderError) -> DayRow? {
        try CounterQuery(snapshot).day(business: business, date: date)
    }

    // MARK: Listings, a row at a time

    /// Gives rewards, bytewise by id or in the order that the query names.
    ///
    /// **Cost** By id: memory for the counters of a million rewards at a time and some bytes for each name and
    /// key of the directory, whatever there is to list. The greatest `top`: one pass over one counter.
    /// - Parameters:
    ///   - query: which of them, and of which days.
    ///   - body: takes each row; `false` ends the listing.
    public func forEachReward(
        _ query: RewardsQuery = RewardsQuery(), _ body: (RewardRow) -> Bool
    ) throws(ReaderError) {
        try listRewards(query) { body(RewardRow($0)) }
    }

    /// Gives business-days, bytewise by `{businessId}#{date}`.
    ///
    /// **Cost** Memory for the counters of a million rows at a time, and the names of all businesses.
    /// - Parameters:
    ///   - query: which of them, and of which days.
    ///   - body: takes each row; `false` ends the listing.
    public func forEachDay(
        _ query: DaysQuery = DaysQuery(), _ body: (DayRow) -> Bool
    ) throws(ReaderError) {
        try listDays(query) { body(DayRow($0)) }
    }

    /// Gives reward-days, bytewise by reward, then business, then date.
    ///
    /// **Cost** As `forEachReward`; of one reward, that of its rows alone.
    /// - Parameters:
    ///   - query: which of them, and of which days.
    ///   - body: takes each row; `false` ends the listing.
    public func forEachRewardDay(
        _ query: RewardDaysQuery = RewardDaysQuery(), _ body: (RewardDayRow) -> Bool
    ) throws(ReaderError) {
        try listRewardDays(query) { body(RewardDayRow($0)) }
    }

    // MARK: Listings, all rows at once

    /// The rows of `forEachReward` in memory: for listings that are known to be short.
    public func rewards(_ query: RewardsQuery = RewardsQuery()) throws(ReaderError) -> [RewardRow] {
        var rows: [RewardRow] = []
        try forEachReward(query) { row in
            rows.append(row)
            return true
        }
        return rows
    }

    /// The rows of `forEachDay` in memory.
    public func days(_ query: DaysQuery = DaysQuery()) throws(ReaderError) -> [DayRow] {
        var rows: [DayRow] = []
        try forEachDay(query) { row in
            rows.append(row)
            return true
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
            return true
        }
        return rows
    }

    // MARK: For who formats rows as bytes

    package func listRewards(
        _ query: RewardsQuery, _ body: ListedRow.Body
    ) throws(ReaderError) {
        try CounterQuery(snapshot).forEachReward(query, body)
    }

    package func listDays(_ query: DaysQuery, _ body: ListedRow.Body) throws(ReaderError) {
        try CounterQuery(snapshot).forEachDay(query, body)
    }

    package func listRewardDays(
        _ query: RewardDaysQuery, _ body: ListedRow.Body
    ) throws(ReaderError) {
        try CounterQuery(snapshot).forEachRewardDay(query, body)
    }

    // MARK: The directory

    /// What the directory holds.
    ///
    /// **Cost** Opens every file for its size.
    public func status() throws(ReaderError) -> DirectoryStatus { try snapshot.status() }
}
