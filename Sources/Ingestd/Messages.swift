import Dispatch
import Foundation
import Glibc
import IngestFormat
import IngestPipeline
import Logging
import Synchronization

/// The exit codes that scripts may rely on; those of BSD's sysexits where there is one.
enum ExitReason: Int32 {
    case usage = 64
    case dataWrong = 65
    case notThere = 66
    case notAvailable = 69
    case durabilityLost = 71
    case inputOutput = 74
    case configuration = 78
}

/// An error that ends the program: one line on stderr (what, where, what to do) and an exit code.
struct Fault: Error, Equatable {
    let reason: ExitReason
    let message: String

    init(_ reason: ExitReason, _ message: String) {
        self.reason = reason
        self.message = message
    }

    /// The line, whatever the message quotes: one line of bounded length that a terminal only shows.
    var line: String { "ingestd: \(OneLine.escaped(message))" }
}

extension Fault {
    init(_ error: PipelineError) {
        self.init(ExitReason(rawValue: error.exitCode) ?? .inputOutput, "\(error)")
    }

    /// Ends the process. Nothing is left to flush: files are written and synced by their own owners.
    func exit() -> Never {
        printLine(line, to: STDERR_FILENO)
        _exit(reason.rawValue)
    }
}

/// Writes a line past the streams of C, of which a flush would wait for a log that blocks. A descriptor that blocks holds up
/// the caller for at most a second; one that fails loses the line.
/// - Returns: whether it was written by then.
@discardableResult
func printLine(_ line: String, to descriptor: Int32) -> Bool {
    let isDone = DispatchSemaphore(value: 0)
    let isWritten = SharedFlag()
    DispatchQueue(label: "ingestd.line").async {
        var rest = Array((line + "\n").utf8)[...]
        while !rest.isEmpty {
            // SAFETY: the bytes are there for the length of the call.
            let count = unsafe rest.withUnsafeBytes {
                unsafe write(descriptor, $0.baseAddress, $0.count)
            }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if count == 0 || errno != EINTR {
                break
            }
        }
        if rest.isEmpty { isWritten.value.store(true, ordering: .relaxed) }
        isDone.signal()
    }
    return isDone.wait(timeout: .now() + 1) == .success && isWritten.value.load(ordering: .relaxed)
}

private final class SharedFlag: Sendable {
    let value = Atomic(false)
}

/// Writes log lines to standard error, each made fit for one line of a terminal or a collector, whatever
/// name, path or value from outside it quotes. Every line of the daemon's log passes here.
struct LineLogHandler: LogHandler {
    private var stream: any LogHandler

    init(label: String) { self.init(StreamLogHandler.standardError(label: label)) }

    init(_ stream: any LogHandler) { self.stream = stream }

    var logLevel: Logger.Level {
        get { stream.logLevel }
        set { stream.logLevel = newValue }
    }
    var metadata: Logger.Metadata {
        get { stream.metadata }
        set { stream.metadata = newValue }
    }
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { stream[metadataKey: key] }
        set { stream[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        var event = event
        event.message = "\(OneLine.escaped(event.message.description))"
        stream.log(event: event)
    }
}

/// The work of compaction in numbers: bytes written by kind of file, rows, and CPU time of the two queues. `ingest-bench`
/// reads these lines; docs/performance.md says what they mean.
struct CompactionSummary {
    let lines: [String]

    init(_ counters: PipelineCounters) {
        let (compact, merge) = (counters.compact, counters.merge)
        lines = [
            Self.line(
                "bytes written",
                [
                    ("blocks", counters.sync[.bytes]), ("footers", compact[.footerBytes]),
                    ("merged runs", merge[.bytes]),
                    ("names", compact[.namesBytes]), ("merged names", merge[.namesBytes]),
                    ("manifests", compact[.manifestBytes]),
                ]),
            Self.line(
                "rows by reward and day",
                [
                    ("in footers", compact[.footerRows]), ("read by merges", merge[.rowsRead]),
                    ("written by merges", merge[.rows]),
                ]),
            Self.line(
                "CPU nanoseconds",
                [
                    ("fold", compact[.foldNanoseconds]), ("seal", compact[.sealNanoseconds]),
                    ("names", compact[.namesNanoseconds]),
                    ("generations in all", compact[.publishNanoseconds]),
                    ("merges", merge[.nanoseconds]),
                ]),
            Self.line(
                "counted",
                [
                    ("generations", compact[.manifests]), ("merges", merge[.merges]),
                    ("files that could not be removed", compact[.unlinkFailures]),
                    ("waits for the disk", counters.sync[.waits]),
                    ("refused by the disk", compact[.refusals] &+ merge[.refusals]),
                ]),
        ]
    }

    private static func line(_ title: String, _ values: [(String, UInt64)]) -> String {
        "\(title): " + values.map { "\($0) \($1)" }.joined(separator: ", ")
    }
}

/// What a run has refused, as one text: "12 events as too_old, 3 datagrams as bad_magic": the log's last line.
struct RefusalSummary {
    let text: String

    init(_ counters: PipelineCounters) {
        let events = Verdict.allCases.filter(Self.isFault).compactMap {
            Self.part(counters.events[$0], "event", $0.name)
        }
        // What was sent again had been taken.
        let packets = PacketResult.allCases.filter { $0 != .accepted && $0 != .resend }.compactMap {
            Self.part(counters.packets($0), "datagram", $0.name)
        }
        text = (events + packets).joined(separator: ", ")
    }

    /// Whether a verdict says that something is wrong with an event, or with a clock; the others are what
    /// counting is about.
    private static func isFault(_ verdict: Verdict) -> Bool {
        [.tooOld, .tooEarly, .outsideWindow, .wrongBusiness, .conflict, .malformed]
            .contains(verdict)
    }

    private static func part(_ count: UInt64, _ noun: String, _ name: String) -> String? {
        count == 0 ? nil : "\(count) \(noun)\(count == 1 ? "" : "s") as \(name)"
    }
}
