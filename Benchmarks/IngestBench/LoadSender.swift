import CIngestLinux
import Dispatch
import Glibc
import IngestClient
import IngestFormat
import Synchronization

/// What left, and how well the offered schedule was kept.
struct SendFigures {
    var eventCount: UInt64 = 0
    var packetCount: UInt64 = 0
    /// From the first departure to the last.
    var nanoseconds: UInt64 = 0
    /// The most that a departure was behind its schedule.
    var lagNanosecondsMax: UInt64 = 0
    /// Time of this process on a core, while sending.
    var cpuNanoseconds: UInt64 = 0
    /// Time in which the window or the credit held a run back.
    var heldNanoseconds: UInt64 = 0
    /// Packets that were given up, since nothing else moved.
    var givenUpCount: UInt64 = 0
    /// `nil` of a load without acks.
    var acks: AckListener.Figures?

    var eventsPerSecond: Double { Double(eventCount) / max(1e-9, Double(nanoseconds) / 1e9) }
}

/// Sends a packet pool round and round, open loop: each run of packets has its time of departure from the
/// offered rate alone, whatever became of the runs before it. A run that is late leaves at once, and the
/// lag is kept.
struct LoadSender {
    /// Packets in one run: one message of the kernel's cutting.
    static let runPacketCount = 44
    private let transport: UDPTransport
    private let address: String
    /// Packets leave one by one, so many a call.
    private let isSingly: Bool

    init(to address: String, isSingly: Bool = false) throws(ClientError) {
        (self.address, self.isSingly) = (address, isSingly)
        transport = try UDPTransport(address: address)
    }

    /// Sends `eventCount` events, rounded up to whole runs, at `eventsPerSecond`; 0 = as fast as it goes.
    /// The time of the last event's departure is on the pool's own clock, the wall clock.
    func send(
        _ pool: inout PacketPool, eventCount: UInt64, eventsPerSecond: Double,
        firstEvent: UInt64 = 0
    ) throws(ClientError) -> SendFigures {
        var figures = SendFigures()
        let listener = pool.asksForAcks ? AckListener(transport, pool.senders) : nil
        if listener != nil { try send(pool.heartbeats()) }
        let cpuBefore = processCPUNanoseconds()
        let startedAt = SenderClock.monotonicNanoseconds()
        var first = 0
        while figures.eventCount < eventCount {
            let count = min(Self.runPacketCount, pool.packetCount - first)
            wait(startedAt, eventsPerSecond, &figures)
            if let listener { try hold(listener, pool, count, &figures) }
            pool.prepare(
                first: first, count: count,
                unixMicroseconds: eventTime(
                    lookback: pool.lookbackMicroseconds,
                    progress: Double(figures.eventCount) / Double(eventCount)),
                firstEvent: firstEvent + figures.eventCount)
            try pool.withPackets(first: first, count: count) { bytes throws(ClientError) in
                try send(bytes, pool.packetByteCount)
            }
            listener?.note(
                departureOf: pool.packetNumber, at: SenderClock.monotonicNanoseconds())
            figures.packetCount += UInt64(count)
            figures.eventCount += UInt64(count * pool.packetEventCount)
            first = (first + count) % pool.packetCount
        }
        figures.nanoseconds = SenderClock.monotonicNanoseconds() - startedAt
        figures.cpuNanoseconds = processCPUNanoseconds() - cpuBefore
        guard let listener else {
            try send(pool.heartbeats())
            return figures
        }
        try finish(listener, pool)
        figures.acks = listener.stop()
        return figures
    }

    private func send(_ heartbeats: [[UInt8]]) throws(ClientError) {
        for packet in heartbeats {
            try transport.send(packet.span, segmentByteCount: packet.count)
        }
    }

    private func send(_ run: Span<UInt8>, _ packetByteCount: Int) throws(ClientError) {
        guard isSingly else { return try transport.send(run, segmentByteCount: packetByteCount) }
        // SAFETY: each message is a packet of the run, which outlives the calls.
        let error = unsafe run.withUnsafeBufferPointer { bytes in
            var messages = unsafe (0..<bytes.count / packetByteCount).map { packet in
                unsafe ingest_outgoing(
                    bytes: bytes.baseAddress! + packet * packetByteCount,
                    byte_count: UInt32(packetByteCount), segment_byte_count: 0)
            }
            while unsafe !messages.isEmpty {
                let sent = unsafe ingest_send(
                    transport.socket, messages, UInt32(messages.count), nil)
                if sent < 0 { return -sent }
                unsafe messages.removeFirst(Int(sent))
            }
            return Int32(0)
        }
        if error != 0 { throw .socket(call: "sendmmsg", address: address, errno: error) }
    }

