import Glibc
import Synchronization
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// What may go wrong around an acked sender, and what it makes of it.
struct AckedDeliveryFaultTests {
    private static let second: UInt64 = 1_000_000_000

    private static func left(_ count: UInt64, from first: UInt64 = 0) throws -> OpenedSpool {
        try OpenedSpool(
            holding: (first..<first + count).map {
                SpoolTests.packet($0, identity: SampleEvents.identity())
            }, from: first)
    }

    // MARK: The network

    @Test func `A burst that left in part though its call failed is no stranger's`() {
        let rig = StreamRig()
        rig.network.fail(with: .notListening(address: "x:1"))
        for _ in 0..<10 {
            #expect(rig.send(SampleEvents.event(0)) == .taken)
            rig.flush()
        }
        rig.network.fail(with: .notListening(address: "x:1"), afterDatagrams: 4)
        rig.pass(Self.second)
        #expect(Set(rig.takeSequences()) == Set(0..<4))
        rig.ack(floor: 4)
        #expect(rig.failure == nil)
        #expect(rig.totals.eventsAcked == 4)
        #expect(rig.totals.eventsSent == 4)
        #expect(rig.totals.packetsSent == 4)
        rig.network.fail(with: nil)
        rig.pass(Self.second)
        #expect(Set(rig.takeSequences()) == Set(4..<10))
        rig.ack(floor: 10)
        #expect(rig.isDrained)
        #expect(rig.totals.eventsSent == 10)
    }

    @Test(arguments: [
        EMSGSIZE, ENOPROTOOPT, ENONET, EACCES, EPERM, ENETUNREACH, EHOSTUNREACH, EPROTO, ENOBUFS,
    ])
    func `What the network answers to a packet does not end the sender`(errno: Int32) {
        let rig = StreamRig()
        rig.ack(floor: 0)
        rig.sendPackets(1)
        let error = ClientError.socket(call: "receive", address: "x:1", errno: errno)
        rig.stream.unreachable(error, now: rig.now)
        #expect(rig.failure == nil)
        rig.network.fail(with: error)
        rig.pass(20 * Self.second)
        #expect(rig.failure == nil)
        #expect(rig.obstacle == error)
        rig.network.fail(with: nil)
        rig.pass(6 * Self.second)
        rig.ack(floor: 1)
        #expect(rig.isDrained && rig.obstacle == nil)
    }

    @Test func `A socket that is none ends the sender`() {
        let rig = StreamRig()
        let error = ClientError.socket(call: "receive", address: "x:1", errno: EBADF)
        rig.stream.unreachable(error, now: rig.now)
        #expect(rig.failure == error)
    }

    @Test func `Without a route for seconds it connects again, and not for other errors`() {
        for (errno, counts) in [(ENETUNREACH, 2...4), (EADDRNOTAVAIL, 2...4), (EPERM, 0...1)] {
            let rig = StreamRig()
            rig.sendPackets(1)
            rig.network.fail(with: .socket(call: "send", address: "x:1", errno: errno))
            rig.pass(2 * Self.second)
            #expect(rig.network.reconnectCount == 0)
            rig.pass(10 * Self.second)
            #expect(counts.contains(rig.network.reconnectCount), "\(errno)")
        }
    }

    @Test func `S8: After ten seconds of silence it connects again, whatever the network says`() {
        let rig = StreamRig()
        rig.ack(floor: 0)
        rig.sendPackets(1)
        rig.network.loseAddress()
        rig.pass(9 * Self.second)
        #expect(rig.network.hasLostAddress)
        rig.pass(2 * Self.second)
        #expect(!rig.network.hasLostAddress && rig.network.reconnectCount == 1)
        rig.pass(20 * Self.second)
        #expect(rig.network.reconnectCount == 3)
        rig.ack(floor: 1)
        rig.sendPackets(1)
        rig.pass(9 * Self.second)
        #expect(rig.network.reconnectCount == 3)
    }

    enum Outage: CaseIterable {
        case noRoute, notListening, silence

