import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// An acked sender whose receiver, or the way to it, is another one than before.
struct ReceiverChangeTests {
    private static let second: UInt64 = 1_000_000_000

    @Test func `S8: After ten seconds of silence a name's new address is taken at once`() {
        let rig = StreamRig()
        rig.ack(floor: 0)
        rig.network.changeAddress()
        rig.pass(20 * Self.second)
        // Nothing waits for an ack: the old one may be as good.
        #expect(rig.network.reconnectCount == 0)
        rig.sendPackets(1)
        rig.pass(9 * Self.second)
        #expect(rig.network.reconnectCount == 0)
        rig.pass(2 * Self.second)
        #expect(rig.network.reconnectCount == 1)
        // The last one may have several: each has time to answer.
        rig.network.changeAddress()
        rig.pass(Self.second)
        #expect(rig.network.reconnectCount == 1)
        rig.pass(4 * Self.second)
        #expect(rig.network.reconnectCount == 2)
    }

    @Test func `S8: Where heartbeats pass and packets do not for ten seconds, new ones are small`()
    {
        let rig = StreamRig { $0.packetByteCountMax = 9_000 }
        rig.ack(floor: 0)
        var count = 0
        /// So many full packets and the rest of one.
        func fill(_ byteCount: Int) {
            let end = rig.unackedByteCount + byteCount
            while rig.unackedByteCount + rig.stream.queue.byteCount < end {
                #expect(rig.send(SampleEvents.event(count)) == .taken)
                count += 1
            }
            rig.flush()
        }
        /// A second on a path that takes datagrams of 1,300 bytes at most, with an answer to each heartbeat.
        func second() -> Set<Int> {
            var sizes: Set<Int> = []
            for _ in 0..<20 {
                rig.pass(Self.second / 20)
                let packets = rig.network.takePackets()
                sizes.formUnion(packets.map(\.bytes.count))
                for packet in packets where packet.kind == 1 && packet.bytes.count <= 1_300 {
                    #expect(packet.bytes.count <= 1_200)
                    arrived.insert(packet.sequence)
                }
                guard packets.contains(where: { $0.kind == 2 }) else { continue }
                rig.answer(floor: 0, words: [arrived.reduce(0) { $0 | 1 << $1 }])
            }
            return sizes
        }
        var arrived: Set<UInt64> = []
        // More than may be in flight.
        fill(20 * 9_000)
        let old = rig.nextSequence
        for number in 0..<13 { #expect(second().contains(9_000) || number > 9) }
        #expect(rig.obstacle.map { "\($0)".contains("of 9000 bytes") } == true)
        fill(20 * 1_200)
        let new = Set(old..<rig.nextSequence)
        var seconds = 0
        while !arrived.isSuperset(of: new), seconds < 60 {
            _ = second()
            seconds += 1
        }
        #expect(arrived.isSuperset(of: new) && new.count >= 20)
        #expect(!rig.isDrained)
        // What was made stays as it is, and is tried again.
        let sizes = (0..<6).map { _ in second() }
        #expect(sizes.contains { $0.contains(9_000) })
        rig.answer(floor: rig.nextSequence)
        #expect(rig.isDrained && rig.obstacle == nil)
    }

    @Test func `S8: Where nothing passes heartbeats are small, however many packets wait`() {
        let rig = StreamRig()
        func sizes() -> [Int] {
            rig.network.takePackets().filter { $0.kind == 2 }.map(\.bytes.count)
        }
        rig.ack(floor: 0)
        rig.sendPackets(2_000)
        rig.ack(floor: 0, credit: 60_000)
        _ = sizes()
        rig.pass(Self.second)
        // With room for an ack that tells of each packet.
        #expect(sizes().contains { $0 > 250 })
        rig.pass(20 * Self.second)
        _ = sizes()
        rig.pass(10 * Self.second)
        let last = sizes()
        #expect(!last.isEmpty && last.allSatisfy { $0 < 200 })
    }

    @Test func `A sender that spools on goes on by itself when its receiver is right again`() {
        for status in [AckStatus.refused, .rolledBack, .unsupported] {
            let rig = StreamRig { $0.spoolsOn = true }
            rig.answer(floor: 0)
            rig.sendPackets(5)
            rig.ack(floor: 3)
            rig.pass(Self.second)
            rig.answer(floor: 0, status, epoch: status == .refused ? 10 : 9)
            #expect(rig.failure == nil && rig.obstacle?.isOfReceiver == true, "\(status)")
            _ = rig.takeSequences()
            rig.sendPackets(2)
            rig.pass(60 * Self.second)
            // An old ack says nothing of what the receiver is now, nor does an answer that has less.
            rig.ack(floor: 3) { $0.echo = .nonce(1) }
            rig.answer(floor: 2)
            rig.pass(Self.second)
            #expect(rig.takeSequences().isEmpty && rig.obstacle?.isOfReceiver == true)
            rig.answer(floor: 3)
            #expect(rig.obstacle == nil, "\(status)")
            rig.pass(5 * Self.second)
            #expect(Set(rig.takeSequences()).isSuperset(of: 5..<7))
            rig.answer(floor: 7)
            #expect(rig.isDrained && rig.totals.packetsLost == 0)
        }
    }

    @Test(arguments: [0, 3] as [UInt64])
    func `S7: Refused with nothing unacked, a sender that spools on ends, its spool at a new epoch`(
        count: UInt64
    ) throws {
        let files = SimulatedFileSystem(seed: 3)
        let identity = SampleEvents.identity()
        let opened = try Spool.open(
            files, sender: identity.sender, random: identity.sender, epoch: identity.epoch)
        let rig = StreamRig(spool: opened.spool) { $0.spoolsOn = true }
        rig.answer(floor: 0)
        for number in 0..<count {
            let (now, note) = (rig.now, SpoolNote(position: number + 1, device: 3, inode: 4))
            let line = SampleEvents.line(Int(number))
            _ = rig.stream.send(jsonLine: line.utf8Span.span, note: note, now: now)
        }
        rig.flush()
        rig.answer(floor: rig.nextSequence)
        #expect(rig.isDrained)
        rig.pass(Self.second)
        _ = rig.network.take()
        rig.answer(floor: 0, .refused, epoch: 10)
        let refusal = ClientError.refused(sender: 7, epoch: 9, cause: .newerEpoch(10))
        #expect(rig.failure == refusal && rig.failure?.exitCode == 69)
        #expect(rig.network.take().isEmpty)
        let next = try Spool.open(
            files.disk.kill(), sender: identity.sender, random: identity.sender,
            epoch: identity.epoch)
        #expect(next.spool.identity.epoch.rawValue == 10 && next.left.packets.isEmpty)
        // The place in a followed file stays.
        #expect(next.left.note.position == count && !next.left.hasEnded)
    }

    @Test func `A sender that spools on is not ended by a clock, for which its epoch is refused`() {
        let rig = StreamRig { $0.spoolsOn = true }
        rig.answer(floor: 0, .refused)
        rig.pass(60 * Self.second)
        rig.sendPackets(2)
        #expect(rig.failure == nil && rig.obstacle?.isOfReceiver == true)
        rig.answer(floor: 0)
        rig.pass(Self.second)
        rig.answer(floor: 2)
        #expect(rig.isDrained && rig.totals.eventsAcked == 2)
    }

    @Test func `Where nobody listens another address is tried, until one has answered`() {
        let rig = StreamRig()
        rig.network.fail(with: .notListening(address: "x:1"))
        rig.sendPackets(1)
        rig.pass(Self.second)
        #expect(rig.network.reconnectCount == 1 && rig.network.moveCount == 1)
        rig.network.changeAddress()
        rig.pass(Self.second)
        #expect(rig.network.moveCount == 2)
        rig.pass(60 * Self.second)
        #expect((15...30).contains(rig.network.moveCount), "\(rig.network.moveCount)")
        rig.network.fail(with: nil)
        rig.ack(floor: 0)
        let count = rig.network.moveCount
        rig.network.fail(with: .notListening(address: "x:1"))
        rig.sendPackets(1)
        rig.pass(8 * Self.second)
        #expect(rig.network.moveCount == count)
        rig.network.fail(with: .socket(call: "send", address: "x:1", errno: 101))
        rig.pass(8 * Self.second)
        #expect(rig.network.moveCount > count)
    }
}
