// [packet → decode → ring] → admit → block → segment → compaction → snapshot → query
import CIngestLinux
import Dispatch
import Glibc
import IngestClient
import IngestFormat
import IngestPipeline
import IngestRing
import Synchronization

/// Prints what receiving costs a packet and an event, on the processor time of the receive thread alone:
/// the ring by itself, the receive call by itself, and receive + check + decode + ring, with a consumer on
/// another thread that looks at each record's head and lets it go. 11 events to a packet.
func receiveBenchmark() {
    ringBenchmark(packetCount: 4_000_000)
    let identity = SenderIdentity(
        sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 1_763_600_000_000 << 20))
    var pool = PacketPool(packetCount: 44 * 64, mix: EventMix.Options(), identity: identity)
    pool.prepare(
        first: 0, count: pool.packetCount,
        unixMicroseconds: UInt64(LinuxClock().wallMicroseconds()), firstEvent: 0)
    for isCoalesced in [true, false] {
        let packetCount = isCoalesced ? 4_000_000 : 400_000
        for capacity in [8, 16, 32, 64] {
            let bench = ReceiveBenchmark(
                batchCapacity: capacity, isCoalesced: isCoalesced, packetCount: packetCount)
            bench.run(pool, decodes: false)
            bench.run(pool, decodes: true)
        }
    }
}

private let eventsPerPacket = Double(PacketPool.packetEventCount)

private func printFigures(
    _ name: String, nanoseconds: UInt64, packetCount: Int, _ more: String = ""
) {
    let perPacket = Double(nanoseconds) / Double(max(1, packetCount))
    Report.line(
        name,
        "\(fixed(perPacket, 1)) ns/packet  \(fixed(perPacket / eventsPerPacket, 2)) ns/event  \(more)"
    )
}

/// Processor time of this thread: other work on the machine is not in it.
private func threadNanoseconds() -> UInt64 {
    var now = timespec()
    // SAFETY: the call writes one timespec.
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
}

// MARK: The ring alone

/// Copies a packet and 11 descriptors into each record; the consumer reads heads on another thread.
private func ringBenchmark(packetCount: Int) {
    let ends = EventRing.make(byteCount: Limits.ringByteCount)!
    let drain = RingDrain()
    drain.start(ends.consumer)
    var producer = ends.producer
    let packet = [UInt8](repeating: 1, count: PacketPool.packetByteCount)
    let descriptors = [EventDescriptor](
        repeating: EventDescriptor(), count: PacketPool.packetEventCount)
    var header = RingRecordHeader(kind: RingRecordKind.framed)
    header.packetByteCount = UInt16(packet.count)
    header.eventCount = UInt16(descriptors.count)
    let descriptorOffset = RingLayout.descriptorOffset(packetByteCount: packet.count)
    let descriptorByteCount = descriptors.count * MemoryLayout<EventDescriptor>.stride
    let startedAt = threadNanoseconds()
    var fullCount = 0
    for index in 0..<packetCount {
        // SAFETY: the claim is for header, packet and descriptors, which lie where the layout says.
        while true {
            guard
                let record = unsafe producer.claim(
                    header, byteCount: descriptorOffset + descriptorByteCount)
            else {
                fullCount += 1
                producer.publish()
                sched_yield()
                continue
            }
            unsafe packet.withUnsafeBytes {
                unsafe (record + RingLayout.recordHeaderByteCount).copyMemory(
                    from: $0.baseAddress!, byteCount: $0.count)
            }
            unsafe descriptors.withUnsafeBytes {
                unsafe (record + descriptorOffset).copyMemory(
                    from: $0.baseAddress!, byteCount: $0.count)
            }
            break
        }
        producer.commit()
        if index % 32 == 31 { producer.publish() }
    }
    let nanoseconds = threadNanoseconds() - startedAt
    producer.close()
    let consumed = drain.join()
    printFigures(
        "ring, producer", nanoseconds: nanoseconds, packetCount: packetCount, "full \(fullCount)")
    printFigures(
        "ring, consumer", nanoseconds: consumed.nanoseconds, packetCount: consumed.recordCount)
}

/// Reads the heads of records until the ring is closed.
private final class RingDrain: Sendable {
    struct Figures {
        var recordCount = 0
        var eventCount: UInt64 = 0
        var nanoseconds: UInt64 = 0
    }

    private let queue = StageQueue(name: "bench.drain")
    private let figures = Mutex(Figures())

    func start(_ consumer: consuming RingConsumer) {
        queue.start(Stage(consumer: consumer, drain: self)) { (_: Never) in }
    }

    /// Once the ring is closed and empty.
    func join() -> Figures {
        queue.join()
        return figures.withLock { $0 }
    }

