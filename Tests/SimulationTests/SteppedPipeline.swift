import IngestFormat
import IngestPipeline
import IngestRing
import IngestStorage
import PipelineTestSupport
import Synchronization
import TestSupport
import Testing

/// The daemon's stages from the ring to the snapshot, on a simulated disk and clock, stepped by one thread
/// in an order that the seed decides. Nothing in here depends on time.
struct SteppedPipeline: ~Copyable {
    static let ringByteCount = 1 << 20
    /// Less than an operator may ask for, so that a short run seals many segments.
    static let segmentByteCountMax = 24 << 10
    private var stages: PipelineStages<SimulatedFileSystem, SimulatedClock>
    private let clock: SimulatedClock
    private let answers: SimulatedAckSocket
    let directory: DataDirectory<SimulatedFileSystem>
    private var generator: SeededRandom
    let counters: PipelineCounters
    let hash: KeyedHash
    /// What the start found.
    let log: LogStart
    /// What operators were warned of.
    let told: ToldLines
    /// What the start told them.
    let found: [String]
    /// How many events it cut off that may have been acked, and said so; `UInt64.max` where nobody knows.
    let cutEventCount: UInt64
    /// Whether the merge stage has turns.
    var merges = true

    /// Every life of a daemon ends here, and none without a look at what it left.
    deinit { Laws.expectKept(in: directory.files) }

    /// Opens and recovers the directory.
    /// - Parameters:
    ///   - clockStepMilliseconds: by how much the clock is corrected while the start waits for it.
    ///   - configure: changes what the operator chose.
    static func open(
        _ files: SimulatedFileSystem, clock: SimulatedClock, seed: UInt64,
        policy: CountingPolicy = CountingPolicy(),
        attributions: AttributionBound = AttributionBound(), acceptsClock: Bool = false,
        clockStepMilliseconds: Int = 0,
        configure: (inout PipelineConfiguration) -> Void = { _ in }
    ) throws(PipelineError) -> SteppedPipeline {
        let counters = PipelineCounters()
        // The identity is always the same, so that equal input gives equal files.
        var identity = SeededRandom(seed: 1)
        let start = try PipelineStart.open(
            files, clock: clock, policy: policy, attributions: attributions,
            acceptsClock: acceptsClock, counters: counters, random: &identity)
        clock.jumpWall(milliseconds: clockStepMilliseconds)
        let directory = start.directory
        let hash = start.hash
        let log = start.log
        let found = start.directory.warnings + start.recovery.messages + start.warnings
        let cutEventCount = start.recovery.segments.compactMap(\.torn).reduce(UInt64(0)) {
            $0.saturatingSum($1.hasHole ? .max : $1.rowCount)
        }
        var configuration = PipelineConfiguration()
        configuration.ringByteCount = ringByteCount
        configuration.segmentByteCountMax = segmentByteCountMax
        configure(&configuration)
        let answers = SimulatedAckSocket()
        let told = ToldLines()
        let stages = try PipelineStages(
            start, configuration: configuration, clock: clock, acks: answers,
            counters: counters, warn: { told.add($0) })
        return SteppedPipeline(
            stages: stages, clock: clock, answers: answers, directory: directory,
            generator: SeededRandom(seed: seed), counters: counters, hash: hash, log: log,
            told: told, found: found, cutEventCount: cutEventCount)
    }

    /// Puts a packet into the ring, as the receive stage does.
    /// - Parameters:
    ///   - sequence: under which it comes; its own, if not told.
    ///   - isBound: to the business of its events, by its key.
    mutating func offer(
        _ packet: SimulatedPacket, as sequence: UInt64? = nil, epoch: UInt64 = 1,
        isBound: Bool = false, wantsAck: Bool = false
    ) -> Bool {
        let (bytes, events) = packet.encoded(hash: hash)
        return stages.offer(
            bytes, events, sender: 7, epoch: epoch, sequence: sequence ?? packet.sequence,
            flags: isBound ? RingRecordHeader.Flags.isBound : 0, wantsAck: wantsAck)
    }

    /// Puts a heartbeat into the ring.
    mutating func offer(_ heartbeat: Heartbeat, next: UInt64, epoch: UInt64) -> Bool {
        let header = PacketHeader(
            kind: .heartbeat, flags: PacketHeader.Flags.isAckWanted,
            sender: SenderID(rawValue: 7), epoch: SenderEpoch(rawValue: epoch),
            sequence: PacketSequence(rawValue: next))
        return stages.offer(
            heartbeat.packet(header), [], kind: RingRecordKind.heartbeat, sender: 7, epoch: epoch,
            sequence: next, wantsAck: true)
    }

    /// Puts a plain packet into the ring.
    mutating func offer(_ bytes: [UInt8], _ events: [EventDescriptor]) -> Bool {
        stages.offer(bytes, events, kind: RingRecordKind.plain, sender: 0, sequence: 0)
    }

    /// The acks sent since the last call.
    func takeAcks() -> [[UInt8]] { answers.take() }

    /// Takes packets, with turns of the stages between them, and settles.
    mutating func take(
        _ packets: Range<UInt64>, attributed: Bool = false
    ) throws(PipelineError) {
        var next = packets.lowerBound
        while next < packets.upperBound {
            var packet = SimulatedPacket(sequence: next)
            packet.isAttributed = attributed
            if offer(packet) { next += 1 }
            try turn()
        }
        try settle()
    }

    /// Puts a count of packets that were shed into the ring, as the receive stage does.
    mutating func offerShed(_ count: UInt64) -> Bool {
        var counts = [UInt64](repeating: 0, count: PacketResult.allCases.count)
        counts[Int(PacketResult.shed.rawValue)] = count
        let bytes = counts.flatMap { count in
            (0..<8).map { UInt8(truncatingIfNeeded: count >> UInt64(8 * $0)) }
        }
        return stages.offer(bytes, [], kind: RingRecordKind.refusals, sender: 0, sequence: 0)
    }

