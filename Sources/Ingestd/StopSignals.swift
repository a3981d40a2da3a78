import Dispatch
import Glibc

/// SIGTERM and SIGINT as a request to stop: the first is told to the owner, the second ends the process
/// at once. Owned by `Daemon`; the handlers run on a queue of their own, so that a stop that hangs can
/// still be cut short.
///
/// **Source** signalfd(2) by way of Dispatch sources: nothing runs in the signal handler itself.
final class StopSignals {
    private let sources: [any DispatchSourceSignal]

    /// - Parameter onStop: called once, on the signal queue, with the signal's number.
    init(onStop: @escaping @Sendable (Int32) -> Void) {
        let queue = DispatchQueue(label: "ingestd.signals")
        let count = SignalCount()
        sources = [SIGTERM, SIGINT].map { number in
            // Dispatch only watches: without this the default action would end the process first.
            ignoreSignal(number)
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

/// Makes the signal have no effect of its own. A closed pipe then shows as EPIPE of a write, instead of
/// ending a daemon whose log reader went away.
func ignoreSignal(_ number: Int32) {
    _ = signal(number, SIG_IGN)
}
