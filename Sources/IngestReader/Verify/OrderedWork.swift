// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import Dispatch
import Synchronization

/// Pieces of work that threads of their own do side by side, and one caller takes in their order.
///
/// **Cost** One serial queue, and so one thread, a worker, while it runs. At most `workerCount + 1` pieces are at work
/// or wait to be taken: that bounds the memory, however large the first of them is.
final class OrderedWork<Output: Sendable>: Sendable {
    private struct State {
        var next = 0
        var isStopped = false
        var finished: [Int: Output] = [:]
    }

    private let count: Int
    private let workerCount: Int
    private let state = Mutex(State())
    /// How many pieces may still be begun before one is taken.
    private let room = DispatchSemaphore(value: 0)
    /// A signal for each piece that is finished.
    private let finished = DispatchSemaphore(value: 0)
    private let running = DispatchGroup()

    /// - Parameter workerCount: how many threads; no more than there are pieces.
    init(count: Int, workerCount: Int) {
        self.count = count
        self.workerCount = max(1, min(workerCount, count))
    }

    /// Does all pieces and takes what comes of them, in order.
    ///
    /// - Parameters:
    ///   - makeWorker: called once on each thread; what it returns does one piece after the other there.
    ///   - wait: called before each piece is taken and at least every 100 ms, on the caller's thread; `false` stops.
    ///   - take: called on the caller's thread; `false` stops.
    /// **Errors** those of `take`. At return no thread is at work any more.
    func run<Failure: Error>(
        makeWorker: @escaping @Sendable () -> (Int) -> Output, wait: () -> Bool,
        take: (Output) throws(Failure) -> Bool
    ) throws(Failure) {
        defer { stop() }
        start(makeWorker)
        var index = 0
        while index < count, wait() {
            guard let output = state.withLock({ $0.finished.removeValue(forKey: index) }) else {
                _ = finished.wait(timeout: .now() + .milliseconds(100))
                continue
            }
            index += 1
            guard try take(output) else { return }
            room.signal()
        }
    }

    private func start(_ makeWorker: @escaping @Sendable () -> (Int) -> Output) {
        for _ in 0...workerCount { room.signal() }
        for number in 0..<workerCount where count > 0 {
            running.enter()
            DispatchQueue(label: "verify-\(number)").async { [self] in
                let work = makeWorker()
                while let index = begin() {
                    let output = work(index)
                    state.withLock { $0.finished[index] = output }
                    finished.signal()
                }
                running.leave()
            }
        }
    }

    /// The next piece; `nil` if there is none or no more is wanted.
    private func begin() -> Int? {
        room.wait()
        let index = state.withLock { state -> Int? in
            guard !state.isStopped, state.next < count else { return nil }
            state.next += 1
            return state.next - 1
        }
        // Whoever waits for room has to see the end too.
        if index == nil { room.signal() }
        return index
    }

    private func stop() {
        state.withLock { $0.isStopped = true }
        room.signal()
        running.wait()
    }
}

/// How far the workers of a `verify` have come, and whether they shall go on. Shared by all of them.
final class WorkMeter: Sendable {
    private let byteCount = Atomic<UInt64>(0)
    private let stopped = Atomic(false)

    /// Relaxed, both: a figure for persons; what was read is handed over by `OrderedWork`'s lock.
    var doneByteCount: UInt64 { byteCount.load(ordering: .relaxed) }

    func add(byteCount count: Int) {
        byteCount.wrappingAdd(UInt64(max(0, count)), ordering: .relaxed)
    }

    /// Relaxed, both: nothing else depends on the order in which it is seen.
    var isStopped: Bool { stopped.load(ordering: .relaxed) }

    func stop() { stopped.store(true, ordering: .relaxed) }
}
