import CIngestLinux
import IngestFormat
import IngestPipeline
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
        while true {
            let crash = Crash(operation: operation, seed: seed, isPowerCut: isPowerCut)
            var sender = EndingSender(seed: seed)
            // The packets of the first epoch come again in both, and all of the second that nothing has acked.
            let hasCrashed = try crash.run(&sender, model: EndingSender.model) {
                #expect($1 == 0 || $0.isDone && $0.refusedCount > 0)
                return $1 < 2
            }
            if !hasCrashed { break }
            operation += 13
        }
        #expect(operation > 100)
    }
}

/// Sends epoch 1 until it is acked, ends it until that is confirmed, and then epoch 2, with packets of epoch 1 between.
private struct EndingSender: CrashSender {
    private static let packetCount: UInt64 = 12
    private static let replayCountMin = 6

    /// Of each epoch.
    private var unacked: [UInt64: Set<UInt64>] = [
        1: Set(0..<packetCount), 2: Set(0..<packetCount),
    ]
    private var hasEnded = false
    /// Packets of the first epoch sent since its end, in this life, and refusals of it in all.
    private var replayCount = 0
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

    mutating func beginLife(seed: UInt64) { replayCount = 0 }

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
            try readAck(packet) { header, ack in
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
