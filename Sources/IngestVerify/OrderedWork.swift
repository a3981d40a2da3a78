// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Dispatch
import Glibc
import Synchronization

/// Pieces of work that several threads do side by side, and one caller takes in their order.
///
/// **Cost** One serial queue, and so one thread, a worker, while it runs. At most `workerCount + 1` pieces are at work
/// or wait to be taken: that bounds the memory, however large the first of them is.
package final class OrderedWork<Memory, Output: Sendable>: Sendable {
    private struct State {
        var next = 0
        var isStopped = false
        var finished: [Int: Output] = [:]
    }

    private let count: Int
    private let workerCount: Int
    private let state = Mutex(State())
    /// A signal for each piece that may be begun.
    private let room = DispatchSemaphore(value: 0)
    /// A signal for each piece that is finished.
    private let finished = DispatchSemaphore(value: 0)
    private let running = DispatchGroup()

    /// - Parameters:
    ///   - count: how many pieces.
    ///   - workerCount: how many threads.
    package init(count: Int, workerCount: Int) {
        self.count = count
        self.workerCount = max(1, min(workerCount, count))
    }

    /// Does all pieces and takes what comes of them, in order. Once for each object.
    ///
    /// - Parameters:
    ///   - makeMemory: called once on each thread.
    ///   - work: does a piece.
    ///   - wait: called before each piece is taken and at least every 100 ms, on the caller's thread; `false` stops.
    ///   - take: called on the caller's thread; `false` stops.
    /// **Errors** those of `take`. At return no thread is at work any more.
    package func run<Failure: Error>(
        makeMemory: @escaping @Sendable () -> Memory,
        work: @escaping @Sendable (Int, Memory) -> Output,
        wait: () -> Bool = { true }, take: (Output) throws(Failure) -> Bool
    ) throws(Failure) {
        defer { stop() }
        room.signal()
        for _ in 0..<(count > 0 ? workerCount : 0) {
            room.signal()
            running.enter()
            DispatchQueue(label: "ordered-work").async { [self] in
                let memory = makeMemory()
                while let index = next() {
                    let output = work(index, memory)
                    state.withLock { $0.finished[index] = output }
                    finished.signal()
                }
                running.leave()
            }
        }
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

    /// The piece to do next; waits until there is room for one. `nil` at the end.
    private func next() -> Int? {
        room.wait()
        return state.withLock { state in
            guard !state.isStopped, state.next < count else { return nil }
            state.next += 1
            return state.next - 1
        }
    }

    private func stop() {
        state.withLock { $0.isStopped = true }
        for _ in 0..<workerCount { room.signal() }
        running.wait()
    }
}

extension OrderedWork where Memory == Void {
    /// As above, for pieces that need no memory of their thread.
    package func run<Failure: Error>(
        work: @escaping @Sendable (Int) -> Output, wait: () -> Bool = { true },
        take: (Output) throws(Failure) -> Bool
    ) throws(Failure) {
        try run(makeMemory: {}, work: { index, _ in work(index) }, wait: wait, take: take)
    }
}

/// How many threads the machine runs at a time. *The corresponding C function is sysconf(3).*
package var processorCount: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }
