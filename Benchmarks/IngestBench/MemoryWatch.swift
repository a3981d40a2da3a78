import Dispatch
import IngestClient
import Synchronization

/// Samples a process's resident memory while something else goes on in this one.
final class MemoryWatch: Sendable {
    struct Sample: Sendable {
        let atNanoseconds: UInt64
        let residentByteCount: UInt64
    }

    private let processID: Int32
    private let intervalMilliseconds: Int
    private let queue = DispatchQueue(label: "ingest-bench.memory")
    private let state = Mutex(State())
    private let onSample: (@Sendable (Sample) -> Void)?

    private struct State {
        var samples: [Sample] = []
        var isStopped = false
    }

    /// Begins at once, with a sample of now.
    init(
        processID: Int32, intervalMilliseconds: Int = 200,
        onSample: (@Sendable (Sample) -> Void)? = nil
    ) {
        self.processID = processID
        self.intervalMilliseconds = intervalMilliseconds
        self.onSample = onSample
        take()
    }

    /// All samples so far; no further one is taken.
    func stop() -> [Sample] {
        state.withLock { state in
            state.isStopped = true
            return state.samples
        }
    }

    private func take() {
        guard let figures = try? ProcessFigures(processID: processID) else { return }
        let sample = Sample(
            atNanoseconds: SenderClock.monotonicNanoseconds(),
            residentByteCount: figures.residentByteCount)
        let goesOn = state.withLock { state in
            state.samples.append(sample)
            return !state.isStopped
        }
        guard goesOn else { return }
        onSample?(sample)
        queue.asyncAfter(deadline: .now() + .milliseconds(intervalMilliseconds)) { [weak self] in
            self?.take()
        }
    }
}
