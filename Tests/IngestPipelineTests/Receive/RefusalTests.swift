import IngestFormat
import IngestRing
import IngestStorage
import Logging
import PipelineTestSupport
import Synchronization
import TestSupport
import Testing

@testable import IngestPipeline

/// Refused datagrams: named, counted, handed down the ring, told in the log.
@Suite struct RefusalTests {
    private typealias Rig = ReceiveRig<SimulatedDatagramSocket>

    private func rig(ringByteCount: Int = 1 << 20) -> (Rig, SimulatedNetwork) {
        let network = SimulatedNetwork(seed: 1)
        return (Rig(SimulatedDatagramSocket(network), ringByteCount: ringByteCount), network)
    }

    /// A good packet, damaged in one way.
    private static let cases: [(String, PacketResult, @Sendable (inout [UInt8]) -> Void)] = [
        ("empty", .badMagic, { $0 = [] }),
        ("the magic alone", .badLength, { $0 = Array($0.prefix(4)) }),
        ("half of the magic", .badMagic, { $0 = Array($0.prefix(2)) }),
        ("header without payload", .badLength, { $0 = Array($0.prefix(40)) }),
        ("one byte short", .badLength, { $0.removeLast() }),
        ("one byte long", .badLength, { $0.append(0) }),
        ("another magic", .badMagic, { $0[0] = UInt8(ascii: "J") }),
        ("another version", .badMagic, { $0[3] = UInt8(ascii: "2") }),
        ("no magic at all", .badMagic, { $0 = Array("GET / HTTP/1.1\r\n\r\n".utf8) }),
        ("a JSON array", .badMagic, { $0 = Array("[{}]".utf8) }),
        ("a flipped bit of the payload", .badCRC, { $0[$0.count - 1] ^= 1 }),
        ("a flipped bit of the sender", .badCRC, { $0[8] ^= 1 }),
        ("a flipped bit of the CRC", .badCRC, { $0[36] ^= 0x80 }),
        (
            "an ack", .badKind,
            { $0 = TestPackets.sealed(TestPackets.header(0, kind: .ack), payload: []) }
        ),
        (
            "an unknown flag", .badKind,
            { $0 = TestPackets.sealed(TestPackets.header(0, flags: 4), payload: []) }
        ),
        (
            "sender 0", .badKind,
            {
                $0 = TestPackets.sealed(
                    TestPackets.header(0, sender: SenderID(rawValue: 0)), payload: [])
            }
        ),
        (
            "a heartbeat without its payload", .badLength,
            { $0 = TestPackets.sealed(TestPackets.header(0, kind: .heartbeat), payload: [0]) }
        ),
        (
            "a heartbeat with a reserved byte set", .malformed,
            {
                let payload = [UInt8](repeating: 0, count: 63) + [1]
                $0 = TestPackets.sealed(TestPackets.header(0, kind: .heartbeat), payload: payload)
            }
        ),
    ]

