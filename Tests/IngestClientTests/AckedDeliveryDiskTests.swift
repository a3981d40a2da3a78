import Foundation
import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestStorage

/// An acked sender whose spool's disk has no room.
struct AckedDeliveryDiskTests {
    private static let second: UInt64 = 1_000_000_000

    private static func spool(
        _ files: SimulatedFileSystem, fileByteCountMax: Int
    ) throws -> OpenedSpool {
        let identity = SampleEvents.identity()
        return try OpenedSpool(
            Spool.open(
                files, sender: identity.sender, random: identity.sender, epoch: identity.epoch,
                fileByteCountMax: fileByteCountMax), in: files)
    }

    @Test func `A full spool disk costs nothing that was taken, and is tried again`() throws {
        for room in stride(from: 0, through: 9_000, by: 250) {
            let files = SimulatedFileSystem(seed: 3)
            let opened = try Self.spool(files, fileByteCountMax: 2_000)
            let rig = StreamRig(spool: opened.spool)
            rig.ack(floor: 0)
            rig.sendPackets(2)
            try files.disk.limit(byteCount: files.usedByteCount() + 64 + room)
            var taken: UInt64 = 2
            while rig.send(SampleEvents.event(Int(taken))) == .taken {
                taken += 1
                rig.flush()
            }
            #expect(rig.failure == nil, "room \(room)")
            #expect(rig.stall.map { "\($0)".contains("disk is full") } == true)
            #expect(rig.obstacle == rig.stall)
            rig.pass(10 * Self.second)
            #expect(rig.failure == nil && rig.stall != nil)
            #expect(rig.send(SampleEvents.event(1)) == .full)
            files.disk.limit(byteCount: 1 << 30)
            rig.pass(Self.second)
            #expect(rig.stall == nil, "room \(room)")
            rig.answer(floor: 0)
            rig.sendPackets(1)
            // Nothing was answered for so long that it begins again with ten packets.
            for _ in 0..<10 where rig.sentEnd <= taken {
                // All but the first one.
                rig.ack(floor: 0, words: [(1 << rig.sentEnd) - 2])
                rig.pass(Self.second)
            }
            #expect(Set(rig.takeSequences()) == Set(0...taken))
            // All of it is there for a next start, each packet in its place.
            let next = try Self.spool(files.disk.powerCut(seed: 5), fileByteCountMax: 2_000)
            #expect(next.packets.count == Int(taken + 1))
            rig.answer(floor: taken + 1)
            #expect(rig.totals.eventsAcked == taken + 1)
        }
    }

    /// A copy-on-write file system may need room for that.
    @Test func `A full disk that takes away no acked file costs no packet, and gets none twice`()
        throws
    {
        let files = SimulatedFileSystem(seed: 3)
        // A packet a file.
        let rig = StreamRig(try Self.spool(files, fileByteCountMax: 80))
        rig.ack(floor: 0)
        rig.sendPackets(1)
        rig.ack(floor: 1)
        files.disk.fail(.unlink, onCall: 1, errno: ENOSPC)
        rig.sendPackets(1)
        #expect(rig.stall != nil && rig.nextSequence == 2)
        // The removal is tried again.
        rig.pass(2 * Self.second)
        #expect(rig.failure == nil && rig.stall == nil)
        #expect(try SpoolTests.names(files) == ["0000000002.spool"])
        rig.sendPackets(1)
        let next = try Self.spool(files.disk.kill(), fileByteCountMax: 80)
        #expect(next.packets.count == 2 && next.firstSequence == 1 && next.damaged.isEmpty)
        rig.answer(floor: 3)
        #expect(rig.isDrained && rig.totals.eventsAcked == 3)
    }

    @Test
    func `A sender that gives up does so for a disk that stays full, with all it took so far`()
        throws
    {
        let files = SimulatedFileSystem(seed: 3)
        let opened = try Self.spool(files, fileByteCountMax: 2_000)
        let rig = StreamRig(spool: opened.spool) { $0.silenceNanosecondsMax = 30 * Self.second }
        rig.sendPackets(1)
        rig.ack(floor: 1)
        files.disk.limit(byteCount: 0)
        rig.sendPackets(1)
        rig.pass(29 * Self.second)
        #expect(rig.failure == nil)
        rig.pass(3 * Self.second)
        #expect(rig.failure?.exitCode == 74)
    }

