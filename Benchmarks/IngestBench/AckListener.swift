import Dispatch
import Glibc
import IngestClient
import IngestFormat
import Synchronization

/// Hears the acks of a load, and says when each run of packets had become durable.
///
/// It resends nothing: what the kernel dropped stays lost, and is given up when nothing else moves. So a load is held
/// back by the window and the credit as a real sender's is, and its loss is seen.
final class AckListener: Sendable {
    struct Figures {
        /// From a run's departure to the ack that says all of it is durable, milliseconds, ascending.
        var milliseconds: [Double] = []
        var ackCount = 0
        /// Acks with a status that holds the sender back.
        var shedCount = 0
    }

    private struct State {
        var floor: UInt64 = 0
        var edge: UInt64 = 64
        /// Of runs that are not acked: one more than the last sequence, and when they left.
        var departures: [(end: UInt64, nanoseconds: UInt64)] = []
        var first = 0
        var figures = Figures()
    }

    private let socket: Int32
    private let state = Mutex(State())
    private let isEnding = Atomic(false)
    private let queue = DispatchQueue(label: "ingest-bench.acks")

    init(_ transport: UDPTransport) {
        socket = transport.socket
        queue.async { [self] in listen() }
    }

    var floor: UInt64 { state.withLock { $0.floor } }
    /// No sequence from here on may leave.
    var edge: UInt64 { state.withLock { $0.edge } }

    func note(departureOf end: UInt64, at nanoseconds: UInt64) {
        state.withLock { $0.departures.append((end, nanoseconds)) }
    }

    /// Ends the thread, and gives what it heard.
    func stop() -> Figures {
        isEnding.store(true, ordering: .relaxed)
        queue.sync {}
        return state.withLock { state in
            state.figures.milliseconds.sort()
            return state.figures
        }
    }

    private func listen() {
        var packet = [UInt8](repeating: 0, count: 9_216)
        while !isEnding.load(ordering: .relaxed) {
            var waiting = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
            // SAFETY: the kernel writes into one pollfd, then into at most the array.
            guard unsafe poll(&waiting, 1, 20) == 1 else { continue }
            let count = unsafe recv(socket, &packet, packet.count, Int32(MSG_DONTWAIT))
            guard count > 0 else { continue }
            let now = SenderClock.monotonicNanoseconds()
            unsafe packet.withUnsafeBytes { bytes in
                let datagram = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<count])
                guard case .packet(let header) = unsafe PacketHeader.parse(datagram, for: .sender),
                    let ack = unsafe AckView(header, of: datagram)
                else { return }
                hear(ack, at: now)
            }
        }
    }

    private func hear(_ ack: AckView, at now: UInt64) {
        state.withLock { state in
            state.figures.ackCount += 1
            guard ack.status == .ok else {
                state.figures.shedCount += 1
                return
            }
            guard ack.floor >= state.floor else { return }
            state.floor = ack.floor
            state.edge = ack.floor + UInt64(ack.credit)
            while state.first < state.departures.count,
                state.departures[state.first].end <= ack.floor
            {
                let left = state.departures[state.first].nanoseconds
                state.figures.milliseconds.append(Double(now - left) / 1e6)
                state.first += 1
            }
        }
    }
}
