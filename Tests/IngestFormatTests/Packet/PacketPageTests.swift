import Foundation
import IngestFormat
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

    @Test func `The page names results as the code does`() {
        let named = page.table(under: "What the daemon answers and counts")
            .compactMap { $0["result"] }
        #expect(named.count == 8)
        #expect(Set(named).isSubset(of: PacketResult.allCases.map(\.name)))
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
        golden[40] ^= 1
        #expect(golden.withUnsafeBytes { PacketHeader.parse($0) } == .refused(.badCRC))
    }
}
