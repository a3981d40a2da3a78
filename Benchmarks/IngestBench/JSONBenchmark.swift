import IngestFormat

/// JSON lines decoded into rows, hashes taken, from memory and on one core: what an event costs the receive queue by
/// itself, for lines of the usual form and for others.
enum JSONMeasurement {
    private static let lineCount = 20_000
    private static let roundCount = 30
    /// What a datagram on a path of 1,500 bytes has room for.
    private static let packetByteCountMax = 1_472

    static func reportAll() {
        var mix = EventMix(EventMix.Options(rewardCount: 1_000_000))
        var random = SeededRandom(seed: 2)
        let lines = (0..<lineCount).map { _ in line(mix.next(), mix.bytes, &random) }
        let byteCount = lines.reduce(0) { $0 + $1.utf8.count }
        Report.line("bytes a line", "\(byteCount / lineCount)")
        report("usual form", lines)
        report("one a packet", lines, packetByteCountMax: 1)
        // A tab that JSON allows takes a line out of the usual form.
        report("other form", lines.map { "{\t" + $0.dropFirst() })
    }

    private static func line(
        _ event: EventDescriptor, _ bytes: [UInt8], _ random: inout SeededRandom
    ) -> String {
        func text(_ offset: UInt16, _ byteCount: UInt8) -> String {
            String(decoding: bytes[Int(offset)...].prefix(Int(byteCount)), as: UTF8.self)
        }
        func digits(_ count: Int) -> String {
            var all = ""
            for _ in 0..<count { all += String(random.next() % 16, radix: 16) }
            return all
        }
        let id = [8, 4, 4, 4, 12].map(digits).joined(separator: "-")
        var metadata = "\"platform\":\"\(text(event.platformOffset, event.platformByteCount))\""
        if event.flags & EventDescriptor.Flags.isMeasured != 0 {
            metadata += ",\"viewability\":0.\(100_000 + random.next() % 900_000)"
            metadata += ",\"duration\":\(random.next() % 9).\(100 + random.next() % 900)"
        }
        if event.revenueMicros > 0 { metadata += ",\"revenue\":\"12.50\",\"spend\":\"0.31\"" }
        let type = ["impression", "click", "redemption"][Int(event.type) - 1]
        return """
            {"eventType":"\(type)","rewardId":"\(text(event.rewardOffset, event.rewardByteCount))",\
            "businessId":"\(text(event.businessOffset, event.businessByteCount))",\
            "timestamp":"2026-11-20T10:\(10 + random.next() % 50):\(10 + random.next() % 50).123Z",\
            "eventId":"\(id)","consent":"optIn","metadata":{\(metadata)}}
            """
    }

    private static func report(
        _ name: String, _ lines: [String], packetByteCountMax: Int = Self.packetByteCountMax
    ) {
        let packets = packets(lines, packetByteCountMax)
        let decoder = JSONEventDecoder(hash: KeyedHash(key: .init(repeating: 7)))
        let scratch = EventScratch()
        var rows = PacketRows()
        var copy = [UInt8](repeating: 0, count: Limits.packetByteCountMax)
        var rowCount = 0
        let best = ThreadTime.best(ofRounds: roundCount) {
            rowCount = 0
            for packet in packets {
                // Decoded in a copy, as escapes and UUIDs are replaced in place.
                copy.replaceSubrange(..<packet.count, with: packet)
                // SAFETY: the copy has room for any packet, and the scratch for its events.
                unsafe copy.withUnsafeMutableBytes {
                    _ = unsafe decoder.decode(
                        packet: $0.baseAddress!, payloadOffset: 0, payloadByteCount: packet.count,
                        onlyOf: nil, into: &rows, by: scratch)
                }
                rowCount += rows.count
            }
        }
        Report.cost("\(name), \(rowCount) rows", best, lines.count, "ns/event")
    }

    /// As many lines as fit one packet, one at least.
    private static func packets(_ lines: [String], _ byteCountMax: Int) -> [[UInt8]] {
        var packets: [[UInt8]] = []
        var packet: [UInt8] = []
        for line in lines {
            if !packet.isEmpty, packet.count + 1 + line.utf8.count > byteCountMax {
                packets.append(packet)
                packet = []
            }
            if !packet.isEmpty { packet.append(0x0A) }
            packet += line.utf8
        }
        return packets + [packet]
    }
}