        var seconds: UInt64 { self == .silence ? 7_200 : self == .noRoute ? 10 : 100 }

        var obstacle: ClientError {
            switch self {
            case .noRoute: .socket(call: "send", address: "sim", errno: ENETUNREACH)
            case .notListening: .notListening(address: "x:1")
            case .silence: .noAnswer(address: "", seconds: 7_200)
            }
        }

        func set(_ isOn: Bool, _ network: SimulatedNetwork) {
            switch self {
            case .noRoute: network.setRoute(!isOn)
            case .notListening: network.fail(with: isOn ? obstacle : nil)
            case .silence: break
            }
        }
    }

    @Test(arguments: Outage.allCases)
    func `A receiver that is away ends no sender that was not told to give up`(outage: Outage) {
        let rig = StreamRig()
        rig.ack(floor: 0)
        rig.sendPackets(3)
        _ = rig.network.take()
        #expect(rig.obstacle == nil)
        outage.set(true, rig.network)
        rig.sendPackets(2)
        rig.pass(outage.seconds * Self.second)
        #expect(rig.failure == nil)
        #expect(rig.obstacle == outage.obstacle)
        if outage == .noRoute {
            #expect(rig.network.reconnectCount > 0)
            #expect(rig.network.take().isEmpty)
        }
        outage.set(false, rig.network)
        _ = rig.network.take()
        rig.pass(2 * Self.second)
        rig.answer(floor: 0)
        rig.pass(Self.second)
        // One packet tries whether any gets through.
        #expect(Set(rig.takeSequences()) == [0])
        rig.ack(floor: 1)
        rig.pass(Self.second)
        #expect(Set(rig.takeSequences()) == Set(1..<5))
        rig.answer(floor: 5)
        #expect(rig.isDrained && rig.obstacle == nil)
    }

    @Test func `A heartbeat announces what was given to the network, not what a spool holds`()
        throws
    {
        let rig = try StreamRig(Self.left(200))
        let first = rig.network.takePackets()
        #expect(first.filter { $0.kind == 2 }.map(\.sequence) == [0])
        // And yet the answer has room for all of them.
        let words = AckPacket.furtherWordCount(fitting: first[0].bytes.count, hasTag: false)
        #expect((words ?? 0) * 64 + 64 >= 200)
        rig.pass(Self.second)
        #expect(rig.network.takePackets().last { $0.kind == 2 }?.sequence == 64)
        rig.ack(floor: 100)
        rig.pass(2 * Self.second)
        #expect(rig.network.takePackets().last { $0.kind == 2 }?.sequence == 200)
    }

    // MARK: Silence, and answers that ack nothing

    @Test func `Answers that ack nothing end a sender that gives up, and say which packet it is`() {
        let rig = StreamRig { $0.silenceNanosecondsMax = 30 * Self.second }
        rig.ack(floor: 0)
        rig.sendPackets(3)
        rig.ack(floor: 1)
        for _ in 0..<29 {
            rig.pass(Self.second)
            rig.ack(floor: 1)
        }
        #expect(rig.failure == nil)
        let obstacle = rig.obstacle
        guard case .noProgress(_, 1, let byteCount)? = obstacle else {
            Issue.record("\(String(describing: obstacle))")
            return
        }
        #expect(byteCount >= 80)
        rig.pass(Self.second)
        rig.ack(floor: 1)
        rig.pass(Self.second)
        #expect(rig.failure == obstacle)
        #expect(rig.failure?.exitCode == 69)
    }

    @Test(arguments: [1_500, 2_500, 3_000, 4_900] as [UInt64])
    func `So do answers that come seldom, sooner than silence does`(gap: UInt64) {
        let rig = StreamRig { $0.silenceNanosecondsMax = 5 * Self.second }
        rig.ack(floor: 0)
        rig.sendPackets(3)
        rig.ack(floor: 1)
        let start = rig.now
        while rig.failure == nil, rig.now - start < 60 * Self.second {
            rig.pass(gap * 1_000_000)
            rig.ack(floor: 1)
        }
        guard case .noProgress? = rig.failure else {
            Issue.record("\(String(describing: rig.failure)) after \(rig.now - start) ns")
            return
        }
        #expect(rig.now - start >= 10 * Self.second)
    }

