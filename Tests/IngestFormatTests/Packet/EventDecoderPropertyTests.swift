import IngestFormat
import SwiftProtobuf
import TestSupport
import Testing

/// The decoder against swift-protobuf, as encoder and as decoder, over random events.
struct EventDecoderPropertyTests {
    @Test(arguments: 0..<20)
    func `Batches of good events come back as swift-protobuf encoded them`(seed: UInt64) throws {
        var generator = EventGenerator(random: SeededRandom(seed: seed))
        for eventCount in [0, 1, 2, 11, 60] {
            let batch = generator.batch(eventCount: eventCount, isValid: true)
            let payload: [UInt8] = try batch.serializedBytes()
            let result = try #require(DecoderHarness.protobuf(payload))
            #expect(result.events.count == eventCount)
            #expect(result.malformed == 0)
            #expect(result == WireOracle.result(payload))
        }
    }

    @Test(arguments: 100..<120)
    func `A bad event is refused by itself, and the rules are those of the schema`(
        seed: UInt64
    ) throws {
        var generator = EventGenerator(random: SeededRandom(seed: seed))
        var malformed = 0
        for _ in 0..<40 {
            let payload: [UInt8] =
                try generator.batch(eventCount: 12, isValid: false).serializedBytes()
            let result = try #require(DecoderHarness.protobuf(payload))
            #expect(result == WireOracle.result(payload))
            malformed += result.malformed
        }
        #expect(malformed > 0)
    }

    /// Unknown fields of every wire type, fields in any order, fields cut out or repeated, submessages in
    /// pieces: each event is taken apart into fields, which are shuffled and mixed with strange ones.
    @Test(arguments: 200..<220)
    func `Reordered, repeated, merged and unknown fields are read as swift-protobuf reads them`(
        seed: UInt64
    ) throws {
        var generator = EventGenerator(random: SeededRandom(seed: seed))
        for _ in 0..<60 {
            var payload: [UInt8] = []
            for _ in 0..<4 {
                var fields: [[UInt8]] = []
                for _ in 0..<1 + generator.random.below(3) {
                    let isValid = !generator.random.oneIn(4)
                    fields += Self.fields(of: generator.event(isValid: isValid))
                }
                for _ in 0..<generator.random.below(4) {
                    fields.append(WireBuilder.unknownField(&generator.random))
                }
                if generator.random.oneIn(2) {
                    fields.append(Self.mismatched(&generator.random))
                }
                fields.shuffle(using: &generator.random)
                payload += WireBuilder.field(1, bytes: fields.flatMap { $0 })
                if generator.random.oneIn(3) {
                    payload += WireBuilder.unknownField(&generator.random)
                }
            }
            let expected = try #require(WireOracle.result(payload))
            #expect(DecoderHarness.protobuf(payload) == expected)
        }
    }

    /// A field of the schema with a wire type that is not its own, which makes it an unknown one.
    private static func mismatched(_ random: inout SeededRandom) -> [UInt8] {
        let number = UInt64(1 + random.below(14))
        switch random.below(4) {
        case 0: return WireBuilder.field(number, fixed64: random.bytes(count: 8))
        case 1: return WireBuilder.field(number, fixed32: random.bytes(count: 4))
        case 2: return WireBuilder.group(number, WireBuilder.unknownField(&random))
        default:
            let isScalar = [1, 4, 7, 10, 11, 14].contains(number)
            return isScalar
                ? WireBuilder.field(number, bytes: random.bytes(count: random.below(20)))
                : WireBuilder.field(number, varint: random.next())
        }
    }

    /// An encoded event cut into its fields, one message for each, by swift-protobuf itself.
    private static func fields(of event: Ingest_V1_Event) -> [[UInt8]] {
        var parts = [Ingest_V1_Event](repeating: .init(), count: 14)
        parts[0].type = event.type
        parts[1].rewardID = event.rewardID
        parts[2].businessID = event.businessID
        parts[3].timestampUs = event.timestampUs
        parts[4].eventID = event.eventID
        parts[5].sessionID = event.sessionID
        parts[6].consent = event.consent
        if event.hasViewability {
            // In two pieces, which a decoder has to merge.
            parts[7].viewability.visiblePpm = event.viewability.visiblePpm
            var rest = Ingest_V1_Event()
            rest.viewability.durationMs = event.viewability.durationMs
            rest.viewability.format = event.viewability.format
            parts.append(rest)
        }
        parts[8].platform = event.platform
        parts[9].revenueMicros = event.revenueMicros
        parts[10].spendMicros = event.spendMicros
        parts[11].campaign = event.campaign
        parts[12].source = event.source
        parts[13].invalidTraffic = event.invalidTraffic
        return parts.compactMap { try? $0.serializedBytes() }
    }

    // MARK: Damage

    /// Of any form, and as encoders write them.
    private static let payloads: [[UInt8]] = {
        var generator = EventGenerator(random: SeededRandom(seed: 300))
        var batch = generator.batch(eventCount: 3, isValid: true)
        batch.events[0].viewability = generator.viewability()
        let unknown = WireBuilder.group(77, WireBuilder.unknownField(&generator.random))
        let encoded: [UInt8] = try! batch.serializedBytes()
        return [encoded + WireBuilder.field(1, bytes: unknown), UsualFormTests.example]
    }()

    @Test(arguments: payloads)
    func `A payload cut at any byte is read as swift-protobuf reads it, never past its end`(
        payload: [UInt8]
    ) {
        for end in 0...payload.count {
            UsualFormTests.isUsual(Array(payload[..<end]), "cut at \(end)")
        }
    }

    @Test(arguments: payloads)
    func `A payload with any one byte changed is read as swift-protobuf reads it`(
        payload: [UInt8]
    ) {
        for at in payload.indices {
            for change in 1...255 as ClosedRange<UInt8> {
                var changed = payload
                changed[at] ^= change
                UsualFormTests.isUsual(changed, "byte \(at) ^ \(change)")
            }
        }
    }

    @Test(arguments: 400..<410, [false, true])
    func `Payloads damaged in many places are read as swift-protobuf reads them`(
        seed: UInt64, isUsual: Bool
    ) throws {
        var generator = EventGenerator(random: SeededRandom(seed: seed))
        var readable = 0
        for _ in 0..<400 {
            var payload: [UInt8] =
                isUsual
                ? UsualFormTests.example + UsualFormTests.example
                : try generator.batch(eventCount: 2, isValid: true).serializedBytes()
            for _ in 0..<1 + generator.random.below(4) where !payload.isEmpty {
                let at = generator.random.below(payload.count)
                switch generator.random.below(isUsual ? 1 : 3) {
                case 0: payload[at] = UInt8(generator.random.below(256))
                case 1: payload.remove(at: at)
                default: payload.insert(UInt8(generator.random.below(256)), at: at)
                }
            }
            UsualFormTests.isUsual(payload, "\(payload)")
            if WireOracle.result(payload) != nil { readable += 1 }
        }
        #expect(readable > 10)
    }
}
