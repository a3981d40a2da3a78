// packet → decode → ring → admit → block → segment → compaction → snapshot → query
import Dispatch
import Logging
import Synchronization

/// Takes log lines off a data-path queue: a log that blocks (a full pipe, a slow terminal) must not stop
/// receiving. Lines are written in order on a queue of their own; while 64 wait, further ones are dropped.
package final class LogLines: Sendable {
    private let logger: Logger
    private let queue = DispatchQueue(label: "ingestd-log")
    private let waiting = Atomic(0)
    private static let waitingMax = 64

    package init(_ logger: Logger) { self.logger = logger }

    /// Never blocks. **Cost** An allocation; callers limit their rate.
    package func warn(_ line: String) { write(line, .warning) }

    /// As `warn`, of what is as it should be.
    package func inform(_ line: String) { write(line, .info) }

    private func write(_ line: String, _ level: Logger.Level) {
        // Relaxed: only the count matters.
        guard waiting.load(ordering: .relaxed) < Self.waitingMax else { return }
        waiting.add(1, ordering: .relaxed)
        queue.async { [self] in
            logger.log(level: level, "\(line)")
            waiting.subtract(1, ordering: .relaxed)
        }
    }

    /// Returns once every line so far is written: for the end of a program.
    package func flush() { queue.sync {} }
}
