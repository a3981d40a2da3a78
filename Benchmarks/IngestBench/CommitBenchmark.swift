// packet → decode → [ring → admit → block] → segment → compaction → snapshot → query
import Glibc
import IngestFormat
import IngestPipeline
import IngestRing

/// Prints what the commit stage costs an event, from the ring to the encoded block, with nothing behind
/// it: 11 events to a packet, ids on all, half of the impressions measured.
func commitBenchmark() {
    for rewardCount in [1_000, 100_000, 1_000_000] {
        var bench = CommitBenchmark(rewardCount: rewardCount)
        bench.run(eventCount: 2_000_000)  // every name is known afterwards
        let (seconds, byteCount, events) = bench.run(eventCount: 8_000_000)
        let nanoseconds = seconds * 1e9 / Double(events)
        print(
            "commit  rewards \(rewardCount)  ns/event \(tenths(nanoseconds))",
            " bytes/event \(tenths(Double(byteCount) / Double(events)))")
    }
}

/// Processor time of this thread: other work on the machine is not in it.
private func threadNanoseconds() -> UInt64 {
    var now = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
}

private func tenths(_ value: Double) -> Double { (value * 10).rounded() / 10 }

private struct CommitBenchmark: ~Copyable {
    private static let eventsPerPacket = 11
    private let clock = LinuxClock()
    private let links = StageLinks()
    private var producer: RingProducer
    private var stage: CommitStage<LinuxClock>
    private var packets: [(bytes: [UInt8], events: [EventDescriptor])] = []
    private var nextPacket = 0
    private var sequence: UInt64 = 0

    init(rewardCount: Int) {
        let ends = EventRing.make(byteCount: Limits.ringByteCount)!
        let start = LogStart(
            directory: DirectoryID(rawValue: 1), shard: 0,
            lastSegment: SegmentNumber(rawValue: 0), commitEpoch: 0, previousChecksum: 0,
            moneyCountedMicros: 0)
        producer = ends.producer
        stage = CommitStage(
            consumer: ends.consumer, dictionary: NameDictionary(), repeats: .empty(), clock: clock,
            start: start,
            configuration: PipelineConfiguration(), links: links, counters: PipelineCounters())
        for _ in 0..<StageLinks.slotCount { links.free.push(BlockSlot(log: start)) }
        makePackets(rewardCount: rewardCount)
    }

    private mutating func makePackets(rewardCount: Int) {
        var random = BenchRandom(seed: 1)
        let hash = KeyedHash(key: InlineArray(repeating: 7))
        let now = clock.wallMicroseconds()
        // Every reward stands in at least one packet.
        let packetCount = max(40_000, rewardCount / Self.eventsPerPacket + 1)
        for packet in 0..<packetCount {
            var bytes: [UInt8] = []
            var events: [EventDescriptor] = []
            for index in 0..<Self.eventsPerPacket {
                let serial = packet * Self.eventsPerPacket + index
                let reward =
                    serial < rewardCount ? serial : Int(random.next() % UInt64(rewardCount))
                var event = EventDescriptor()
                event.type = index == 0 ? 2 : 1
                event.timestampMicroseconds = now + Int64(random.next() % 1_000_000)
                func put(_ text: String) -> (UInt16, UInt8, UInt64) {
                    let name = Array(text.utf8)
                    let offset = UInt16(bytes.count)
                    bytes += name
                    return (offset, UInt8(name.count), hash.name(name))
                }
                (event.rewardOffset, event.rewardByteCount, event.rewardHash) = put(
                    "reward-\(1_000_000 + reward)")
                (event.businessOffset, event.businessByteCount, event.businessHash) = put(
                    "business-\(1_000 + reward % 500)")
                (event.platformOffset, event.platformByteCount, event.platformHash) = put("iOS")
                event.eventHash = random.next()
                event.flags = EventDescriptor.Flags.hasEventID
                if index % 2 == 1 {
                    event.flags |= EventDescriptor.Flags.isMeasured
                    event.visiblePartsPerMillion = UInt32(random.next() % 1_000_000)
                    event.durationMilliseconds = UInt32(random.next() % 8_000)
                }
                events.append(event)
            }
            // An event on the wire is about as long as its names, its id and 40 bytes more.
            bytes += [UInt8](repeating: 0, count: max(0, 1_375 - bytes.count))
            packets.append((bytes, events))
        }
    }

    @discardableResult
    mutating func run(eventCount: Int) -> (seconds: Double, byteCount: Int, events: Int) {
        var spent: UInt64 = 0
        var byteCount = 0
        var events = 0
        while events < eventCount {
            for _ in 0..<2_000 { events += publishPacket() }
            let start = threadNanoseconds()
            while case .worked = stage.step(mayWait: false) { byteCount += recycle() }
            byteCount += recycle()
            spent += threadNanoseconds() - start
        }
        return (Double(spent) / 1e9, byteCount, events)
    }

    /// Plays the stages behind: every block is durable at once.
    private func recycle() -> Int {
        var byteCount = 0
        while let slot = links.toSync.pop(waitNanoseconds: 0) {
            byteCount += slot.buffer.byteCount
            links.state.didSync()
            links.free.push(slot)
        }
        return byteCount
    }

    private mutating func publishPacket() -> Int {
        let index = nextPacket
        nextPacket = (nextPacket + 1) % packets.count
        var header = RingRecordHeader(kind: RingRecordKind.framed)
        header.sender = 7
        header.epoch = 1
        header.sequence = sequence
        header.packetByteCount = UInt16(packets[index].bytes.count)
        header.eventCount = UInt16(packets[index].events.count)
        sequence += 1
        let place = RingLayout.descriptorOffset(packetByteCount: packets[index].bytes.count)
        let byteCount = place + MemoryLayout<EventDescriptor>.stride * Self.eventsPerPacket
        guard let record = unsafe producer.claim(header, byteCount: byteCount) else { return 0 }
        unsafe packets[index].bytes.withUnsafeBytes {
            unsafe (record + RingLayout.recordHeaderByteCount).copyMemory(
                from: $0.baseAddress!, byteCount: $0.count)
        }
        unsafe packets[index].events.withUnsafeBytes {
            unsafe (record + place).copyMemory(from: $0.baseAddress!, byteCount: $0.count)
        }
        producer.commit()
        producer.publish()
        return Self.eventsPerPacket
    }
}

/// SplitMix64.
struct BenchRandom {
    private var state: UInt64
    init(seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
