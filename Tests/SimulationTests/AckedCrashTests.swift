import CIngestLinux
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// An ack means durable: a sender that forgets what was acked, and sends the rest again after each crash, ends with
/// exact counters.
///
/// Fault model: that of `SimulatedDisk`; the network loses every third ack. A daemon that acked before fdatasync would
/// lose what its sender had forgotten; one that took a resend for new would count it twice.
@Suite("Acks and crashes")
struct AckedCrashTests {
    static let packetCount: UInt64 = 48

    /// One life of the daemon: all that is not acked is sent, in an order of the seed's, until the end or the crash.
    /// - Returns: whether it ended by itself.
    private func live(
        _ files: SimulatedFileSystem, _ sender: inout AckedSender, clock: SimulatedClock,
        seed: UInt64
    ) throws -> Bool {
        do throws(PipelineError) {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: seed)
            var waiting = sender.unacked.sorted()
            var random = SeededRandom(seed: seed)
            while !waiting.isEmpty {
                // Packets near the front, so that windows have holes.
                let place = Int(random.next() % UInt64(min(4, waiting.count)))
                // With ids, none of which may be taken for a repeat of what a crash took.
                let packet = SimulatedPacket(sequence: waiting[place], hasIDs: true)
                if pipeline.offer(packet, wantsAck: true) { waiting.remove(at: place) }
                do { try pipeline.turn() } catch {
                    try? sender.hear(pipeline.takeAcks())
                    throw error
                }
                try? sender.hear(pipeline.takeAcks())
            }
            try pipeline.stop()
            try? sender.hear(pipeline.takeAcks())
        } catch {
            return false
        }
        return true
    }

    private func run(
        crashing operation: Int, seed: UInt64, isPowerCut: Bool, garbledSectorByteCount: Int = 0
    ) throws -> Bool {
        let clock = SimulatedClock.afterEvents()
        var files = SimulatedFileSystem(seed: seed)
        var sender = AckedSender(seed: seed)
        sender.unacked = Set(0..<Self.packetCount)
        files.disk.crash(beforeOperation: operation)
        _ = try live(files, &sender, clock: clock, seed: seed)
        let hasCrashed = files.disk.isDown
        var round: UInt64 = 0
        while round == 0 || !sender.unacked.isEmpty {
            round += 1
            try #require(round < 40)
            files =
                isPowerCut
                ? files.disk.powerCut(
                    seed: seed &+ round &+ UInt64(operation) << 8,
                    garbledSectorByteCount: garbledSectorByteCount)
                : files.disk.kill()
            #expect(try live(files, &sender, clock: clock, seed: seed &+ round))
        }
        #expect(sender.ackCount > 0)
        #expect(
            try DirectoryReading(files).counts
                == ReferenceModel(packetCount: Self.packetCount).counts,
            "crash \(operation)")
        let findings = try Verifier.run(files).findings.filter {
            $0.kind != .note || !$0.file.hasPrefix("aside/")
        }
        #expect(findings.isEmpty, "crash \(operation): \(findings)")
        return hasCrashed
    }

    @Test("a torn sector of a disk takes nothing with it that was acked", arguments: [512, 4096])
    func tornSectors(byteCount: Int) throws {
        var operation = 1
        while try run(
            crashing: operation, seed: 43, isPowerCut: true, garbledSectorByteCount: byteCount)
        { operation += 2 }
        #expect(operation > 100)
    }

    @Test("what was acked is there after a power cut, and what is sent again counts once")
    func powerCuts() throws {
        var operation = 1
        while try run(crashing: operation, seed: 41, isPowerCut: true) { operation += 7 }
        #expect(operation > 100)
    }

    @Test("R4: what was acked is there after a kill, and what is sent again counts once")
    func kills() throws {
        var operation = 3
        while try run(crashing: operation, seed: 42, isPowerCut: false) { operation += 17 }
        #expect(operation > 100)
    }

    @Test("what a sender may have on its way fits the ring, nothing of it is shed")
    func credit() throws {
        let files = SimulatedFileSystem(seed: 9)
        var pipeline = try SteppedPipeline.open(
            files, clock: SimulatedClock(wallMicroseconds: SimulatedPacket.start), seed: 9)
        var sequence: UInt64 = 0
        for round in 0..<5 {
            let isTaken = pipeline.offer(SimulatedPacket(sequence: sequence), wantsAck: true)
            #expect(isTaken)
            sequence += 1
            try pipeline.settle()
            let answer = try #require(pipeline.takeAcks().last)
            let edge = try answer.withUnsafeBytes { bytes in
                guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender) else {
                    throw AckFault.unreadable
                }
                let ack = try #require(AckView(header, of: bytes))
                return ack.floor + UInt64(ack.credit)
            }
            // It grows by what comes. No stage has a turn meanwhile.
            #expect(edge >= sequence + (round < 2 ? 8 : 100))
            var shedCount = 0
            while sequence < edge {
                if !pipeline.offer(SimulatedPacket(sequence: sequence), wantsAck: true) {
                    shedCount += 1
                }
                sequence += 1
            }
            #expect(shedCount == 0)
            try pipeline.settle()
            _ = pipeline.takeAcks()
        }
        try pipeline.stop()
    }
}

/// A sender that forgets what was acked; the network loses every third ack.
struct AckedSender {
    var unacked: Set<UInt64> = []
    private(set) var ackCount = 0
    private var random: SeededRandom

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    mutating func hear(_ packets: [[UInt8]]) throws {
        for packet in packets {
            ackCount += 1
            if random.next() % 3 == 0 { continue }
            try packet.withUnsafeBytes { bytes in
                guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender) else {
                    throw AckFault.unreadable
                }
                let ack = try #require(AckView(header, of: bytes))
                #expect(ack.status == .ok)
                unacked = unacked.filter { $0 >= ack.floor }
                for word in 0..<ack.wordCount {
                    for bit in 0..<64 where ack.word(word) >> UInt64(bit) & 1 == 1 {
                        unacked.remove(ack.floor + UInt64(word * 64 + bit))
                    }
                }
            }
        }
    }
}

private enum AckFault: Error { case unreadable }
