// events → [send] → encode → packet → socket

import Dispatch
import IngestFormat
import Synchronization

/// What is behind an `EventSender`: with acks, or without.
protocol SenderEngine: AnyObject, Sendable {
    /// - Parameter note: how far the input was read with it, for the spool.
    func send(
        jsonLine: Span<UInt8>, note: SpoolNote?
    ) throws(ClientError) -> EventSender.Outcome
    func send(_ event: AdEvent) throws(ClientError) -> EventSender.Outcome
    func flush() throws(ClientError)
    /// Ends where all is acked; `nil` where not.
    ///
    /// - Parameter note: of the whole input, for the spool.
    func end(_ note: SpoolNote) throws(ClientError) -> EventSender.Totals?
    /// Blocks the thread until acks have come, not long and at most for so long.
    func waitForProgress(nanosecondsMax: UInt64)
    /// `.deadline` with what is not acked.
    var overdue: ClientError { get }
    var totals: EventSender.Totals { get }
    var state: EventSender.State { get }
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
                key: options.key?.key, endsAtAnswers: options.endsAtAnswers,
                transport: transport))
        tickInterval = .nanoseconds(max(1_000_000, Int(options.batchDelay.nanoseconds)))
        scheduleTick()
    }

    func send(
        jsonLine: Span<UInt8>, note: SpoolNote?
    ) throws(ClientError) -> EventSender.Outcome {
        try stream.withLock { stream throws(ClientError) in try stream.send(jsonLine: jsonLine) }
    }

    func send(_ event: AdEvent) throws(ClientError) -> EventSender.Outcome {
        try stream.withLock { stream throws(ClientError) in try stream.send(event) }
    }

    func flush() throws(ClientError) {
        try stream.withLock { stream throws(ClientError) in try stream.flush() }
    }

    func end(_ note: SpoolNote) throws(ClientError) -> EventSender.Totals? {
        try stream.withLock { stream throws(ClientError) in try stream.close() }
    }

    func waitForProgress(nanosecondsMax: UInt64) {}

    var overdue: ClientError { .deadline(unackedPackets: 0) }

    var totals: EventSender.Totals { stream.withLock { $0.totals } }

    var state: EventSender.State {
        stream.withLock { stream in
            if let failure = stream.failure { return .ended(failure) }
            return stream.networkError.map { .waiting($0) } ?? .working
        }
    }

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
