import CIngestLinux
import IngestFormat
import IngestPipeline
import IngestRing
import Testing

/// The receiver on real sockets of loopback.
@Suite struct UDPReceiverTests {
    private typealias Rig = ReceiveRig<LinuxDatagramSocket>

    @Test func aFramedPacketArrivesWithItsHeaderItsBytesAndItsEvents() throws {
        let (rig, sender) = try Rig.loopback()
        let packet = TestPackets.batch(5)
        sender.send(packet)
        try rig.receive(1)
        let records = rig.records()
        #expect(records.count == 1)
        let record = try #require(records.first)
        #expect(record.header.kind == RingRecordKind.framed)
        #expect(record.header.sender == TestPackets.sender.rawValue)
        #expect(record.header.epoch == TestPackets.epoch.rawValue)
        #expect(record.header.sequence == 5)
        #expect(record.header.malformedCount == 0 && record.header.flags == 0)
        #expect(record.packet == packet)
        #expect(record.rewards == ["r-5-0", "r-5-1", "r-5-2"])
        #expect(
            record.events.map(\.pair)
                == record.rewards.map {
                    TestPackets.hash.pair(reward: Array($0.utf8), business: Array("b-1".utf8))
                })
        #expect(rig.counters.receive[.events] == 3)
    }

    @Test func flagsAndKeyArriveWithThePacket() throws {
        let (rig, sender) = try Rig.loopback()
        let flags = PacketHeader.Flags.isAckWanted
        sender.send(
            TestPackets.sealed(TestPackets.header(0, flags: flags, keyID: 513), payload: []))
        try rig.receive(1)
        let record = try #require(rig.records().first)
        #expect(record.header.flags == RingRecordHeader.Flags.wantsAck)
        #expect(record.header.keyID == 513)
    }

    /// One send of the kernel's cutting, one receive of its coalescing, and in between single packets.
    @Test(arguments: ["127.0.0.1", "[::1]"])
    func aCoalescedRunIsTakenApartWhereItsDatagramsEnd(host: String) throws {
        let (rig, sender) = try Rig.loopback(host: host)
        let whole = (0..<20).map { TestPackets.batch(UInt64($0), byteCount: 1200) }
        let last = TestPackets.batch(20, eventCount: 1)
        #expect(last.count < 1200 && last.count % 8 != 0)
        sender.send((whole + [last]).flatMap { $0 }, segmentByteCount: 1200)
        try rig.receive(21)
        let records = rig.records()
        #expect(records.map(\.packet) == whole + [last])
        #expect(records.map(\.header.sequence) == (0...20).map { UInt64($0) })
        #expect(rig.counters.receive[.datagrams] == 21)
        #expect(rig.counters.receive[.bytes] == UInt64(20 * 1200 + last.count))
        #expect(
            rig.counters.receive[.buffers] < 21,
            "the kernel coalesces on loopback, or the test shows nothing")
    }

    @Test func theLargestPacketOfIPv4IsTaken() throws {
        let (rig, sender) = try Rig.loopback()
        let packet = TestPackets.batch(1, byteCount: Limits.packetByteCountMax)
        sender.send(packet)
        try rig.receive(1)
        #expect(rig.records().map(\.packet) == [packet])
    }

    @Test func aDatagramBeyondTheLargestPacketIsBadLength() throws {
        let (rig, sender) = try Rig.loopback(host: "[::1]")
        sender.send([UInt8](repeating: UInt8(ascii: "{"), count: Limits.packetByteCountMax + 1))
        try rig.receive(1)
        #expect(rig.counters.packets(.badLength) == 1)
        #expect(rig.records().isEmpty)
    }

    @Test func aDatagramThatTheKernelCutOffIsTruncated() throws {
        let (rig, sender) = try Rig.loopback(byteCountMax: 1000)
        sender.send(TestPackets.batch(1, byteCount: 1001))
        sender.send(TestPackets.batch(2, byteCount: 1000))
        try rig.receive(2)
        #expect(rig.counters.packets(.truncated) == 1)
        #expect(rig.records().map(\.header.sequence) == [2])
    }

    @Test func plainLinesBecomeOneRecordWithTheBadOnesCounted() throws {
        let (rig, sender) = try Rig.loopback()
        sender.send(
            TestPackets.jsonLine("r-1") + "\n{\"eventType\":\"click\"}\n"
                + TestPackets.jsonLine("caf\\u00e9") + "\n")
        try rig.receive(1)
        let record = try #require(rig.records().first)
        #expect(record.header.kind == RingRecordKind.plain)
        #expect(record.header.sender == 0 && record.header.epoch == 0)
        #expect(record.header.malformedCount == 1)
        #expect(record.rewards == ["r-1", "café"])
    }

    @Test func aHeartbeatArrivesWithItsPayload() throws {
        let (rig, sender) = try Rig.loopback()
        let packet = TestPackets.heartbeat(9, base: 4)
        sender.send(packet)
        try rig.receive(1)
        let record = try #require(rig.records().first)
        #expect(record.header.kind == RingRecordKind.heartbeat)
        #expect(record.header.sequence == 9)
        #expect(record.packet == packet)
        #expect(record.events.isEmpty)
    }

    @Test func anUndecodablePacketIsHandedDownWithoutEvents() throws {
        let (rig, sender) = try Rig.loopback()
        sender.send(TestPackets.undecodable(8))
        try rig.receive(1)
        try rig.tick()
        let records = rig.records()
        #expect(records.count == 1, "it has a record of its own, not one of refusals")
        let record = try #require(records.first)
        #expect(record.header.flags == RingRecordHeader.Flags.isMalformed)
        #expect(record.header.sequence == 8)
        #expect(record.packet == TestPackets.undecodable(8) && record.events.isEmpty)
        // Whether it is new is for its window to say.
        #expect(rig.counters.packets(.malformed) == 0)
    }

    // MARK: Drops

    @Test func datagramsThatTheKernelDropsAreCountedAndTheSettingIsNamed() throws {
        let (rig, sender) = try Rig.loopback(receiveBufferByteCount: 8192)
        let sent = 200
        for sequence in 0..<sent {
            sender.send(TestPackets.batch(UInt64(sequence), byteCount: 1400))
        }
        try rig.receive(1)
        var received = 0
        repeat {
            received = Int(rig.counters.receive[.datagrams])
            try rig.tick()
        } while Int(rig.counters.receive[.datagrams]) > received
        let dropped = Int(rig.counters.receive[.kernelDrops])
        #expect(dropped > 0)
        #expect(received + dropped == sent)
        let line = try #require(rig.log.lines.first)
        #expect(line.contains("--receive-buffer-bytes") && line.contains("dropped"))
    }

    /// With the smallest events that there may be, and with the smallest that have a side record: what a slab must hold.
    @Test(arguments: [[], [0x62, 1, 0x63]] as [[UInt8]])
    func thePacketWithTheMostEventsFitsTheRing(campaign: [UInt8]) throws {
        let (rig, sender) = try Rig.loopback(ringByteCount: Limits.ringByteCount)
        // Type, reward and business of a byte each.
        let fields: [UInt8] = [0x08, 1, 0x12, 1, 0x72, 0x1A, 1, 0x62] + campaign
        let event = [0x0A, UInt8(fields.count)] + fields
        #expect(event.count == Limits.eventByteCountMin + campaign.count)
        let count = Limits.payloadByteCountMax / event.count
        let payload = [UInt8]((0..<count).map { _ in event }.joined())
        sender.send(TestPackets.sealed(TestPackets.header(1), payload: payload))
        try rig.receive(1)
        let record = try #require(rig.records().first)
        #expect(record.events.count == count && record.header.malformedCount == 0)
        #expect(record.events.allSatisfy { ($0.side != 0) == !campaign.isEmpty })
    }

    /// Without one of the three an event is malformed: so none is smaller.
    @Test(arguments: 0..<3)
    func anEventWithoutWhatItMustHaveHasNoRow(missing: Int) throws {
        let (rig, sender) = try Rig.loopback()
        var fields: [[UInt8]] = [[0x08, 1], [0x12, 1, 0x72], [0x1A, 1, 0x62]]
        fields.remove(at: missing)
        let body = [UInt8](fields.joined())
        let payload = [0x0A, UInt8(body.count)] + body
        sender.send(TestPackets.sealed(TestPackets.header(1), payload: payload))
        try rig.receive(1)
        let record = try #require(rig.records().first)
        #expect(record.events.isEmpty && record.header.malformedCount == 1)
    }

    // MARK: The end

    @Test func aStopTakesInWhatTheSocketHoldsAndClosesTheRing() throws {
        let (rig, sender) = try Rig.loopback()
        for sequence in 0..<100 { sender.send(TestPackets.batch(UInt64(sequence))) }
        sender.send("no packet")
        try rig.finish()
        let records = rig.records()
        #expect(records.prefix(100).map(\.header.sequence) == (0..<100).map { UInt64($0) })
        #expect(Rig.refusals(in: records) == [.badMagic: 1])
        #expect(rig.wait() == .closed)
    }

    @Test func aStoppedQueueEndsWithEverythingInTheRing() throws {
        let socket = try LinuxDatagramSocket(
            binding: SocketAddress("127.0.0.1:0"), receiveBufferByteCount: 4 << 20)
        let sender = LoopbackSender(host: "127.0.0.1", port: socket.address.port)
        let ends = EventRing.make(byteCount: 1 << 20)!
        var consumer = ends.consumer
        let receiver = UDPReceiver(
            socket: socket, batch: PacketBatch()!, ring: ends.producer, hash: TestPackets.hash,
            clock: LinuxClock(), counters: PipelineCounters(), warn: { _ in })
        let queue = StageQueue(name: "test-receive")
        queue.start(receiver) { error in Issue.record(error) }
        for sequence in 0..<50 { sender.send(TestPackets.batch(UInt64(sequence))) }
        queue.stop()
        queue.join()
        var sequences: [UInt64] = []
        while let record = consumer.next() { sequences.append(record.header.sequence) }
        #expect(sequences == (0..<50).map { UInt64($0) })
        let end = consumer.wait(timeoutNanoseconds: 0)
        #expect(end == .closed)
    }
}
