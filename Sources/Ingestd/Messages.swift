import Foundation
import Glibc
import IngestFormat
import IngestPipeline
import Logging

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
        FileHandle.standardError.write(Data((line + "\n").utf8))
        Glibc.exit(reason.rawValue)
    }
}

/// Writes log lines to standard error, each made fit for one line of a terminal or a collector, whatever
/// name, path or value of somebody else it quotes. Every line of the daemon's log passes here.
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
