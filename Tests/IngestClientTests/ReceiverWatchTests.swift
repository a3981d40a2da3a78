import Testing

@testable import IngestClient
@testable import IngestFormat

/// A client never goes on silently when acked data was lost (docs/protocol.md).
struct ReceiverWatchTests {
    private static let second: UInt64 = 1_000_000_000

    /// Ten of twenty packets are acked, by commit 5 of directory 1.
    private static func rig(
        _ change: (inout SenderStream.Configuration) -> Void = { _ in }
    ) -> StreamRig {
        let rig = StreamRig(change)
        rig.answer(floor: 0)
        rig.sendPackets(20)
        rig.pass(Self.second)
        rig.answer(floor: 10)
        rig.pass(2 * Self.second)
        return rig
    }

    private static func lost(
        _ range: Range<UInt64>, unacked: UInt64 = 0, _ cause: ClientError.LossCause
    ) -> ClientError {
        .ackedDataLost(
            sender: 7, epoch: 9, first: range.lowerBound, end: range.upperBound, unacked: unacked,
            cause: cause)
    }

    /// As `rig`, and 12 and 14 are acked by their bits.
    private static func rigWithBits() -> StreamRig {
        let rig = Self.rig()
        rig.ack(floor: 10, words: [0b10100])
        rig.pass(Self.second)
        return rig
    }

    @Test func `A heartbeat tells what was heard, under a nonce of its own`() {
        let rig = Self.rig()
        let heartbeats = rig.network.takePackets().filter { $0.kind == 2 }
        let nonces = heartbeats.map { Array($0.payload[16..<24]) }
        #expect(nonces.count > 2 && Set(nonces).count == nonces.count)
        #expect(heartbeats.first?.payload[8] == 0 && heartbeats.last?.payload[8] == 10)
        #expect(heartbeats.allSatisfy { $0.payload[24...].allSatisfy { $0 == 0 } })
    }

    @Test func `S4: Heartbeats are a quarter early or late at most, so that many senders part`() {
        func heartbeats(seed: UInt64) -> (intervals: [UInt64], hurried: UInt64) {
            let nonces = CountedNonces(seed: seed)
            let rig = StreamRig { $0.makeNonce = { nonces.next() } }
            rig.answer(floor: 0)
            var times: [UInt64] = []
            while times.count < 200 {
                rig.now = rig.nextDeadline
                _ = rig.network.take()
                rig.stream.tick(now: rig.now)
                if !rig.network.take().isEmpty { times.append(rig.now) }
            }
            rig.ack(floor: 0, credit: 0)
            return (zip(times.dropFirst(), times).map { $0 - $1 }, rig.nextDeadline - rig.now)
        }
        let (first, hurried) = heartbeats(seed: 1)
        let millisecond = Self.second / 1_000
        #expect(first.allSatisfy { (750 * millisecond...1_250 * millisecond).contains($0) })
        #expect((first.min() ?? 0) < 790 * millisecond && (first.max() ?? 0) > 1_210 * millisecond)
        #expect((75 * millisecond...125 * millisecond).contains(hurried))
        #expect(heartbeats(seed: 1) == (first, hurried))
        #expect(heartbeats(seed: 2).intervals != first)
    }

    @Test func `What the receiver told before anything was acked is not of what was sent`() {
        let rig = StreamRig()
        func tell(_ count: UInt64) {
            let nonce = rig.stream.watch.questions.last?.nonce ?? 0
            rig.ack(floor: count) {
                $0.echo = .nonce(nonce)
                $0.sums = EventSums([count])
            }
        }
        tell(0)
        #expect(rig.totals.receiver == nil, "nothing was sent")
        rig.sendPackets(3)
        #expect(rig.totals.receiver == nil)
        rig.pass(Self.second)
        tell(0)
        #expect(rig.totals.receiver == nil && rig.totals.eventsSent == 3)
        rig.pass(Self.second)
        tell(2)
        #expect(rig.totals.receiver?.counted == 2)
    }

