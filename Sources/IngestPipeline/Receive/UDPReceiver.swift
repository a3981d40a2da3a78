// [packet] → [decode] → [ring] → admit → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestKeys
import IngestRing
import Synchronization

/// The receive stage: batches of datagrams from a socket into the ring. Owned by the receive queue.
///
/// It never waits for the stages behind it: what does not fit the ring is shed and counted, so that the
/// kernel's queue stays short and every refusal has a name.
package struct UDPReceiver<Socket: DatagramSocket & ~Copyable, Clock: IngestClock>: ~Copyable {
    private var socket: Socket
    private var batch: PacketBatch
    private var intake: PacketIntake
    /// `nil`: no answer says that it is shed.
    private var acks: AckSender?
    private var log: RefusalLog
    private let state: StageLinks.SharedState?
    private let clock: Clock
    private let counters: PipelineCounters
    private var knownDropCount: UInt64 = 0
    private var tickNanoseconds: UInt64
    private var batchNanoseconds: UInt64 = 0
    private let mayGather: Bool

    /// How long a busy socket is left alone after a batch that was not full. Waking a sleeping thread costs the
    /// machine as much as taking a dozen events apart, so that it pays to wake it for more of them.
    private static var gatherNanoseconds: UInt64 { 500_000 }
    /// The least receive buffer that holds what comes meanwhile: 8 Gbit/s, and what the kernel adds to it.
    private static var gatherReceiveBufferByteCount: Int { 4 << 20 }
    /// Between two looks at what is not a packet: refusals to hand down, drops, log lines.
    private static var tickIntervalNanoseconds: UInt64 { 100_000_000 }
    /// How long a stop goes on reading what senders keep sending.
    private static var drainNanosecondsMax: UInt64 { 1_000_000_000 }

    /// `warn` gets log lines, a few a second at most, on the receive queue; it must not block.
    package init(
        socket: consuming Socket, batch: consuming PacketBatch, ring: consuming RingProducer,
        hash: KeyedHash, acks: consuming AckSender? = nil, keyRing: KeyRing? = nil,
        state: StageLinks.SharedState? = nil, clock: Clock,
        counters: PipelineCounters,
        warn: @escaping @Sendable (String) -> Void
    ) {
        mayGather = socket.receiveBufferByteCount >= Self.gatherReceiveBufferByteCount
        self.socket = socket
        self.batch = batch
        intake = PacketIntake(
            ring: ring, hash: hash, keyRing: keyRing, state: state, counters: counters)
        self.acks = acks
        log = RefusalLog(write: warn)
        self.state = state
        self.clock = clock
        self.counters = counters
        tickNanoseconds = clock.monotonicNanoseconds() &+ Self.tickIntervalNanoseconds
    }

    /// One turn: receives a batch and takes it in; every 100 ms looks after refusals and drops.
    ///
    /// - Parameter mayWait: whether to sleep (at most 100 ms) when nothing is there.
    package mutating func step(mayWait: Bool) throws(SocketError) -> StageOutcome {
        try socket.receive(into: &batch, waits: mayWait)
        if batch.count > 0 { takeBatch() }
        let now = clock.monotonicNanoseconds()
        if now >= tickNanoseconds {
            tickNanoseconds = now &+ Self.tickIntervalNanoseconds
            tick(now)
        }
        guard batch.count > 0 else { return .idle }
        if mayWait && mayGather { gather(now) }
        return .worked
    }

    private mutating func takeBatch() {
        intake.take(batch)
        if intake.answers.isEmpty { return }
        let sent = acks?.send(intake.answers, unixMicroseconds: clock.wallMicroseconds()) ?? 0
        counters.receive.add(.answers, UInt64(sent))
    }

    /// Lets datagrams gather in the socket while they come one upon the other; a lone one never waits.
    private mutating func gather(_ now: UInt64) {
        let isBusy = now &- batchNanoseconds < 2 * Self.gatherNanoseconds
        batchNanoseconds = now
        if isBusy && batch.count < batch.capacity {
            clock.pause(nanoseconds: Self.gatherNanoseconds)
        }
    }

    /// The end: takes in what is queued in the socket, hands down the last refusals and closes the ring.
    /// Nothing may be received after.
    ///
    /// **Errors** as `step`; the ring is closed even then.
    package mutating func finish() throws(SocketError) {
        defer { end() }
        let deadline = clock.monotonicNanoseconds() &+ Self.drainNanosecondsMax
        while case .worked = try step(mayWait: false), clock.monotonicNanoseconds() < deadline {}
    }

    private mutating func end() {
        log.endIntervals()
        tick(clock.monotonicNanoseconds())
        intake.handDownRefusals(isLast: true)
        intake.close()
    }

    private mutating func tick(_ now: UInt64) {
        intake.handDownRefusals(isLast: false)
        intake.renewAnswers()
        noteDrops(now)
        intake.withRefusals { log.tell(&$0, nowNanoseconds: now) }
        log.tell(counters, state, nowNanoseconds: now)
    }

    private mutating func noteDrops(_ now: UInt64) {
        let dropCount = socket.kernelDropCount()
        if dropCount > knownDropCount {
            counters.receive.add(.kernelDrops, dropCount - knownDropCount)
            knownDropCount = dropCount
        }
        log.tell(
            dropCount: dropCount, receiveBufferByteCount: socket.receiveBufferByteCount,
            nowNanoseconds: now)
    }
}

