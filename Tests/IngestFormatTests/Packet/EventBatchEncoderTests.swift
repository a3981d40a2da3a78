import Foundation
import IngestFormat
import SwiftProtobuf
import TestSupport
import Testing

struct EventBatchEncoderTests {
    private static let header = PacketHeader(
        kind: .batch, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 2),
        sequence: PacketSequence(rawValue: 3))

    /// Decodes `payload` and encodes its events again, into as many packets as it takes.
    private static func packets(
        _ payload: [UInt8], packetByteCountMax: Int, isPadded: Bool
    ) -> [[UInt8]] {
        let scratch = EventScratch()
        var encoder = EventBatchEncoder(packetByteCountMax: packetByteCountMax)
        var packets: [[UInt8]] = []
        payload.withUnsafeBytes { bytes in
            let outcome = EventDecoder(hash: DecoderHarness.hash).decode(
                bytes, payloadOffset: 0, payloadByteCount: bytes.count, into: scratch)
            guard case .events(let count, _, _) = outcome else { return }
            for i in 0..<count {
                if encoder.append(scratch[i], from: bytes) { continue }
                packets.append(encoder.seal(header, isPadded: isPadded))
                let isTaken = encoder.append(scratch[i], from: bytes)
                #expect(isTaken)
            }
            packets.append(encoder.seal(header, isPadded: isPadded))
        }
        return packets
    }

    @Test(arguments: 500..<510)
    func `What is decoded and encoded again is, for swift-protobuf too, what it was`(
        seed: UInt64
    ) throws {
        var generator = EventGenerator(random: SeededRandom(seed: seed))
        for _ in 0..<20 {
            let payload: [UInt8] =
                try generator.batch(eventCount: 30, isValid: true).serializedBytes()
            let isPadded = generator.random.oneIn(2)
            let byteCountMax = 1472 + generator.random.below(3)
            let packets = Self.packets(
                payload, packetByteCountMax: byteCountMax, isPadded: isPadded)
            var events: [DecodedEvent] = []
            for packet in packets {
                #expect(isPadded ? packet.count == byteCountMax : packet.count <= byteCountMax)
                let parsed = packet.withUnsafeBytes { PacketHeader.parse($0) }
                guard case .packet(let header) = parsed else {
                    Issue.record("refused")
                    return
                }
                #expect(header.sequence == Self.header.sequence)
                let result = try #require(WireOracle.result(Array(packet[40...])))
                #expect(result.malformed == 0)
                events += result.events
            }
            #expect(events == WireOracle.result(payload)?.events)
        }
    }

    /// An event of each size, so that every gap that can be left is padded.
    @Test func `A padded packet has the same size whatever gap is left`() throws {
        for count in 1...64 {
            var event = Ingest_V1_Event()
            event.type = .click
            event.rewardID = "r"
            event.businessID = "b"
            event.eventID = Data(count: count)
            var batch = Ingest_V1_EventBatch()
            batch.events = [event]
            let payload: [UInt8] = try batch.serializedBytes()
            for byteCountMax in [40 + payload.count, 40 + payload.count + 2, 300] {
                let packets = Self.packets(
                    payload, packetByteCountMax: byteCountMax, isPadded: true)
                #expect(packets.map(\.count) == [byteCountMax])
                #expect(WireOracle.result(Array(packets[0][40...])) == WireOracle.result(payload))
            }
        }
    }
}
