// events → [send] → encode → packet → socket

import Dispatch
import IngestFormat
import Synchronization

/// What is behind an `EventSender`: with acks, or without.
protocol SenderEngine: AnyObject, Sendable {
    /// - Parameter isWaiting: for room, where as much is unacked as may be; else the answer is `.full`.
    func send(
        jsonLine: Span<UInt8>, note: SpoolNote?, isWaiting: Bool
    ) throws(ClientError) -> EventRefusal?
    func send(_ event: AdEvent, isWaiting: Bool) throws(ClientError) -> EventRefusal?
    func flush() throws(ClientError)
    /// - Parameter note: of the whole input, for the spool.
    func close(
        within seconds: Double?, note: SpoolNote
    ) throws(ClientError) -> EventSender.Result
    var result: EventSender.Result { get }
}

/// A `PacketStream` with a lock and a timer: what is sent is gone.
final class UnackedSender: SenderEngine {
    private let stream: Mutex<PacketStream>
    private let timerQueue = DispatchQueue(label: "ingest.sender.timer")
    private let tickInterval: DispatchTimeInterval

    init(
        identity: SenderIdentity, options: EventSender.Options, transport: any DatagramTransport
    ) {
        stream = Mutex(
            PacketStream(
                identity: identity, packetByteCountMax: options.packetByteCountMax,
                key: options.key?.key, transport: transport))
        tickInterval = .milliseconds(max(1, options.batchMillisecondsMax))
        scheduleTick()
    }

    func send(
        jsonLine: Span<UInt8>, note: SpoolNote?, isWaiting: Bool
    ) throws(ClientError) -> EventRefusal? {
        try stream.withLock { stream throws(ClientError) in try stream.send(jsonLine: jsonLine) }
    }

    func send(_ event: AdEvent, isWaiting: Bool) throws(ClientError) -> EventRefusal? {
        try stream.withLock { stream throws(ClientError) in try stream.send(event) }
    }

    func flush() throws(ClientError) {
        try stream.withLock { stream throws(ClientError) in try stream.flush() }
    }

    func close(
        within seconds: Double?, note: SpoolNote
    ) throws(ClientError) -> EventSender.Result {
        try stream.withLock { stream throws(ClientError) in try stream.close() }
    }

    var result: EventSender.Result { stream.withLock { $0.result } }

    /// A tick follows another until the sender is closed, has failed, or is gone.
    private func scheduleTick() {
        timerQueue.asyncAfter(deadline: .now() + tickInterval) { [weak self] in
            guard let self, self.tick() else { return }
            self.scheduleTick()
        }
    }

    /// Whether the stream goes on. An error stays in the stream and answers the next call.
    private func tick() -> Bool {
        stream.withLock { stream in
            do throws(ClientError) {
                try stream.tick(now: SenderClock.monotonicNanoseconds())
                return true
            } catch {
                return false
            }
        }
    }
}