    @Test func `A disk that is too full to end on can be ended on later`() throws {
        let files = SimulatedFileSystem(seed: 3)
        let opened = try Self.spool(files, fileByteCountMax: 2_000)
        let rig = StreamRig(spool: opened.spool)
        rig.sendPackets(1)
        rig.ack(floor: 1)
        files.disk.limit(byteCount: 0)
        for _ in 0..<5 {
            rig.finish(SpoolNote(position: 7, checksum: 8))
            #expect(rig.failure == nil && rig.stall != nil)
            rig.pass(10 * Self.second)
            rig.flush()
            #expect(rig.obstacle == rig.stall && rig.stall != nil)
        }
        files.disk.limit(byteCount: 1 << 30)
        rig.flush()
        rig.finish(SpoolNote(position: 7, checksum: 8))
        #expect(rig.failure == .closed)
        let next = try Self.spool(files.disk.kill(), fileByteCountMax: 2_000)
        #expect(next.hasEnded && next.note == SpoolNote(position: 7, checksum: 8))
    }

    @Test func `S7: The epoch ends by a heartbeat, once all is acked and gone from the spool`()
        throws
    {
        let files = SimulatedFileSystem(seed: 3)
        let opened = try Self.spool(files, fileByteCountMax: 2_000)
        let rig = StreamRig(spool: opened.spool)
        func takeEnds() -> [UInt64] {
            rig.network.takePackets().filter { $0.kind == 2 && $0.bytes[5] & 4 != 0 }
                .map(\.sequence)
        }
        rig.sendPackets(3)
        rig.pass(5 * Self.second)
        #expect(!rig.isDrained)
        rig.ack(floor: 3)
        files.disk.limit(byteCount: 0)
        rig.finish()
        rig.pass(Self.second)
        #expect(rig.stall != nil && takeEnds().isEmpty)
        files.disk.limit(byteCount: 1 << 30)
        rig.finish()
        #expect(takeEnds() == [3])
        let next = try Self.spool(files.disk.powerCut(seed: 5), fileByteCountMax: 2_000)
        #expect(next.packets.isEmpty && next.spool.identity.epoch.rawValue > 9)
    }

    @Test func `A disk that has no room for the end ends a sender that gives up`() throws {
        let files = SimulatedFileSystem(seed: 3)
        let opened = try Self.spool(files, fileByteCountMax: 2_000)
        let rig = StreamRig(spool: opened.spool) { $0.silenceNanosecondsMax = 30 * Self.second }
        rig.sendPackets(1)
        rig.ack(floor: 1)
        _ = rig.network.take()
        files.disk.limit(byteCount: 0)
        var tries = 0
        while rig.failure == nil, tries < 1_000 {
            rig.flush()
            rig.finish()
            rig.pass(Self.second / 5)
            tries += 1
        }
        #expect(rig.failure?.exitCode == 74)
        #expect((150...160).contains(tries))
        // One a second, and none for each try.
        #expect(rig.network.take().count < 40)
    }

    @Test func `Events are taken though there was no room for the end, and it is tried again`()
        throws
    {
        let files = SimulatedFileSystem(seed: 3)
        let opened = try Self.spool(files, fileByteCountMax: 2_000)
        let rig = StreamRig(spool: opened.spool)
        files.disk.limit(byteCount: 0)
        rig.finish()
        #expect(rig.stall != nil)
        files.disk.limit(byteCount: 1 << 30)
        rig.sendPackets(1)
        #expect(rig.stall == nil)
        rig.ack(floor: 1)
        rig.finish()
        #expect(rig.failure == .closed)
    }

    @Test func `A sender that has filled its disk goes on there, however little it had`() throws {
        for byteCount in stride(from: 66_000, through: 76_000, by: 333) {
            var files = SimulatedFileSystem(seed: 3)
            files.disk.limit(byteCount: byteCount)
            var taken: UInt64 = 0
            do {
                let opened = try Self.spool(files, fileByteCountMax: 4_000)
                let rig = StreamRig(spool: opened.spool)
                while rig.stall == nil {
                    #expect(rig.send(SampleEvents.event(Int(taken))) == .taken)
                    rig.flush()
                    if rig.stall == nil { taken += 1 }
                }
            }
            // The receiver is away, and this machine starts again and again: nobody makes room.
            for seed in 0..<3 as Range<UInt64> { files = files.disk.powerCut(seed: seed) }
            let opened = try Self.spool(files, fileByteCountMax: 4_000)
            #expect(opened.packets.count == Int(taken), "\(byteCount)")
            let rig = StreamRig(opened)
            rig.ack(floor: taken, credit: 1_000)
            #expect(rig.totals.eventsAcked == taken)
            // Acks make room, for more packets and for the end.
            rig.sendPackets(2)
            #expect(rig.stall == nil, "\(byteCount)")
            rig.ack(floor: taken + 2)
            rig.finish(SpoolNote(position: 7, checksum: 8))
            #expect(rig.failure == .closed, "\(byteCount)")
            let next = try Self.spool(files.disk.powerCut(seed: 9), fileByteCountMax: 4_000)
            #expect(next.hasEnded && next.packets.isEmpty && next.note.position == 7)
        }
    }

