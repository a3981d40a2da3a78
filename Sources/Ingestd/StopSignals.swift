import Dispatch
import Glibc

/// SIGTERM and SIGINT as a request to stop: the first is told to the owner, the second ends the process
/// at once. Owned by `Daemon`; the handlers run on a queue of their own, so that a stop that hangs can
/// still be cut short.
///
/// **Source** signalfd(2) by way of Dispatch sources: nothing runs in the signal handler itself.
final class StopSignals {
    private static let numbers = [SIGTERM, SIGINT]
    private let sources: [any DispatchSourceSignal]

    /// Holds both signals back from now on, and SIGHUP, until there is somebody to tell; to be called before the
    /// first thread is made. A signal that comes during recovery is so neither lost nor deadly: the
    /// daemon stops cleanly as soon as it is ready.
    static func holdBack() {
        var set = sigset_t()
        // SAFETY: each call reads or writes the one set, which outlives it.
        unsafe sigemptyset(&set)
        // The end of the terminal that started the daemon is not its end.
        for number in numbers + [SIGHUP] { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// - Parameter onStop: called once, on the signal queue, with the signal's number.
    init(onStop: @escaping @Sendable (Int32) -> Void) {
        let queue = DispatchQueue(label: "ingestd.signals")
        let count = SignalCount()
        sources = Self.numbers.map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler {
                count.value += 1
                if count.value > 1 { _exit(128 + number) }
                onStop(number)
            }
            source.activate()
            return source
        }
    }

    deinit {
        for source in sources { source.cancel() }
    }

    /// Touched only on the signal queue.
    private final class SignalCount: @unchecked Sendable {
        var value = 0
    }
}
