import Logging
import PipelineTestSupport
import Synchronization
import TestSupport
import Testing

@testable import IngestPipeline

/// The daemon's log where nobody reads it.
struct LogLinesTests {
    @Test(
        "A log that blocks stops nobody, keeps at most 1,024 lines, and says how many it has not kept"
    )
    func blocked() {
        let gate = Gate()
        let written = LineRecorder()
        var logger = Logger(label: "test") { _ in BlockedHandler(gate: gate, written: written) }
        logger.logLevel = .trace
        let lines = LogLines(logger)
        gate.mutex.withLock { _ in
            for index in 0..<10_000 { lines.warn("line \(index)") }
            // Nor a stop.
            lines.flush(stallSecondsMax: 0.01)
        }
        lines.flush(stallSecondsMax: 600)
        #expect((1_025...1_026).contains(written.lines.count))
        #expect(written.lines.first == "line 0")
        let end = "log lines dropped: standard error was not read, see the program that reads it"
        #expect(written.lines.count { $0.hasSuffix(end) } == 1)
        lines.warn("after")
        lines.flush(stallSecondsMax: 600)
        #expect(written.lines.last == "after")
    }
}

private final class Gate: Sendable { let mutex = Mutex(()) }

/// A log that writes only while nobody holds the gate.
private struct BlockedHandler: LogHandler {
    let gate: Gate
    let written: LineRecorder
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        gate.mutex.withLock { _ in written.write(event.message.description) }
    }
}
