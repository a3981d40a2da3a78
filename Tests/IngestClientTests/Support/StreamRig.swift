import Synchronization
import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// An acked stream, its network, and a clock that the test moves.
final class StreamRig {
    let network = SimulatedNetwork()
    var stream: SenderStream
    private let clock = TestClock()

    /// - Parameters:
    ///   - left: what an earlier start has left.
    ///   - isWide: it knows a path of 500,000 packets a second, so that other rules decide what leaves.
    init(
        spool: (any PacketSpool)? = nil, left: SpoolContent = SpoolContent(),
        isWide: Bool = true, _ change: (inout SenderStream.Configuration) -> Void = { _ in }
    ) {
        var configuration = SenderStream.Configuration(identity: SampleEvents.identity())
        configuration.packetByteCountMax = 1_200
        let nonces = CountedNonces()
        configuration.makeNonce = { nonces.next() }
        change(&configuration)
        stream = SenderStream(
            configuration, transport: network, spool: spool, left: left, now: clock.now)
        guard isWide else { return }
        stream.congestion = .wide(now: clock.now)
        stream.pump(now: clock.now)
    }

    convenience init(
        _ opened: OpenedSpool, _ change: (inout SenderStream.Configuration) -> Void = { _ in }
    ) {
        self.init(spool: opened.spool, left: opened.left, change)
    }

    var now: UInt64 {
        get { clock.now }
        set { clock.now = newValue }
    }
    /// For what takes its own time.
    var sharedClock: TestClock { clock }

    var failure: ClientError? { stream.failure }
    var totals: EventSender.Totals { stream.totals }
    var isDrained: Bool { stream.isDrained }
    var nextDeadline: UInt64 { stream.nextDeadline }
    var unackedByteCount: Int { stream.window.byteCount }
    var sentEnd: UInt64 { stream.window.sentEnd }
    var nextSequence: UInt64 { stream.window.nextSequence }
    var obstacle: ClientError? { stream.obstacle(now: now) }
    var stall: ClientError? { stream.stall }

    /// As `EventSender` has it: an event that shall be durable at once is taken when it is.
    func send(_ event: AdEvent) -> EventSender.Outcome {
        let outcome = stream.send(event, now: now)
        guard outcome == .taken, stream.configuration.isDurableAtSend else { return outcome }
        let ticket = stream.ticket
        workOnSpool()
        return stream.isHeld(ticket) == true ? .taken : .full
    }

    func flush() {
        stream.flush(now: now)
        workOnSpool()
    }

    func finish(_ note: SpoolNote = SpoolNote()) {
        stream.finish(note, now: now)
        workOnSpool()
    }

    /// What the owner of a stream does beside it.
    func workOnSpool() {
        while var work = stream.beginSpoolWork() {
            work.run()
            stream.endSpoolWork(work, now: now)
        }
    }

    func sendPackets(_ count: Int) {
        for number in 0..<count {
            #expect(send(SampleEvents.event(number)) == .taken)
            flush()
        }
    }

    /// An ack; it answers the newest heartbeat where none else is believed.
    func ack(
        floor: UInt64, credit: UInt32 = 1_000, _ status: AckStatus = .ok,
        words: [UInt64] = [0], sender: UInt64 = 7, epoch: UInt64 = 9,
        _ change: (inout AckPacket) -> Void = { _ in }
    ) {
        var ack = AckPacket(
            sender: SenderID(rawValue: sender), epoch: SenderEpoch(rawValue: epoch),
            floor: PacketSequence(rawValue: floor), credit: credit, status: status)
        ack.directory = DirectoryID(rawValue: 1)
        ack.commitEpoch = stream.watch.commitEpoch
        let isAsked = stream.watch.directory == nil || stream.watch.isUnconfirmed
        if isAsked, let asked = stream.watch.questions.last {
            ack.echo = .nonce(asked.nonce)
        }
        change(&ack)
        // What is in flight has been on its way for a while.
        if stream.congestion.inFlightCount > 0 { now += 10_000_000 }
        stream.receive(ModelReceiver.bytes(ack, words: words).span, now: now)
        workOnSpool()
    }

    /// As `ack`, in answer to the newest heartbeat.
    func answer(
        floor: UInt64, credit: UInt32 = 1_000, _ status: AckStatus = .ok, directory: UInt64 = 1,
        commitEpoch: UInt64 = 5, epoch: UInt64 = 9, isPending: Bool = false,
        words: [UInt64] = [0]
    ) {
        let nonce = stream.watch.questions.last?.nonce ?? 0
        ack(floor: floor, credit: credit, status, words: words, epoch: epoch) {
            $0.directory = DirectoryID(rawValue: directory)
            $0.commitEpoch = commitEpoch
            $0.echo = .nonce(nonce)
            $0.isPending = isPending
        }
    }

    /// Ticks until the time is over, at the stream's own deadlines.
    func pass(_ nanoseconds: UInt64) {
        let end = now + nanoseconds
        while stream.nextDeadline <= end {
            now = max(now, stream.nextDeadline)
            stream.tick(now: now)
            workOnSpool()
        }
        now = max(now, end)
    }

    /// The sequences of the batches that were sent since the last call.
    func takeSequences() -> [UInt64] {
        network.takePackets().filter { $0.kind == 1 }.map(\.sequence)
    }
}

extension CongestionControl {
    /// One that has had 5,000 packets acked 10 ms after they left.
    static func wide(now: UInt64) -> CongestionControl {
        var control = CongestionControl(packetByteCount: 1_200)
        var last = Departure()
        for _ in 0..<5_000 { last = control.departed(now: now - 20_000_000) }
        control.acked(
            Progress(durableCount: 5_000, landedCount: 5_000), newest: last,
            now: now - 10_000_000)
        return control
    }
}

/// Nonces that are the same in each run: without a seed such that timers take just their time.
final class CountedNonces: Sendable {
    private let count = Mutex<UInt64>(0)
    private let seed: UInt64?

    init(seed: UInt64? = nil) { self.seed = seed }

    func next() -> UInt64 {
        count.withLock {
            $0 += 1
            guard let seed else { return $0 << 32 }
            var random = SeededRandom(seed: seed &* 1_000_003 &+ $0)
            return $0 << 32 | random.next() & 0xFFFF_FFFF
        }
    }
}

/// A clock of the test's own.
final class TestClock: Sendable {
    private let nanoseconds = Mutex<UInt64>(1_000_000_000_000)

    var now: UInt64 {
        get { nanoseconds.withLock { $0 } }
        set { nanoseconds.withLock { $0 = newValue } }
    }
}
