// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// One consistent durable cut of a data directory, and the answers from it.
///
/// Opening needs no daemon and blocks none: it reads the newest manifest, its runs, and the durable part
/// of the log that they do not cover. All answers of one value are of the same cut, whatever a daemon
/// does meanwhile; a new `open` sees what became durable since. Numbers never fall from cut to cut.
///
/// **Cost** Opening reads heads and page indices, and the heads of the blocks behind the runs; the first listing folds these
/// blocks, at most `Limits.segmentRowCountMax` rows a segment; a query what its own comment says.
/// **Concurrency** A value; any number of tasks may ask it at once.
public struct IngestReader: Sendable {
    /// The place in the log up to which every answer counts.
    public let cut: Cut
    let snapshot: any SnapshotSource

    /// Opens a directory that `ingestd` writes or wrote.
    ///
    /// **Errors** `ReaderError`: `notFound` or `missingManifest` if it is not such a directory, `corrupt`
    /// and `newerFormat` naming the file, `io` else. A damaged page or block is an error of the query that reads it. Nothing
    /// in the directory is ever changed.
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
    /// **Cost** A few small reads, some ten microseconds where they are in memory, and behind the runs half a nanosecond for
    /// each row and ten for each new name.
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
    //
    // Each is there twice: for a body that does not throw, and for one that does, whose error ends the listing
    // and comes out as it is.

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
        try query.forEachRow(in: CounterQuery(snapshot)) { body($0) == .next }
    }

    public func forEachReward(
        _ query: RewardsQuery = RewardsQuery(), _ body: (RewardRow) throws -> Iteration
    ) throws {
        try rethrowing(body) { try forEachReward(query, $0) }
    }

    /// Gives business-days, bytewise by `{businessId}#{date}`.
    ///
    /// **Cost** Memory for the counters of a million rows at a time, and the names of all businesses.
    /// - Parameters: as those of `forEachReward`.
    public func forEachDay(
        _ query: DaysQuery = DaysQuery(), _ body: (DayRow) -> Iteration
    ) throws(ReaderError) {
        try query.forEachRow(in: CounterQuery(snapshot)) { body($0) == .next }
    }

    public func forEachDay(
        _ query: DaysQuery = DaysQuery(), _ body: (DayRow) throws -> Iteration
    ) throws {
        try rethrowing(body) { try forEachDay(query, $0) }
    }

    /// Gives reward-days, bytewise by reward, then business, then date.
    ///
    /// **Cost** As `forEachReward`; of one reward, that of its rows alone.
    /// - Parameters: as those of `forEachReward`.
    public func forEachRewardDay(
        _ query: RewardDaysQuery = RewardDaysQuery(), _ body: (RewardDayRow) -> Iteration
    ) throws(ReaderError) {
        try query.forEachRow(in: CounterQuery(snapshot)) { body($0) == .next }
    }

    public func forEachRewardDay(
        _ query: RewardDaysQuery = RewardDaysQuery(), _ body: (RewardDayRow) throws -> Iteration
    ) throws {
        try rethrowing(body) { try forEachRewardDay(query, $0) }
    }

    /// Gives events in the order of the log, from the oldest that retention has left.
    ///
    /// **Errors** As all queries; `io` also where rows expired before it was their turn.
    /// **Cost** One pass over the blocks that may hold a wanted day, in constant memory: a microsecond an event, six
    /// where its names have to be read. Of one reward or business, segments whose footer does not have it are passed over,
    /// and of blocks without its rows only two columns are read.
    /// - Parameters: as those of `forEachReward`.
    public func forEachEvent(
        _ query: EventsQuery = EventsQuery(), _ body: (EventRow) -> Iteration
    ) throws(ReaderError) {
        try snapshot.forEachEvent(query) { body($0) == .next }
    }

    public func forEachEvent(
        _ query: EventsQuery = EventsQuery(), _ body: (EventRow) throws -> Iteration
    ) throws {
        try rethrowing(body) { try forEachEvent(query, $0) }
    }

    /// Gives the rows of an event one by one, as `find`.
    ///
    /// **Cost** Reads the blocks that have event ids and are not older than the business's name; 2 ns a row of
    /// these, in constant memory.
    /// - Parameters:
    ///   - eventID: 1 to 64 bytes; none has another one.
    ///   - business: whose event it is.
    ///   - body: takes each row, and says whether it wants another.
    public func forEachFound(
        eventID: [UInt8], business: String, _ body: (FoundEvent) -> Iteration
    ) throws(ReaderError) {
        try snapshot.forEachFound(eventID: eventID, business: Array(business.utf8)) {
            body($0) == .next
        }
    }

    public func forEachFound(
        eventID: [UInt8], business: String, _ body: (FoundEvent) throws -> Iteration
    ) throws {
        try rethrowing(body) { try forEachFound(eventID: eventID, business: business, $0) }
    }

    /// Gives counters by campaign and source, bytewise by reward, business, campaign and source; events without both are a
    /// row of their own.
    ///
    /// **Cost** Memory for the counters of half a million rows at a time, 12 bytes and more for each attribution of the
    /// directory, and some bytes for each key.
    /// - Parameters: as those of `forEachReward`.
    public func forEachCampaign(
        _ query: CampaignsQuery = CampaignsQuery(), _ body: (CampaignRow) -> Iteration
    ) throws(ReaderError) {
        var left = query.limit ?? .max
        if left <= 0 { return }
        let parts = try snapshot.attributedParts()
        try query.forEachRow(in: CounterQuery(snapshot), parts) { row in
            left -= 1
            return body(row) == .next && left > 0
        }
    }

    public func forEachCampaign(
        _ query: CampaignsQuery = CampaignsQuery(), _ body: (CampaignRow) throws -> Iteration
    ) throws {
        try rethrowing(body) { try forEachCampaign(query, $0) }
    }

    /// Gives the ranges of a listing, of which the next one is folded on a thread of its own meanwhile.
    ///
    /// **Cost** The memory of two ranges.
    /// - Parameter body: its errors end the listing.
    package func forEachRange(
        of listing: some CounterListing, _ body: (ListedRange) throws -> Void
    ) throws {
        try rethrowing { (range: ListedRange) in
            try body(range)
            return .next
        } list: { body in
            try listing.forEachRange(in: CounterQuery(snapshot)) { body($0) == .next }
        }
    }

    // MARK: All rows at once

    /// The rows of `forEachReward` in memory: for listings that are known to be short.
    public func rewards(_ query: RewardsQuery = RewardsQuery()) throws(ReaderError) -> [RewardRow] {
        try gathered { (body) throws(ReaderError) in try forEachReward(query, body) }
    }

    /// The rows of `forEachDay` in memory.
    public func days(_ query: DaysQuery = DaysQuery()) throws(ReaderError) -> [DayRow] {
        try gathered { (body) throws(ReaderError) in try forEachDay(query, body) }
    }

    /// The rows of `forEachRewardDay` in memory.
    public func rewardDays(
        _ query: RewardDaysQuery = RewardDaysQuery()
    ) throws(ReaderError) -> [RewardDayRow] {
        try gathered { (body) throws(ReaderError) in try forEachRewardDay(query, body) }
    }

    /// The rows of `forEachCampaign` in memory.
    public func campaigns(
        _ query: CampaignsQuery = CampaignsQuery()
    ) throws(ReaderError) -> [CampaignRow] {
        try gathered { (body) throws(ReaderError) in try forEachCampaign(query, body) }
    }

    /// The rows of an event, in the order of the log; none if the log has none, or no longer has them.
    ///
    /// The log keeps no ids but a keyed hash of each with its business, of 64 bits, and that is what is compared. Events
    /// of users who opted out and malformed ones are no rows and are never found.
    ///
    /// **Errors** As `forEachEvent`.
    /// **Cost** As `forEachFound`, and memory for the rows.
    /// - Parameters:
    ///   - eventID: as its sender gave it; a UUID in text is the same id as its 16 bytes.
    ///   - business: whose event it is: equal ids of two businesses are two events.
    public func find(eventID: String, business: String) throws(ReaderError) -> [FoundEvent] {
        try gathered { (body) throws(ReaderError) in
            try forEachFound(eventID: Array(eventID.utf8), business: business, body)
        }
    }

    // MARK: The directory

    /// What became of all packets and events, a row for each sender epoch: framed ones by id and epoch, then
    /// plain datagrams, HTTP, and what could not be identified.
    ///
    /// **Errors** As all queries; `io` also where rows expired before it was their turn.
    /// **Cost** One read of every footer, and of the blocks of the segment that is being written; memory for a row a sender.
    public func ledger() throws(ReaderError) -> [LedgerRow] { try snapshot.ledger() }

    /// What the directory holds.
    ///
    /// **Cost** Opens every file for its size.
    public func status() throws(ReaderError) -> DirectoryStatus { try snapshot.status() }

    /// What the whole log of the cut adds up to, also what retention has removed since.
    package func totals() throws(ReaderError) -> LogTotals { try snapshot.totals() }

    /// Whether retention has removed rows.
    package var hasExpiredRows: Bool { snapshot.hasExpiredRows }

    /// How many events there are to list.
    package func eventCount() throws(ReaderError) -> UInt64 { try snapshot.eventCount() }

    /// At least as many rows as a listing of the whole table has.
    package func rowCountMax(of table: TableKind) -> UInt64 { snapshot.rowCountMax(of: table) }
}

/// Lists for a body that may throw: its error ends the listing, whose own are all of one type, and comes out behind it as
/// it was.
private func rethrowing<Row>(
    _ body: (Row) throws -> Iteration, list: ((Row) -> Iteration) throws -> Void
) throws {
    // A function that was passed here takes no closure that captures another one.
    try withoutActuallyEscaping(body) { body in
        var thrown: (any Error)?
        try list { row in
            do { return try body(row) } catch {
                thrown = error
                return .stop
            }
        }
        if let thrown { throw thrown }
    }
}

/// All rows of a listing.
private func gathered<Row>(
    _ list: ((Row) -> Iteration) throws(ReaderError) -> Void
) throws(ReaderError) -> [Row] {
    var rows: [Row] = []
    try list { row in
        rows.append(row)
        return .next
    }
    return rows
}
