// events → [send] → packet → socket → ack

import Dispatch
import Glibc
import IngestFormat
import Synchronization

/// An `AckedStream` with a lock, a socket and a thread of its own, which receives acks and does what is
/// due; callers pack and send on their own threads.
///
/// **Cost** One thread, asleep in poll(2) while there is nothing to do; two descriptors beside the socket.
final class AckedSender: SenderEngine {
    private struct State: ~Copyable {
        var stream: AckedStream
        /// Threads that wait for an ack.
        var waiterCount = 0
        /// When the loop looks again by itself.
        var wakesAt: UInt64 = 0
        var isStopped = false
    }

    private let shared: Shared

    /// What the loop holds: it must not keep the sender itself alive.
    private final class Shared: Sendable {
        let state: Mutex<State>
        let socket: AckSocket
        let transport: UDPTransport
        let progress = DispatchSemaphore(value: 0)

        init(
            _ stream: consuming sending AckedStream, _ socket: AckSocket,
            _ transport: UDPTransport
        ) {
            state = Mutex(State(stream: stream))
            self.socket = socket
            self.transport = transport
        }
    }

    init(
        _ stream: consuming sending AckedStream, socket: AckSocket, transport: UDPTransport
    ) {
        shared = Shared(stream, socket, transport)
        let shared = self.shared
        DispatchQueue(label: "ingest.sender.acks").async { Self.run(shared) }
    }

    deinit {
        // The loop may hold the rest for a moment longer; the spool can be opened again at once.
        shared.state.withLock { state in
            state.isStopped = true
            state.stream.abandon()
        }
        shared.socket.wake()
    }

    // MARK: Callers

    func send(
        jsonLine: Span<UInt8>, note: SpoolNote?
    ) throws(ClientError) -> EventSender.Outcome {
        try locked { stream, now throws(ClientError) in
            stream.send(jsonLine: jsonLine, note: note, now: now)
        }
    }

    func send(_ event: AdEvent) throws(ClientError) -> EventSender.Outcome {
        try locked { stream, now throws(ClientError) in stream.send(event, now: now) }
    }

    func flush() throws(ClientError) {
        let stall = try locked { stream, now throws(ClientError) -> ClientError? in
            stream.flush(now: now)
            return stream.isStalledAtEnd ? nil : stream.stall
        }
        if let stall { throw stall }
    }

    func end(_ note: SpoolNote) throws(ClientError) -> EventSender.Totals? {
        let (stall, totals) = try locked {
            stream, now throws(ClientError) -> (ClientError?, EventSender.Totals?) in
            guard stream.isDrained else { return (nil, nil) }
            stream.finish(note, now: now)
            return (stream.stall, stream.totals)
        }
        if let stall { throw stall }
        return totals
    }

    var overdue: ClientError {
        .deadline(unackedPackets: UInt64(shared.state.withLock { $0.stream.window.packetCount }))
    }

    var totals: EventSender.Totals { shared.state.withLock { $0.stream.totals } }

    var state: EventSender.State {
        shared.state.withLock { state in
            if let failure = state.stream.failure { return .ended(failure) }
            let obstacle = state.stream.obstacle(now: SenderClock.monotonicNanoseconds())
            return obstacle.map { .waiting($0) } ?? .working
        }
    }

    /// Runs `body` on the stream, unless it has failed; throws if it fails in it; and wakes the loop if
    /// that has less time now than it thought.
    private func locked<Value>(
        _ body: (inout AckedStream, UInt64) throws(ClientError) -> Value
    ) throws(ClientError) -> Value {
        var isEarlier = false
        defer { if isEarlier { shared.socket.wake() } }
        return try shared.state.withLock { state throws(ClientError) in
            if let failure = state.stream.failure { throw failure }
            let value = try body(&state.stream, SenderClock.monotonicNanoseconds())
            if let failure = state.stream.failure, failure != .closed { throw failure }
            if state.stream.nextDeadline < state.wakesAt {
                state.wakesAt = state.stream.nextDeadline
                isEarlier = true
            }
            return value
        }
    }

    /// Until an ack has changed something.
    func waitForProgress(nanosecondsMax: UInt64) {
        // Not for long: an ack that came just before must not be waited for in vain.
        let nanoseconds = min(nanosecondsMax, 100_000_000)
        shared.state.withLock { $0.waiterCount += 1 }
        _ = shared.progress.wait(timeout: .now() + .nanoseconds(Int(nanoseconds)))
    }

    // MARK: The loop

    private static func run(_ shared: Shared) {
        var buffer: [UInt8] = []
        while let nanoseconds = step(shared, &buffer) {
            shared.socket.wait(nanoseconds: nanoseconds)
        }
    }

    /// Takes what has come and does what is due; how long there is nothing to do then, or `nil` at the end.
    ///
    /// Both under one lock, in this order: who held it may have waited for a disk, and what came meanwhile is no
    /// silence.
    private static func step(_ shared: Shared, _ buffer: inout [UInt8]) -> UInt64? {
        shared.state.withLock { state in
            if state.isStopped { return nil }
            receive(into: &state.stream, shared, &buffer)
            let now = SenderClock.monotonicNanoseconds()
            state.stream.tick(now: now)
            wakeWaiters(&state, shared)
            state.wakesAt = state.stream.nextDeadline
            if state.wakesAt == .max { return .max }
            return state.wakesAt > now ? state.wakesAt - now : 0
        }
    }

    private static func receive(
        into stream: inout AckedStream, _ shared: Shared, _ buffer: inout [UInt8]
    ) {
        // Bounded, so that what is due is done under a flood too; poll(2) comes back at once for the rest.
        for _ in 0..<64 {
            switch shared.socket.receive(&buffer) {
            case .nothing: return
            case .failure(let errno):
                stream.unreachable(
                    shared.transport.answered(errno), now: SenderClock.monotonicNanoseconds())
            case .datagram(let byteCount):
                stream.receive(
                    buffer.span.extracting(..<byteCount), now: SenderClock.monotonicNanoseconds())
            }
        }
    }

    private static func wakeWaiters(_ state: inout State, _ shared: Shared) {
        for _ in 0..<state.waiterCount { shared.progress.signal() }
        state.waiterCount = 0
    }
}
