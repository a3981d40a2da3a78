import IngestFormat
import IngestRing
import IngestStorage
import PipelineTestSupport
import TestSupport
import Testing

@testable import IngestPipeline

/// What the receive stage answers by itself.
struct AnswerTests {
    @Test func aKindOrFlagThatIsNotKnownIsToldSoButNotMoreThanTenTimesATick() throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback()
        let payload = Array(TestPackets.batch(0)[PacketHeader.byteCount...])
        /// Kind 5, or with flag bit 4.
        func packet(_ kind: UInt8?, padding: Int = 16, senderID: UInt64 = 9) -> [UInt8] {
            var header = TestPackets.header(4, sender: SenderID(rawValue: senderID))
            header.flags = kind == nil ? 16 : 0
            let padded = payload + [0x7A, UInt8(padding)] + [UInt8](repeating: 0, count: padding)
            var bytes = TestPackets.sealed(header, payload: padded)
            bytes[4] = kind ?? bytes[4]
            return bytes.sealedPacket()
        }
        rig.state.durableEpoch = 6
        for unanswered in [packet(0), packet(128), packet(200), packet(5, senderID: 0)] {
            sender.send(unanswered)
        }
        try rig.receive(4)
        #expect(rig.answers.take().isEmpty)
        for _ in 0..<3 {
            for kind in [5, 127, nil] as [UInt8?] {
                for _ in 0..<5 { sender.send(packet(kind)) }
            }
            try rig.receive(15)
            let answers = rig.answers.take()
            #expect(answers.count == 10)
            for answer in answers {
                try readAck(answer) { _, ack in
                    #expect(ack.status == .unsupported && ack.echo == .sequence(4))
                    #expect(ack.directory.rawValue == 77 && ack.commitEpoch == 6)
                }
            }
            try rig.tick()
        }
        #expect(rig.counters.packets(.badKind) == 49)
    }

    @Test func aHeartbeatThatIsShedIsAnsweredUnderItsNonce() throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback()
        rig.state.shortage = .space
        var header = TestPackets.header(3, kind: .heartbeat)
        header.flags = PacketHeader.Flags.isAckWanted
        sender.send(Heartbeat(base: 0, seen: 0, nonce: 1234).packet(header))
        try rig.receive(1)
        let answers = rig.answers.take()
        #expect(answers.count == 1)
        for answer in answers {
            try readAck(answer) { _, ack in
                #expect(ack.status == .diskFull && ack.echo == .nonce(1234))
            }
        }
        // Of one batch one of its batches and one of its heartbeats.
        var batch = TestPackets.header(0)
        batch.flags = header.flags
        let payload = Array(TestPackets.batch(0)[PacketHeader.byteCount...])
        for _ in 0..<4 {
            sender.send(TestPackets.sealed(batch, payload: payload))
            sender.send(Heartbeat(base: 0, seen: 0, nonce: 1235).packet(header))
        }
        try rig.receive(8)
        #expect(rig.answers.take().count == 2)
    }

    @Test func whereNoBlockIsFreeAHeartbeatIsAnsweredUnlessItsSenderSendsItOnce() throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback()
        // The free link of the rig is empty.
        let asks = PacketHeader.Flags.isAckWanted
        for (nonce, isStalled, flags) in [
            (1, false, asks), (2, true, asks), (3, true, 0),
            (4, true, asks | PacketHeader.Flags.endsEpoch), (5, false, asks),
        ] as [(UInt64, Bool, UInt8)] {
            rig.state.foundBlock()
            for time in [5, 5 + (isStalled ? 100_000_000 : 99_999_999)] as [UInt64] {
                rig.state.foundNoBlock(at: time)
            }
            var header = TestPackets.header(3, kind: .heartbeat)
            header.flags = flags
            let isAnswered = isStalled && flags == asks
            sender.send(Heartbeat(base: 0, seen: 0, nonce: nonce).packet(header))
            try rig.receive(1)
            let answers = rig.answers.take()
            #expect(answers.count == (isAnswered ? 1 : 0), "\(nonce)")
            for answer in answers {
                try readAck(answer) { _, ack in
                    #expect(ack.status == .busy && ack.echo == .nonce(nonce))
                }
            }
            let kinds = rig.records().map(\.header.kind)
            #expect(kinds == (isAnswered ? [] : [RingRecordKind.heartbeat]), "\(nonce)")
        }
    }

    @Test func aProbeIsAnsweredAtOnceAndCountedNowhere() throws {
        let (rig, sender) = try ReceiveRig<LinuxDatagramSocket>.loopback()
        rig.state.shortage = .space
        func probe(_ nonce: UInt64) -> [UInt8] {
            Probe(nonce: nonce, unixMicroseconds: 3).packet(TestPackets.header(0, kind: .probe))
        }
        for nonce in 1...12 as ClosedRange<UInt64> { sender.send(probe(nonce)) }
        try rig.receive(12)
        let answers = rig.answers.take()
        // Not more than ten a tick, also where nothing else is taken.
        #expect(answers.count == 10)
        for (answer, nonce) in zip(answers, 1...) {
            try answer.withUnsafeBytes { bytes in
                guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender) else {
                    Issue.record("no answer")
                    return
                }
                #expect(header.sender == TestPackets.sender && header.epoch == TestPackets.epoch)
                let read = try #require(ProbeAnswer(header, of: bytes))
                #expect(read.nonce == UInt64(nonce) && read.directory.rawValue == 77)
                #expect(read.unixMicroseconds == rig.clock.wallMicroseconds())
                #expect(read.lowestVersion == 1 && read.highestVersion == 1)
                #expect(read.packetByteCountMax == UInt32(Limits.packetByteCountMax))
            }
        }
        try rig.tick()
        sender.send(probe(13))
        // One that is not as it should be, and a batch that is shed beside the probe.
        var header = TestPackets.header(0, kind: .probe)
        sender.send(TestPackets.sealed(header, payload: [UInt8](repeating: 1, count: 64)))
        header.kind = .batch
        header.flags = PacketHeader.Flags.isAckWanted
        let payload = Array(TestPackets.batch(0)[PacketHeader.byteCount...])
        sender.send(TestPackets.sealed(header, payload: payload))
        try rig.receive(3)
        #expect(rig.answers.take().count == 2)
        #expect(rig.counters.packets(.malformed) == 1 && rig.counters.packets(.shed) == 1)
        #expect(rig.counters.packets(.accepted) == 0 && rig.counters.packets(.badKind) == 0)
        #expect(rig.records().allSatisfy { $0.header.kind == RingRecordKind.refusals })
    }
}
