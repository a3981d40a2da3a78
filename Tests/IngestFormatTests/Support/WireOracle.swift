import SwiftProtobuf
import TestSupport

@testable import IngestFormat

/// What a protobuf payload should decode to: swift-protobuf reads the wire format, and the rules of the
/// schema are written out once more, in the plainest way.
enum WireOracle {
    static func result(_ payload: [UInt8]) -> DecoderHarness.Result? {
        guard let batch = try? Oracle_Batch(serializedBytes: payload) else { return nil }
        var result = DecoderHarness.Result()
        for event in batch.events {
            if let decoded = decoded(event) {
                result.events.append(decoded)
            } else {
                result.malformed += 1
            }
        }
        return result
    }

    private static func decoded(_ event: Oracle_Event) -> DecodedEvent? {
        guard (1...3).contains(event.type), (0...2).contains(event.consent),
            (0...2).contains(event.viewability.format), event.viewability.visiblePpm <= 1_000_000,
            isText(event.rewardID, 1...128), isText(event.businessID, 1...128),
            isText(event.sessionID, 0...64), event.eventID.count <= 64,
            (0...Limits.moneyMicrosMax).contains(event.revenueMicros),
            (0...Limits.moneyMicrosMax).contains(event.spendMicros)
        else { return nil }
        var decoded = DecodedEvent()
        decoded.type = UInt8(event.type)
        decoded.reward = Array(event.rewardID)
        decoded.business = Array(event.businessID)
        // What is before or behind the range is too old or too early, not malformed.
        if event.timestampUs > Limits.timestampMicrosecondsMax {
            decoded.timestamp = Limits.timestampMicrosecondsMax
        } else {
            decoded.timestamp = event.timestampUs < 0 ? 0 : event.timestampUs
        }
        decoded.eventID = Array(event.eventID)
        decoded.session = Array(event.sessionID)
        decoded.consent = UInt8(event.consent)
        if event.hasViewability {
            decoded.measured = .init(
                visible: event.viewability.visiblePpm, duration: event.viewability.durationMs,
                format: UInt8(event.viewability.format))
        }
        decoded.platform = attribution(event.platform)
        decoded.revenue = event.revenueMicros
        decoded.spend = event.spendMicros
        decoded.campaign = attribution(event.campaign)
        decoded.source = attribution(event.source)
        decoded.isInvalidTraffic = event.invalidTraffic
        return decoded
    }

    private static func isText(_ bytes: some Collection<UInt8>, _ count: ClosedRange<Int>) -> Bool {
        count.contains(bytes.count) && String(validating: bytes, as: UTF8.self) != nil
    }

    private static func attribution(_ bytes: some Collection<UInt8>) -> [UInt8] {
        isText(bytes, 0...64) && !bytes.contains(UInt8(ascii: "@")) ? Array(bytes) : []
    }
}
