// packet → decode → ring → admit → block → segment → compaction → snapshot → query
// The four serial queues of the pipeline. Each runs one long-lived loop that owns its stage's state.

import CIngestLinux
import Dispatch
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
