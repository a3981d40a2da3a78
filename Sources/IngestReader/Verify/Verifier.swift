// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import Glibc
import IngestFormat
import IngestStorage

/// Recounts every row of the log and holds footers, runs and ledgers against it; checks every byte of every
/// file present. It counts by code of its own: a fault in the daemon's counting shows as a difference.
///
/// Works beside a running daemon, and on a directory that was left uncleanly: what a crash leaves unfinished
/// behind the durable blocks is noted and is no fault. Nothing is changed. The report is the same however many
/// threads made it, and in whatever order they came to their ends.
///
/// **Cost** Reads the whole log once. Memory, with w threads:
/// - 32 bytes for each (reward, business, day) of the log, 64 with money, 168 more where there are rare outcomes; the same
///   once more while two sums become one, and for each stretch of several segments that only older manifests have runs of;
/// - as much for those of the w + 2 segments at work;
/// - the windows of all senders, up to 0.3 kB each in order, once and for each of these segments;
/// - for each thread 140 MB for up to 16 million rows that wait to be sorted, 5 MB, and the largest block;
/// - the names' bytes, 12 bytes a name and 8 a key; for each thread 9 a name and 5 a key of a names run.
public struct Verifier {
    /// Called on the thread of `run`, about ten times a second; `.stop` ends it as soon as each thread has done its
    /// block. There is no report of a part: `run` throws `ReaderError.Kind.cancelled` then.
    public typealias Progress = (VerifyProgress) -> Iteration

    private let path: String

    /// How many threads read and count. Of themselves they are as many as the machine has processors.
    public var workerCount = processorCount

    public init(directory path: String) { self.path = path }

    /// **Errors** `notFound` and `missingManifest` if there is nothing to verify; `io`; `cancelled`. What is wrong
    /// with the data is in the report and no error.
    public func run(_ progress: Progress = { _ in .next }) throws(ReaderError) -> VerifyReport {
        let files: LinuxFileSystem
        do throws(StorageError) { files = try LinuxFileSystem(path: path, create: false) } catch {
            throw ReaderError(error)
        }
        // Longer than a write takes.
        return try Self.run(
            files, workerCount: workerCount, { progress($0) == .next }, pause: { usleep(20_000) })
    }

    /// As `run`, through the file system seam.
    /// - Parameters:
    ///   - progress: `false` ends it.
    ///   - stretchRowCount: with how many rows a stretch of blocks is long enough; nothing but the time depends on it.
    ///   - pause: before what may be a write under way is looked at again; on any thread.
    package static func run(
        _ files: some FileSystem, workerCount: Int = processorCount,
        stretchRowCount: Int = 1 << 18, _ progress: (VerifyProgress) -> Bool = { _ in true },
        pause: @escaping @Sendable () -> Void = {}
    ) throws(ReaderError) -> VerifyReport {
        try VerifyRun(
            files: files, workerCount: workerCount, stretchRowCount: stretchRowCount, pause: pause
        ).run(progress)
    }

    /// *The corresponding C function is sysconf(3).*
    package static var processorCount: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }
}

/// How far `verify` has come.
public struct VerifyProgress: Sendable {
    /// Bytes of blocks that were counted, and of the files that hold them.
    public let doneByteCount: UInt64
    public let totalByteCount: UInt64
}
