import Glibc
import IngestClient
import IngestFormat

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
    static let runPacketCount =
        UDPTransport.burstByteCount(segmentByteCount: PacketPool.packetByteCount)
        / PacketPool.packetByteCount
    private let transport: UDPTransport

    init(to address: String) throws(ClientError) {
        transport = try UDPTransport(address: address)
    }

    /// Sends `eventCount` events, rounded up to whole runs, at `eventsPerSecond`; 0 = as fast as it goes.
    /// The time of the last event's departure is on the pool's own clock, the wall clock.
    func send(
        _ pool: inout PacketPool, eventCount: UInt64, eventsPerSecond: Double,
        firstEvent: UInt64 = 0
    ) throws(ClientError) -> SendFigures {
        var figures = SendFigures()
        let listener = pool.asksForAcks ? AckListener(transport) : nil
        if listener != nil { try send(pool.heartbeat()) }
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
                try transport.send(bytes, segmentByteCount: PacketPool.packetByteCount)
            }
            listener?.note(
                departureOf: pool.nextSequence, at: SenderClock.monotonicNanoseconds())
            figures.packetCount += UInt64(count)
            figures.eventCount += UInt64(count * PacketPool.packetEventCount)
            first = (first + count) % pool.packetCount
        }
        figures.nanoseconds = SenderClock.monotonicNanoseconds() - startedAt
        figures.cpuNanoseconds = processCPUNanoseconds() - cpuBefore
        guard let listener else {
            try send(pool.heartbeat())
            return figures
        }
        try finish(listener, pool)
        figures.acks = listener.stop()
        return figures
    }

    private func send(_ heartbeat: [UInt8]) throws(ClientError) {
        try transport.send(heartbeat.span, segmentByteCount: heartbeat.count)
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
        while pool.nextSequence + UInt64(count) > listener.edge {
            let now = SenderClock.monotonicNanoseconds()
            if now - askedAt > 100_000_000 {
                askedAt = now
                let isGivenUp = now - startedAt > 1_000_000_000
                if isGivenUp, !hasGivenUp {
                    hasGivenUp = true
                    figures.givenUpCount += pool.nextSequence - listener.floor
                }
                try send(
                    pool.heartbeat(base: isGivenUp ? pool.nextSequence : listener.floor))
            }
            SenderClock.sleep(untilMonotonicNanoseconds: now + 50_000)
        }
        figures.heldNanoseconds += SenderClock.monotonicNanoseconds() - startedAt
    }

    /// Asks until everything is final, five seconds at most.
    private func finish(
        _ listener: AckListener, _ pool: borrowing PacketPool
    ) throws(ClientError) {
        for _ in 0..<50 where listener.floor < pool.nextSequence {
            try send(pool.heartbeat(base: listener.floor))
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
