import IngestFormat
import SwiftProtobuf
import TestSupport
import Testing

/// Packets as encoders write them are decoded into rows at once, all others by way of descriptors; where a packet is
/// decoded both ways, the harness holds the rows against each other.
struct UsualFormTests {
    private typealias Wire = WireBuilder

    /// An event with every field, as bytes of one field each.
    private static let fields: [[UInt8]] = [
        Wire.field(1, varint: 1), Wire.field(2, bytes: Array("rwd-1".utf8)),
        Wire.field(3, bytes: Array("business-1".utf8)), Wire.field(4, varint: 1 << 50),
        Wire.field(5, bytes: Array("0123456789abcdef".utf8)),
        Wire.field(6, bytes: Array("session".utf8)), Wire.field(7, varint: 2),
        Wire.field(
            8,
            bytes: Wire.field(1, varint: 500_000) + Wire.field(2, varint: 1_000)
                + Wire.field(3, varint: 1)),
        Wire.field(9, bytes: Array("tvOS".utf8)), Wire.field(10, varint: 123_456_789),
        Wire.field(11, varint: 1), Wire.field(12, bytes: Array("campaign".utf8)),
        Wire.field(13, bytes: Array("source".utf8)), Wire.field(14, varint: 1),
    ]

    /// Two events, one of which has not all fields.
    static let example = payload(fields) + payload(Array(fields[..<9]))

    private static func payload(_ fields: [[UInt8]]) -> [UInt8] {
        Wire.field(1, bytes: fields.flatMap { $0 })
    }

    /// Whether it is decoded at once; expects that it is read as swift-protobuf reads it.
    @discardableResult
    static func isUsual(
        _ payload: [UInt8], onlyOf business: [UInt8]? = nil, _ what: @autoclosure () -> String = ""
    ) -> Bool {
        let packet = [UInt8](repeating: 0xEE, count: 40) + payload
        let isUsual = DecoderHarness.isUsual(packet, headerByteCount: 40, onlyOf: business)
        #expect(DecoderHarness.protobuf(payload) == WireOracle.result(payload), "\(what())")
        return isUsual
    }

    @Test(arguments: 0..<20)
    func `What swift-protobuf encodes of short ASCII texts is decoded at once`(seed: UInt64) throws
    {
        var generator = EventGenerator(random: SeededRandom(seed: seed))
        for eventCount in [0, 1, 2, 11, 60] {
            var batch = Ingest_V1_EventBatch()
            batch.events = (0..<eventCount).map { _ in
                var event = generator.event(isValid: true)
                let short = String(repeating: "n", count: 1 + generator.random.below(64))
                (event.rewardID, event.businessID) = (short, String(short.reversed()))
                event.timestampUs = 1 << 50 + Int64(generator.random.below(1 << 40))
                if !event.sessionID.isEmpty { event.sessionID = short }
                if !event.platform.isEmpty { event.platform = short }
                if !event.campaign.isEmpty { event.campaign = short }
                if !event.source.isEmpty { event.source = short }
                event.viewability.durationMs &= 0xFFF_FFFF
                return event
            }
            if seed % 2 == 0 { batch.padding = .init(count: generator.random.below(300)) }
            #expect(Self.isUsual(try batch.serializedBytes()))
        }
    }

