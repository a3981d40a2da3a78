import IngestFormat
import Logging

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
