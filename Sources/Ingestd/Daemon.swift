import Dispatch
import Glibc
import IngestPipeline
import Logging

/// Assembles the daemon and keeps it until it is told to stop.
struct Daemon {
    private let settings: DaemonSettings
    private let logger: Logger

    init(_ settings: DaemonSettings, unknownVariables: [String]) {
        self.settings = settings
        logger = Logger(label: "ingestd") { StreamLogHandler.standardError(label: $0) }
        for name in unknownVariables {
            logger.warning("\(name) is set and is no option, see 'ingestd --help'")
        }
    }

    func runUntilStopped() throws(Fault) {
        ignoreSignal(SIGPIPE)
    }
}
