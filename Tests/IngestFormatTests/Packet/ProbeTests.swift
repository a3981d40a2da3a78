import IngestFormat
import Testing

/// Probes and their answers, to the byte.
struct ProbeTests {
    private static let header = PacketHeader(
        kind: .probe, sender: SenderID(rawValue: 9), epoch: SenderEpoch(rawValue: 8),
        sequence: PacketSequence(rawValue: 0))

    @Test("A probe has nonce, time and zeros, and reads as what it was")
    func probe() throws {
        let probe = Probe(nonce: 0x0102_0304_0506_0708, unixMicroseconds: -2)
        let packet = probe.packet(Self.header)
        let payload = [8, 7, 6, 5, 4, 3, 2, 1, 254] + [UInt8](repeating: 255, count: 7)
        #expect(packet.count == 104)
        #expect(Array(packet[40...]) == payload + [UInt8](repeating: 0, count: 48))
        packet.withUnsafeBytes {
            guard case .packet(let header) = PacketHeader.parse($0) else {
                Issue.record("refused")
                return
            }
            #expect(header.kind == .probe && header.payloadByteCount == 64)
            #expect(PacketHeader.parse($0, for: .sender) == .refused(.badKind))
        }
        #expect(Array(packet[40...]).withUnsafeBytes { Probe($0) } == probe)
        for place in 40..<packet.count {
            var changed = Array(packet[40...])
            changed[place - 40] ^= 1
            let read = changed.withUnsafeBytes { Probe($0) }
            #expect(read != probe && (read == nil) == (place >= 56))
        }
    }

    @Test("A probe of less than 64 bytes is of a bad length", arguments: [0, 1, 63])
    func short(byteCount: Int) {
        var packet = [UInt8](repeating: 0, count: 40 + byteCount)
        var header = Self.header
        header.seal(&packet)
        #expect(packet.withUnsafeBytes { PacketHeader.parse($0) } == .refused(.badLength))
        #expect([UInt8](repeating: 0, count: byteCount).withUnsafeBytes { Probe($0) } == nil)
    }

    @Test("An answer is 72 bytes, smaller than any probe, and what a later version adds is passed")
    func answer() {
        var answer = ProbeAnswer(
            nonce: 5, unixMicroseconds: 1_763_600_000_000_000,
            directory: DirectoryID(rawValue: 0xABCD))
        (answer.lowestVersion, answer.highestVersion) = (2, 3)
        answer.packetByteCountMax = 9_000
        var header = Self.header
        header.kind = .probeAnswer
        var bytes = [UInt8](repeating: 0xEE, count: 100)
        let count = bytes.withUnsafeMutableBytes { answer.encode(into: $0, header) }
        #expect(count == 72 && ProbeAnswer.byteCount(hasTag: false) == 72)
        #expect(bytes[72...].allSatisfy { $0 == 0xEE })
        #expect(Array(bytes[64..<72]) == [2, 0, 3, 0, 0x28, 0x23, 0, 0])
        for extra in [0, 8] {
            var packet = Array(bytes[..<72]) + [UInt8](repeating: 1, count: extra)
            header.seal(&packet)
            packet.withUnsafeBytes {
                guard case .packet(let header) = PacketHeader.parse($0, for: .sender) else {
                    Issue.record("refused")
                    return
                }
                #expect(ProbeAnswer(header, of: $0) == answer)
                #expect(PacketHeader.parse($0) == .refused(.badKind))
            }
        }
        var short = Array(bytes[..<71])
        header.seal(&short)
        #expect(short.withUnsafeBytes { ProbeAnswer(header, of: $0) } == nil)
    }
}
