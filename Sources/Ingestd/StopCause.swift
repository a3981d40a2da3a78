import Dispatch
import IngestPipeline
import Synchronization

/// Why the daemon ends: whoever knows it first says so, and the main thread waits for it.
final class StopCause: Sendable {
    enum Cause: Sendable {
        case signal(Int32)
        case failure(PipelineError)
    }

    private let first = Mutex<Cause?>(nil)
    private let known = DispatchSemaphore(value: 0)

    /// Says a cause; only the first one counts. Any thread may call.
    func say(_ cause: Cause) {
        let isFirst = first.withLock { first in
            if first != nil { return false }
            first = cause
            return true
        }
        if isFirst { known.signal() }
    }

    /// Waits for the first cause. One caller, once.
    func wait() -> Cause {
        known.wait()
        guard let cause = first.withLock({ $0 }) else { return .signal(0) }
        return cause
    }
}