    /// Waits until a run fits the window and the credit. Where nothing moves for a while a heartbeat asks, and after a
    /// second it gives up what is missing.
    private func hold(
        _ listener: AckListener, _ pool: borrowing PacketPool, _ count: Int,
        _ figures: inout SendFigures
    ) throws(ClientError) {
        let startedAt = SenderClock.monotonicNanoseconds()
        var askedAt = startedAt
        var hasGivenUp = false
        while pool.packetNumber + UInt64(count) > listener.edge {
            let now = SenderClock.monotonicNanoseconds()
            if now - askedAt > 100_000_000 {
                askedAt = now
                let isGivenUp = now - startedAt > 1_000_000_000
                if isGivenUp, !hasGivenUp {
                    hasGivenUp = true
                    figures.givenUpCount += pool.packetNumber - listener.floor
                }
                try send(
                    pool.heartbeats(base: isGivenUp ? pool.packetNumber : listener.floor))
            }
            SenderClock.sleep(untilMonotonicNanoseconds: now + 50_000)
        }
        figures.heldNanoseconds += SenderClock.monotonicNanoseconds() - startedAt
    }

    /// Asks until everything is final, five seconds at most.
    private func finish(
        _ listener: AckListener, _ pool: borrowing PacketPool
    ) throws(ClientError) {
        for _ in 0..<50 where listener.floor < pool.packetNumber {
            try send(pool.heartbeats(base: listener.floor))
            SenderClock.sleep(
                untilMonotonicNanoseconds: SenderClock.monotonicNanoseconds() + 100_000_000)
        }
    }

    /// Now or, where the pool's event times lie back, as far into them as the load has got.
    private func eventTime(lookback: UInt64, progress: Double) -> UInt64 {
        let back = UInt64(Double(lookback) * (1 - min(1, progress)))
        return SenderClock.unixNanoseconds() / 1000 - back
    }

    private func wait(
        _ startedAt: UInt64, _ eventsPerSecond: Double, _ figures: inout SendFigures
    ) {
        guard eventsPerSecond > 0 else { return }
        let dueAt = startedAt + UInt64(Double(figures.eventCount) / eventsPerSecond * 1e9)
        let now = SenderClock.monotonicNanoseconds()
        if now < dueAt {
            SenderClock.sleep(untilMonotonicNanoseconds: dueAt)
        } else {
            figures.lagNanosecondsMax = max(figures.lagNanosecondsMax, now - dueAt)
        }
    }
}

/// User and system time of this process so far.
func processCPUNanoseconds() -> UInt64 {
    var time = timespec()
    // SAFETY: the kernel writes one timespec.
    unsafe clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

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
        /// Of each sender, as packets of the load: below the first all is final, and none from the second on may leave.
        var floors: [UInt64]
        var edges: [UInt64]
        /// Of runs that are not acked: one more than the last packet, and when they left.
        var departures: [(end: UInt64, nanoseconds: UInt64)] = []
        var first = 0
        var figures = Figures()
    }

    private let socket: Int32
    private let senders: LoadSenders
    private let state: Mutex<State>
    private let isEnding = Atomic(false)
    private let queue = DispatchQueue(label: "ingest-bench.acks")

    init(_ transport: UDPTransport, _ senders: LoadSenders) {
        socket = transport.socket
        self.senders = senders
        let ends = { (sequence: UInt64) in
            (0..<senders.count).map { senders.packet(sequence, ofIndex: $0) }
        }
        state = Mutex(State(floors: ends(0), edges: ends(64)))
        queue.async { [self] in listen() }
    }

    /// All packets of the load below it are final.
    var floor: UInt64 { state.withLock { $0.floors.min() ?? 0 } }
    /// No packet of the load from here on may leave.
    var edge: UInt64 { state.withLock { $0.edges.min() ?? 0 } }

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
            guard !ack.isPending, let index = senders.index(of: ack.header.sender) else { return }
            let packet = senders.packet(ack.floor, ofIndex: index)
            guard packet >= state.floors[Int(index)] else { return }
            state.floors[Int(index)] = packet
            state.edges[Int(index)] = senders.packet(
                ack.floor + UInt64(ack.credit), ofIndex: index)
            let floor = state.floors.min() ?? 0
            while state.first < state.departures.count, state.departures[state.first].end <= floor {
                let left = state.departures[state.first].nanoseconds
                state.figures.milliseconds.append(Double(now - left) / 1e6)
                state.first += 1
            }
        }
    }
}