extension UDPReceiver: PipelineStage where Socket: ~Copyable {
    /// Runs until it is asked to stop, which it sees within 100 ms; then `finish`.
    package mutating func run(stop: StopFlag) throws(SocketError) {
        do throws(SocketError) {
            while !stop.isSet { _ = try step(mayWait: true) }
        } catch {
            intake.close()
            throw error
        }
        try finish()
    }
}

/// The buffers that one receive call fills, used again and again. Owned by the receive queue.
///
/// A buffer holds a datagram, or a run of datagrams of one size that the kernel coalesced (UDP_GRO).
///
/// **Cost** `capacity` × 67,072 bytes, mapped once; only the pages that datagrams reach are ever touched.
@safe package struct PacketBatch: ~Copyable {
    /// What one buffer takes. The kernel coalesces up to 64 KiB: with less room it would cut runs off.
    package static let bufferByteCount = 1 << 16
    /// From one buffer to the next. More than the buffer, and no power of two: the starts of the buffers,
    /// the only part that small datagrams touch, would else fall on the same sets of the L1 and L2 caches.
    static let bufferStride = bufferByteCount + 1536
    /// Beyond 32 buffers a batch no longer fits the second-level cache.
    package static let defaultCapacity = 32

    package let capacity: Int
    /// Bytes of each buffer that may be filled.
    package let byteCountMax: Int
    /// Buffers filled by the last call, from 0 on.
    package var count = 0
    /// `capacity` of them; `bytes` is set, the rest is what the last call said.
    package let datagrams: UnsafeMutablePointer<ingest_datagram>
    private let pages: UnsafeMutableRawPointer

    /// `byteCountMax` below the default makes the kernel cut longer datagrams off, as a test may want.
    /// `nil` when there is no memory.
    package init?(
        capacity: Int = defaultCapacity, byteCountMax: Int = bufferByteCount
    ) {
        precondition(capacity > 0 && byteCountMax > 0 && byteCountMax <= Self.bufferByteCount)
        guard let pages = unsafe ingest_pages_map(capacity * Self.bufferStride) else { return nil }
        // SAFETY: `pages` holds capacity × bufferStride bytes; each buffer lies inside. The datagrams are
        // initialised here, one for each buffer.
        unsafe self.pages = pages
        unsafe datagrams = .allocate(capacity: capacity)
        self.capacity = capacity
        self.byteCountMax = byteCountMax
        for i in 0..<capacity {
            var datagram = unsafe ingest_datagram()
            unsafe datagram.bytes = (pages + i * Self.bufferStride).assumingMemoryBound(
                to: UInt8.self)
            unsafe (datagrams + i).initialize(to: datagram)
        }
    }

    deinit {
        unsafe datagrams.deallocate()
        unsafe ingest_pages_unmap(pages, capacity * Self.bufferStride)
    }
}

