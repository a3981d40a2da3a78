// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import Glibc
import IngestFormat
import IngestStorage
import Synchronization

/// Recounts every row of the log and holds footers, runs and ledgers against it; checks every byte of every
/// file present. It counts by code of its own: a fault in the daemon's counting shows as a difference.
///
/// Works beside a running daemon, with a lease on the segments: what retention removes all the same, after an hour or where
/// the disk is full, is noted and no fault. Works on a directory that was left uncleanly: what a crash leaves unfinished
/// behind the durable blocks is noted and is no fault. Nothing is changed. The report is the same however many
/// threads made it, and in whatever order they came to their ends.
///
/// **Cost** Reads the whole log once, and a segment again whose footer is wrong. Memory: for each thread some MiB; the
/// windows of all senders; 8 bytes a name and a key, 9 and 5 more for each thread while names runs are read. Where
/// counters differ, 16 bytes for each key, day and kind of row of a segment whose footer is wrong, the sums of a window
/// for each thread, and those of all businesses and days.
public struct Verifier {
    /// Called on the thread of `run`, about ten times a second; `false` ends it as soon as each thread has done its
    /// block. There is no report of a part: `run` throws an error that `isCancelled` then.
    public typealias Progress = (VerifyProgress) -> Bool

    private let path: String

    /// How many threads read and count. Of themselves they are as many as the machine has processors.
    public var workerCount = processorCount

    /// Whether to judge every retained row again by the counting rules of its time, and to look for ids that were counted
    /// twice. **Cost** Two more passes over the log, one of them for each 6 million ids; 256 MiB.
    public var isDeep = false

    public init(directory path: String) { self.path = path }

    /// **Errors** `VerifyError` if there is nothing to verify, if the system refused a call, and if `progress` ended
    /// it. What is wrong with the data is in the report and no error.
    public func run(_ progress: Progress = { _ in true }) throws(VerifyError) -> VerifyReport {
        let files: LinuxFileSystem
        do throws(StorageError) { files = try LinuxFileSystem(path: path, create: false) } catch {
            throw VerifyError(cause: error)
        }
        // Longer than a write takes.
        return try Self.run(
            files, workerCount: workerCount, deepByteCountMax: isDeep ? 256 << 20 : nil, progress,
            pause: { usleep(20_000) })
    }

    /// As `run`, through the file system seam.
    /// - Parameters:
    ///   - deepByteCountMax: what the ids of a deep check may take; `nil` for none.
    ///   - pause: before what may be a write under way is looked at again; on any thread.
    package static func run(
        _ files: some FileSystem, workerCount: Int = processorCount, deepByteCountMax: Int? = nil,
        _ progress: Progress = { _ in true }, pause: @escaping @Sendable () -> Void = {}
    ) throws(VerifyError) -> VerifyReport {
        let run = VerifyRun(
            files: files, workerCount: workerCount, deepByteCountMax: deepByteCountMax, pause: pause
        )
        do throws(StorageError) {
            let report = try run.run(progress)
            if !run.meter.isStopped { return report }
        } catch {
            throw VerifyError(cause: run.meter.isStopped ? nil : error)
        }
        throw VerifyError(cause: nil)
    }
}

/// How far `verify` has come.
public struct VerifyProgress: Sendable {
    /// Bytes of blocks that were counted, and of the files that hold them.
    public let doneByteCount: UInt64
    public let totalByteCount: UInt64
}

/// Why there is no report.
public struct VerifyError: Error, Equatable, CustomStringConvertible {
    /// `nil` if the caller ended it.
    package let cause: StorageError?

    /// Whether the caller ended it.
    public var isCancelled: Bool { cause == nil }

    /// One line: what, where, what to do.
    public var description: String { cause.map { "\($0)" } ?? "stopped: run it again" }
}

/// How far the workers of a `verify` have come, and whether they shall go on. Shared by all of them.
final class WorkMeter: Sendable {
    private let byteCount = Atomic<UInt64>(0)
    private let stopped = Atomic(false)

    /// Relaxed, both: a figure for people; what was read is handed over by `OrderedWork`'s lock.
    var doneByteCount: UInt64 { byteCount.load(ordering: .relaxed) }

    func add(byteCount count: Int) {
        byteCount.wrappingAdd(UInt64(max(0, count)), ordering: .relaxed)
    }

    /// Relaxed, both: nothing else depends on the order in which it is seen.
    var isStopped: Bool { stopped.load(ordering: .relaxed) }

    func stop() { stopped.store(true, ordering: .relaxed) }
}
