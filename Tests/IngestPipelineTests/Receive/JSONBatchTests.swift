import IngestFormat
import IngestPipeline
import IngestRing
import PipelineTestSupport
import TestSupport
import Testing

/// Packets of JSON lines as they come to the ring.
struct JSONBatchTests {
    private static func packet(_ sequence: UInt64, _ text: String, flags: UInt8 = 0) -> [UInt8] {
        TestPackets.sealed(
            TestPackets.header(sequence, kind: .jsonBatch, flags: flags), payload: Array(text.utf8))
    }

    @Test func itsLinesAreEventsOfItsSenderAndSequence() throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback()
        let escaped = TestPackets.jsonLine(#"r-\u00e9\ud83d\ude00"#)
        let text = "\n\(TestPackets.jsonLine("a"))\r\n{}\n\(escaped)\n \n"
        let first = Self.packet(5, text, flags: PacketHeader.Flags.isAckWanted)
        sender.send(first)
        try rig.receive(1)
        let record = try #require(rig.records().first)
        #expect(record.header.kind == RingRecordKind.framed)
        #expect(record.header.sender == TestPackets.sender.rawValue)
        #expect(record.header.sequence == 5 && record.header.malformedCount == 1)
        #expect(record.header.flags == RingRecordHeader.Flags.wantsAck)
        #expect(record.rewards == ["a", "r-é😀"])
        // What was unescaped in place lies behind the header, which is as it was sent.
        #expect(record.packet[..<PacketHeader.byteCount] == first[..<PacketHeader.byteCount])
        #expect(
            record.events.map(\.pair)
                == record.rewards.map {
                    TestPackets.hash.pair(reward: Array($0.utf8), business: Array("b-1".utf8))
                })
    }

    @Test func whatIsSentAgainHasTheSameCheckAndOtherBytesOrAnotherKindHaveAnother() throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback()
        let line = TestPackets.jsonLine(#"\u00e9"#)
        let batch = TestPackets.sealed(TestPackets.header(5), payload: Array(line.utf8))
        for packet in [
            Self.packet(5, line), Self.packet(5, line), Self.packet(5, line + "\n"), batch,
        ] {
            sender.send(packet)
        }
        try rig.receive(4)
        let checks = rig.records().map(\.header.check)
        #expect(checks.count == 4 && checks[0] == checks[1])
        #expect(Set(checks).count == 3)
    }

    /// Each lies between others in one buffer of the kernel, and its lines end with it.
    @Test func itsLastLineEndsWithItInACoalescedRun() throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback()
        let packets = (0..<8).map { Self.packet(UInt64($0), TestPackets.jsonLine("r-\($0)")) }
        sender.send(packets.flatMap { $0 }, segmentByteCount: packets[0].count)
        try rig.receive(8)
        let records = rig.records()
        #expect(records.map(\.rewards) == (0..<8).map { ["r-\($0)"] })
        #expect(records.allSatisfy { $0.header.malformedCount == 0 })
    }

    @Test func aShedOneThatWantsAcksIsAnswered() throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback()
        rig.state.shortage = .space
        let line = TestPackets.jsonLine(#"\u00e9"#)
        sender.send(Self.packet(5, line, flags: PacketHeader.Flags.isAckWanted))
        try rig.receive(1)
        let answers = rig.answers.take()
        #expect(answers.count == 1)
        for answer in answers {
            try readAck(answer) { _, ack in
                #expect(ack.status == .diskFull && ack.echo == .sequence(5))
            }
        }
        #expect(rig.counters.packets(.shed) == 1)
    }
}