    @Test func `In a black hole a small packet is tried, also behind large ones that never left`() {
        let rig = StreamRig { $0.packetByteCountMax = 1_372 }
        rig.ack(floor: 0, credit: 1)
        for _ in 0..<150 { #expect(rig.send(SampleEvents.event(3)) == .taken) }
        rig.stream.shrinkPackets()
        rig.flush()
        let small = (0..<rig.nextSequence).first { rig.stream.window[$0].byteCount <= 1_200 } ?? 0
        #expect(small > 2)
        for _ in 0..<60 where !rig.stream.probe.isBlackHole {
            rig.pass(Self.second)
            rig.answer(floor: 0, credit: 1)
        }
        #expect(rig.stream.probe.isBlackHole && rig.sentEnd < small)
        var sent = Set(rig.takeSequences())
        rig.answer(floor: 0, credit: 100)
        rig.pass(5 * Self.second)
        sent.formUnion(rig.takeSequences())
        #expect(sent.contains(small))
        // It passes, and from then on all of its size do; of the large ones each is tried.
        rig.sendPackets(20)
        let last = rig.nextSequence
        #expect(last <= 64)
        for _ in 0..<100 where sent.count < Int(last) {
            let word = sent.reduce(UInt64(0)) { $1 < small ? $0 : $0 | 1 << $1 }
            rig.ack(floor: 0, words: [word])
            rig.pass(Self.second)
            sent.formUnion(rig.takeSequences())
        }
        #expect(sent == Set(0..<last))
        rig.ack(floor: last)
        #expect(rig.isDrained)
    }

    @Test(arguments: 0..<2)
    func `Short silences and single packets are no standstill`(kind: Int) {
        let rig = StreamRig { $0.silenceNanosecondsMax = 30 * Self.second }
        rig.ack(floor: 0)
        rig.sendPackets(64)
        for step in 0..<100 as Range<UInt64> {
            rig.pass(Self.second)
            switch kind {
            case 0: if step % 25 == 24 { rig.ack(floor: 0) }
            default: rig.ack(floor: 0, words: [~0 << (63 - step / 4)])
            }
        }
        #expect(rig.failure == nil)
    }

    @Test func `A slow disk is not taken for a silent receiver`() {
        let spool = SlowSpool(nanoseconds: 40 * Self.second)
        let rig = StreamRig(spool: spool) { $0.silenceNanosecondsMax = 30 * Self.second }
        spool.clock.withLock { $0 = rig.sharedClock }
        rig.ack(floor: 0)
        rig.sendPackets(1)
        rig.stream.tick(now: rig.now)
        #expect(rig.failure == nil)
        #expect(rig.takeSequences() == [0])
        // The packet's wait begins when it was sent.
        rig.pass(400_000_000)
        #expect(rig.takeSequences().isEmpty)
    }

    // MARK: Status

    @Test func `A refusal of an older epoch is none of this sender's`() {
        let rig = StreamRig()
        rig.sendPackets(1)
        rig.answer(floor: 0, credit: 0, .refused, epoch: 8)
        #expect(rig.failure == nil)
    }

    @Test func `A refusal names its cause: a later epoch, the clock, or a reused sequence`() {
        func cause(unixMilliseconds: UInt64?, known: UInt64) -> ClientError? {
            let epoch = 1_800_000_000_000 << 20 as UInt64
            let identity = SampleEvents.identity(epoch: epoch)
            let rig = StreamRig {
                $0.identity = identity
                $0.unixMilliseconds = unixMilliseconds
            }
            rig.answer(floor: 0, credit: 0, .refused, epoch: epoch + known)
            return rig.failure
        }
        let epoch = 1_800_000_000_000 << 20 as UInt64
        let table: [(UInt64?, UInt64, ClientError.RefusalCause)] = [
            (1_800_000_000_000, 5, .newerEpoch(epoch + 5)), (nil, 0, .reused),
            (1_800_000_000_000, 0, .reused), (1_800_000_000_000 - 600_000, 0, .reused),
            (1_800_000_000_000 - 600_001, 0, .clock),
        ]
        for (milliseconds, known, expected) in table {
            #expect(
                cause(unixMilliseconds: milliseconds, known: known)
                    == .refused(sender: 7, epoch: epoch, cause: expected))
        }
    }

