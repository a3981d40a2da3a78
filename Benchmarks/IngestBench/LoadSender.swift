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
        let cpuBefore = processCPUNanoseconds()
        let startedAt = SenderClock.monotonicNanoseconds()
        var first = 0
        while figures.eventCount < eventCount {
            let count = min(Self.runPacketCount, pool.packetCount - first)
            wait(startedAt, eventsPerSecond, &figures)
            pool.prepare(
                first: first, count: count,
                unixMicroseconds: eventTime(
                    lookback: pool.lookbackMicroseconds,
                    progress: Double(figures.eventCount) / Double(eventCount)),
                firstEvent: firstEvent + figures.eventCount)
            try pool.withPackets(first: first, count: count) { bytes throws(ClientError) in
                try transport.send(bytes, segmentByteCount: PacketPool.packetByteCount)
            }
            figures.packetCount += UInt64(count)
            figures.eventCount += UInt64(count * PacketPool.packetEventCount)
            first = (first + count) % pool.packetCount
        }
        figures.nanoseconds = SenderClock.monotonicNanoseconds() - startedAt
        figures.cpuNanoseconds = processCPUNanoseconds() - cpuBefore
        let heartbeat = pool.heartbeat()
        try transport.send(heartbeat.span, segmentByteCount: heartbeat.count)
        return figures
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
