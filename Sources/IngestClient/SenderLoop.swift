// packet → socket → [ack] → window

import CIngestLinux
import Dispatch
import Glibc
import IngestFormat
import IngestStorage
import Synchronization

/// A `SenderStream` with a lock and a thread of its own, which receives acks and does what is due; callers pack and send on
/// their own threads. A queue of its own does what waits for the spool's disk, without the lock.
///
/// The thread keeps the loop alive until `stop`, never the `EventSender`.
///
/// **Cost** One thread, asleep in poll(2) while there is nothing to do, and two descriptors beside the socket; plain
/// delivery, which has no acks, heartbeats or batch delay, has neither.
final class SenderLoop: Sendable {
    struct State: ~Copyable {
        var stream: SenderStream
        /// Threads that wait for a change.
        var waiterCount = 0
        /// When the loop looks again by itself.
        var wakesAt: UInt64 = 0
        var isStopped = false
        /// Work of the spool is on its queue.
        var isSpoolBusy = false
    }

    let state: Mutex<State>
    private let socket: WakeableSocket?
    private let transport: any DatagramTransport
    private let progress = WaitSemaphore()
    private let spoolQueue = DispatchQueue(label: "ingest.sender.spool")

    /// **Errors** `ClientError.socket`: no descriptors are left.
    init(
        _ stream: consuming sending SenderStream, transport: any DatagramTransport,
        address: String
    ) throws(ClientError) {
        // Without acks nothing comes; network errors are asked for with the next send.
        socket =
            stream.configuration.delivery == .plain
            ? nil
            : try WakeableSocket(
                socket: stream.isAcked ? transport.socket : -1, address: address)
        state = Mutex(State(stream: stream))
        self.transport = transport
        guard let socket else { return }
        DispatchQueue(label: "ingest.sender.acks").async { self.run(socket) }
    }

    /// Ends the stream and the thread. That may take a moment longer; the spool can be opened again at once.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            state.stream.abandon()
        }
        socket?.wake()
        // What is being written holds the spool.
        spoolQueue.sync {}
    }

    /// Runs `body` under the lock, and sees to what has become due by it: on the disk, or earlier than the loop thought.
    private func update<Value: Sendable, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        var (isEarlier, hasSpoolWork) = (false, false)
        defer {
            if isEarlier { socket?.wake() }
            if hasSpoolWork { spoolQueue.async { self.workOnSpool() } }
        }
        return try state.withLock { state throws(Failure) in
            defer {
                if state.stream.nextDeadline < state.wakesAt {
                    state.wakesAt = state.stream.nextDeadline
                    isEarlier = true
                }
                hasSpoolWork = !state.isSpoolBusy && state.stream.hasSpoolWork
                if hasSpoolWork { state.isSpoolBusy = true }
            }
            return try body(&state)
        }
    }

    /// Runs `body` on the stream, unless it has failed; throws if it fails in it.
    func locked<Value: Sendable>(
        _ body: (inout SenderStream) throws(ClientError) -> Value
    ) throws(ClientError) -> Value {
        try update { state throws(ClientError) in
            if let failure = state.stream.failure { throw failure }
            let value = try body(&state.stream)
            if let failure = state.stream.failure, failure != .closed { throw failure }
            return value
        }
    }

    /// Lets a stream go on that lost data has ended.
    func acceptReceiver() {
        update { $0.stream.acceptReceiver(now: SenderClock.monotonicNanoseconds()) }
    }

    /// Blocks the thread until `body` has a value, for which it is asked now and after each change, or the time is up.
    func wait<Value: Sendable>(
        until deadline: UInt64 = .max,
        for body: (inout SenderStream) throws(ClientError) -> Value?
    ) throws(ClientError) -> Value? {
        while true {
            let value = try update { state throws(ClientError) in
                let value = try body(&state.stream)
                if value == nil { state.waiterCount += 1 }
                return value
            }
            let now = SenderClock.monotonicNanoseconds()
            if value != nil || now >= deadline { return value }
            _ = progress.wait(nanosecondsMax: min(deadline - now, 100_000_000))
        }
    }

    /// Blocks the thread until something has changed, not long and at most for so long.
    func waitForProgress(nanosecondsMax: UInt64) {
        // A short wait: the ack may have come just before.
        let nanoseconds = min(nanosecondsMax, 100_000_000)
        state.withLock { $0.waiterCount += 1 }
        _ = progress.wait(nanosecondsMax: nanoseconds)
    }

    private func tellWaiters(_ state: inout State) {
        for _ in 0..<state.waiterCount { progress.signal() }
        state.waiterCount = 0
    }

    // MARK: The disk

    /// On the spool's queue: writes what there is to write, without the lock.
    private func workOnSpool() {
        var work: SpoolWork?
        repeat {
            work?.run()
            update { state in
                if let done = work.take() {
                    state.stream.endSpoolWork(done, now: SenderClock.monotonicNanoseconds())
                    tellWaiters(&state)
                }
                work = state.stream.beginSpoolWork()
                if work == nil { state.isSpoolBusy = false }
            }
        } while work != nil
    }

    // MARK: The thread

    private func run(_ socket: WakeableSocket) {
        var buffer: [UInt8] = []
        while let nanoseconds = step(socket, &buffer) { socket.wait(nanoseconds: nanoseconds) }
    }

    /// Takes what has come and does what is due; how long there is nothing to do then, or `nil` at the end.
    ///
    /// Both under one lock, in this order: what came while the lock was held is no silence.
    private func step(_ socket: WakeableSocket, _ buffer: inout [UInt8]) -> UInt64? {
        update { state in
            if state.isStopped { return nil }
            receive(from: socket, into: &state.stream, &buffer)
            let now = SenderClock.monotonicNanoseconds()
            state.stream.tick(now: now)
            tellWaiters(&state)
            state.wakesAt = state.stream.nextDeadline
            if state.wakesAt == .max { return .max }
            return state.wakesAt > now ? state.wakesAt - now : 0
        }
    }

    private func receive(
        from socket: WakeableSocket, into stream: inout SenderStream, _ buffer: inout [UInt8]
    ) {
        guard stream.isAcked else { return }
        // Bounded, so that what is due is done under a flood too; poll(2) comes back at once for the rest.
        for _ in 0..<64 {
            switch socket.receive(&buffer) {
            case .nothing: return
            case .failure(let errno):
                stream.unreachable(
                    transport.networkError(errno), now: SenderClock.monotonicNanoseconds())
            case .datagram(let byteCount):
                stream.receive(
                    buffer.span.extracting(..<byteCount), now: SenderClock.monotonicNanoseconds())
            }
        }
    }
}

