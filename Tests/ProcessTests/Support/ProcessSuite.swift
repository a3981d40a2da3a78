import Foundation
import Testing

/// All tests of real processes. Each has directory, ports and programs of its own, and counts on nobody's quiet.
@Suite(.waiting) enum ProcessSuite {}

/// Tests that mostly wait for programs: they run on threads of their own, three for each core, so that the threads of
/// Swift's pool, one for each core, are left to tests that compute.
struct WaitingTrait: SuiteTrait, TestTrait, TestScoping {
    private static let threads = WaitingThreads()

    let isRecursive = true

    func provideScope(
        for test: Test, testCase: Test.Case?, performing body: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(Self.threads) { try await body() }
    }
}

extension Trait where Self == WaitingTrait {
    static var waiting: Self { Self() }
}

private final class WaitingThreads: TaskExecutor {
    private let queue = OperationQueue()

    init() {
        queue.maxConcurrentOperationCount = 3 * ProcessInfo.processInfo.activeProcessorCount
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.addOperation { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