    /// Puts a batch packet without events into the ring.
    mutating func offerEmpty(sender: UInt64) -> Bool {
        let bytes = [UInt8](repeating: 0, count: PacketHeader.byteCount)
        return stages.offer(bytes, [], sender: sender, sequence: 0)
    }

    /// A few turns of stages picked at random; time goes on.
    mutating func turn() throws(PipelineError) {
        for _ in 0..<Int(generator.next() % 6) {
            let pick = generator.next()
            switch pick % 4 {
            case 0, 1: _ = stages.commit.step(mayWait: false)
            case 2: _ = try stages.sync.step(mayWait: false)
            default: _ = try stages.compact.step(mayWait: false)
            }
            if merges && pick >> 2 % 3 == 0 { _ = try stages.merge.step(mayWait: false) }
        }
        clock.advance(milliseconds: Int(generator.next() % 300))
    }

    /// Commits, syncs and folds what has been offered; no time goes by but what a block waits.
    mutating func settle() throws(PipelineError) {
        for _ in 0..<40 {
            _ = stages.commit.step(mayWait: false)
            _ = try stages.sync.step(mayWait: false)
            _ = try stages.compact.step(mayWait: false)
            if merges { _ = try stages.merge.step(mayWait: false) }
            clock.advance(milliseconds: 1)
        }
    }

    /// Turns of the compact stage alone, with time going on; nothing is received.
    mutating func rest(turns: Int) throws(PipelineError) {
        for _ in 0..<turns {
            _ = try stages.compact.step(mayWait: false)
            if merges { _ = try stages.merge.step(mayWait: false) }
            clock.advance(milliseconds: 1_000)
        }
    }

    /// Ends commit and sync; the compact stage has its turns by `turnWaiting` then.
    mutating func closeInput() throws(PipelineError) {
        stages.producer = nil
        for _ in 0..<1_000 {
            _ = stages.commit.step(mayWait: false)
            _ = try stages.compact.step(mayWait: false)
            if case .finished = try stages.sync.step(mayWait: false) { return }
        }
        Issue.record("an end that does not come")
    }

    /// A turn of the compact stage as its queue makes it, which may wait.
    mutating func turnWaiting() throws(PipelineError) -> StageOutcome {
        try stages.compact.step(mayWait: true)
    }

    /// What the log waits for.
    var shortage: Shortage? { stages.state.shortage }

    /// Of a stop; far more than any takes that ends.
    private static let stopTurnCountMax = 100_000

    /// Drains, seals and publishes, as a daemon that is told to stop.
    /// - Parameter waits: whether it waits for a disk that takes nothing, which a daemon does not.
    mutating func stop(waits: Bool = false) throws(PipelineError) {
        stages.producer = nil
        var isFinished = (commit: false, sync: false, compact: false)
        // Where no merge is to be done, the stage has its turn once the compact stage has said so.
        var turnsBeforeMerge = merges ? 0 : 1_000
        var turnCount = 0
        while !isFinished.compact {
            turnCount += 1
            guard turnCount < Self.stopTurnCountMax else {
                Issue.record("a stop that does not end")
                return
            }
            if !isFinished.commit, case .finished = stages.commit.step(mayWait: false) {
                isFinished.commit = true
            }
            if !isFinished.sync,
                case .finished = try stages.sync.step(mayWait: false, mayKeep: waits)
            {
                isFinished.sync = true
            }
            if case .finished = try stages.compact.step(mayWait: false, mayRetry: waits) {
                isFinished.compact = true
            }
            if waits { clock.advance(milliseconds: 10) }
            if isFinished.sync { turnsBeforeMerge -= 1 }
            if turnsBeforeMerge <= 0 { _ = try stages.merge.step(mayWait: false) }
        }
    }
}

/// Lines for the log, in order.
final class ToldLines: Sendable {
    private let kept = Mutex<[String]>([])
    func add(_ line: String) { kept.withLock { $0.append(line) } }
    func count(_ start: String) -> Int {
        kept.withLock { lines in lines.count { $0.hasPrefix(start) } }
    }
}

extension PipelineStages where Files == SimulatedFileSystem, Clock == SimulatedClock {
    fileprivate mutating func offer(
        _ bytes: [UInt8], _ events: [EventDescriptor], kind: UInt8 = RingRecordKind.framed,
        sender: UInt64, epoch: UInt64 = 1, sequence: UInt64, flags: UInt8 = 0,
        wantsAck: Bool = false
    ) -> Bool {
        var header = RingRecordHeader(kind: kind)
        header.sender = sender
        header.epoch = epoch
        header.sequence = sequence
        header.flags = flags | (wantsAck ? RingRecordHeader.Flags.wantsAck : 0)
        header.source.family = wantsAck ? 2 : 0
        header.packetByteCount = UInt16(bytes.count)
        header.eventCount = UInt16(events.count)
        let place = RingLayout.rowOffset(packetByteCount: bytes.count)
        var rows = PacketRows()
        rows.set(to: events)
        let byteCount = place + rows.byteCount
        guard let record = unsafe producer?.claim(header, byteCount: byteCount) else {
            return false
        }
        // SAFETY: the record has room for both, by `byteCount`.
        unsafe bytes.withUnsafeBytes {
            unsafe (record + RingLayout.recordHeaderByteCount).copyMemory(
                from: $0.baseAddress!, byteCount: $0.count)
        }
        unsafe rows.copy(to: record + place)
        producer?.commit()
        producer?.publish()
        return true
    }
}