/// The receiving end of a sender's socket, and a way to wake the thread that waits at it.
///
/// One thread waits and receives; any thread wakes.
final class WakeableSocket: Sendable {
    /// The largest ack; what is longer is none.
    private static let byteCountMax = 9_216

    private let socket: Int32
    private let wakeEnds: (read: Int32, write: Int32)

    /// - Parameter socket: of a transport that outlives this; -1 = nothing comes, and it only wakes.
    ///
    /// **Errors** `ClientError.socket`: no descriptors are left.
    init(socket: Int32, address: String) throws(ClientError) {
        var ends: [Int32] = [-1, -1]
        // SAFETY: the kernel writes two descriptors.
        let status = unsafe ends.withUnsafeMutableBufferPointer { unsafe pipe($0.baseAddress!) }
        guard status == 0 else {
            throw .socket(call: "pipe", address: address, errno: errno)
        }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        self.socket = socket
        wakeEnds = (ends[0], ends[1])
    }

    deinit {
        _ = close(wakeEnds.read)
        _ = close(wakeEnds.write)
    }

    /// Ends the wait that is going on, or the next one.
    func wake() {
        var byte: UInt8 = 0
        // SAFETY: one byte is read. A full pipe wakes as well.
        _ = unsafe write(wakeEnds.write, &byte, 1)
    }

    /// Waits until something has come, `wake` is called, or the time is up.
    ///
    /// - Parameter nanoseconds: `.max` = for ever.
    func wait(nanoseconds: UInt64) {
        // An hour is as good as for ever; the loop looks again then.
        let ready = ingest_wait_readable(
            socket, wakeEnds.read, min(nanoseconds, 3_600_000_000_000))
        guard ready & 2 != 0 else { return }
        var bytes = [UInt8](repeating: 0, count: 64)
        // SAFETY: at most the array's own bytes are written.
        while unsafe read(wakeEnds.read, &bytes, bytes.count) == bytes.count {}
    }

    enum Received {
        /// In the front of the buffer.
        case datagram(byteCount: Int)
        /// A network error that an earlier datagram has led to.
        case failure(errno: Int32)
        case nothing
    }

    /// Takes the next datagram, without waiting, into `buffer`, which is made once.
    func receive(_ buffer: inout [UInt8]) -> Received {
        if buffer.count != Self.byteCountMax {
            buffer = [UInt8](repeating: 0, count: Self.byteCountMax)
        }
        // SAFETY: at most the buffer's own bytes are written.
        let count = unsafe buffer.withUnsafeMutableBytes {
            unsafe recv(socket, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT))
        }
        if count < 0 {
            return errno == EAGAIN || errno == EINTR ? .nothing : .failure(errno: errno)
        }
        return .datagram(byteCount: count)
    }
}
