import Dispatch
import IngestClient
import Synchronization

/// A load that goes on beside what the main thread does.
final class BackgroundLoad: Sendable {
    private let mix: MixOptions
    private let sender: LoadSender
    private let queue = DispatchQueue(label: "ingest-bench.load")
    private let figures = Mutex(SendFigures())

    init(_ mix: MixOptions, to address: String) throws(ClientError) {
        self.mix = mix
        sender = try LoadSender(to: address)
    }

    /// Encodes the packets at once, then sends for so long, or until nobody receives any more.
    func start(eventsPerSecond: Double, seconds: Double) {
        let isEncoded = DispatchSemaphore(value: 0)
        queue.async { [self] in
            var pool = mix.makePool()
            isEncoded.signal()
            let sent = try? sender.send(
                &pool, eventCount: UInt64(eventsPerSecond * seconds),
                eventsPerSecond: eventsPerSecond)
            figures.withLock { $0 = sent ?? SendFigures() }
        }
        isEncoded.wait()
    }

    /// Waits for its end; what it sent, zeros if it was cut off.
    func wait() -> SendFigures {
        queue.sync {}
        return figures.withLock { $0 }
    }
}
