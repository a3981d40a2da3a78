import IngestFormat
import IngestPipeline
import PipelineTestSupport
import Testing

@testable import Ingestd

/// A start before the log's last time.
struct ClockWaitTests {
    private static let last: Int64 = 1_763_600_000_000_000

    private struct Outcome {
        var isOver = false
        var lines: [String] = []
        var seconds = 0
    }

    /// - Parameter stopsAfter: seconds after which the daemon is told to stop.
    private func wait(
        behindMicroseconds: Int64, last: Int64 = last, isAccepted: Bool = false,
        stopsAfter: Int = 100
    ) -> Outcome {
        let clock = SimulatedClock(wallMicroseconds: Self.last - behindMicroseconds)
        let log = LogStart(
            directory: DirectoryID(rawValue: 1), shard: 0,
            lastSegment: SegmentNumber(rawValue: 1), commitEpoch: 1, previousChecksum: 0,
            lastAdmissionTime: last)
        var outcome = Outcome()
        outcome.isOver = ClockWait(log, clock: clock, isAccepted: isAccepted).run(
            say: { outcome.lines.append($0) },
            isStopped: {
                clock.advance(milliseconds: 1_000)
                outcome.seconds += 1
                return outcome.seconds > stopsAfter
            })
        return outcome
    }

    @Test func `a clock that is not more than 5 s behind is not waited for`() {
        for behind in [-86_400_000_000, 0, 5_000_000] as [Int64] {
            let outcome = wait(behindMicroseconds: behind)
            #expect(outcome.isOver && outcome.lines.isEmpty && outcome.seconds == 0)
        }
        #expect(wait(behindMicroseconds: 3_600_000_000, last: 0).lines.isEmpty)
    }

    @Test func `a clock that is behind is waited for until it has come by`() {
        let outcome = wait(behindMicroseconds: 5_000_001)
        #expect(outcome.isOver && outcome.seconds == 6)
        #expect(outcome.lines.count == 2)
        #expect(outcome.lines[0].contains("2025-11-20T00:53:14Z"))
        #expect(outcome.lines[0].contains("2025-11-20T00:53:20Z"))
        #expect(outcome.lines[0].contains("--accept-clock"))
    }

    @Test func `a stop ends the wait, and who accepts the clock does not wait`() {
        let stopped = wait(behindMicroseconds: 3_600_000_000, stopsAfter: 3)
        #expect(!stopped.isOver && stopped.seconds == 4 && stopped.lines.count == 1)
        let accepted = wait(behindMicroseconds: 3_600_000_000, isAccepted: true)
        #expect(accepted.isOver && accepted.seconds == 0 && accepted.lines.count == 1)
    }
}