    @Test(arguments: 0..<cases.count)
    func everyDamageHasItsNameAndLeavesNoRecord(index: Int) throws {
        let (what, result, damage) = Self.cases[index]
        let (rig, network) = rig()
        var packet = TestPackets.batch(3)
        damage(&packet)
        network.send(packet)
        network.send(TestPackets.batch(4))
        try rig.receive(2)
        try rig.tick()
        let records = rig.records()
        #expect(Rig.refusals(in: records) == [result: 1], "\(what)")
        #expect(
            records.filter { $0.header.kind != RingRecordKind.refusals }.map(\.header.sequence)
                == [4], "\(what): the next packet is taken")
        for other in PacketResult.allCases {
            #expect(rig.counters.packets(other) == (other == result ? 1 : 0), "\(what): \(other)")
        }
    }

    @Test func refusalsGoDownTheRingEvery100MillisecondsAndSumUp() throws {
        let (rig, network) = rig()
        for round in 0..<5 {
            for _ in 0...round { network.send(Array("junk".utf8)) }
            network.send(TestPackets.batch(0).dropLast() + [])
            try rig.receive(round + 2)
            #expect(rig.records().count <= 1)
            try rig.tick()
            let records = rig.records()
            #expect(records.count == 1)
            #expect(Rig.refusals(in: records) == [.badMagic: UInt64(round + 1), .badLength: 1])
        }
        try rig.tick()
        #expect(rig.records().isEmpty, "without refusals there is no record of them")
        #expect(rig.counters.packets(.badMagic) == 15 && rig.counters.packets(.badLength) == 5)
    }

    @Test func aFullRingShedsAndTakesAgainOnceThereIsRoom() throws {
        let (rig, network) = rig(ringByteCount: 1 << 14)
        let sent = 100
        for sequence in 0..<sent { network.send(TestPackets.batch(UInt64(sequence))) }
        try rig.receive(sent)
        let taken = rig.records()
        let shed = Int(rig.counters.packets(.shed))
        #expect(shed > 0 && taken.count > 10)
        #expect(taken.map(\.header.sequence) == (0..<taken.count).map { UInt64($0) })
        #expect(taken.count + shed == sent)
        network.send(TestPackets.batch(1000))
        try rig.receive(1)
        try rig.tick()
        let records = rig.records()
        #expect(records.first?.header.sequence == 1000)
        #expect(Rig.refusals(in: records) == [.shed: UInt64(shed)])
    }

    @Test func checksGoOnWhileTheRingIsFull() throws {
        let (rig, network) = rig(ringByteCount: 1 << 14)
        for sequence in 0..<100 { network.send(TestPackets.batch(UInt64(sequence))) }
        network.send(Array("junk".utf8))
        try rig.receive(101)
        #expect(rig.counters.packets(.shed) > 0)
        #expect(rig.counters.packets(.badMagic) == 1)
    }

    @Test func theLastRefusalsFindRoomInAFullRing() throws {
        let (rig, network) = rig(ringByteCount: 1 << 14)
        for sequence in 0..<100 { network.send(TestPackets.batch(UInt64(sequence), eventCount: 1)) }
        try rig.receive(100)
        try rig.tick()
        try rig.finish()
        let records = rig.records()
        let shed = Rig.refusals(in: records)[.shed] ?? 0
        #expect(shed > 0)
        #expect(records.count - 1 + Int(shed) == 100)
        #expect(rig.wait() == .closed)
    }

    @Test func everyPacketResultHasItsPlaceInTheTallies() {
        #expect(IntakeTally.resultCount == PacketResult.allCases.count)
        #expect(PacketResult.allCases.allSatisfy { Int($0.rawValue) < IntakeTally.resultCount })
    }

    // MARK: The log

    @Test func aKindOfRefusalHasOneLineASecondWithItsCount() throws {
        let (rig, network) = rig()
        for _ in 0..<30 {
            for _ in 0..<10 { network.send(Array("junk".utf8)) }
            try rig.receive(10)
            try rig.tick()
        }
        // 3.1 s: the first line tells of the first turn alone, the next ones of ten each.
        let lines = rig.log.lines
        #expect((3...4).contains(lines.count))
        #expect(lines[0].hasPrefix("refused 10 datagrams as bad_magic, the last of 4 bytes from "))
        #expect(lines[1].hasPrefix("refused 100 datagrams as bad_magic"))
        try rig.finish()
        let told = rig.log.lines.compactMap { $0.split(separator: " ").dropFirst().first }
            .reduce(0) { $0 + Int($1)! }
        #expect(told == 300, "every refusal is told of by the end")
    }

    @Test func aLineShowsNothingThatASenderCouldForgeLinesWith() throws {
        for head in ["\n\r\u{1B}[", "\"\\\0\u{7F}", "é\u{85}", "abcd"] {
            let (rig, network) = rig()
            network.send(Array((head + "user-secret\nWARNING forged").utf8))
            try rig.receive(1)
            try rig.finish()
            let line = try #require(rig.log.lines.first)
            #expect(line.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }, "\(line)")
            #expect(!line.contains("secret") && !line.contains("forged"))
            #expect(line.utf8.count < 200)
            #expect(rig.log.lines.count == 1)
        }
        let (rig, network) = rig()
        network.send(Array("\n\"ab".utf8))
        try rig.receive(1)
        try rig.finish()
        #expect(rig.log.lines.first?.hasSuffix(#"beginning with "\x0a\x22ab""#) == true)
    }

    /// What becomes of packets that are taken but not whole, each with its line.
    private static let partly: [(String, [UInt8], String)] = [
        (
            "a batch that is no protobuf",
            TestPackets.undecodable(0),
            "refused 1 datagram as malformed, the last of 43 bytes from "
        ),
        (
            "a batch of a good event between two bad ones",
            TestPackets.sealed(
                TestPackets.header(0),
                payload: [0x0A, 0] + TestPackets.batch(0, eventCount: 1).dropFirst(40)
                    + [0x0A, 2, 0x08, 9]),
            "refused 2 events as malformed in 1 datagram, the last of "
        ),
        (
            "plain text that is no JSON", Array("{not json".utf8),
            "refused 1 event as malformed in 1 datagram, the last of 9 bytes from "
        ),
        (
            "a plain event without its ids", Array("{\"eventType\":\"click\"}\n{}".utf8),
            "refused 2 events as malformed in 1 datagram, the last of 24 bytes from "
        ),
    ]

    @Test(arguments: 0..<partly.count)
    func whatIsMalformedInATakenPacketHasItsLine(index: Int) throws {
        let (what, packet, line) = Self.partly[index]
        let (rig, network) = rig()
        network.send(packet)
        try rig.receive(1)
        try rig.tick()
        #expect(rig.log.lines.count == 1, "\(what): \(rig.log.lines)")
        #expect(rig.log.lines.first?.hasPrefix(line) == true, "\(what): \(rig.log.lines)")
        for _ in 0..<5 { network.send(packet) }
        try rig.receive(5)
        try rig.tick()
        #expect(rig.log.lines.count == 1, "\(what): a line a second")
        try rig.tick(milliseconds: 1_000)
        #expect(rig.log.lines.count == 2, "\(what): \(rig.log.lines)")
        try rig.finish()
        #expect(rig.log.lines.count == 2, "\(what): nothing is told twice")
    }

    @Test func aSenderThatAsksForAcksIsToldThatItIsShed() throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback(ringByteCount: 1 << 14)
        var header = TestPackets.header(0)
        header.flags = PacketHeader.Flags.isAckWanted
        let payload = Array(TestPackets.batch(0)[PacketHeader.byteCount...])
        for sequence in 0..<100 as Range<UInt64> {
            header.sequence = PacketSequence(rawValue: sequence)
            sender.send(TestPackets.sealed(header, payload: payload))
        }
        try rig.receive(100)
        let answers = rig.answers.take()
        #expect(rig.counters.packets(.shed) > 0 && !answers.isEmpty)
        for answer in answers {
            #expect(answer.count <= PacketHeader.byteCount + payload.count)
            try readAck(answer) { _, ack in
                #expect(ack.status == .busy && ack.credit == 0 && ack.floor == 0)
                #expect(ack.wordCount == 1 && ack.word(0) == 0)
            }
        }
        #expect(rig.counters.receive[.answers] == UInt64(answers.count))
    }

    @Test(arguments: [
        (Shortage.space, AckStatus.diskFull), (.writeAccess, .diskFull), (.resources, .busy),
    ])
    func whileTheDiskTakesNothingAllIsShedAndToldSo(shortage: Shortage, status: AckStatus) throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback()
        var header = TestPackets.header(0)
        header.flags = PacketHeader.Flags.isAckWanted
        let batch = TestPackets.sealed(
            header, payload: Array(TestPackets.batch(0)[PacketHeader.byteCount...]))
        var heartbeat = TestPackets.heartbeat(9)
        rig.state.shortage = shortage
        sender.send(batch)
        try rig.receive(1)
        sender.send(heartbeat)
        sender.send(TestPackets.jsonLine("plain"))
        try rig.receive(2)
        try rig.tick()
        #expect(rig.records().isEmpty, "not even the counts go down the ring")
        #expect(rig.counters.packets(.shed) == 2, "a heartbeat is no loss")
        let answers = rig.answers.take()
        #expect(answers.count == 1, "only the batch asks for acks")
        for answer in answers {
            #expect(answer.count <= batch.count)
            try readAck(answer) { _, ack in
                #expect(ack.status == status && ack.credit == 0 && ack.floor == 0)
            }
        }
        rig.state.shortage = nil
        heartbeat = TestPackets.heartbeat(10)
        sender.send(heartbeat)
        try rig.receive(1)
        try rig.tick()
        let records = rig.records()
        #expect(records.first?.header.kind == RingRecordKind.heartbeat)
        #expect(ReceiveRig<LinuxDatagramSocket>.refusals(in: records) == [.shed: 2])
    }

    @Test func whatTheCommitStageRefusesIsToldByItsGrowth() throws {
        let (rig, _) = rig()
        rig.counters.events.add(.tooOld, 3)
        rig.counters.events.add(.tooEarly)
        rig.counters.commit.add(.shedForRoom, 2)
        rig.counters.commit.add(.nameRefusals, 9)
        rig.counters.commit.add(.shedForWindows, 5)
        rig.counters.commit.add(.shedForNames, 4)
        rig.counters.commit.add(.shedForEpochs)
        rig.counters.commit.add(.shedForEndedEpochs, 3)
        for (key, quota) in [(17, .windows), (18, .names), (65_535, .epochs), (20, .endedEpochs)]
            as [(UInt16, KeyQuota)]
        {
            rig.state.set(lastKey: key, over: quota)
        }
        rig.counters.commit.add(.moneyRefusals)
        rig.counters.commit.add(.rolledBackHeartbeats, 2)
        rig.counters.events.add(.counted, 100)
        try rig.tick()
        let lines = rig.log.lines
        #expect(lines.count == 10, "\(lines)")
        #expect(lines[0].hasPrefix("refused 3 events as too_old: "))
        #expect(lines[1].hasPrefix("refused 1 event as too_early: "))
        #expect(lines[2].hasPrefix("refused 2 datagrams as shed because "))
        #expect(lines[3].hasPrefix("refused 9 events as malformed because the tables "))
        #expect(lines[4].hasPrefix("refused 1 event as malformed because revenue or spend "))
        #expect(lines[5].hasPrefix("2 heartbeats of senders that had heard of more than this dir"))
        #expect(
            lines[6].hasPrefix(
                "shed 5 datagrams because the senders of one key, the last one 17, have "))
        #expect(
            lines[7].hasPrefix(
                "shed 4 datagrams because the senders of one key, the last one 18, gave "))
        #expect(
            lines[8].hasPrefix(
                "shed 1 datagram because the senders of one key, the last one 65535, b"))
        let ended = "the last one 20, have as many ids whose epochs ended within a week "
        #expect(lines[9].contains(ended) && !lines[9].contains("--windows-per-key-max"))
        rig.counters.events.add(.tooOld, 4)
        try rig.tick()
        #expect(rig.log.lines.count == 10, "a line a second")
        try rig.finish()
        #expect(rig.log.lines.last?.hasPrefix("refused 4 events as too_old: ") == true)
        #expect(rig.log.lines.count == 11)
    }

    @Test(arguments: [7_200, -7_200] as [Int64])
    func aClockThatStepsIsNamedInsteadOfThoseOfTheSenders(step: Int64) throws {
        let (rig, _) = rig()
        rig.state.clockStepSeconds = step
        rig.counters.events.add(.tooOld, 3)
        rig.counters.events.add(.tooEarly, 2)
        try rig.tick()
        #expect(rig.log.lines.count == 2)
        for line in rig.log.lines {
            #expect(line.contains("stepped \(step > 0 ? "forward" : "back") by 7200 s"), "\(line)")
            #expect(!line.contains("clock synchronisation"), "\(line)")
            // Without it a start after a step back would wait for the clock.
            #expect(line.contains("--accept-clock") == (step < 0), "\(line)")
        }
    }
}
