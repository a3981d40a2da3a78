import IngestFormat
import TestSupport

/// What the fuzzing of event decoders starts from.
enum EventSeeds {
    /// A line with everything, one with metadata in a string, and three lines in one datagram.
    static let lines: [[UInt8]] = [
        Array(
            #"""
            {"eventType":"redemption","rewardId":"r-1","businessId":"b-ü","timestamp":1795168800123,\#
            "eventId":"424dc7f0-7a1c-5502-bfd1-562d5e27f831","sessionId":"s\u00e9\ud83d\ude00",\#
            "consent":"optIn","metadata":{"viewability":"0.75","duration":1.5e0,"format":"video",\#
            "platform":"iOS","revenue":"12.50","spend":0.000001,"campaign":"c","source":7,"x":[null,{}]},\#
            "invalidTraffic":true}
            """#.utf8),
        Array(
            #"""
            {"eventType":"click","rewardId":"r","businessId":"b","timestamp":"2026-11-20T10:00:00.5+01:00",\#
            "metadata":"{\"viewability\":1,\"duration\":\"2\",\"eventId\":\"e\",\"consent\":\"notSet\",\"invalidTraffic\":\"true\"}"}
            """#.utf8),
        Array(
            #"""
            {"eventType":"impression","rewardId":"r","businessId":"b","timestamp":0}
            {}
            {"eventType":"click","rewardId":"r","businessId":"b","timestamp":"2024-02-29T23:59:60Z"}
            """#.utf8),
    ]

    /// The events of the lines as a batch, with unknown fields of every wire type behind them.
    static let payload: [UInt8] = {
        var encoder = EventBatchEncoder(packetByteCountMax: 1472)
        for line in lines {
            for event in DecoderHarness.json(line)?.events ?? [] {
                let (descriptor, source) = event.descriptor
                _ = source.withUnsafeBytes { encoder.append(descriptor, from: $0) }
            }
        }
        let header = PacketHeader(
            kind: .batch, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 1),
            sequence: PacketSequence(rawValue: 0))
        let unknown: [UInt8] = [
            0xA0, 0x01, 0x96, 0x01, 0xA1, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 0xA2, 0x01, 2, 9, 9,
            0xA3, 0x01, 0x08, 0x01, 0xA4, 0x01, 0xA5, 0x01, 1, 2, 3, 4, 0x7A, 0x02, 0, 0,
        ]
        let event: [UInt8] = [0x0A, UInt8(unknown.count)] + unknown
        return Array(encoder.seal(header)[PacketHeader.byteCount...]) + event + unknown
    }()
}
