import Foundation
import IngestClient

@testable import IngestFormat

/// JSON events of many sizes, and what an independent reader makes of them.
enum SampleEvents {
    /// A valid event; the number decides its texts, so that lines differ in length.
    static func line(_ number: Int) -> String {
        let kinds = ["impression", "click", "redemption"]
        var fields = [
            "\"eventType\":\"\(kinds[number % 3])\"",
            "\"rewardId\":\"r-\(String(repeating: "x", count: number * 7 % 90))\(number)\"",
            "\"businessId\":\"b-\(number % 5)\"",
            "\"timestamp\":\(1_700_000_000_000 + number)",
        ]
        if number % 2 == 0 { fields.append("\"eventId\":\"event-\(number)\"") }
        if number % 5 == 0 { fields.append("\"sessionId\":\"s-\(number)\"") }
        if number % 4 == 0 {
            fields.append(
                "\"metadata\":{\"viewability\":\"0.75\",\"duration\":\"1.5\",\"platform\":\"tvOS\"}"
            )
        }
        return "{" + fields.joined(separator: ",") + "}"
    }

    /// Likewise as a value.
    static func event(_ number: Int) -> AdEvent {
        var event = AdEvent(
            AdEvent.Kind.allCases[number % 3],
            rewardID: "r-" + String(repeating: "x", count: number * 7 % 90),
            businessID: "b-\(number % 5)",
            timestampMicroseconds: 1_700_000_000_000_000 + Int64(number))
        event.eventID = (0..<number % 65).map { UInt8(truncatingIfNeeded: $0 + number) }
        return event
    }

    static func identity(sender: UInt64 = 7, epoch: UInt64 = 9) -> SenderIdentity {
        SenderIdentity(
            sender: SenderID(rawValue: sender), epoch: SenderEpoch(rawValue: epoch))
    }

    static func stream(
        _ transport: RecordingTransport, packetByteCountMax: Int = 1_452,
        endsAtAnswers: Bool = false
    ) -> PacketStream {
        PacketStream(
            identity: identity(), packetByteCountMax: packetByteCountMax,
            endsAtAnswers: endsAtAnswers, transport: transport)
    }
}

/// The events of batch packets, by swift-protobuf.
func decodedEvents(_ packets: [FramedPacket]) throws -> [Ingest_V1_Event] {
    try packets.flatMap { try Ingest_V1_EventBatch(serializedBytes: $0.payload).events }
}