    @Test func `An event that shall be durable at once is not taken by a full disk`() throws {
        for room in stride(from: 0, through: 2_000, by: 100) {
            let files = SimulatedFileSystem(seed: 3)
            let opened = try Self.spool(files, fileByteCountMax: 700)
            let rig = StreamRig(spool: opened.spool) { $0.isDurableAtSend = true }
            rig.ack(floor: 0)
            #expect(rig.send(SampleEvents.event(0)) == .taken)
            try files.disk.limit(byteCount: files.usedByteCount() + room)
            var taken = 1
            while rig.send(SampleEvents.event(taken)) == .taken { taken += 1 }
            #expect(rig.failure == nil && rig.stall != nil)
            let packets = rig.network.takePackets().filter { $0.kind == 1 }
            #expect(try decodedEvents(packets).count == taken, "room \(room)")
            // Given again it is taken once, under the sequence that it had, or another event is.
            files.disk.limit(byteCount: 1 << 30)
            rig.pass(Self.second)
            #expect(rig.stall == nil)
            var last = SampleEvents.event(1)
            last.eventID = [9]
            for event in [last, SampleEvents.event(taken)] { #expect(rig.send(event) == .taken) }
            let after = rig.network.takePackets().filter { $0.kind == 1 && $0.sequence >= taken }
            #expect(after.map(\.sequence) == [UInt64(taken), UInt64(taken) + 1])
            #expect(try decodedEvents(after).map(\.eventID).first == Data([9]))
            let next = try Self.spool(files.disk.powerCut(seed: 5), fileByteCountMax: 700)
            #expect(next.packets.count == taken + 2)
        }
    }

    @Test func `Closing is tried again where there was no room for the end`() throws {
        let peer = UDPPeer()
        let files = SimulatedFileSystem(seed: 3)
        let opened = try Self.spool(files, fileByteCountMax: 2_000)
        let transport = try UDPTransport(address: peer.address)
        let stream = SenderStream(
            SenderStream.Configuration(identity: opened.spool.identity), transport: transport,
            spool: opened.spool,
            now: SenderClock.monotonicNanoseconds())
        let sender = try EventSender(stream, transport: transport)
        #expect(try sender.send(SampleEvents.event(0)) == .taken)
        try sender.flush()
        while sender.totals.eventsAcked == 0 { sender.loop.waitForProgress(nanosecondsMax: .max) }
        files.disk.limit(byteCount: 0)
        for _ in 0..<2 {
            let error = #expect(throws: ClientError.self) {
                try sender.end(SpoolNote(), asks: false)
            }
            #expect(error.map { sender.state == .waiting($0) } == true)
            // The first step of each close: it has nothing to write.
            try sender.flush()
        }
        files.disk.limit(byteCount: 1 << 30)
        #expect(try sender.end(SpoolNote(), asks: false)?.eventsAcked == 1)
        #expect(sender.state == .ended(.closed))
    }

    @Test
    func
        `The files of a spool are never larger than they may be, and it takes more when they are fewer`()
        throws
    {
        let files = SimulatedFileSystem(seed: 3)
        let opened = try Self.spool(files, fileByteCountMax: 2_000)
        let rig = StreamRig(spool: opened.spool) { $0.spoolByteCountMax = 20_000 }
        rig.ack(floor: 0)
        var count: UInt64 = 0
        // Packet 0 is lost again and again; all others are acked, and stay behind it.
        while rig.send(SampleEvents.event(Int(count))) == .taken, count < 1_000 {
            rig.flush()
            count += 1
            #expect(opened.spool.byteCount <= 20_000)
            let bits = [UInt64](repeating: .max, count: Int(count) / 64) + [1 << (count % 64) - 1]
            rig.ack(floor: 0, words: [bits[0] & ~1] + bits[1...])
        }
        #expect(rig.failure == nil)
        #expect(count > 50 && count < 1_000)
        #expect(opened.spool.byteCount > 16_000)
        rig.ack(floor: count)
        #expect(opened.spool.byteCount < 5_000)
        #expect(rig.send(SampleEvents.event(0)) == .taken)
    }
}

extension SimulatedFileSystem {
    /// Of all files.
    func usedByteCount() throws -> Int {
        let space = try space()
        return Int(space.totalByteCount) - Int(space.freeByteCount)
    }
}
