import Foundation
import IngestFormat
import TestSupport
import Testing

/// docs/format/packet.md against the code, and both against the golden packet.
struct PacketPageTests {
    private let page: FormatPage

    init() throws { page = try FormatPage("packet") }

    @Test func `The page's header is the code's`() {
        let fields = page.fields(under: "Header")
        #expect(
            fields.map { "\($0.name) \($0.offset)" } == [
                "magic \(PacketHeader.Offset.magic)", "kind \(PacketHeader.Offset.kind)",
                "flags \(PacketHeader.Offset.flags)", "key id \(PacketHeader.Offset.keyID)",
                "sender \(PacketHeader.Offset.sender)", "epoch \(PacketHeader.Offset.epoch)",
                "sequence \(PacketHeader.Offset.sequence)",
                "payload byte count \(PacketHeader.Offset.payloadByteCount)",
                "checksum \(PacketHeader.Offset.checksum)",
            ])
        #expect(zip(fields, fields.dropFirst()).allSatisfy { $0.end == $1.offset })
        #expect(fields.last?.end == PacketHeader.byteCount)
    }

    @Test func `The page lists the kinds that there are`() {
        let meaning = page.table(under: "Header").first { $0["field"] == "kind" }?["meaning"]
        let listed = meaning?.split(separator: ", ").compactMap { $0.split(separator: " ").first }
        #expect(listed?.map(String.init) == PacketKind.allCases.map { "\($0.rawValue)" })
    }

    /// A datagram for each result that the header decides; the others are those of the pipeline.
    private static func datagram(for result: PacketResult) throws -> [UInt8]? {
        var packet = try Repository.fixture("v1/packet.bin")
        switch result {
        case .badMagic: packet[3] = UInt8(ascii: "2")
        case .badLength: packet.removeLast()
        case .badCRC: packet[packet.count - 1] ^= 1
        case .badKind:
            packet[4] = 0
            packet = packet.sealedPacket()
        default: return nil
        }
        return packet
    }

    @Test func `The page lists the results that there are, in the order of their checks`() throws {
        let expected: [PacketResult] = [
            .truncated, .badLength, .badMagic, .badLength, .badCRC, .badTag, .unauthenticated,
            .badKind, .shed, .oldEpoch, .badKind, .farJump, .resend, .sequenceConflict,
            .belowFloor, .malformed, .accepted,
        ]
        let named = page.table(under: "What the daemon answers and counts")
            .compactMap { $0["result"] }
        #expect(named == expected.map(\.name))
        for result in expected {
            guard let packet = try Self.datagram(for: result) else { continue }
            #expect(packet.withUnsafeBytes { PacketHeader.parse($0) } == .refused(result))
        }
    }

    @Test func `The page's limits are the code's`() {
        let limits = page.numbers(under: "Limits", column: "at most")
        #expect(
            limits == [
                "packet": "\(Limits.packetByteCountMax)",
                "reward, business": "\(Limits.nameByteCountMax)",
                "platform, campaign, source": "\(Limits.attributionByteCountMax)",
                "event id": "\(Limits.eventIDByteCountMax)",
                "session id": "\(Limits.sessionIDByteCountMax)",
                "revenue, spend": "\(Limits.moneyMicrosMax)",
                "duration": "\(UInt32.max)",
            ])
    }

    @Test func `The heartbeat of the page is the golden one, and is what is encoded`() throws {
        let golden = try Repository.fixture("v1/heartbeat.bin")
        #expect(page.hex(under: "Heartbeat, worked example") == golden)
        let header = PacketHeader(
            kind: .heartbeat, flags: PacketHeader.Flags.isAckWanted, sender: SenderID(rawValue: 77),
            epoch: SenderEpoch(rawValue: 0x19AA_0B4E_1001_2345),
            sequence: PacketSequence(rawValue: 10))
        let content = Heartbeat(base: 9, seen: 8, nonce: 0xFEED_5EED_0000_0001)
        #expect(content.packet(header) == golden)
    }

    @Test func `The page's answer to a probe is the code's`() {
        let fields = page.fields(under: "Answer to a probe")
        #expect(
            fields.map { "\($0.name) \($0.offset)" } == [
                "nonce \(ProbeAnswer.Offset.nonce)", "time \(ProbeAnswer.Offset.time)",
                "directory \(ProbeAnswer.Offset.directory)",
                "lowest version \(ProbeAnswer.Offset.lowestVersion)",
                "highest version \(ProbeAnswer.Offset.highestVersion)",
                "largest packet \(ProbeAnswer.Offset.packetByteCountMax)",
            ])
        #expect(zip(fields, fields.dropFirst()).allSatisfy { $0.end == $1.offset })
        #expect(fields.last?.end == ProbeAnswer.payloadByteCount)
    }

    @Test func `The worked example is the golden packet, and reads as the page says`() throws {
        let url = Repository.root.appending(path: "Tests/Fixtures/v1/packet.bin")
        var golden = [UInt8](try Data(contentsOf: url))
        #expect(page.hex(under: "Worked example") == golden)
        let parsed = golden.withUnsafeBytes { PacketHeader.parse($0) }
        guard case .packet(let header) = parsed else {
            Issue.record("\(parsed)")
            return
        }
        #expect(header.kind == .batch)
        #expect(header.sender.rawValue == 77)
        #expect(header.sequence.rawValue == 0)
        #expect(header.payloadByteCount == 29)
        #expect(
            page.hex(under: "Tagged, worked example") == (try Repository.fixture("v1/tagged.bin")))
        golden[40] ^= 1
        #expect(golden.withUnsafeBytes { PacketHeader.parse($0) } == .refused(.badCRC))
    }

    @Test func `The JSON batch of the page is the golden one, and is what its lines seal to`()
        throws
    {
        let golden = try Repository.fixture("v1/json-batch.bin")
        #expect(page.hex(under: "JSON batch, worked example") == golden)
        let lines = Array(golden[PacketHeader.byteCount...])
        let click = try #require(DecoderHarness.json(lines)?.events.first)
        #expect(click.reward == Array("r-1".utf8) && click.timestamp == 1_763_632_800_000_000)
        var header = PacketHeader(
            kind: .jsonBatch, flags: PacketHeader.Flags.isAckWanted, sender: SenderID(rawValue: 77),
            epoch: SenderEpoch(rawValue: 0x19AA_0B4E_1001_2345),
            sequence: PacketSequence(rawValue: 2))
        var made = [UInt8](repeating: 0, count: PacketHeader.byteCount) + lines
        header.seal(&made)
        #expect(made == golden)
    }
}
