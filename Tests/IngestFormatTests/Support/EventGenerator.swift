import Foundation
import IngestFormat
import SwiftProtobuf
import TestSupport

/// Random events, good and bad, as messages of the published schema.
struct EventGenerator {
    var random: SeededRandom

    mutating func batch(eventCount: Int, isValid: Bool) -> Ingest_V1_EventBatch {
        var batch = Ingest_V1_EventBatch()
        batch.events = (0..<eventCount).map { _ in event(isValid: isValid || !random.oneIn(3)) }
        if random.oneIn(4) { batch.padding = Data(count: random.below(300)) }
        return batch
    }

    mutating func event(isValid: Bool) -> Ingest_V1_Event {
        var event = Ingest_V1_Event()
        event.type = [.impression, .click, .redemption][random.below(3)]
        event.rewardID = text(1...128)
        event.businessID = text(1...128)
        event.timestampUs = Int64(random.below(1 << 52))
        if random.oneIn(2) { event.eventID = Data(random.bytes(count: random.below(65))) }
        if random.oneIn(3) { event.sessionID = text(0...64) }
        event.consent = [.notSet, .optIn, .optOut][random.below(3)]
        if random.oneIn(2) { event.viewability = viewability() }
        if random.oneIn(3) { event.platform = ["iOS", "tvOS", "", text(1...64)][random.below(4)] }
        if random.oneIn(3) { event.revenueMicros = Int64(random.below(1 << 40)) }
        if random.oneIn(3) {
            event.spendMicros = Int64(random.below(Int(Limits.moneyMicrosMax) + 1))
        }
        if random.oneIn(4) { event.campaign = text(0...64) }
        if random.oneIn(4) { event.source = text(0...64) }
        event.invalidTraffic = random.oneIn(5)
        if !isValid { spoil(&event) }
        return event
    }

    mutating func viewability() -> Ingest_V1_Viewability {
        var viewability = Ingest_V1_Viewability()
        if !random.oneIn(4) { viewability.visiblePpm = UInt32(random.below(1_000_001)) }
        if !random.oneIn(4) { viewability.durationMs = UInt32(truncatingIfNeeded: random.next()) }
        viewability.format = [.display, .largeDisplay, .video][random.below(3)]
        return viewability
    }

    /// Breaks one rule of the schema (or has the attribution dropped, or the time taken into its range).
    private mutating func spoil(_ event: inout Ingest_V1_Event) {
        switch random.below(16) {
        case 0: event.type = .unspecified
        case 1: event.type = .UNRECOGNIZED(4 + random.below(1000))
        case 2: event.rewardID = ""
        case 3: event.rewardID = String(repeating: "r", count: 129 + random.below(400))
        case 4: event.businessID = ""
        case 5: event.businessID = String(repeating: "ü", count: 65)
        case 6: event.timestampUs = -1 - Int64(random.below(1000))
        case 7: event.timestampUs = .max - Int64(random.below(1000))
        case 8: event.eventID = Data(count: 65 + random.below(300))
        case 9: event.sessionID = String(repeating: "s", count: 65 + random.below(300))
        case 10: event.consent = .UNRECOGNIZED(-1)
        case 11: event.viewability.visiblePpm = 1_000_001
        case 12: event.viewability.format = .UNRECOGNIZED(3)
        case 13: event.revenueMicros = random.oneIn(2) ? -1 : .max
        case 14: event.spendMicros = random.oneIn(2) ? .min : Limits.moneyMicrosMax + 1
        default:
            event.platform = "someone@example.com"
            event.campaign = String(repeating: "c", count: 65 + random.below(300))
        }
    }

    /// Text of a byte count within `range`: mostly ASCII, sometimes of all of Unicode. No `@`.
    mutating func text(_ range: ClosedRange<Int>) -> String {
        let target = range.lowerBound + random.below(min(range.count, random.oneIn(4) ? 1000 : 24))
        var text = ""
        var byteCount = 0
        let isASCII = !random.oneIn(4)
        while byteCount < target {
            let scalar: Unicode.Scalar
            if isASCII {
                scalar = Unicode.Scalar(UInt8(ascii: "a") + UInt8(random.below(26)))
            } else {
                let bound = [0x7F, 0x7FF, 0xFFFF, 0x110000][random.below(4)]
                scalar = Unicode.Scalar(UInt32(random.below(bound))) ?? "x"
            }
            let width = UTF8.width(scalar)
            if scalar == "@" || byteCount + width > target { continue }
            text.unicodeScalars.append(scalar)
            byteCount += width
        }
        return text
    }
}
