import Dispatch
import IngestPipeline
import Synchronization
import Testing

private struct Broken: Error, Equatable { var code: Int }

/// Counts its turns until it is stopped, or fails at once.
private struct CountingStage: PipelineStage, ~Copyable {
    var failure: Broken?
    let meeting: Meeting

    mutating func run(stop: StopFlag) throws(Broken) {
        if let failure { throw failure }
        meeting.arrive()
        while !stop.isSet { meeting.turns.add(1, ordering: .relaxed) }
    }
}

/// Lets stages show that they run at the same time.
private final class Meeting: Sendable {
    let turns = Atomic(0)
    private let arrivals: Atomic<Int>
    private let everybody = DispatchSemaphore(value: 0)

    init(expecting count: Int) { arrivals = Atomic(count) }

    func arrive() {
        let left = arrivals.subtract(1, ordering: .sequentiallyConsistent).newValue
        if left == 0 { everybody.signal() }
    }

    func wait() { everybody.wait() }
}

@Suite struct StageQueueTests {
    /// More loops than processors, none of which ever ends by itself: each has its own thread.
    @Test func everyStageRunsAtTheSameTimeAsTheOthers() {
        let meeting = Meeting(expecting: 6)
        let queues = (0..<6).map { StageQueue(name: "test-\($0)") }
        for queue in queues {
            queue.start(CountingStage(meeting: meeting)) { _ in Issue.record("no stage fails") }
        }
        meeting.wait()
        for queue in queues { queue.stop() }
        for queue in queues { queue.join() }
    }

    @Test func aFailureReachesItsOwnerOnceAndBeforeJoinReturns() {
        let codes = Mutex<[Int]>([])
        let queue = StageQueue(name: "test-failure")
        queue.start(CountingStage(failure: Broken(code: 5), meeting: Meeting(expecting: 1))) {
            error in
            codes.withLock { $0.append(error.code) }
        }
        queue.join()
        #expect(codes.withLock { $0 } == [5])
    }

    @Test func joinSaysWhenTheTimeIsUp() {
        let meeting = Meeting(expecting: 1)
        let queue = StageQueue(name: "test-join")
        queue.start(CountingStage(meeting: meeting)) { _ in }
        #expect(!queue.join(timeoutMilliseconds: 1))
        queue.stop()
        #expect(queue.join(timeoutMilliseconds: 60_000))
    }
}
