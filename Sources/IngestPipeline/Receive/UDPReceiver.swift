// [packet → decode → ring] → admit → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestRing

/// Receives datagrams in batches, checks and decodes them, and puts what passed into the ring. Owned by the
/// receive queue.
///
/// Every datagram ends in exactly one place: a record in the ring, or a count by `PacketResult`. Counts
/// go down the ring too, at least every 100 ms, so that they reach the ledger. While the ring is full,
/// packets are read and checked all the same, and counted as `shed`.
///
/// **Cost** About 0.1 µs a coalesced datagram and 25 ns an event; allocates nothing after start.
package struct UDPReceiver<Socket: DatagramSocket & ~Copyable, Clock: IngestClock>: ~Copyable {
    private var socket: Socket
    private var batch: PacketBatch
    private var ring: PacketRingWriter
    private let clock: Clock
    private let counters: PipelineCounters
    private let log: RefusalLog
    private var nextFlushNanoseconds: UInt64 = 0
    private var reportedDrops: UInt64 = 0

    private static var flushIntervalNanoseconds: UInt64 { 100_000_000 }
    /// Batches taken after a stop was asked for: more than a receive buffer of 1 GiB can hold.
    private static var drainBatchCountMax: Int { 1 << 15 }

    /// - Parameters:
    ///   - batch: at least as many buffers as the socket fills.
    ///   - hash: of the directory.
    package init(
        socket: consuming Socket, batch: consuming PacketBatch, producer: consuming RingProducer,
        hash: KeyedHash, clock: Clock, counters: PipelineCounters, log: RefusalLog
    ) {
        self.socket = socket
        self.batch = batch
        ring = PacketRingWriter(producer: producer, hash: hash)
        self.clock = clock
        self.counters = counters
        self.log = log
    }

    /// One turn: a batch of datagrams.
    ///
    /// - Parameter waits: whether to wait for the first datagram, up to the socket's time.
    /// - Returns: whether there was one.
    /// **Errors** of the socket; the pipeline cannot go on without it.
    package mutating func step(waits: Bool) throws(SocketError) -> Bool {
        try socket.receive(into: &batch, waits: waits)
        for index in 0..<batch.count { takeBuffer(index) }
        if batch.count > 0 {
            ring.publish()
            counters.receive.add(.batches)
            counters.receive.add(.buffers, UInt64(batch.count))
        }
        flushIfDue()
        return batch.count > 0
    }

    /// Takes apart one buffer: one datagram, or a run of datagrams of one size that the kernel coalesced.
    private mutating func takeBuffer(_ index: Int) {
        // SAFETY: index < batch.count; the kernel filled byte_count ≤ 65,536 bytes of the buffer.
        let datagram = unsafe batch.datagrams[index]
        guard unsafe !datagram.is_truncated else { return refuse(.truncated, index) }
        let byteCount = unsafe Int(datagram.byte_count)
        let segmentByteCount = max(1, unsafe Int(datagram.segment_byte_count))
        var offset = 0
        repeat {
            let count = min(segmentByteCount, byteCount - offset)
            // SAFETY: offset + count ≤ byte_count.
            let bytes = unsafe UnsafeMutableRawBufferPointer(
                start: datagram.bytes + offset, count: count)
            let result = unsafe ring.take(bytes)
            if result != .accepted { refuse(result, index) }
            offset += count
            counters.receive.add(.datagrams)
        } while offset < byteCount
        counters.receive.add(.bytes, UInt64(byteCount))
    }

    private mutating func refuse(_ result: PacketResult, _ index: Int) {
        ring.refuse(result)
        counters.packetsOfReceive.add(result)
        log.note(result, from: batch.source(index), at: clock.monotonicNanoseconds())
    }

    private mutating func flushIfDue() {
        let now = clock.monotonicNanoseconds()
        guard now >= nextFlushNanoseconds else { return }
        nextFlushNanoseconds = now &+ Self.flushIntervalNanoseconds
        ring.flushRefusals()
        ring.publish()
        counters.receive.add(.events, ring.takeEventCount())
        noteDrops(at: now)
    }

    private mutating func noteDrops(at now: UInt64) {
        let drops = socket.kernelDropCount()
        guard drops > reportedDrops else { return }
        counters.receive.add(.kernelDrops, drops &- reportedDrops)
        reportedDrops = drops
        log.noteKernelDrops(
            total: drops, receiveBufferByteCount: socket.receiveBufferByteCount, at: now)
    }
}

extension UDPReceiver: PipelineStage where Socket: ~Copyable {
    /// Runs until a stop is asked for; then takes what the socket still holds and closes the ring.
    package mutating func run(stop: StopFlag) throws(SocketError) {
        while !stop.isSet { _ = try step(waits: true) }
        for _ in 0..<Self.drainBatchCountMax {
            if try !step(waits: false) { break }
        }
        finish()
    }

    /// Hands down the last counts. The ring closes when the receiver goes.
    package mutating func finish() {
        nextFlushNanoseconds = 0
        flushIfDue()
        log.flush()
    }
}
