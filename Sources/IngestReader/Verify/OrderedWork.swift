// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import Dispatch
import Synchronization

/// Pieces of work that threads of their own do side by side, and one caller takes in their order. Whoever does a
/// piece may share parts of it: threads that find no piece to begin help with those.
///
/// **Cost** One serial queue, and so one thread, a worker, while it runs. At most `workerCount + 1` pieces are at work
/// or wait to be taken: that bounds the memory, however large the first of them is.
final class OrderedWork<Memory, Output: Sendable>: Sendable {
    /// Does a part of a piece that another thread has begun; `false` if there is none left.
    typealias Share = @Sendable (Memory) -> Bool

    private struct State {
        var next = 0
        var isStopped = false
        /// Pieces that may still be begun before one is taken.
        var room: Int
        /// Pieces that were begun and are not finished.
        var openCount = 0
        var finished: [Int: Output] = [:]
        /// By the piece that they are parts of.
        var shares: [Int: Share] = [:]
    }

    private enum Step {
        case piece(Int)
        case share(Int, Share)
        case end
    }

    private let count: Int
    private let workerCount: Int
    private let state: Mutex<State>
    /// As many signals as there are workers whenever one of them may find something to do.
    private let change = DispatchSemaphore(value: 0)
    /// A signal for each piece that is finished.
    private let finished = DispatchSemaphore(value: 0)
    private let running = DispatchGroup()

    /// - Parameters:
    ///   - count: how many pieces.
    ///   - workerCount: how many threads.
    init(count: Int, workerCount: Int) {
        self.count = count
        self.workerCount = max(1, workerCount)
        state = Mutex(State(room: max(1, workerCount) + 1))
    }

    /// Does all pieces and takes what comes of them, in order.
    ///
    /// - Parameters:
    ///   - makeMemory: called once on each thread.
    ///   - work: does a piece. Calls what it is given, at most once, to share parts of the piece until it returns.
    ///   - wait: called before each piece is taken and at least every 100 ms, on the caller's thread; `false` stops.
    ///   - take: called on the caller's thread; `false` stops.
    /// **Errors** those of `take`. At return no thread is at work any more.
    func run<Failure: Error>(
        makeMemory: @escaping @Sendable () -> Memory,
        work: @escaping @Sendable (Int, Memory, @escaping (@escaping Share) -> Void) -> Output,
        wait: () -> Bool, take: (Output) throws(Failure) -> Bool
    ) throws(Failure) {
        defer { stop() }
        start(makeMemory, work)
        var index = 0
        while index < count, wait() {
            guard let output = state.withLock({ $0.finished.removeValue(forKey: index) }) else {
                _ = finished.wait(timeout: .now() + .milliseconds(100))
                continue
            }
            index += 1
            guard try take(output) else { return }
            state.withLock { $0.room += 1 }
            wakeAll()
        }
    }

    private func start(
        _ makeMemory: @escaping @Sendable () -> Memory,
        _ work: @escaping @Sendable (Int, Memory, @escaping (@escaping Share) -> Void) -> Output
    ) {
        for number in 0..<workerCount where count > 0 {
            running.enter()
            DispatchQueue(label: "verify-\(number)").async { [self] in
                let memory = makeMemory()
                loop: while true {
                    switch next() {
                    case .piece(let index):
                        let output = work(index, memory) { self.share(index, $0) }
                        finish(index, output)
                    case .share(let index, let share):
                        if !share(memory) { unshare(index) }
                    case .end: break loop
                    }
                }
                running.leave()
            }
        }
    }

    /// What to do next; waits until there is something. Pieces come before parts of others: what several
    /// threads have counted has to be added up.
    private func next() -> Step {
        while true {
            let step = state.withLock { state -> Step? in
                if state.isStopped { return .end }
                if state.next < count, state.room > 0 {
                    state.room -= 1
                    state.openCount += 1
                    state.next += 1
                    return .piece(state.next - 1)
                }
                if let (index, share) = state.shares.min(by: { $0.key < $1.key }) {
                    return .share(index, share)
                }
                return state.next >= count && state.openCount == 0 ? .end : nil
            }
            if let step { return step }
            change.wait()
        }
    }

    private func share(_ index: Int, _ share: @escaping Share) {
        guard workerCount > 1 else { return }
        state.withLock { $0.shares[index] = share }
        wakeAll()
    }

    private func unshare(_ index: Int) { state.withLock { $0.shares[index] = nil } }

    private func finish(_ index: Int, _ output: Output) {
        state.withLock { state in
            state.openCount -= 1
            state.shares[index] = nil
            state.finished[index] = output
        }
        finished.signal()
        wakeAll()
    }

    private func wakeAll() { for _ in 0..<workerCount { change.signal() } }

    private func stop() {
        state.withLock { $0.isStopped = true }
        wakeAll()
        running.wait()
    }
}

extension OrderedWork where Memory == Void {
    /// As above, for pieces that are not shared and need no memory of their thread.
    func run<Failure: Error>(
        work: @escaping @Sendable (Int) -> Output, wait: () -> Bool = { true },
        take: (Output) throws(Failure) -> Bool
    ) throws(Failure) {
        try run(makeMemory: {}, work: { index, _, _ in work(index) }, wait: wait, take: take)
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
