// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Dispatch
import Glibc
import Synchronization

/// Pieces of work that several threads do side by side, and one caller takes in their order.
///
/// **Cost** One serial queue, and so one thread, a worker, while it runs. At most `workerCount + 1` pieces are at work
/// or wait to be taken: that bounds the memory, however large the first of them is.
package final class OrderedWork<Output: Sendable>: Sendable {
    private struct State {
        var next = 0
        var isStopped = false
        var finished: [Int: Output] = [:]
    }

    private let count: Int
    private let state = Mutex(State())
    /// A signal for each piece that may be begun.
    private let room = DispatchSemaphore(value: 0)
    /// A signal for each piece that is finished.
    private let finished = DispatchSemaphore(value: 0)
    private let running = DispatchGroup()

    private init(_ count: Int) { self.count = count }

    /// Does all pieces and takes what comes of them, in order.
    ///
    /// - Parameters:
    ///   - count: how many pieces.
    ///   - workerCount: how many threads.
    ///   - wait: called before each piece is taken and at least every 100 ms, on the caller's thread; `false` stops.
    ///   - makeWork: called once on each thread: what does a piece there.
    ///   - take: called on the caller's thread, with the piece.
    /// **Errors** those of `take`. At return no thread is at work any more.
    package static func run<Failure: Error>(
        _ count: Int, workerCount: Int, wait: () -> Bool = { true },
        makeWork: @escaping @Sendable () -> (Int) -> Output,
        take: (Int, Output) throws(Failure) -> Void
    ) throws(Failure) {
        let work = OrderedWork(count)
        let workerCount = max(1, min(workerCount, count))
        for _ in 0..<(count > 0 ? workerCount : 0) { work.start(makeWork) }
        defer {
            work.state.withLock { $0.isStopped = true }
            for _ in 0..<workerCount { work.room.signal() }
            work.running.wait()
        }
        work.room.signal()
        var index = 0
        while index < count, wait() {
            let output = work.state.withLock { $0.finished.removeValue(forKey: index) }
            if let output {
                try take(index, output)
                index += 1
                work.room.signal()
            } else {
                _ = work.finished.wait(timeout: .now() + .milliseconds(100))
            }
        }
    }

    private func start(_ makeWork: @escaping @Sendable () -> (Int) -> Output) {
        room.signal()
        running.enter()
        DispatchQueue(label: "ordered-work").async { [self] in
            let work = makeWork()
            while let index = next() {
                let output = work(index)
                state.withLock { $0.finished[index] = output }
                finished.signal()
            }
            running.leave()
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
}

/// How many threads the machine runs at a time. *The corresponding C function is sysconf(3).*
package var processorCount: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }
