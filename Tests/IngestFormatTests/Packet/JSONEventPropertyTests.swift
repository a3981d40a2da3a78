import Foundation
import IngestFormat
import TestSupport
import Testing

/// The JSON decoder against Foundation, as encoder and as judge of what is JSON.
struct JSONEventPropertyTests {
    /// A random event as Foundation encodes it, and what it should decode to.
    private static func sample(_ random: inout SeededRandom) throws -> ([UInt8], DecodedEvent) {
        var generator = EventGenerator(random: random)
        defer { random = generator.random }
        var event = DecodedEvent()
        let type = 1 + generator.random.below(3)
        let reward = generator.text(1...128)
        let business = generator.text(1...128)
        let milliseconds = generator.random.below(1 << 42)
        event.type = UInt8(type)
        event.reward = Array(reward.utf8)
        event.business = Array(business.utf8)
        event.timestamp = Int64(milliseconds) * 1000
        var object: [String: Any] = [
            "eventType": ["impression", "click", "redemption"][type - 1],
            "rewardId": reward, "businessId": business, "timestamp": milliseconds,
            generator.text(1...20) + "?": generator.text(0...64),
        ]
        var metadata: [String: Any] = [
            "position": generator.random.below(9), "list": [1, [true], [:]],
        ]
        try addIDs(&generator, &object, &metadata, &event)
        addNumbers(&generator, &metadata, &event)
        addAttribution(&generator, &metadata, &event)
        putBeside(&generator, &object, &metadata)
        if generator.random.oneIn(4) {
            let inner = try JSONSerialization.data(withJSONObject: metadata)
            object["metadata"] = String(decoding: inner, as: UTF8.self)
        } else {
            object["metadata"] = metadata
        }
        let options: JSONSerialization.WritingOptions =
            generator.random.oneIn(2) ? [] : [.withoutEscapingSlashes, .sortedKeys]
        return (Array(try JSONSerialization.data(withJSONObject: object, options: options)), event)
    }

    private static func addIDs(
        _ generator: inout EventGenerator, _ object: inout [String: Any],
        _ metadata: inout [String: Any], _ event: inout DecodedEvent
    ) throws {
        if generator.random.oneIn(2) {
            let bytes = generator.random.bytes(count: 16)
            let uuid = bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
            let isLower = generator.random.oneIn(2)
            object["eventId"] = isLower ? uuid.uuidString.lowercased() : uuid.uuidString
            event.eventID = bytes
        } else if generator.random.oneIn(2) {
            let id = generator.text(0...64)
            metadata["eventId"] = id
            event.eventID = Array(id.utf8)
        }
        if generator.random.oneIn(2) {
            let session = generator.text(0...64)
            object["sessionId"] = session
            event.session = Array(session.utf8)
        }
        event.consent = UInt8(generator.random.below(3))
        let consent = ["notSet", "optIn", "optOut"][Int(event.consent)]
        if generator.random.oneIn(2) {
            object["consent"] = consent
        } else {
            metadata["consent"] = consent
        }
    }

    /// Some values of metadata stand beside it, where nothing that is inside matters.
    private static func putBeside(
        _ generator: inout EventGenerator, _ object: inout [String: Any],
        _ metadata: inout [String: Any]
    ) {
        for key in [
            "viewability", "duration", "format", "revenue", "spend", "platform", "campaign",
            "source", "invalidTraffic",
        ] where generator.random.oneIn(4) {
            guard let value = metadata[key], value as? String != "" else { continue }
            object[key] = value
            metadata[key] = generator.random.oneIn(2) ? nil : "-1"
        }
    }

    private static func addNumbers(
        _ generator: inout EventGenerator, _ metadata: inout [String: Any],
        _ event: inout DecodedEvent
    ) {
        func decimal(_ value: Int, _ digits: Int) -> Any {
            let unit = Int(pow(10, Double(digits)))
            let fraction = String(value % unit)
            let text =
                "\(value / unit).\(String(repeating: "0", count: digits - fraction.count))\(fraction)"
            return generator.random.oneIn(2)
                ? text as Any : NSDecimalNumber(string: text) as Any
        }
        if generator.random.oneIn(2) {
            let visible = generator.random.below(1_000_001)
            let duration = generator.random.below(100_000)
            let format = generator.random.below(3)
            metadata["viewability"] = decimal(visible, 6)
            metadata["duration"] = decimal(duration, 3)
            metadata["format"] = ["display", "largeDisplay", "video"][format]
            event.measured = .init(
                visible: UInt32(visible), duration: UInt32(duration), format: UInt8(format))
        }
        if generator.random.oneIn(2) {
            event.revenue = Int64(generator.random.below(1 << 49))
            metadata["revenue"] = decimal(Int(event.revenue), 6)
        }
        if generator.random.oneIn(2) {
            event.spend = Int64(generator.random.below(1 << 49))
            metadata["spend"] = decimal(Int(event.spend), 6)
        }
    }

    private static func addAttribution(
        _ generator: inout EventGenerator, _ metadata: inout [String: Any],
        _ event: inout DecodedEvent
    ) {
        if generator.random.oneIn(2) {
            let platform = generator.text(0...64)
            metadata["platform"] = platform
            event.platform = Array(platform.utf8)
        }
        if generator.random.oneIn(2) {
            event.isInvalidTraffic = generator.random.oneIn(2)
            let text = event.isInvalidTraffic ? "true" : "false"
            metadata["invalidTraffic"] =
                generator.random.oneIn(2) ? text as Any : event.isInvalidTraffic as Any
        }
        if generator.random.oneIn(2) {
            metadata["campaign"] = "who@where"
            metadata["source"] = String(repeating: "s", count: 65)
        }
    }

    @Test(arguments: 700..<720)
    func `Events come back as Foundation encoded them`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for _ in 0..<50 {
            let (line, event) = try Self.sample(&random)
            let result = DecoderHarness.json(line)
            #expect(
                result == .init(events: [event], malformed: 0),
                "\(String(decoding: line, as: UTF8.self))")
        }
    }

    @Test func `A line cut at any byte is malformed, and nothing is read past its end`() throws {
        var random = SeededRandom(seed: 800)
        let (line, event) = try Self.sample(&random)
        for end in 1..<line.count {
            let result = DecoderHarness.json(Array(line[..<end]))
            #expect(result == .init(events: [], malformed: 1), "cut at \(end)")
        }
        #expect(DecoderHarness.json(line)?.events == [event])
    }

    /// Text of JSON's own characters, of which about a third is JSON.
    private static func value(_ random: inout SeededRandom, depth: Int = 0) -> String {
        let scalars = [
            "0", "-1", "10", "0.5", "-0.0", "1e5", "2E-3", "true", "false", "null", #""""#,
            #""a\n\u00e9""#,
            #""\ud83d\ude00""#, #""é€😀""#, #""\\\"/""#,
        ]
        switch random.below(depth < 3 ? 5 : 3) {
        case 0, 1, 2: return scalars[random.below(scalars.count)]
        case 3:
            let items = (0..<random.below(4)).map { _ in value(&random, depth: depth + 1) }
            return "[" + items.joined(separator: random.oneIn(2) ? "," : " ,\t") + "]"
        default:
            let items = (0..<random.below(4)).map {
                "\"k\($0)\":" + value(&random, depth: depth + 1)
            }
            return "{ " + items.joined(separator: ",") + "}"
        }
    }

    /// Some damage, from none at all to a few bytes changed, taken out or put in.
    private static func damaged(_ text: String, _ random: inout SeededRandom) -> [UInt8] {
        var bytes = Array(text.utf8)
        let alphabet =
            Array(#"{}[]",:\-+.eE0123456789truefalsnlbu "#.utf8) + [0x09, 0x01, 0x80, 0xC3, 0xED]
        for _ in 0..<random.below(3) where !bytes.isEmpty {
            let at = random.below(bytes.count)
            let byte = alphabet[random.below(alphabet.count)]
            switch random.below(3) {
            case 0: bytes[at] = byte
            case 1: bytes.remove(at: at)
            default: bytes.insert(byte, at: at)
            }
        }
        return bytes
    }

    /// The damage stands as the value of an unknown key inside an array, so that whether the event lives
    /// depends on nothing but the text being JSON.
    @Test(arguments: 900..<920)
    func `What is JSON and what is not, Foundation says the same`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let head = #"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":1,"x":["#
        var validCount = 0
        var invalidCount = 0
        for _ in 0..<1500 {
            let line =
                Array(head.utf8) + Self.damaged(Self.value(&random), &random) + Array("]}".utf8)
            let isValid = Self.isJSON(line)
            validCount += isValid ? 1 : 0
            invalidCount += isValid ? 0 : 1
            let isTaken = DecoderHarness.json(line)?.events.count == 1
            #expect(isTaken == isValid, "\(String(decoding: line, as: UTF8.self))")
        }
        #expect(validCount > 300)
        #expect(invalidCount > 300)
    }

    /// Foundation's answer, but for two things: it takes a comma after the last item, which RFC 8259 does not, and
    /// refuses a number beyond a `Double`, whose grammar is right.
    private static func isJSON(_ bytes: [UInt8]) -> Bool {
        let small = Data(withoutExponents(bytes))
        return (try? JSONSerialization.jsonObject(with: small)) != nil && !hasTrailingComma(bytes)
    }

    /// With a 0 for each digit behind an `e`, which no grammar tells apart.
    private static func withoutExponents(_ bytes: [UInt8]) -> [UInt8] {
        var isExponent = false
        return bytes.map { byte in
            switch byte {
            case UInt8(ascii: "e"), UInt8(ascii: "E"): isExponent = true
            case UInt8(ascii: "+"), UInt8(ascii: "-"): break
            case 0x30...0x39: if isExponent { return 0x30 }
            default: isExponent = false
            }
            return byte
        }
    }

    /// Of bytes that are JSON otherwise.
    private static func hasTrailingComma(_ bytes: [UInt8]) -> Bool {
        var isInString = false
        var isEscaped = false
        var isAfterComma = false
        for byte in bytes {
            if isInString {
                isInString = byte != UInt8(ascii: "\"") || isEscaped
                isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
                continue
            }
            switch byte {
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                if isAfterComma { return true }
            case UInt8(ascii: ","): isAfterComma = true
            case 0x20, 0x09, 0x0A, 0x0D: break
            default:
                isAfterComma = false
                isInString = byte == UInt8(ascii: "\"")
            }
        }
        return false
    }

    @Test(arguments: 1000..<1010)
    func `Lines with any bytes changed never trap, and name no place outside of the datagram`(
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed)
        var taken = 0
        for _ in 0..<200 {
            var (datagram, _) = try Self.sample(&random)
            datagram += [0x0A] + (try Self.sample(&random).0)
            for _ in 0..<random.below(3) {
                datagram[random.below(datagram.count)] = UInt8(random.below(256))
            }
            // The harness checks every place and every hash of what is decoded.
            let decoded = DecoderHarness.json(datagram)
            taken += decoded?.events.count ?? 0
            // Behind a header they are the same.
            #expect(DecoderHarness.json(datagram, headerByteCount: 40) == decoded)
        }
        #expect(taken > 20)
    }
}
