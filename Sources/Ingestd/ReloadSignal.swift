import Dispatch
import Glibc

/// SIGHUP as a request to read the keys again. Owned by `Daemon`; the handler runs on a queue of its own.
///
/// `StopSignals.holdBack` keeps the signal itself from ending the daemon.
final class ReloadSignal {
    private let source: any DispatchSourceSignal

    init(onReload: @escaping @Sendable () -> Void) {
        source = DispatchSource.makeSignalSource(
            signal: SIGHUP, queue: DispatchQueue(label: "ingestd.reload"))
        source.setEventHandler(handler: onReload)
        source.activate()
    }

    deinit { source.cancel() }
}
