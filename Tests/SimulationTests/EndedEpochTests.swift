import CIngestLinux
import IngestFormat
import IngestPipeline
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// A sender that ends an epoch, begins another, and of which somebody has kept the packets of the first; and a tenant that
/// claims its reward.
///
/// Fault model: that of `SimulatedDisk`; the network loses every third ack. A daemon that said that an epoch had ended before
/// the log has it would count its packets after the crash; one that forgot whose a reward is would count for another tenant.
@Suite("Ended epochs, owners and crashes")
struct EndedEpochTests {
    @Test(
        "W7: what has ended counts no more after any crash, nor what is another tenant's",
        arguments: [(true, 51), (false, 52)] as [(Bool, UInt64)])
    func crashes(isPowerCut: Bool, seed: UInt64) throws {
        var operation = 1
        while try run(crashing: operation, seed: seed, isPowerCut: isPowerCut) { operation += 13 }
        #expect(operation > 100)
    }

    /// - Returns: whether it has crashed.
    private func run(crashing operation: Int, seed: UInt64, isPowerCut: Bool) throws -> Bool {
        let clock = SimulatedClock.afterEvents()
        var files = SimulatedFileSystem(seed: seed)
        var sender = EndingSender(seed: seed)
        files.disk.crash(beforeOperation: operation)
        _ = try live(files, &sender, clock: clock, seed: seed)
        let hasCrashed = files.disk.isDown
        for round in 1...2 as ClosedRange<UInt64> {
            files =
                isPowerCut
                ? files.disk.powerCut(seed: seed &+ round &+ UInt64(operation) << 8)
                : files.disk.kill()
            // The packets of the first epoch come again, and all of the second that nothing has acked.
            sender.replayCount = 0
            #expect(try live(files, &sender, clock: clock, seed: seed &+ round))
            #expect(sender.isDone && sender.refusedCount > 0)
        }
        #expect(
            try DirectoryReading(files).counts == EndingSender.model.counts,
            "crash \(operation)")
        let findings = try Verifier.run(files).findings.filter {
            $0.kind != .note || !$0.file.hasPrefix("aside/")
        }
        #expect(findings.isEmpty, "crash \(operation): \(findings)")
        return hasCrashed
    }

    /// - Returns: whether it ended by itself.
    private func live(
        _ files: SimulatedFileSystem, _ sender: inout EndingSender, clock: SimulatedClock,
        seed: UInt64
    ) throws -> Bool {
        do throws(PipelineError) {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: seed)
            var turnCount = 0
            while !sender.isDone {
                turnCount += 1
                guard turnCount < 4_000 else { return false }
                sender.send(to: &pipeline)
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
}

/// Sends epoch 1 until it is acked, ends it until that is confirmed, and then epoch 2, with packets of epoch 1 between.
private struct EndingSender {
    private static let packetCount: UInt64 = 12
    private static let replayCountMin = 6

    /// Of each epoch.
    private var unacked: [UInt64: Set<UInt64>] = [
        1: Set(0..<packetCount), 2: Set(0..<packetCount),
    ]
    private var hasEnded = false
    /// Packets of the first epoch sent since its end, in this life, and refusals of it in all.
    var replayCount = 0
    private(set) var refusedCount = 0
    private var random: SeededRandom

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    var isDone: Bool {
        hasEnded && unacked[2]?.isEmpty == true && replayCount >= Self.replayCountMin
    }

    /// Those that count: of the second epoch every other one is of a tenant that claims the first one's reward.
    static var model: ReferenceModel {
        var model = ReferenceModel(packetCount: 0)
        for epoch in 1...2 as ClosedRange<UInt64> {
            for sequence in 0..<packetCount where epoch == 1 || sequence % 2 == 0 {
                model.add(packet(sequence, epoch))
            }
        }
        return model
    }

    private static func packet(_ sequence: UInt64, _ epoch: UInt64) -> SimulatedPacket {
        var packet = SimulatedPacket(sequence: sequence + epoch * 1_000)
        if epoch == 1 && sequence == 0 { packet.only = ("reward-owned", "business-first") }
        if epoch == 2 && sequence % 2 == 1 { packet.only = ("reward-owned", "business-second") }
        // Smaller ones get no ack.
        packet.paddingByteCount = 100
        return packet
    }

    mutating func send(to pipeline: inout SteppedPipeline) {
        if !hasEnded, let first = pick(from: 1) { return offer(first, 1, to: &pipeline) }
        if !hasEnded {
            let end = Heartbeat(base: Self.packetCount, nonce: 1 + random.next(), endsEpoch: true)
            _ = pipeline.offer(end, next: Self.packetCount, epoch: 1)
            return
        }
        if random.next() % 3 == 0 || unacked[2]?.isEmpty == true {
            replayCount += 1
            return offer(random.next() % Self.packetCount, 1, to: &pipeline)
        }
        if let next = pick(from: 2) { offer(next, 2, to: &pipeline) }
    }

    private mutating func pick(from epoch: UInt64) -> UInt64? {
        let waiting = (unacked[epoch] ?? []).sorted()
        if waiting.isEmpty { return nil }
        return waiting[Int(random.next() % UInt64(min(4, waiting.count)))]
    }

    private func offer(_ sequence: UInt64, _ epoch: UInt64, to pipeline: inout SteppedPipeline) {
        let packet = Self.packet(sequence, epoch)
        _ = pipeline.offer(
            packet, as: sequence, epoch: epoch, isBound: packet.only != nil, wantsAck: true)
    }

    mutating func hear(_ packets: [[UInt8]]) throws {
        for packet in packets where random.next() % 3 != 0 {
            try packet.withUnsafeBytes { bytes in
                guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender) else {
                    return
                }
                let ack = try #require(AckView(header, of: bytes))
                let epoch = header.epoch.rawValue
                if ack.status == .refused {
                    #expect(unacked[1]?.isEmpty == true)
                    (hasEnded, refusedCount) = (true, refusedCount + 1)
                    return
                }
                #expect(ack.status == .ok)
                // What was said to be over stays so.
                #expect(!hasEnded || epoch == 2)
                unacked[epoch] = unacked[epoch]?.filter { sequence in
                    let distance = sequence >= ack.floor ? Int(sequence - ack.floor) : 0
                    let isDurable =
                        sequence < ack.floor
                        || distance < 64 * ack.wordCount
                            && ack.word(distance / 64) >> UInt64(distance % 64) & 1 == 1
                    return !isDurable
                }
            }
        }
    }
}
