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
        jsonLine: Span<UInt8>, note: SpoolNote?, isWaiting: Bool
    ) throws(ClientError) -> EventRefusal? {
        while true {
            let taken = try locked { stream, now throws(ClientError) in
                stream.send(jsonLine: jsonLine, note: note, now: now)
            }
            if let answer = try answer(taken, isWaiting: isWaiting) { return answer.refusal }
        }
    }

    func send(_ event: AdEvent, isWaiting: Bool) throws(ClientError) -> EventRefusal? {
        while true {
            let taken = try locked { stream, now throws(ClientError) in
                stream.send(event, now: now)
            }
            if let answer = try answer(taken, isWaiting: isWaiting) { return answer.refusal }
        }
    }

    /// `nil`: try again, there may be room now.
    private func answer(
        _ taken: AckedStream.Taken, isWaiting: Bool
    ) throws(ClientError) -> (refusal: EventRefusal?, Void)? {
        switch taken {
        case .taken: return (nil, ())
        case .refused(let refusal): return (refusal, ())
        case .full:
            guard isWaiting else { return (.full, ()) }
            waitForProgress(until: .distantFuture)
            return nil
        }
    }

    func flush() throws(ClientError) {
        try locked { stream, now throws(ClientError) in stream.flush(now: now) }
    }

    func close(
        within seconds: Double?, note: SpoolNote
    ) throws(ClientError) -> EventSender.Result {
        let deadline = seconds.map { DispatchTime.now() + max(0, $0) } ?? .distantFuture
        try flush()
        while true {
            let end = try locked { stream, now throws(ClientError) -> EventSender.Result? in
                guard stream.isDrained else { return nil }
                stream.finish(note, now: now)
                if let failure = stream.failure, failure != .closed { throw failure }
                return stream.result
            }
            if let end { return end }
            if DispatchTime.now() >= deadline {
                let count = shared.state.withLock { $0.stream.window.packetCount }
                throw .deadline(unackedPackets: UInt64(count))
            }
            waitForProgress(until: deadline)
        }
    }

    var result: EventSender.Result { shared.state.withLock { $0.stream.result } }

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

    /// Until an ack has changed something, at the latest until `deadline`.
    private func waitForProgress(until deadline: DispatchTime) {
        // Not for long: an ack that came just before must not be waited for in vain.
        let step = min(deadline, .now() + .milliseconds(100))
        shared.state.withLock { $0.waiterCount += 1 }
        _ = shared.progress.wait(timeout: step)
    }

    // MARK: The loop

    private static func run(_ shared: Shared) {
        var buffer: [UInt8] = []
        while let nanoseconds = step(shared) {
            shared.socket.wait(nanoseconds: nanoseconds)
            receiveAll(shared, &buffer)
        }
    }

    /// Does what is due; how long there is nothing to do then, or `nil` at the end.
    private static func step(_ shared: Shared) -> UInt64? {
        shared.state.withLock { state in
            if state.isStopped { return nil }
            let now = SenderClock.monotonicNanoseconds()
            state.stream.tick(now: now)
            wakeWaiters(&state, shared)
            state.wakesAt = state.stream.nextDeadline
            if state.wakesAt == .max { return .max }
            return state.wakesAt > now ? state.wakesAt - now : 0
        }
    }

    private static func receiveAll(_ shared: Shared, _ buffer: inout [UInt8]) {
        // Bounded, so that what is due is done under a flood too.
        for _ in 0..<64 {
            switch shared.socket.receive(&buffer) {
            case .nothing: return
            case .failure(let errno):
                let error = shared.transport.failure("receive", errno)
                shared.state.withLock {
                    $0.stream.unreachable(error, now: SenderClock.monotonicNanoseconds())
                }
            case .datagram:
                let bytes = buffer
                shared.state.withLock { state in
                    state.stream.receive(
                        bytes.span, now: SenderClock.monotonicNanoseconds())
                    wakeWaiters(&state, shared)
                }
            }
        }
    }

    private static func wakeWaiters(_ state: inout State, _ shared: Shared) {
        for _ in 0..<state.waiterCount { shared.progress.signal() }
        state.waiterCount = 0
    }
}