/// The keys that packets are taken under, replaced as a whole while the daemon runs.
///
/// The receive stage checks tags by it, the sync stage tags acks; both look once a batch whether it is still
/// the same.
package final class KeyRing: Sendable {
    /// The keys at one time.
    struct Keys: Sendable {
        fileprivate let version: Int
        private let file: KeysFile
        /// By key id, of keys that are bound to a business: the hash of its name.
        private let businessHashes: [UInt16: UInt64]

        fileprivate init(_ file: KeysFile, hash: KeyedHash, version: Int) {
            self.version = version
            self.file = file
            businessHashes = Dictionary(
                uniqueKeysWithValues: file.keys.compactMap { key in
                    key.business.map { (key.id, hash.name($0)) }
                })
        }

        subscript(id: UInt16) -> PacketKey? { file[id] }

        /// What the businesses of a packet's events must hash to; `nil` = any.
        func businessHash(of key: PacketKey) -> UInt64? {
            key.business == nil ? nil : businessHashes[key.id]
        }

        /// Checks key and tag of a packet whose frame is sound.
        ///
        /// - Returns: the key, or why the packet is refused. No answer says which of key, tag and sender was wrong.
        @unsafe func check(_ packet: UnsafeRawBufferPointer) -> Result<PacketKey, PacketRefusal> {
            // SAFETY: the caller has checked that a header is there.
            let (flags, id, sender) = unsafe (
                packet[PacketHeader.Offset.flags],
                UInt16(
                    littleEndian: packet.loadUnaligned(
                        fromByteOffset: PacketHeader.Offset.keyID, as: UInt16.self)),
                UInt64(
                    littleEndian: packet.loadUnaligned(
                        fromByteOffset: PacketHeader.Offset.sender, as: UInt64.self))
            )
            guard id != 0, flags & PacketHeader.Flags.hasTag != 0 else {
                return .failure(PacketRefusal(.unauthenticated))
            }
            guard let key = file[id], unsafe key.tag.isTag(of: packet),
                key.isFor(SenderID(rawValue: sender))
            else { return .failure(PacketRefusal(.badTag)) }
            return .success(key)
        }
    }

    private let keys: Mutex<Keys>
    private let version = Atomic<Int>(0)
    private let hash: KeyedHash

    /// - Parameter hash: of the directory, by which names are compared.
    package init(_ file: KeysFile, hash: KeyedHash) {
        self.hash = hash
        keys = Mutex(Keys(file, hash: hash, version: 0))
    }

    /// From the next batch on packets are taken under these.
    package func replace(by file: KeysFile) {
        keys.withLock { keys in
            keys = Keys(file, hash: hash, version: keys.version + 1)
            // Relaxed, partner: `refresh`; the lock orders the keys.
            version.store(keys.version, ordering: .relaxed)
        }
    }

    var current: Keys { keys.withLock { $0 } }

    /// Whether the epochs of a sender that have ended under a key have done so under every key: where the key is bound to the
    /// sender, and once it is no longer in the file. A live one that is for any sender says nothing of whose a sender is: another
    /// tenant could end epochs of this one.
    /// **Cost** A lock. For packets of senders that have no window, and had one.
    func holdsEnds(of keyID: UInt16, for sender: SenderID) -> Bool {
        keys.withLock { $0[keyID].map { $0.sender == sender } ?? true }
    }

    /// Brings a copy up to date.
    /// **Cost** One load while nothing was replaced.
    func refresh(_ copy: inout Keys) {
        if version.load(ordering: .relaxed) != copy.version { copy = current }
    }
}

/// Why a packet is refused, as an error.
struct PacketRefusal: Error {
    let result: PacketResult
    init(_ result: PacketResult) { self.result = result }
}

/// What the intake counts while it works on a batch: plain integers, carried to the shared counters
/// once a batch.
struct IntakeTally {
    static let resultCount = 15

    var datagramCount: UInt64 = 0
    var byteCount: UInt64 = 0
    var eventCount: UInt64 = 0
    /// Platforms, campaigns and sources.
    var droppedCount: UInt64 = 0
    /// Packets by `PacketResult` since the last flush: those refused here.
    var results = InlineArray<15, UInt64>(repeating: 0)
    /// Likewise, since the last refusals record, without those that have a record of their own.
    var unrecorded = InlineArray<15, UInt64>(repeating: 0)

    var hasUnrecorded: Bool {
        for index in 0..<Self.resultCount where unrecorded[index] != 0 { return true }
        return false
    }

    mutating func flush(into counters: PipelineCounters, bufferCount: Int) {
        counters.receive.add(.batches)
        counters.receive.add(.buffers, UInt64(bufferCount))
        counters.receive.add(.datagrams, datagramCount)
        counters.receive.add(.bytes, byteCount)
        counters.receive.add(.events, eventCount)
        if droppedCount > 0 { counters.receive.add(.attributionsDropped, droppedCount) }
        for index in 0..<Self.resultCount where results[index] != 0 {
            guard let result = PacketResult(rawValue: UInt8(truncatingIfNeeded: index)) else {
                continue
            }
            counters.packetsOfReceive.add(result, results[index])
            results[index] = 0
        }
        datagramCount = 0
        byteCount = 0
        eventCount = 0
        droppedCount = 0
    }
}