    // MARK: A spool that was copied, or whose end is gone

    @Test
    func `Behind packets of an earlier start nothing new leaves before the receiver has answered`()
        throws
    {
        let rig = try StreamRig(Self.left(5))
        rig.sendPackets(3)
        rig.pass(3 * Self.second)
        #expect(Set(rig.takeSequences()) == Set(0..<5))
        rig.ack(floor: 0, credit: 0, .busy)
        rig.pass(Self.second)
        #expect(rig.takeSequences().isEmpty)
        rig.ack(floor: 2)
        #expect(Set(rig.takeSequences()).isSuperset(of: 5..<8))
        rig.ack(floor: 8)
        #expect(rig.isDrained)
    }

    @Test
    func `Where what was acked is gone from the spool, nothing leaves before the receiver has it`()
        throws
    {
        let rig = try StreamRig(Self.left(5, from: 3))
        rig.sendPackets(2)
        rig.pass(Self.second)
        #expect(rig.network.takePackets().allSatisfy { $0.kind == 2 })
        rig.answer(floor: 0, .rolledBack)
        guard case .ackedDataLost? = rig.failure else {
            Issue.record("\(String(describing: rig.failure))")
            return
        }
        #expect(rig.takeSequences().isEmpty)
        let right = try StreamRig(Self.left(5, from: 3))
        right.pass(Self.second)
        right.answer(floor: 3)
        right.pass(Self.second)
        #expect(Set(right.takeSequences()) == Set(3..<8))
    }

    @Test
    func `A packet that the receiver has and this start never had is another's, by its bit too`()
        throws
    {
        let rig = try StreamRig(Self.left(5))
        rig.sendPackets(9)
        rig.ack(floor: 0, words: [0b11_1111_1110])
        #expect(rig.failure == .unknownPackets(sender: 7, sequence: 9, next: 5))
        #expect(!rig.takeSequences().contains { $0 >= 5 })
        // Also where it is far from the floor, or at the end of all sequences.
        for (floor, words) in [(0, [0, 0, 1]), (UInt64.max - 5, [.max])] as [(UInt64, [UInt64])] {
            let rig = StreamRig()
            rig.sendPackets(20)
            rig.ack(floor: floor, words: words)
            guard case .unknownPackets? = rig.failure else {
                Issue.record("\(floor) is believed")
                continue
            }
        }
    }
}

/// A spool whose disk takes its time.
private final class SlowSpool: PacketSpool {
    let clock = Mutex<TestClock?>(nil)
    private let nanoseconds: UInt64
    private let bytes = Mutex<[UInt8]>([])

    init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    func append(_ packets: [SpooledPacket]) throws(StorageError) -> SpoolPlace {
        clock.withLock { $0?.now += nanoseconds }
        return bytes.withLock { bytes in
            let place = SpoolPlace(file: 1, offset: bytes.count + SpoolRecord.headerByteCount)
            for packet in packets {
                bytes += [UInt8](repeating: 0, count: SpoolRecord.headerByteCount) + packet.bytes
            }
            return place
        }
    }
    func read(
        _ place: SpoolPlace, byteCount: Int, into bytes: inout [UInt8]
    ) throws(StorageError) {
        bytes += self.bytes.withLock { Array($0[place.offset..<place.offset + byteCount]) }
    }
    func retire(below base: UInt64) throws(StorageError) {}
    func finish(_ note: SpoolNote?) throws(StorageError) {}
    var byteCount: Int { 0 }
    var retirableEnd: UInt64 { .max }
}