    @Test func `A sender that goes on by its spool tells what an earlier start has heard`()
        throws
    {
        let left = (5..<9 as Range<UInt64>).map {
            SpoolTests.packet($0, identity: SampleEvents.identity())
        }
        let rig = try StreamRig(OpenedSpool(holding: left, from: 5))
        let heartbeat = rig.network.takePackets().first
        #expect(heartbeat?.payload[0] == 5 && heartbeat?.payload[8] == 5)
        // Nobody knows any more whose directory had acked.
        for (floor, first) in [(0, 0), (3, 3)] as [(UInt64, UInt64)] {
            let rig = try StreamRig(OpenedSpool(holding: left, from: 5))
            rig.answer(floor: floor, .rolledBack)
            #expect(rig.failure == Self.lost(first..<5, .lessThanAcked))
        }
    }

    @Test(
        arguments: [
            (AckStatus.rolledBack, 1 as UInt64, 5 as UInt64, 4 as UInt64, false),
            (.ok, 2, 9, 10, false), (.ok, 2, 9, 10, true), (.busy, 2, 9, 0, false),
            (.ok, 1, 4, 10, false), (.ok, 1, 4, 10, true), (.diskFull, 1, 4, 0, false),
            (.ok, 1, 5, 4, false),
        ])
    func `Status 6, another directory, a lower commit or floor in an answer mean lost data`(
        status: AckStatus, directory: UInt64, commitEpoch: UInt64, floor: UInt64, isPending: Bool
    ) {
        let rig = Self.rig()
        rig.answer(
            floor: floor, status, directory: directory, commitEpoch: commitEpoch,
            isPending: isPending)
        let first = directory == 1 && floor < 10 ? floor : 0
        #expect(
            rig.failure == Self.lost(first..<10, directory == 1 ? .olderCopy : .otherDirectory))
        #expect(rig.failure?.exitCode == 71)
        #expect("\(rig.failure!)".contains("packets \(first) to 9 of sender 7, epoch 9"))
    }

    @Test func `Where packets were acked by their bits, no others are said to have been`() {
        let rig = Self.rigWithBits()
        rig.answer(floor: 0, .rolledBack, directory: 2)
        #expect(rig.failure == Self.lost(0..<15, unacked: 3, .otherDirectory))
        let range = "packets 0 to 14 of sender 7, epoch 9, had been acked but for 3"
        #expect("\(rig.failure!)".contains(range))
        rig.stream.acceptReceiver(now: rig.now)
        #expect(rig.totals.packetsLost == 12)
        // Nothing was acked by this one.
        rig.answer(floor: 10, directory: 2, commitEpoch: 1)
        rig.answer(floor: 10, directory: 3, commitEpoch: 1)
        #expect(rig.failure == nil && rig.totals.packetsLost == 12)
        rig.answer(floor: 11, directory: 3, commitEpoch: 2)
        rig.answer(floor: 10, .rolledBack, directory: 3)
        #expect(rig.failure == Self.lost(10..<11, .olderCopy))
        rig.stream.acceptReceiver(now: rig.now)
        rig.answer(floor: 11, directory: 3, commitEpoch: 3)
        // It need not have what others had acked.
        rig.ack(floor: 12, words: [0b1000]) { $0.directory = DirectoryID(rawValue: 3) }
        rig.pass(Self.second)
        rig.ack(floor: 13, words: [0b100]) {
            $0.directory = DirectoryID(rawValue: 3)
            $0.echo = .nonce(rig.stream.watch.questions.last?.nonce ?? 0)
        }
        #expect(rig.failure == nil && rig.stream.window.base == 13)
    }

    @Test func `An answer without a bit that an ack had means lost data, an older one nothing`() {
        let rig = Self.rigWithBits()
        rig.ack(floor: 13)
        #expect(rig.failure == nil && rig.stream.window.base == 10)
        let older = rig.stream.watch.questions.last?.nonce ?? 0
        rig.ack(floor: 10, words: [0b10110])
        rig.ack(floor: 10, words: [0b10100]) { $0.echo = .nonce(older) }
        #expect(rig.failure == nil)
        rig.pass(Self.second)
        rig.answer(floor: 10, isPending: true)
        #expect(rig.failure == nil)
        rig.ack(floor: 10, words: [0b10100]) {
            $0.echo = .nonce(rig.stream.watch.questions.last?.nonce ?? 0)
        }
        #expect(rig.failure == Self.lost(10..<15, unacked: 2, .olderCopy))
    }

    @Test func `Packets of an unknown kind end it if none is acked for two seconds`() {
        for isAcked in [false, true] {
            let rig = Self.rig()
            for round in 0..<25 as Range<UInt64> {
                rig.ack(floor: 0, .unsupported) { $0.echo = .sequence(10) }
                rig.pass(Self.second / 10)
                if isAcked, round == 15 { rig.answer(floor: 11) }
            }
            #expect(rig.failure == (isAcked ? nil : .unsupported(address: "")))
        }
    }

    @Test func `A pending answer says nothing against the floor, nor of what is acked`() {
        let rig = Self.rig()
        rig.answer(floor: 4, isPending: true)
        #expect(rig.failure == nil)
        rig.answer(floor: 15, isPending: true)
        #expect(rig.stream.totals.packetsSent == 20 && rig.stream.window.base == 10)
        // The commit answers the same heartbeat again.
        rig.answer(floor: 15)
        #expect(rig.stream.window.base == 15)
    }

    @Test func `A disk that takes its time is waited for, one that hangs is given up`() {
        let rig = Self.rig { $0.silenceNanosecondsMax = 20 * Self.second }
        func answerPending(seconds: Int) {
            for _ in 0..<seconds {
                rig.answer(floor: 10, isPending: true)
                rig.pass(Self.second)
            }
        }
        for floor in 11...14 as ClosedRange<UInt64> {
            answerPending(seconds: 19)
            #expect(rig.failure == nil)
            #expect(rig.obstacle == .notTaken(address: "", cause: .busy, seconds: 19))
            rig.answer(floor: floor)
            #expect(rig.obstacle == nil)
        }
        answerPending(seconds: 21)
        #expect(rig.failure == .notTaken(address: "", cause: .busy, seconds: 20))
        #expect(rig.failure?.exitCode == 69)
    }

    @Test func `Answers that ack nothing are an obstacle, pending ones before them or not`() {
        let rig = Self.rig()
        rig.answer(floor: 10, isPending: true)
        for _ in 0..<11 {
            rig.answer(floor: 10)
            rig.pass(Self.second)
        }
        #expect(rig.obstacle != nil)
    }

    @Test func `S6: Old acks end nothing, whatever they say, and are asked about`() {
        for status in [AckStatus.refused, .unsupported, .rolledBack, .ok] {
            let rig = Self.rig()
            let old = rig.stream.watch.questions.last?.nonce ?? 0
            rig.answer(floor: 10)
            // It answers none of the last 64 heartbeats.
            for _ in 0..<65 { rig.pass(Self.second) }
            _ = rig.network.take()
            for echo in [AckEcho.nonce(old), .sequence(old), .nonce(old &+ 1)] {
                rig.ack(floor: 0, credit: 0, status) {
                    $0.directory = DirectoryID(rawValue: 2)
                    $0.echo = echo
                }
            }
            #expect(rig.failure == nil, "\(status)")
            rig.pass(Self.second / 5)
            #expect(rig.network.takePackets().contains { $0.kind == 2 }, "\(status)")
        }
    }

    @Test func `An ack of an earlier commit is late, and an older floor in it means nothing`() {
        let rig = Self.rig()
        rig.ack(floor: 12) {
            $0.directory = DirectoryID(rawValue: 1)
            $0.commitEpoch = 4
        }
        #expect(rig.failure == nil && rig.stream.window.base == 10)
    }

    @Test func `An answer is held against what was known when its heartbeat left`() {
        let rig = Self.rig()
        let asked = rig.stream.watch.questions.last?.nonce ?? 0
        rig.ack(floor: 20) {
            $0.directory = DirectoryID(rawValue: 1)
            $0.commitEpoch = 9
        }
        rig.pass(Self.second)
        rig.ack(floor: 12) {
            $0.directory = DirectoryID(rawValue: 1)
            $0.commitEpoch = 6
            $0.echo = .nonce(asked)
        }
        #expect(rig.failure == nil)
    }

    @Test func `A receiver that does not know the packets ends the sender`() {
        let rig = Self.rig()
        rig.answer(floor: 0, .unsupported)
        #expect(rig.failure == .unsupported(address: ""))
        #expect(rig.failure?.exitCode == 69)
    }

    @Test func `An ack that answers nothing is not believed before the first answer`() {
        let rig = Self.rig()
        rig.answer(floor: 4, .rolledBack)
        rig.stream.acceptReceiver(now: rig.now)
        // Kept from the receiver before.
        rig.ack(floor: 20) {
            $0.directory = DirectoryID(rawValue: 1)
            $0.commitEpoch = 5
            $0.echo = .sequence(19)
        }
        #expect(rig.stream.window.base == 10)
        rig.answer(floor: 10, directory: 3, commitEpoch: 1)
        rig.ack(floor: 20) {
            $0.directory = DirectoryID(rawValue: 3)
            $0.commitEpoch = 2
        }
        #expect(rig.failure == nil && rig.stream.window.base == 20)
    }

    @Test func `Accepted after longer than it waits for answers, it goes on`() {
        let rig = Self.rig { $0.silenceNanosecondsMax = 10 * Self.second }
        rig.answer(floor: 4, .rolledBack)
        rig.pass(60 * Self.second)
        rig.stream.acceptReceiver(now: rig.now)
        rig.pass(Self.second)
        #expect(rig.failure == nil)
    }

    @Test func `Where nothing was acked another receiver is one like any`() {
        let rig = StreamRig()
        rig.answer(floor: 0)
        rig.sendPackets(3)
        rig.answer(floor: 0, directory: 2, commitEpoch: 1)
        #expect(rig.failure == nil && rig.totals.packetsLost == 0)
        rig.answer(floor: 3, directory: 2, commitEpoch: 2)
        #expect(rig.failure == nil && rig.stream.window.isEmpty)
    }

    @Test func `Accepted, it goes on with what is not acked, as with a new receiver`() {
        for isByItself in [false, true] {
            let rig = Self.rig { $0.acceptsReceiver = isByItself }
            _ = rig.network.take()
            rig.answer(floor: 4, .rolledBack)
            #expect((rig.failure == nil) == isByItself)
            rig.stream.acceptReceiver(now: rig.now)
            #expect(rig.failure == nil && rig.totals.packetsLost == 6)
            let heartbeat = rig.network.takePackets().last { $0.kind == 2 }
            #expect(heartbeat?.payload[0] == 10 && heartbeat?.payload[8] == 0)
            rig.answer(floor: 10, directory: 3, commitEpoch: 1)
            rig.pass(Self.second)
            #expect(Set(rig.takeSequences()) == Set(10..<20))
            rig.ack(floor: 20) {
                $0.directory = DirectoryID(rawValue: 3)
                $0.commitEpoch = 2
            }
            #expect(rig.isDrained)
        }
        let other = StreamRig()
        other.sendPackets(1)
        other.ack(floor: 5)
        other.stream.acceptReceiver(now: other.now)
        #expect(other.failure != nil, "only lost data can be accepted")
    }

    @Test func `A socket that was connected again gets heartbeats until the receiver has answered`()
    {
        let rig = Self.rig()
        rig.pass(12 * Self.second)
        #expect(rig.network.reconnectCount > 0)
        _ = rig.network.take()
        rig.pass(5 * Self.second)
        #expect(rig.network.takePackets().allSatisfy { $0.kind == 2 })
        rig.answer(floor: 10, isPending: true)
        rig.answer(floor: 10)
        rig.pass(Self.second)
        #expect(Set(rig.takeSequences()) == Set(10..<20))
    }
}