    private struct Stage: PipelineStage, ~Copyable {
        var consumer: RingConsumer
        let drain: RingDrain

        mutating func run(stop: StopFlag) {
            var figures = Figures()
            while consumer.wait(timeoutNanoseconds: 1_000_000_000) != .closed {
                while let record = consumer.next() {
                    figures.recordCount += 1
                    figures.eventCount += UInt64(record.header.eventCount)
                }
                consumer.release()
            }
            figures.nanoseconds = threadNanoseconds()
            drain.figures.withLock { [figures] in $0 = figures }
        }
    }
}

// MARK: The receiver

private struct ReceiveBenchmark {
    let batchCapacity: Int
    let isCoalesced: Bool
    let packetCount: Int

    /// Receives `packetCount` datagrams from a sender that never pauses.
    func run(_ pool: borrowing PacketPool, decodes: Bool) {
        do throws(SocketError) {
            let socket = try LinuxDatagramSocket(
                binding: SocketAddress("127.0.0.1:0"), receiveBufferByteCount: 64 << 20,
                batchCapacity: batchCapacity)
            let flood = Flood(pool, to: socket.address.description, isCoalesced: isCoalesced)
            let (name, figures) =
                decodes
                ? ("receive + decode + ring", try receiveAndDecode(socket))
                : ("receive", try receiveOnly(socket))
            flood.stop()
            printFigures(
                name, nanoseconds: figures.nanoseconds, packetCount: figures.packetCount,
                "\(isCoalesced ? "GSO+GRO" : "plain") batch \(batchCapacity)  \(figures.more)")
        } catch {
            print(error)
        }
    }

    private typealias Figures = (nanoseconds: UInt64, packetCount: Int, more: String)

    private func receiveOnly(
        _ socket: consuming LinuxDatagramSocket
    ) throws(SocketError) -> Figures {
        var batch = PacketBatch(capacity: batchCapacity)!
        var received = 0
        var calls = 0
        let startedAt = threadNanoseconds()
        while received < packetCount {
            try socket.receive(into: &batch, waits: true)
            received += batch.datagramCount
            calls += 1
        }
        return (threadNanoseconds() - startedAt, received, "\(received / calls) a call")
    }

    private func receiveAndDecode(
        _ socket: consuming LinuxDatagramSocket
    ) throws(SocketError) -> Figures {
        let ends = EventRing.make(byteCount: Limits.ringByteCount)!
        let drain = RingDrain()
        drain.start(ends.consumer)
        let counters = PipelineCounters()
        var receiver = UDPReceiver(
            socket: socket, batch: PacketBatch(capacity: batchCapacity)!, ring: ends.producer,
            hash: KeyedHash(key: InlineArray(repeating: 7)), clock: LinuxClock(),
            counters: counters, warn: { _ in })
        let startedAt = threadNanoseconds()
        while counters.receive[.datagrams] < UInt64(packetCount) {
            _ = try receiver.step(mayWait: true)
        }
        let nanoseconds = threadNanoseconds() - startedAt
        let received = Int(counters.receive[.datagrams])
        let events = counters.receive[.events]
        let calls = Int(counters.receive[.batches])
        try receiver.finish()
        _ = drain.join()
        return (
            nanoseconds, received,
            "\(received / calls) a call, \(events) events, shed \(counters.packets(.shed))"
        )
    }
}

/// Sends a pool's packets round and round on a thread of its own, as they are, until it is stopped.
private final class Flood: Sendable {
    private let queue = DispatchQueue(label: "bench.flood")
    private let isStopped = Atomic(false)

    init(_ pool: borrowing PacketPool, to address: String, isCoalesced: Bool) {
        var bytes: [UInt8] = []
        pool.withPackets(first: 0, count: pool.packetCount) { packets in
            // SAFETY: the span is valid inside the closure, and copied there.
            unsafe packets.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
        }
        queue.async { [self, bytes] in send(bytes, to: address, isCoalesced: isCoalesced) }
    }

    func stop() {
        isStopped.store(true, ordering: .relaxed)
        queue.sync {}
    }

    private func send(_ bytes: [UInt8], to address: String, isCoalesced: Bool) {
        let packetByteCount = PacketPool.packetByteCount
        let runByteCount =
            isCoalesced
            ? UDPTransport.burstByteCount(segmentByteCount: packetByteCount) : packetByteCount
        guard let transport = try? UDPTransport(address: address) else { return }
        var start = 0
        while !isStopped.load(ordering: .relaxed) {
            let end = min(bytes.count, start + runByteCount)
            // The receiver may be gone by now: then there is nobody to send to.
            try? transport.send(
                bytes.span.extracting(start..<end), segmentByteCount: packetByteCount)
            start = end == bytes.count ? 0 : end
        }
    }
}