    @Test func `What the daemon's own encoder writes is decoded at once`() {
        var encoder = EventBatchEncoder(packetByteCountMax: 1472)
        var event = DecodedEvent()
        (event.type, event.timestamp) = (1, 1 << 50)
        (event.reward, event.business) = (Array("r".utf8), Array("b".utf8))
        let (descriptor, source) = event.descriptor
        for _ in 0..<11 {
            #expect(source.withUnsafeBytes { encoder.append(descriptor, from: $0) })
        }
        let header = PacketHeader(
            kind: .batch, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 1),
            sequence: PacketSequence(rawValue: 0))
        #expect(Self.isUsual(Array(encoder.seal(header, isPadded: true)[40...])))
    }

    @Test func `Any of the fields that may be absent may be`() {
        for absent in 0..<UInt64(1 << 10) {
            let fields = Self.fields.indices.filter { $0 < 4 || absent >> UInt64($0 - 4) & 1 == 0 }
                .map { Self.fields[$0] }
            #expect(Self.isUsual(Self.payload(fields)), "\(absent)")
        }
    }

    @Test func `Fields in another order, twice, or missing, are decoded by way of descriptors`() {
        for index in Self.fields.indices.dropLast() {
            var fields = Self.fields
            fields.swapAt(index, index + 1)
            #expect(!Self.isUsual(Self.payload(fields)), "field \(index + 1) behind the next")
            fields = Self.fields
            fields.insert(fields[index], at: index)
            #expect(!Self.isUsual(Self.payload(fields)), "field \(index + 1) twice")
        }
        for index in 0..<4 {
            var fields = Self.fields
            fields.remove(at: index)
            #expect(!Self.isUsual(Self.payload(fields)), "without field \(index + 1)")
        }
    }

    struct Other: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// From 0 on.
        var index: Int
        var field: [UInt8]
    }

    static let others: [Other] = [
        Other(testDescription: "type 0", index: 0, field: Wire.field(1, varint: 0)),
        Other(testDescription: "type 4", index: 0, field: Wire.field(1, varint: 4)),
        Other(
            testDescription: "type of two bytes", index: 0,
            field: Wire.field(1, varint: 1, byteCount: 2)),
        Other(testDescription: "empty name", index: 1, field: Wire.field(2, bytes: [])),
        Other(
            testDescription: "name of 65 bytes", index: 2,
            field: Wire.field(3, bytes: [UInt8](repeating: 0x61, count: 65))),
        Other(
            testDescription: "name not ASCII", index: 1,
            field: Wire.field(2, bytes: Array("ü".utf8))),
        Other(testDescription: "name not UTF-8", index: 2, field: Wire.field(3, bytes: [0xFF])),
        Other(testDescription: "short time", index: 3, field: Wire.field(4, varint: 1 << 48)),
        Other(testDescription: "long time", index: 3, field: Wire.field(4, varint: 1 << 56)),
        Other(
            testDescription: "time beyond the limit", index: 3,
            field: Wire.field(4, varint: UInt64(Limits.timestampMicrosecondsMax) + 1)),
        Other(
            testDescription: "id of 65 bytes", index: 4,
            field: Wire.field(5, bytes: [UInt8](repeating: 1, count: 65))),
        Other(
            testDescription: "session not ASCII", index: 5,
            field: Wire.field(6, bytes: Array("sé".utf8))),
        Other(testDescription: "consent 3", index: 6, field: Wire.field(7, varint: 3)),
        Other(
            testDescription: "visible share beyond the limit", index: 7,
            field: Wire.field(8, bytes: Wire.field(1, varint: 1_000_001))),
        Other(
            testDescription: "duration of five bytes", index: 7,
            field: Wire.field(8, bytes: Wire.field(2, varint: 1 << 28))),
        Other(
            testDescription: "format 3", index: 7,
            field: Wire.field(8, bytes: Wire.field(3, varint: 3))),
        Other(
            testDescription: "an address", index: 8,
            field: Wire.field(9, bytes: Array("a@b".utf8))),
        Other(testDescription: "negative amount", index: 9, field: Wire.field(10, varint: .max)),
        Other(
            testDescription: "amount beyond the limit", index: 10,
            field: Wire.field(11, varint: UInt64(Limits.moneyMicrosMax) + 1)),
        Other(
            testDescription: "campaign of 65 bytes", index: 11,
            field: Wire.field(12, bytes: [UInt8](repeating: 0x61, count: 65))),
        Other(
            testDescription: "source with an address", index: 12,
            field: Wire.field(13, bytes: Array("@".utf8))),
        Other(testDescription: "traffic 2", index: 13, field: Wire.field(14, varint: 2)),
    ]

    @Test(arguments: others)
    func `What a rule refuses, drops or changes is decoded by way of descriptors`(other: Other) {
        var fields = Self.fields
        fields[other.index] = other.field
        #expect(!Self.isUsual(Self.payload(Self.fields) + Self.payload(fields)))
    }

    /// Where nothing may be loaded behind a text, and where there is room.
    @Test(arguments: [0, 1, 40, 200])
    func `Texts of any length have the hashes that they have by themselves`(paddingByteCount: Int) {
        var random = SeededRandom(seed: 9)
        let padding =
            paddingByteCount == 0
            ? [] : Wire.field(15, bytes: [UInt8](repeating: 0x40, count: paddingByteCount))
        for index in [1, 2, 4, 5, 8, 11, 12] {
            for length in 1...64 {
                for count in [index + 1, Self.fields.count] {
                    var fields = Array(Self.fields[..<max(count, 4)])
                    let text = random.bytes(count: length).map { index == 4 ? $0 : $0 & 63 }
                    fields[index] = Wire.field(UInt64(index + 1), bytes: text)
                    let payload = Self.payload(fields)
                    #expect(Self.isUsual(payload + padding), "field \(index + 1) of \(length)")
                }
            }
        }
    }

    @Test func `A UUID in text is the same id as its bytes, and what is nearly one is not`() {
        var random = SeededRandom(seed: 10)
        let digits = Array("0123456789abcdefABCDEF".utf8)
        for _ in 0..<400 {
            var text = (0..<36).map { _ in digits[random.below(22)] }
            for dash in [8, 13, 18, 23] { text[dash] = UInt8(ascii: "-") }
            if random.oneIn(4) { text[random.below(36)] = Array("/:@G`g-".utf8)[random.below(7)] }
            var fields = Self.fields
            fields[4] = Wire.field(5, bytes: text)
            #expect(Self.isUsual(Self.payload(fields)))
        }
    }

    @Test func `Events of another business than the key's are marked`() {
        var other = Self.fields
        other[2] = Wire.field(3, bytes: Array("business-2".utf8))
        let payload = Self.payload(Self.fields) + Self.payload(other)
        for business in ["business-1", "business-2", "business-3"] {
            #expect(Self.isUsual(payload, onlyOf: Array(business.utf8)))
        }
    }
}
