import Foundation
import IngestPipeline

/// A start before the log's last block: the clock is wrong, or was. What is admitted by it would be dated before what
/// is there, so the daemon is not ready until the clock has come by, or somebody says that it is right.
struct ClockWait<Clock: IngestClock> {
    private let log: LogStart
    private let clock: Clock
    private let isAccepted: Bool

    init(_ log: LogStart, clock: Clock, isAccepted: Bool) {
        self.log = log
        self.clock = clock
        self.isAccepted = isAccepted
    }

    /// Returns once the clock has come by, or at once where that need not be waited for.
    ///
    /// - Parameters:
    ///   - say: takes a line for the log.
    ///   - isStopped: lets a second pass, or less if it has to end.
    /// - Returns: whether the start may go on.
    func run(say: (String) -> Void, isStopped: () -> Bool) -> Bool {
        let now = clock.wallMicroseconds()
        guard log.isAhead(of: now) else { return true }
        let found =
            "the clock shows \(Self.text(now)), before the log's last block of "
            + Self.text(log.lastAdmissionTime)
        if isAccepted {
            say("\(found): accepted")
            return true
        }
        say("\(found): waiting, set the clock right, or start with --accept-clock if it is")
        while log.lastAdmissionTime > clock.wallMicroseconds() {
            if isStopped() { return false }
        }
        say("the clock has come by the log's last block")
        return true
    }

    /// UTC, to the second.
    private static func text(_ microseconds: Int64) -> String {
        Date(timeIntervalSince1970: Double(microseconds) / 1e6).formatted(.iso8601)
    }
}
