import Foundation
import TestSupport

@testable import IngestClient
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

    /// A stream without acks.
    static func stream(
        _ transport: RecordingTransport, _ delivery: SenderStream.Delivery = .unacked,
        packetByteCountMax: Int = 1_452, endsAtNetworkErrors: Bool = false
    ) -> UnackedRig {
        UnackedRig(transport) {
            $0.delivery = delivery
            $0.packetByteCountMax = packetByteCountMax
            $0.endsAtNetworkErrors = endsAtNetworkErrors
        }
    }
}

/// A stream without acks, whose failures are thrown as `EventSender` does. An event waits for the next tick at most.
struct UnackedRig: ~Copyable {
    private var stream: SenderStream
    private var now: UInt64 = 0

    init(
        _ transport: RecordingTransport, _ change: (inout SenderStream.Configuration) -> Void
    ) {
        var configuration = SenderStream.Configuration(identity: SampleEvents.identity())
        configuration.batchNanosecondsMax = 0
        let nonces = CountedNonces()
        configuration.makeNonce = { nonces.next() }
        change(&configuration)
        stream = SenderStream(
            configuration, transport: transport, spool: nil, now: 0)
    }

    var totals: EventSender.Totals { stream.totals }
    var failure: ClientError? { stream.failure }
    var networkError: ClientError? { stream.obstacle(now: now) }

    private mutating func checked<Value>(
        _ body: (inout SenderStream, UInt64) -> Value
    ) throws(ClientError) -> Value {
        if let failure = stream.failure { throw failure }
        let value = body(&stream, now)
        if let failure = stream.failure, failure != .closed { throw failure }
        return value
    }

    mutating func send(jsonLine: Span<UInt8>) throws(ClientError) -> EventSender.Outcome {
        try checked { $0.send(jsonLine: jsonLine, now: $1) }
    }

    mutating func send(_ event: AdEvent) throws(ClientError) -> EventSender.Outcome {
        try checked { $0.send(event, now: $1) }
    }

    mutating func flush() throws(ClientError) { try checked { $0.flush(now: $1) } }

    mutating func tick(now: UInt64) throws(ClientError) {
        self.now = now
        try checked { $0.tick(now: $1) }
    }

    mutating func close() throws(ClientError) -> EventSender.Totals {
        try checked {
            $0.finish(now: $1)
            return $0.totals
        }
    }
}

/// The events of batch packets, by swift-protobuf.
func decodedEvents(_ packets: [FramedPacket]) throws -> [Ingest_V1_Event] {
    try packets.flatMap { try Ingest_V1_EventBatch(serializedBytes: $0.payload).events }
}
