import CIngestLinux
import IngestClient
import IngestFormat
import IngestPipeline
import IngestRing

/// The receive and the commit stage on one core, fed from memory: no socket, no disk, no second thread. What an event costs
/// there by itself; beside each other the stages also wait for each other's cache lines.
struct PathMeasurement {
    private static let eventCount = 30_000_000
    private static let rewardCount = 1_000_000
    fileprivate static let repeatShare = 0.1
    private static let partCount = 10

    /// At a time.
    private static let sessionCount = 100_000
    /// So that the table has what 600 s have at a hundredth of the rate.
    private static let sessionTimeoutSeconds: UInt32 = 1

    static func reportAll() {
        Report.heading(
            "path: \(eventCount) events of \(rewardCount) rewards, 10 % repeats, new directory")
        report(EventMix.Options(rewardCount: rewardCount))
        Report.heading("path: the same, names of 12 and 10 bytes")
        report(EventMix.Options(rewardCount: rewardCount, names: .number))
        Report.heading("path: the same, \(sessionCount) sessions of 10 events at a time")
        report(
            EventMix.Options(
                rewardCount: rewardCount, names: .number, sessionCount: sessionCount))
    }

    private static func report(_ mix: EventMix.Options) {
        let hash = KeyedHash(key: .init(repeating: 7))
        let clock = LinuxClock()
        let (counters, links) = (PipelineCounters(), StageLinks())
        let start = LogStart(
            directory: DirectoryID(rawValue: 1), shard: 0, lastSegment: SegmentNumber(rawValue: 0),
            commitEpoch: 1, previousChecksum: 0)
        for _ in 0..<StageLinks.slotCount { links.free.push(BlockSlot(log: start)) }
        guard let ends = EventRing.make(byteCount: Limits.ringByteCount), let batch = PacketBatch()
        else { return Report.line("path", "no memory") }
        let fill = FillTime()
        var receiver = UDPReceiver(
            socket: PoolSocket(mix, fill), batch: batch, ring: ends.producer, hash: hash,
            clock: clock,
            counters: counters, warn: { _ in })
        var commit = CommitStage(
            consumer: ends.consumer, hash: hash, dictionary: NameDictionary(), repeats: .empty(),
            sessions: SessionRule(
                SessionPolicy(timeoutSeconds: sessionTimeoutSeconds), makeKeys(clock)),
            clock: clock, start: start,
            configuration: PipelineConfiguration(), links: links,
            counters: counters)
        var (receives, commits): ([Double], [Double]) = ([], [])
        while counters.receive[.events] < eventCount {
            let before = counters.receive[.events]
            fill.nanoseconds = 0
            let receive =
                ThreadTime.of { _ = try? receiver.step(mayWait: false) } - fill.nanoseconds
            let commit = ThreadTime.of {
                while case .worked = commit.step(mayWait: false) { give(links) }
                give(links)
            }
            let count = Double(max(1, counters.receive[.events] - before))
            receives.append(receive / count)
            commits.append(commit / count)
        }
        report("receive queue", receives)
        report("commit queue", commits)
        Report.line("rows encoded", "\(counters.commit[.rows])")
    }

    private static func makeKeys(_ clock: LinuxClock) -> SessionKeyRing {
        var keys = SessionKeys(directory: DirectoryID(rawValue: 1))
        var random = SystemRandomNumberGenerator()
        keys.renew(at: clock.wallMicroseconds(), random: &random)
        let ring = SessionKeyRing()
        ring.replace(by: keys)
        return ring
    }

    /// Does the sync stage's part: blocks go back empty.
    private static func give(_ links: StageLinks) {
        while let slot = links.toSync.pop(waitNanoseconds: 0) {
            links.state.didSync()
            links.free.push(slot)
        }
    }

    /// Turns take about a millisecond each, so that some of them are not disturbed on a machine that others share.
    ///
    /// - Parameter turns: what an event cost in each turn.
    private static func report(_ name: String, _ turns: [Double]) {
        let mean = turns.reduce(0, +) / Double(max(1, turns.count))
        Report.line(name, "\(fixed(mean, 1)) ns/event")
        let medians = (0..<partCount).map { part in
            let turns = turns[turns.count * part / partCount..<turns.count * (part + 1) / partCount]
            return turns.isEmpty ? "-" : fixed(turns.sorted()[turns.count / 2], 1)
        }
        Report.line("  median of each tenth", medians.joined(separator: " "))
        let half = turns[(turns.count / 2)...].sorted()
        if !half.isEmpty {
            Report.line("  tenth percentile", fixed(half[half.count / 10], 1))
        }
    }
}

/// What it took to put packets where a kernel would.
private final class FillTime {
    var nanoseconds = 0.0
}

/// Gives packets of a pool, as a kernel that coalesces them.
private struct PoolSocket: DatagramSocket, ~Copyable {
    /// Of a buffer: what the kernel coalesces.
    private static let runCount = 44
    private static let bufferCount = 8

    private var pool: PacketPool
    private let time: FillTime
    private var next = 0
    private var firstEvent: UInt64 = 0
    let receiveBufferByteCount = 0

    init(_ mix: EventMix.Options, _ time: FillTime) {
        self.time = time
        let now = UInt64(LinuxClock().wallMicroseconds())
        let senders = LoadSenders(
            count: 1, first: 1, epoch: SenderEpoch(rawValue: now / 1_000 << 20))
        pool = PacketPool(
            packetCount: 200 * Self.runCount, mix: mix, senders: senders, asksForAcks: true,
            repeatShare: PathMeasurement.repeatShare)
    }

    mutating func receive(into batch: inout PacketBatch, waits: Bool) throws(SocketError) {
        let start = ThreadTime.nanoseconds
        for index in 0..<Self.bufferCount { fill(index, of: batch) }
        batch.count = Self.bufferCount
        time.nanoseconds += Double(ThreadTime.nanoseconds - start)
    }

    private mutating func fill(_ index: Int, of batch: borrowing PacketBatch) {
        if next + Self.runCount > pool.packetCount { next = 0 }
        pool.prepare(
            first: next, count: Self.runCount,
            unixMicroseconds: UInt64(LinuxClock().wallMicroseconds()), firstEvent: firstEvent)
        // SAFETY: a buffer holds more than a run.
        let datagram = unsafe batch.datagrams + index
        pool.withPackets(first: next, count: Self.runCount) { bytes in
            unsafe bytes.withUnsafeBytes {
                unsafe UnsafeMutableRawPointer(datagram.pointee.bytes!)
                    .copyMemory(from: $0.baseAddress!, byteCount: $0.count)
            }
        }
        unsafe datagram.pointee.byte_count = UInt32(Self.runCount * pool.packetByteCount)
        unsafe datagram.pointee.segment_byte_count = UInt32(pool.packetByteCount)
        next += Self.runCount
        firstEvent += UInt64(Self.runCount * pool.packetEventCount)
    }

    mutating func kernelDropCount() -> UInt64 { 0 }
}
