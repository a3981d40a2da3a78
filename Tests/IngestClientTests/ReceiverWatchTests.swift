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
        _ range: Range<UInt64>, _ cause: ClientError.LossCause
    ) -> ClientError {
        .ackedDataLost(
            sender: 7, epoch: 9, first: range.lowerBound, end: range.upperBound, cause: cause)
    }

    @Test func `A heartbeat tells what was heard, under a nonce of its own`() {
        let rig = Self.rig()
        let heartbeats = rig.network.takePackets().filter { $0.kind == 2 }
        let nonces = heartbeats.map { Array($0.payload[16..<24]) }
        #expect(nonces.count > 2 && Set(nonces).count == nonces.count)
        #expect(heartbeats.first?.payload[8] == 0 && heartbeats.last?.payload[8] == 10)
        #expect(heartbeats.allSatisfy { $0.payload[24...].allSatisfy { $0 == 0 } })
    }

    @Test func `A sender that goes on by its spool tells what an earlier start has heard`() {
        let left = (5..<9 as Range<UInt64>).map {
            SpoolTests.packet($0, identity: SampleEvents.identity())
        }
        let rig = StreamRig(left: left, firstSequence: 5)
        let heartbeat = rig.network.takePackets().first
        #expect(heartbeat?.payload[0] == 5 && heartbeat?.payload[8] == 5)
        rig.answer(floor: 0, .rolledBack)
        #expect(rig.failure == Self.lost(0..<5, .otherDirectory))
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

    @Test func `Old acks end nothing, whatever they say, and are asked about`() {
        for status in [AckStatus.refused, .unsupported, .rolledBack, .ok] {
            let rig = Self.rig()
            let old = rig.stream.watch.questions.last?.nonce ?? 0
            rig.answer(floor: 10)
            // It answers none of the last eight heartbeats.
            for _ in 0..<9 { rig.pass(Self.second) }
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
        rig.pass(6 * Self.second)
        #expect(Set(rig.takeSequences()) == Set(10..<20))
    }
}
