import IngestFormat
import TestSupport
import Testing

/// The same three events, which use every field of version 1, as the official protobuf package for Python
/// wrote them and as lines of JSON.
struct GoldenBatchTests {
    private let payload: [UInt8]
    private let lines: [UInt8]

    init() throws {
        payload = try Repository.fixture("v1/batch.bin")
        lines = try Repository.fixture("v1/batch.ndjson")
    }

    @Test func `The golden batch and the golden lines are the same events`() throws {
        let framed = try #require(DecoderHarness.protobuf(payload))
        #expect(framed.events.count == 3)
        #expect(framed.malformed == 0)
        #expect(DecoderHarness.json(lines) == framed)
        #expect(framed.events[2].timestamp == 1_795_215_599_999_999)
        #expect(framed.events[2].measured == .init(visible: 0, duration: 0, format: 0))
    }

    @Test func `The lines are encoded to the golden batch, byte for byte`() {
        let scratch = EventScratch()
        var encoder = EventBatchEncoder(packetByteCountMax: 1472)
        var datagram = lines
        datagram.withUnsafeMutableBytes { bytes in
            let outcome = JSONEventDecoder(hash: DecoderHarness.hash).decode(bytes, into: scratch)
            #expect(outcome == .events(count: 3, malformed: 0, dropped: 1))
            for i in 0..<3 {
                let isTaken = encoder.append(scratch[i], from: UnsafeRawBufferPointer(bytes))
                #expect(isTaken)
            }
        }
        let packet = encoder.seal(
            PacketHeader(
                kind: .batch, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 2),
                sequence: PacketSequence(rawValue: 0)))
        #expect(Array(packet[PacketHeader.byteCount...]) == payload)
    }
}
