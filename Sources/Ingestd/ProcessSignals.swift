import Dispatch
import Glibc

/// Signals of the process: SIGTERM and SIGINT stop the daemon (a second one ends the process at once), SIGHUP reloads
/// keys and zones. Owned by `Daemon`; each handler runs on a queue of its own, so that a stop that hangs can be cut short.
///
/// **Source** signalfd(2) by way of Dispatch sources: nothing runs in the signal handler itself.
final class ProcessSignals {
    private static let stops = [SIGTERM, SIGINT]
    private let sources: [any DispatchSourceSignal]

    /// What the process needs before anything is opened and before the first thread is made: a closed pipe
    /// shows as EPIPE of a write, the signals above are blocked until there is a handler, and the standard
    /// descriptors are open. A signal during recovery is neither lost nor fatal.
    static func prepare() {
        _ = signal(SIGPIPE, SIG_IGN)
        var set = sigset_t()
        // SAFETY: each call reads or writes the one set, which outlives it.
        unsafe sigemptyset(&set)
        for number in stops + [SIGHUP] { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
        // A descriptor 0, 1 or 2 that the parent closed would be given to the first file that is opened, and
        // the ready line or a log line would then be written into a segment.
        for descriptor: Int32 in 0...2 where fcntl(descriptor, F_GETFD) == -1 {
            // The lowest free number is given, which is `descriptor`.
            // SAFETY: the path is a constant C string.
            _ = unsafe open("/dev/null", O_RDWR)
        }
    }

    /// - Parameter onStop: called once, on the signal queue.
    init(onStop: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "ingestd.signals")
        let count = SignalCount()
        sources = Self.stops.map { number in
            Self.source(number, queue) {
                count.value += 1
                if count.value > 1 { _exit(128 + number) }
                onStop()
            }
        }
    }

    init(onReload: @escaping @Sendable () -> Void) {
        sources = [Self.source(SIGHUP, DispatchQueue(label: "ingestd.reload"), onReload)]
    }

    deinit {
        for source in sources { source.cancel() }
    }

    private static func source(
        _ number: Int32, _ queue: DispatchQueue, _ handler: @escaping @Sendable () -> Void
    ) -> any DispatchSourceSignal {
        let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
        source.setEventHandler(handler: handler)
        source.activate()
        return source
    }

    /// Touched only on the signal queue.
    private final class SignalCount: @unchecked Sendable {
        var value = 0
    }
}
