import IngestFormat
import IngestRing
import PipelineTestSupport

@testable import IngestPipeline

/// A commit stage between a ring and a link that a test holds the other ends of.
final class CommitBench {
    static let intervalMilliseconds = 5
    static let name = Array("reward-1business-1".utf8)
    let clock = SimulatedClock(wallMicroseconds: 1_763_600_000_000_000)
    let counters = PipelineCounters()
    let links = StageLinks()
    let zones = InForce(BusinessZones.utc)
    let alarms = KeptLines()
    let answers = SimulatedAckSocket()
    var producer: RingProducer
    private var stage: CommitStage<SimulatedClock>
    private let isDurableAtOnce: Bool

    init(
        isDurableAtOnce: Bool = true, ringByteCount: Int = 1 << 20,
        dictionary: consuming NameDictionary = NameDictionary(),
        policy: CountingPolicy = CountingPolicy(), keys: SessionKeyRing? = nil,
        bound: AttributionBound = AttributionBound(), idsCompleteSince: Int64 = .min,
        _ configure: (inout PipelineConfiguration) -> Void = { _ in }
    ) {
        self.isDurableAtOnce = isDurableAtOnce
        let ends = EventRing.make(byteCount: ringByteCount)!
        producer = ends.producer
        var start = LogStart(
            directory: DirectoryID(rawValue: 1), shard: 0,
            lastSegment: SegmentNumber(rawValue: 0), commitEpoch: 1, previousChecksum: 0)
        start.policy = policy
        for _ in 0..<StageLinks.slotCount { links.free.push(BlockSlot(log: start)) }
        var configuration = PipelineConfiguration()
        configure(&configuration)
        configuration.commitIntervalNanoseconds = UInt64(Self.intervalMilliseconds) * 1_000_000
        stage = CommitStage(
            consumer: ends.consumer, hash: KeyedHash(key: .init(repeating: 7)),
            dictionary: dictionary, attributions: KnownAttributions(bound),
            repeats: RepeatRule(
                DedupIndex(
                    keyCountMax: policy.keyCountMax, windowMicroseconds: policy.windowMicroseconds),
                policy, completeSince: idsCompleteSince),
            sessions: SessionRule(policy.sessions, keys), clock: clock, start: start,
            configuration: configuration, zones: zones,
            acks: AckSender(socket: answers, directory: start.directory), links: links,
            counters: counters,
            warn: { [alarms] in alarms.keep($0) })
    }

    func unmeasured() -> EventDescriptor {
        var event = click()
        event.type = EventType.impression.rawValue
        return event
    }

    func click() -> EventDescriptor {
        var event = EventDescriptor()
        event.type = EventType.click.rawValue
        event.timestampMicroseconds = clock.wallMicroseconds()
        (event.rewardByteCount, event.pairHash) = (8, 1)
        (event.businessOffset, event.businessByteCount, event.businessHash) = (8, 10, 2)
        return event
    }

    func offerBatch(sequence: UInt64, _ events: [EventDescriptor]) {
        offer(RingRecordKind.framed, sequence: sequence, events)
    }

    func offer(
        _ kind: UInt8, flags: UInt8 = 0, sequence: UInt64, sender: UInt64 = 7, keyID: UInt16 = 0,
        byteCountMin: Int = 0, text: [UInt8] = CommitBench.name, _ events: [EventDescriptor] = []
    ) {
        var header = RingRecordHeader(kind: kind)
        header.flags = flags
        header.keyID = keyID
        header.sender = sender
        header.epoch = 1
        header.sequence = sequence
        // As many bytes as a packet with these amounts has at least.
        let amountCount = events.reduce(0) {
            $0 + ($1.revenueMicros == 0 ? 0 : 1) + ($1.spendMicros == 0 ? 0 : 1)
        }
        let byteCount = max(
            byteCountMin, text.count + amountCount * Limits.moneyByteCountMin)
        header.packetByteCount = UInt16(byteCount)
        header.eventCount = UInt16(events.count)
        let place = RingLayout.rowOffset(packetByteCount: byteCount)
        var rows = PacketRows()
        rows.set(to: events)
        let record = producer.claim(header, byteCount: place + rows.byteCount)!
        text.withUnsafeBytes {
            (record + RingLayout.recordHeaderByteCount).copyMemory(
                from: $0.baseAddress!, byteCount: $0.count)
        }
        rows.copy(to: record + place)
        producer.commit()
        producer.publish()
    }

    func offerHeartbeat(next: UInt64, seen: UInt64 = 0, sender: UInt64 = 7) {
        let packet = Heartbeat(base: 0, seen: seen, nonce: 5)
            .packet(TestPackets.header(next, kind: .heartbeat))
        var header = RingRecordHeader(kind: RingRecordKind.heartbeat)
        header.flags = RingRecordHeader.Flags.wantsAck
        header.sender = sender
        header.epoch = 1
        header.sequence = next
        header.packetByteCount = UInt16(packet.count)
        let byteCount = RingLayout.rowOffset(packetByteCount: packet.count)
        let record = producer.claim(header, byteCount: byteCount)!
        packet.withUnsafeBytes {
            (record + RingLayout.recordHeaderByteCount).copyMemory(
                from: $0.baseAddress!, byteCount: $0.count)
        }
        producer.commit()
        producer.publish()
    }

    /// As `turn`, with all blocks that were closed; their slots are free again.
    func turns() -> [BlockSlot] {
        var blocks: [BlockSlot] = []
        for _ in 0..<2 { _ = stage.step(mayWait: false) }
        while let block = links.toSync.pop(waitNanoseconds: 0) {
            links.state.didSync()
            links.free.push(block)
            blocks.append(block)
        }
        return blocks
    }

    /// Two turns, since a ring is seen to be empty by the second; then the block that was closed, if any.
    func turn() -> BlockSlot? {
        for _ in 0..<2 { _ = stage.step(mayWait: false) }
        guard let block = links.toSync.pop(waitNanoseconds: 0) else { return nil }
        if isDurableAtOnce { links.state.didSync() }
        return block
    }
}
