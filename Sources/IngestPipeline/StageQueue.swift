// packet → decode → ring → admit → block → segment → compaction → snapshot → query
// The serial queues of the pipeline: each runs one long-lived loop that owns its stage's state.

import CIngestLinux
import Dispatch
import Logging
import Synchronization

/// A stage of the pipeline: a value with one owner, its queue.
package protocol PipelineStage: ~Copyable, SendableMetatype {
    associatedtype Failure: Error
    /// The stage's loop. Returns when the stage has done all that it will do: after `stop` was asked
    /// for, or when its input has ended. It must not spin, and must look at `stop` at least every 100 ms
    /// if that is what ends it.
    ///
    /// **Errors** What is thrown is fatal to the pipeline; it goes to the callback of `StageQueue.start`.
    mutating func run(stop: StopFlag) throws(Failure)
}

/// Set once, by anybody, to ask a stage to end.
package final class StopFlag: Sendable {
    private let flag = Atomic(false)

    package init() {}

    /// Acquiring, partner: `set` (what was written before the stop is seen after it).
    package var isSet: Bool { flag.load(ordering: .acquiring) }

    /// Releasing, partner: `isSet`.
    package func set() { flag.store(true, ordering: .releasing) }
}

/// One serial Dispatch queue with one stage on it.
///
/// **Cost** One thread, for as long as the stage runs: a loop that blocks in the kernel holds the queue's
/// thread, and Dispatch gives each serial queue one of its own.
package final class StageQueue: Sendable {
    package let name: String
    /// What `stop` sets.
    package let stopFlag = StopFlag()
    private let queue: DispatchQueue
    private let running = DispatchGroup()
    private let hasStarted = Atomic(false)

    /// `name` is the queue's label and, its first 15 bytes, the thread's name while the loop runs.
    package init(name: String) {
        self.name = name
        queue = DispatchQueue(label: name)
    }

    /// Moves `stage` to the queue and runs its loop there. A queue runs one stage in its life.
    ///
    /// `onFailure` is called on this queue, at most once, with the error that ended the loop; `join`
    /// returns after it has.
    package func start<Stage: PipelineStage & ~Copyable>(
        _ stage: consuming sending Stage,
        onFailure: @escaping @Sendable (Stage.Failure) -> Void
    ) {
        // Relaxed: only the one winner matters.
        precondition(!hasStarted.exchange(true, ordering: .relaxed), "a stage queue starts once")
        let parcel = Parcel(stage)
        running.enter()
        queue.async { [name, stopFlag, running] in
            // SAFETY: the string is terminated and lives through the call.
            unsafe name.withCString { unsafe ingest_thread_name($0) }
            var stage = parcel.open()
            do throws(Stage.Failure) {
                try stage.run(stop: stopFlag)
            } catch {
                onFailure(error)
            }
            running.leave()
        }
    }

    /// Asks the stage to end; does not wait.
    package func stop() { stopFlag.set() }

    /// Waits until the loop has ended, at most so long; `false` if it has not.
    package func join(timeoutMilliseconds: Int) -> Bool {
        running.wait(timeout: .now() + .milliseconds(timeoutMilliseconds)) == .success
    }

    /// Waits until the loop has ended.
    package func join() { running.wait() }
}

/// Carries a value that cannot be copied into a closure, which cannot consume what it captures.
///
/// `@unchecked Sendable`: filled before the closure is handed over, emptied by its only run.
private final class Parcel<Value: ~Copyable>: @unchecked Sendable {
    private var value: Value?

    init(_ value: consuming sending Value) { self.value = consume value }

    func open() -> Value { value.take()! }
}

/// Trying again what was refused for a `Shortage`: since when, when next, and when the log has a line about it. A
/// plain value of the stage that waits; times are those of its monotonic clock, ns.
struct Backoff {
    private let least: UInt64
    private let most: UInt64
    private var delay: UInt64
    private var since: UInt64?
    private var next: UInt64 = 0
    private var tell: UInt64 = 0

    private static let tellIntervalNanoseconds: UInt64 = 60_000_000_000

    /// - Parameters:
    ///   - milliseconds: until the first try.
    ///   - most: until any; doubled from try to try up to there. None = always the same.
    init(milliseconds least: UInt64, most: UInt64? = nil) {
        self.least = least * 1_000_000
        self.most = (most ?? least) * 1_000_000
        delay = self.least
    }

    /// Whether the last try failed.
    var isWaiting: Bool { since != nil }

    /// Until the next try; 0 = now.
    func nanosecondsLeft(at now: UInt64) -> UInt64 { isWaiting && next > now ? next - now : 0 }

    /// Waits from now on, and may try at once.
    mutating func begin(at now: UInt64) { (since, next) = (now, now) }

    /// A try was refused.
    /// - Returns: whether the log is to have a line: at first, and each minute.
    mutating func fail(at now: UInt64) -> Bool {
        if since == nil { (since, tell) = (now, now) }
        next = now &+ delay
        delay = min(delay * 2, most)
        guard now >= tell else { return false }
        tell = now &+ Self.tellIntervalNanoseconds
        return true
    }

    /// A try did not fail.
    /// - Returns: for how long there was a wait, ns; `nil` = there was none.
    mutating func succeed(at now: UInt64) -> UInt64? {
        guard let since else { return nil }
        self.since = nil
        delay = least
        return now &- since
    }
}

/// The daemon's log: one that blocks (a full pipe, a slow terminal) must stop neither receiving nor a stop. Lines are
/// written in order on a queue of their own; while 1,024 wait, further ones are dropped.
package final class LogLines: Sendable {
    private let logger: Logger
    private let queue = DispatchQueue(label: "ingestd-log")
    private let waiting = Atomic(0)
    private let dropped = Atomic(0)
    private let written = Atomic(0)
    private static let waitingMax = 1_024

    package init(_ logger: Logger) { self.logger = logger }

    /// Never blocks. **Cost** An allocation; callers limit their rate.
    package func warn(_ line: String) { write(line, .warning) }

    /// As `warn`, of what is as it should be.
    package func inform(_ line: String) { write(line, .info) }

    /// As `warn`, of what failed.
    package func error(_ line: String) { write(line, .error) }

    private func write(_ line: String, _ level: Logger.Level) {
        // Relaxed: only the count matters.
        guard waiting.load(ordering: .relaxed) < Self.waitingMax else {
            dropped.add(1, ordering: .relaxed)
            return
        }
        waiting.add(1, ordering: .relaxed)
        queue.async { [self] in
            logger.log(level: level, "\(line)")
            written.add(1, ordering: .relaxed)
            if waiting.subtract(1, ordering: .relaxed).newValue <= Self.waitingMax / 2 {
                tellDropped()
            }
        }
    }

    /// On the queue.
    private func tellDropped() {
        let lost = dropped.exchange(0, ordering: .relaxed)
        if lost == 0 { return }
        logger.warning(
            "\(lost) log lines dropped: standard error was not read, see the program that reads it")
    }

    /// Returns once every line so far is written: for the end of a program. Of a log that takes none for so many seconds,
    /// then; of one that is slow, after ten times that.
    package func flush(stallSecondsMax: Double = 1) {
        let isWritten = DispatchSemaphore(value: 0)
        queue.async { [self] in
            tellDropped()
            isWritten.signal()
        }
        for _ in 0..<10 {
            // Relaxed: only the count matters.
            let before = written.load(ordering: .relaxed)
            if isWritten.wait(timeout: .now() + stallSecondsMax) == .success { return }
            if written.load(ordering: .relaxed) == before { return }
        }
    }
}
