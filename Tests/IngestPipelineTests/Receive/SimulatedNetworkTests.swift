import IngestFormat
import IngestPipeline
import IngestRing
import PipelineTestSupport
import Testing

@Suite struct SimulatedNetworkTests {
    private typealias Rig = ReceiveRig<SimulatedDatagramSocket>

    /// Everything that became of a run: what the network did, and what came out of the ring.
    private struct Outcome: Equatable {
        var network: SimulatedNetwork.Record
        var sequences: [UInt64]
        var refusals: [PacketResult: UInt64]
    }

    private static func run(
        seed: UInt64, _ faults: NetworkFaults, packets: Int = 400, bufferByteCount: Int = 1 << 20
    ) throws -> Outcome {
        let network = SimulatedNetwork(
            seed: seed, faults: faults, receiveBufferByteCount: bufferByteCount)
        let rig = Rig(SimulatedDatagramSocket(network))
        var sequences: [UInt64] = []
        var refusals: [PacketResult: UInt64] = [:]
        func collect() {
            let records = rig.records()
            sequences += records.filter { $0.header.kind == RingRecordKind.framed }
                .map(\.header.sequence)
            refusals.merge(Rig.refusals(in: records), uniquingKeysWith: +)
        }
        for sequence in 0..<packets {
            network.send(
                TestPackets.batch(UInt64(sequence), byteCount: sequence % 3 == 0 ? 300 : 240))
            if sequence % 50 == 49 {
                try rig.tick()
                collect()
            }
        }
        network.settle()
        try rig.finish()
        collect()
        #expect(rig.counters.receive[.kernelDrops] == UInt64(network.record.dropped))
        return Outcome(network: network.record, sequences: sequences, refusals: refusals)
    }

    @Test func withoutFaultsEveryPacketArrivesInOrder() throws {
        let outcome = try Self.run(seed: 1, NetworkFaults())
        #expect(outcome.sequences == (0..<400).map { UInt64($0) })
        #expect(outcome.refusals.isEmpty)
    }

    @Test(arguments: 0..<16 as Range<UInt64>)
    func everyDatagramThatArrivesIsARecordOrARefusal(seed: UInt64) throws {
        var faults = NetworkFaults()
        faults.lost = 50
        faults.doubled = 50
        faults.reordered = 100
        faults.damaged = 50
        faults.coalesces = seed % 2 == 0
        let outcome = try Self.run(seed: seed, faults)
        let network = outcome.network
        #expect(network.lost > 0 && network.doubled > 0)
        #expect(network.reordered > 0 && network.damaged > 0)
        let arrived = network.sent - network.lost + network.doubled - network.dropped
        let refused = outcome.refusals.values.reduce(0, +)
        #expect(outcome.sequences.count + Int(refused) == arrived)
        #expect(outcome.sequences != outcome.sequences.sorted(), "reordering shows")
        // One flipped bit is never taken for a good packet: what was refused is what was damaged.
        #expect(Int(refused) >= network.damaged)
        #expect(Set(outcome.refusals.keys).isSubset(of: [.badCRC, .badLength, .badMagic]))
        #expect(Set(outcome.sequences).isSubset(of: Set((0..<400).map { UInt64($0) })))
    }

    @Test func theSameSeedGivesTheSameRun() throws {
        var faults = NetworkFaults()
        faults.lost = 100
        faults.doubled = 100
        faults.reordered = 100
        faults.damaged = 100
        #expect(try Self.run(seed: 5, faults) == Self.run(seed: 5, faults))
        #expect(try Self.run(seed: 5, faults) != Self.run(seed: 6, faults))
    }

    @Test func coalescingChangesNothingButTheBuffers() throws {
        var faults = NetworkFaults()
        let single = try Self.run(seed: 3, faults)
        faults.coalesces = true
        #expect(try Self.run(seed: 3, faults) == single)
    }

    @Test func whatDoesNotFitTheReceiveBufferIsDroppedAndCounted() throws {
        let outcome = try Self.run(seed: 1, NetworkFaults(), bufferByteCount: 4000)
        #expect(outcome.network.dropped > 0)
        #expect(outcome.sequences.count + outcome.network.dropped == 400)
    }
}
