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

    // MARK: The directory

    /// What the directory holds.
    ///
    /// **Cost** Opens every file for its size.
    public func status() throws(ReaderError) -> DirectoryStatus { try snapshot.status() }
}
