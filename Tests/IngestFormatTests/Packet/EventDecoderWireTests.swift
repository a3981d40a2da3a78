import IngestFormat
import SwiftProtobuf
import TestSupport
import Testing

/// The corners of the wire format, by hand, with swift-protobuf as the judge where it has an opinion.
struct EventDecoderWireTests {
    typealias Wire = WireBuilder

    /// The least that an event needs, in front of `more`.
    private static func event(_ more: [UInt8]) -> [UInt8] {
        Wire.field(
            1,
            bytes: Wire.field(1, varint: 2) + Wire.field(2, bytes: Array("r".utf8))
                + Wire.field(3, bytes: Array("b".utf8)) + Wire.field(4, varint: 1_700_000) + more)
    }

    private static let plain: DecodedEvent = {
        var event = DecodedEvent()
        event.type = 2
        event.reward = Array("r".utf8)
        event.business = Array("b".utf8)
        event.timestamp = 1_700_000
        return event
    }()

    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var payload: [UInt8]
        /// The one event that is decoded; `nil` where the packet is malformed.
        var expected: DecodedEvent?
        var testDescription: String { name }

        init(
            _ name: String, _ payload: [UInt8], isMalformed: Bool = false,
            _ change: (inout DecodedEvent) -> Void = { _ in }
        ) {
            self.name = name
            self.payload = payload
            var event = plain
            change(&event)
            expected = isMalformed ? nil : event
        }
    }

    static let cases: [Case] = [
        Case("as it is", event([])),
        Case("tag of five bytes", event(Wire.varint(7 << 3, byteCount: 5) + [1])) {
            $0.consent = 1
        },
        Case(
            "length of ten bytes",
            event(Wire.varint(9 << 3 | 2) + Wire.varint(1, byteCount: 10) + [0x69])
        ) {
            $0.platform = [0x69]
        },
        Case("value of ten bytes", event(Wire.field(7, varint: 2, byteCount: 10))) {
            $0.consent = 2
        },
        Case(
            "tenth byte with bits beyond 64",
            event([7 << 3, 0x82] + [UInt8](repeating: 0x80, count: 8) + [0x7E])
        ) {
            $0.consent = 2
        },
        Case(
            "eleven bytes of varint", event([7 << 3] + [UInt8](repeating: 0x80, count: 10) + [1]),
            isMalformed: true),
        Case("enum of which the low 32 bits count", event(Wire.field(7, varint: 1 << 32 | 1))) {
            $0.consent = 1
        },
        Case("true by any bit", event(Wire.field(14, varint: 1 << 63))) {
            $0.isInvalidTraffic = true
        },
        Case("true, then false", event(Wire.field(14, varint: 1) + Wire.field(14, varint: 0))),
        Case("empty viewability is measured", event(Wire.field(8, bytes: []))) {
            $0.measured = .init(visible: 0, duration: 0, format: 0)
        },
        Case(
            "viewability in pieces is merged",
            event(
                Wire.field(8, bytes: Wire.field(1, varint: 5) + Wire.field(3, varint: 2))
                    + Wire.field(8, bytes: Wire.field(2, varint: 6) + Wire.field(1, varint: 7)))
        ) { $0.measured = .init(visible: 7, duration: 6, format: 2) },
        Case(
            "duration of which the low 32 bits count",
            event(Wire.field(8, bytes: Wire.field(2, varint: 1 << 32 | 9)))
        ) {
            $0.measured = .init(visible: 0, duration: 9, format: 0)
        },
        Case(
            "unknown field in the viewability",
            event(Wire.field(8, bytes: Wire.field(4, bytes: [1, 2])))
        ) {
            $0.measured = .init(visible: 0, duration: 0, format: 0)
        },
        Case("a time before 1970", event(Wire.field(4, varint: UInt64(bitPattern: -1)))) {
            $0.timestamp = 0
        },
        Case("the least time", event(Wire.field(4, varint: 1 << 63))) { $0.timestamp = 0 },
        Case("the greatest time", event(Wire.field(4, varint: .max >> 1))) {
            $0.timestamp = Limits.timestampMicrosecondsMax
        },
        Case(
            "one more than the last time that there is",
            event(Wire.field(4, varint: UInt64(Limits.timestampMicrosecondsMax) + 1))
        ) {
            $0.timestamp = Limits.timestampMicrosecondsMax
        },
        Case("no time", event(Wire.field(4, varint: 0))) { $0.timestamp = 0 },
        Case("viewability as a number is unknown", event(Wire.field(8, varint: 3))),
        Case("padding", event([]) + Wire.field(15, bytes: [UInt8](repeating: 0, count: 500))),
        Case("padding as a number is unknown", event([]) + Wire.field(15, varint: 3)),
        Case("events as a number is unknown", event([]) + Wire.field(1, varint: 3)),
        Case("highest field number", event(Wire.field((1 << 29) - 1, varint: 3))),
        Case("a group", event(Wire.group(20, Wire.field(1, varint: 3) + Wire.group(1, [])))),
        Case("a group of the schema's number", event(Wire.group(2, Wire.field(2, bytes: [1])))),
        Case("a group around the batch's fields", event([]) + Wire.group(1, event([]))),
        Case("groups nested 90 deep", event(nested(90))),
        Case("groups nested 101 deep", event(nested(101)), isMalformed: true),
        Case("groups nested 30,000 deep", nested(30_000), isMalformed: true),
        Case("field number 0", event(Wire.field(0, varint: 1)), isMalformed: true),
        Case("field number 0 as a group", event(Wire.group(0, [])), isMalformed: true),
        Case(
            "field number 0 inside a group", event(Wire.group(20, Wire.field(0, varint: 1))),
            isMalformed: true),
        Case("tag over 32 bits", event(Wire.varint(1 << 32 | 7 << 3) + [1]), isMalformed: true),
        Case("wire type 6", event([5 << 3 | 6, 1]), isMalformed: true),
        Case("wire type 7", event([5 << 3 | 7, 1]), isMalformed: true),
        Case("end of a group that never began", event([20 << 3 & 0x7F | 4, 1]), isMalformed: true),
        Case(
            "group with the end of another",
            event(Wire.varint(20 << 3 | 3) + Wire.varint(21 << 3 | 4)), isMalformed: true),
        Case(
            "group without end", event(Wire.varint(20 << 3 | 3) + Wire.field(1, varint: 1)),
            isMalformed: true),
        Case("length over the event's end", event([2 << 3 | 2, 2, 0x61]), isMalformed: true),
        Case("length of 64 bits", event([2 << 3 | 2] + Wire.varint(.max)), isMalformed: true),
        Case("length of 63 bits", event([2 << 3 | 2] + Wire.varint(.max >> 1)), isMalformed: true),
        Case(
            "eight bytes of which four are there", event([20 << 3 & 0x7F | 1, 1, 1, 1, 1]),
            isMalformed: true),
        Case("event over the payload's end", event([]) + [1 << 3 | 2, 1], isMalformed: true),
        Case(
            "varint over the event's end into the next", event([7 << 3, 0x81]) + event([]),
            isMalformed: true),
        Case("viewability over the event's end", event([8 << 3 | 2, 2, 8]), isMalformed: true),
        Case("broken viewability", event(Wire.field(8, bytes: [8])), isMalformed: true),
        Case("tag alone", event([]) + [0x80], isMalformed: true),
    ]

    private static func nested(_ depth: Int) -> [UInt8] {
        [UInt8](repeating: 2 << 3 | 3, count: depth) + [UInt8](repeating: 2 << 3 | 4, count: depth)
    }

    @Test(arguments: cases)
    func `The wire format is read to its corners`(item: Case) {
        let result = DecoderHarness.protobuf(item.payload)
        #expect(result == item.expected.map { .init(events: [$0], malformed: 0) })
        #expect(result == WireOracle.result(item.payload))
    }

    /// Decoders differ here: Go and Java take such a tag, swift-protobuf and C++ stop at five bytes.
    @Test func `A tag may be longer than it need be by as much as any varint`() {
        var expected = Self.plain
        expected.consent = 1
        let payload = Self.event(Wire.varint(7 << 3, byteCount: 10) + [1])
        #expect(DecoderHarness.protobuf(payload) == .init(events: [expected], malformed: 0))
        #expect(WireOracle.result(payload) == nil)
        let tooLong = Self.event(Wire.varint(7 << 3, byteCount: 11) + [1])
        #expect(DecoderHarness.protobuf(tooLong) == nil)
    }

    @Test func `The last of a repeated field counts, even where an earlier one was bad`() {
        let payload = Self.event(
            Wire.field(1, varint: 77) + Wire.field(1, varint: 1)
                + Wire.field(2, bytes: [UInt8](repeating: 0x61, count: 300))
                + Wire.field(2, bytes: [0x7A]) + Wire.field(9, bytes: Array("a@b".utf8))
                + Wire.field(9, bytes: Array("iOS".utf8)))
        var expected = Self.plain
        expected.type = 1
        expected.reward = [0x7A]
        expected.platform = Array("iOS".utf8)
        #expect(DecoderHarness.protobuf(payload) == .init(events: [expected], malformed: 0))
        #expect(WireOracle.result(payload) == .init(events: [expected], malformed: 0))
    }

    struct TextCase: Sendable {
        var bytes: [UInt8]
        var isValid: Bool
    }

    static let texts: [TextCase] = [
        TextCase(bytes: [0x00], isValid: true),
        TextCase(bytes: [0x7F], isValid: true),
        TextCase(bytes: [0x80], isValid: false),
        TextCase(bytes: [0xC1, 0xBF], isValid: false),
        TextCase(bytes: [0xC2, 0x80], isValid: true),
        TextCase(bytes: [0xC2], isValid: false),
        TextCase(bytes: [0xC2, 0x41], isValid: false),
        TextCase(bytes: [0xE0, 0x9F, 0xBF], isValid: false),
        TextCase(bytes: [0xE0, 0xA0, 0x80], isValid: true),
        TextCase(bytes: [0xED, 0x9F, 0xBF], isValid: true),
        TextCase(bytes: [0xED, 0xA0, 0x80], isValid: false),
        TextCase(bytes: [0xEF, 0xBF, 0xBF], isValid: true),
        TextCase(bytes: [0xF0, 0x8F, 0xBF, 0xBF], isValid: false),
        TextCase(bytes: [0xF0, 0x90, 0x80, 0x80], isValid: true),
        TextCase(bytes: [0xF4, 0x8F, 0xBF, 0xBF], isValid: true),
        TextCase(bytes: [0xF4, 0x90, 0x80, 0x80], isValid: false),
        TextCase(bytes: [0xF5, 0x80, 0x80, 0x80], isValid: false),
        TextCase(bytes: [0xF0, 0x90, 0x80], isValid: false),
        TextCase(bytes: [0xFF], isValid: false),
    ]

    /// At every place among ASCII, since long texts are checked eight bytes at a time.
    @Test(arguments: texts)
    func `Names are UTF-8 or the event is malformed, attribution is or is dropped`(item: TextCase) {
        for before in 0..<18 {
            let text = [UInt8](repeating: 0x61, count: before) + item.bytes + [0x62]
            let bad = DecoderHarness.Result(events: [], malformed: 1)
            for field in [2, 3, 6] as [UInt64] {
                let result = DecoderHarness.protobuf(Self.event(Wire.field(field, bytes: text)))
                #expect((result == bad) == !item.isValid)
                #expect(result?.events.count == (item.isValid ? 1 : 0))
            }
            let platform = DecoderHarness.protobuf(Self.event(Wire.field(9, bytes: text)))
            #expect(platform?.events.first?.platform == (item.isValid ? text : []))
        }
    }

    @Test func `A payload of nothing but empty events fills no more room than there is`() {
        let count = Limits.packetEventCountMax
        let payload = [[UInt8]](repeating: [0x0A, 0x00], count: count).flatMap { $0 }
        #expect(DecoderHarness.protobuf(payload) == .init(events: [], malformed: count))
    }

    @Test func `A payload beyond the largest packet, or outside of the bytes, is malformed`() {
        let scratch = EventScratch()
        let decoder = EventDecoder(hash: DecoderHarness.hash)
        let bytes = [UInt8](repeating: 0, count: Limits.packetByteCountMax + 1)
        bytes.withUnsafeBytes { bytes in
            for (offset, count) in [
                (0, bytes.count), (40, bytes.count - 40), (bytes.count + 1, 0), (-1, 1), (0, -1),
                (40, Int.max), (Int.max, 40),
            ] {
                let outcome = decoder.decode(
                    bytes, payloadOffset: offset, payloadByteCount: count, into: scratch)
                #expect(outcome == .malformed, "\(count) bytes at \(offset)")
            }
        }
    }
}
