// [packet] → [decode] → [ring] → admit → block → segment → compaction → snapshot → query

import IngestFormat
import IngestRing

/// The receive stage: batches of datagrams from a socket into the ring. Owned by the receive queue.
///
/// It never waits for the stages behind it: what does not fit the ring is shed and counted, so that the
/// kernel's queue stays short and every refusal has a name.
package struct UDPReceiver<Socket: DatagramSocket & ~Copyable, Clock: IngestClock>: ~Copyable {
    private var socket: Socket
    private var batch: PacketBatch
    private var intake: PacketIntake
    /// `nil`: nobody is told that it is shed.
    private var answers: AnswerSender?
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
        hash: KeyedHash, answers: (any AnswerSocket)? = nil, keyRing: KeyRing? = nil,
        state: StageLinks.SharedState? = nil, clock: Clock,
        counters: PipelineCounters,
        warn: @escaping @Sendable (String) -> Void
    ) {
        mayGather = socket.receiveBufferByteCount >= Self.gatherReceiveBufferByteCount
        self.socket = socket
        self.batch = batch
        intake = PacketIntake(
            ring: ring, hash: hash, keyRing: keyRing, state: state, counters: counters)
        self.answers = answers.map { AnswerSender(socket: $0, keyRing: keyRing) }
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
        if intake.busyAnswers.isEmpty { return }
        let sent = answers?.send(intake.busyAnswers) ?? 0
        counters.receive.add(.busyAnswers, UInt64(sent))
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
        noteDrops(now)
        intake.withRefusals { log.tell(&$0, nowNanoseconds: now) }
        log.tell(
            counters, clockStepSeconds: state?.clockStepSeconds ?? 0, nowNanoseconds: now)
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
