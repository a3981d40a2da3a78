import IngestFormat
import TestSupport
import Testing

/// JSON events field by field: what each may be, and what it may not.
struct JSONEventDecoderTests {
    /// One event as its members, in order, each as JSON text.
    struct Line: Sendable {
        var members: [(key: String, value: String)] = [
            ("eventType", #""impression""#), ("rewardId", #""r-1""#), ("businessId", #""b-1""#),
            ("timestamp", #""2026-11-20T10:00:00.123Z""#),
        ]

        func with(_ key: String, _ value: String?) -> Line {
            var line = self
            line.members.removeAll { $0.key == key }
            if let value { line.members.append((key, value)) }
            return line
        }

        func adding(_ key: String, _ value: String) -> Line {
            var line = self
            line.members.append((key, value))
            return line
        }

        func metadata(_ members: String) -> Line { adding("metadata", "{\(members)}") }

        var text: String {
            "{" + members.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
        }
    }

    static let plain: DecodedEvent = {
        var event = DecodedEvent()
        event.reward = Array("r-1".utf8)
        event.business = Array("b-1".utf8)
        event.timestamp = 1_795_168_800_123_000
        return event
    }()

    private func expect(
        _ line: Line, _ change: (inout DecodedEvent) -> Void,
        _ location: SourceLocation = #_sourceLocation
    ) {
        var event = Self.plain
        change(&event)
        let result = DecoderHarness.json(line.text)
        #expect(
            result == .init(events: [event], malformed: 0), "\(line.text)", sourceLocation: location
        )
    }

    private func expectMalformed(
        _ text: String, _ location: SourceLocation = #_sourceLocation
    ) {
        let result = DecoderHarness.json(text)
        #expect(result == .init(events: [], malformed: 1), "\(text)", sourceLocation: location)
    }

    // MARK: The whole line

    @Test func `The example of the contract is read`() {
        let line = Line()
            .adding("eventId", #""424dc7f0-7a1c-5502-bfd1-562d5e27f831""#)
            .adding("sessionId", #""s-1""#).adding("consent", #""optIn""#)
            .metadata(
                #""viewability":"0.75","duration":"1.00","standard":"MRC","platform":"iOS""#)
        expect(line) {
            $0.eventID = [
                0x42, 0x4d, 0xc7, 0xf0, 0x7a, 0x1c, 0x55, 0x02,
                0xbf, 0xd1, 0x56, 0x2d, 0x5e, 0x27, 0xf8, 0x31,
            ]
            $0.session = Array("s-1".utf8)
            $0.consent = 1
            $0.measured = .init(visible: 750_000, duration: 1000, format: 0)
            $0.platform = Array("iOS".utf8)
        }
    }

    @Test(arguments: ["eventType", "rewardId", "businessId", "timestamp"])
    func `A required field is there, once at least, and not null`(key: String) {
        expectMalformed(Line().with(key, nil).text)
        expectMalformed(Line().with(key, "null").text)
        expectMalformed(Line().with(key, #""""#).text)
        for value in ["true", "false", "[]", "{}", #"["impression"]"#] {
            expectMalformed(Line().with(key, value).text)
        }
        if key != "timestamp" { expectMalformed(Line().with(key, "5").text) }
        expectMalformed(Line().adding(key, "null").text)
    }

    @Test(arguments: [("impression", 1), ("click", 2), ("redemption", 3)] as [(String, UInt8)])
    func `The event types have their names, to the letter`(name: String, raw: UInt8) {
        expect(Line().with("eventType", "\"\(name)\"")) { $0.type = raw }
        expectMalformed(Line().with("eventType", "\"\(name.uppercased())\"").text)
        expectMalformed(Line().with("eventType", "\"\(name) \"").text)
        expectMalformed(Line().with("eventType", "\"\(name.dropLast())\"").text)
    }

    @Test func `Lines are events, each for itself`() {
        let good = Line().text
        let result = DecoderHarness.json(
            "\(good)\n{\"eventType\":1}\r\n\n \t\r\n\(good) \t\r\n{\n\(good)\(good)\n\(good)\n")
        #expect(result?.events == [Self.plain, Self.plain, Self.plain])
        #expect(result?.malformed == 3)
        #expect(DecoderHarness.json("") == .init())
        #expect(DecoderHarness.json("\n\n  ") == .init())
        #expect(DecoderHarness.json("{\n{\n}") == .init(events: [], malformed: 3))
    }

    @Test(arguments: [
        "{}", "{", "}", "[]", "null", "1", "\"\"", "{\"a\":1", "{\"a\"}", "{\"a\":}", "{a:1}",
        "{,}",
        "{'a':1}", "nul", "{\"a\":nul}", "{\"a\":truex}", "{\"a\":1 2}", "{\"a\":1]", "{} {}",
    ])
    func `What is no object, or no event, is malformed`(text: String) {
        expectMalformed(text)
    }

    @Test func `White space may stand between all tokens`() {
        let spaced = Line().metadata(#""platform":"tvOS""#).text
            .replacing(":", with: " \t: ").replacing(",", with: "\r ,\t").replacing(
                "{", with: " { "
            )
            .replacing("}", with: "\t} ")
        // The time's own colons.
        let text = spaced.replacing("10 \t: 00 \t: 00", with: "10:00:00")
        var event = Self.plain
        event.platform = Array("tvOS".utf8)
        #expect(DecoderHarness.json(text) == .init(events: [event], malformed: 0))
    }

    @Test(arguments: [
        "1", "-0.5e+10", "true", "false", "null", #""x""#, "[]", "{}", "[1,[2,{\"a\":[]}]]",
        #"{"rewardId":"other","metadata":{"spend":9},"":null}"#,
        #""\u0000\"\\\/\b\f\n\r\t\uD83D\uDE00""#,
    ])
    func `A key that is not known may hold anything`(value: String) {
        expect(Line().adding("other", value)) { _ in }
        expect(Line().adding("", value)) { _ in }
        expect(Line().adding("rewardid", value)) { _ in }
        expect(Line().metadata(#""position":\#(value)"#)) { _ in }
    }

    @Test(arguments: [
        "01", "1.", ".5", "-", "+1", "1e", "1e+", "0x10", "NaN", "Infinity", "-Infinity", "1.e5",
        "--1",
        "tru", "True", "undefined", "'x'", #""x"#, #""\x""#, #""\u12G4""#, #""\u123""#,
        #""\ud800""#,
        #""\udc00""#, #""\ud800x""#, #""\ud800\n""#, #""\ud800\ud800""#, #""\ud800\u0041""#, "[1,]",
        "[,1]",
        "[1 2]", "[1", "{\"a\":1,}", "{1:2}", "{\"a\" 1}", "\"a\tb\"", "\"a\u{1}b\"", "\u{FEFF}1",
        "",
    ])
    func `A value that is not JSON makes the line malformed, wherever it stands`(value: String) {
        expectMalformed(Line().adding("other", value).text)
        expectMalformed(Line().metadata(#""other":\#(value)"#).text)
        expectMalformed(Line().adding("other", "[0,\(value)]").text)
    }

    @Test func `Bytes that are not UTF-8 make the line malformed, wherever they stand`() {
        for bad in [[0xFF], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xE2, 0x82]] as [[UInt8]] {
            let line = Array(Line().adding("other", "\"x@x\"").text.utf8)
            let at = line.firstIndex(of: UInt8(ascii: "@"))!
            let result = DecoderHarness.json(line[..<at] + bad + line[(at + 1)...])
            #expect(result == .init(events: [], malformed: 1))
        }
    }

    @Test func `Values nest as deep as the limit, and not deeper`() {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        // The event itself is the first level.
        expect(Line().adding("other", nested(Limits.jsonDepthMax - 1))) { _ in }
        expectMalformed(Line().adding("other", nested(Limits.jsonDepthMax)).text)
        expect(Line().metadata(#""other":\#(nested(Limits.jsonDepthMax - 2))"#)) { _ in }
        expectMalformed(Line().metadata(#""other":\#(nested(Limits.jsonDepthMax - 1))"#).text)
        expectMalformed(Line().adding("other", String(repeating: "[", count: 60_000)).text)
        expectMalformed(Line().adding("other", String(repeating: #"{"a":"#, count: 12_000)).text)
    }

    @Test func `Of a key that comes twice the last counts`() {
        expect(Line().adding("rewardId", #""r-2""#)) { $0.reward = Array("r-2".utf8) }
        expect(Line().with("eventType", "7").adding("eventType", #""click""#)) { $0.type = 2 }
        expectMalformed(Line().adding("eventType", "7").text)
        expect(Line().metadata(#""platform":"iOS","spend":1"#).metadata(#""spend":2"#)) {
            $0.spend = 2_000_000
        }
        expect(Line().metadata(#""spend":-1"#).adding("metadata", "null")) { _ in }
    }

    @Test func `Keys and values may be written with escapes`() {
        let text = Line().text
            .replacing("rewardId", with: #"\u0072ewar\u0064Id"#)
            .replacing("impression", with: #"i\u006dpression"#)
            .replacing("r-1", with: #"\"\\\/\b\f\n\r\t\u00fc\u20AC\ud83d\ude00ü€😀\u0000"#)
        var event = Self.plain
        event.reward = Array("\"\\/\u{8}\u{c}\n\r\tü€😀ü€😀\u{0}".utf8)
        #expect(DecoderHarness.json(text) == .init(events: [event], malformed: 0))
    }

    // MARK: Ids

    @Test func `Names have 1 to 128 bytes, counted after unescaping`() {
        for key in ["rewardId", "businessId"] {
            let longest = String(repeating: "\\u00fc", count: 64)
            #expect(DecoderHarness.json(Line().with(key, "\"\(longest)\"").text)?.events.count == 1)
            expectMalformed(Line().with(key, "\"\(longest)x\"").text)
            expectMalformed(Line().with(key, "\"" + String(repeating: "x", count: 384) + "\"").text)
        }
    }

    @Test func `An event id is a text of up to 64 bytes, or a UUID of 16`() {
        expect(Line().adding("eventId", #""e-1""#)) { $0.eventID = Array("e-1".utf8) }
        expect(Line().adding("eventId", #""""#)) { _ in }
        expect(Line().adding("eventId", "null")) { _ in }
        let longest = String(repeating: "x", count: 64)
        expect(Line().adding("eventId", "\"\(longest)\"")) { $0.eventID = Array(longest.utf8) }
        expectMalformed(Line().adding("eventId", "\"\(longest)x\"").text)
        for value in ["1", "true", "[]", "{}"] {
            expectMalformed(Line().adding("eventId", value).text)
        }
        let almost = "424dc7f0-7a1c-5502-bfd1-562d5e27f83g"
        expect(Line().adding("eventId", "\"\(almost)\"")) { $0.eventID = Array(almost.utf8) }
        expect(Line().adding("eventId", #""00112233-4455-6677-8899-aAbBcCdDeEfF""#)) {
            $0.eventID = (0..<16).map { $0 << 4 | $0 }
        }
    }

    @Test func `A session is a text of up to 64 bytes`() {
        let longest = String(repeating: "s", count: 64)
        expect(Line().adding("sessionId", "\"\(longest)\"")) { $0.session = Array(longest.utf8) }
        expectMalformed(Line().adding("sessionId", "\"\(longest)s\"").text)
        expectMalformed(Line().adding("sessionId", "5").text)
        expect(Line().adding("sessionId", "null")) { _ in }
    }

    @Test(arguments: [("notSet", 0), ("optIn", 1), ("optOut", 2)] as [(String, UInt8)])
    func `Consent has three names`(name: String, raw: UInt8) {
        expect(Line().adding("consent", "\"\(name)\"")) { $0.consent = raw }
        expect(Line().metadata("\"consent\":\"\(name)\"")) { $0.consent = raw }
        expectMalformed(Line().adding("consent", "\"\(name.lowercased())\"").text)
        expectMalformed(Line().adding("consent", "\(raw)").text)
        expectMalformed(Line().metadata("\"consent\":true").text)
    }

    @Test func `Ids and consent may stand in the metadata, but those beside it win`() {
        let inside = #""eventId":"e-2","sessionId":"s-2","consent":"optIn""#
        expect(Line().metadata(inside)) {
            $0.eventID = Array("e-2".utf8)
            $0.session = Array("s-2".utf8)
            $0.consent = 1
        }
        let outside = Line().adding("eventId", #""e-1""#).adding("sessionId", #""s-1""#)
            .adding("consent", #""notSet""#)
        expect(outside.metadata(inside)) {
            $0.eventID = Array("e-1".utf8)
            $0.session = Array("s-1".utf8)
        }
        expect(Line().metadata(#""eventId":12.50,"sessionId":7"#)) {
            $0.eventID = Array("12.50".utf8)
            $0.session = Array("7".utf8)
        }
        expectMalformed(Line().metadata(#""eventId":true"#).text)
        expectMalformed(Line().metadata(#""sessionId":{}"#).text)
    }

    @Test func `What may stand in the metadata may stand beside it, and wins there`() {
        let beside = Line().adding("platform", #""tvOS""#).adding("spend", "2")
            .adding("viewability", "0.5").adding("duration", #""1""#)
        for line in [
            beside, beside.metadata(#""platform":"iOS","spend":-1,"viewability":1"#),
            Line().metadata(#""platform":"iOS","spend":true"#)
                .adding("platform", #""tvOS""#).adding("spend", "2").adding("spend", "null")
                .adding("viewability", #""0.5""#).adding("duration", "1"),
        ] {
            expect(line) {
                $0.platform = Array("tvOS".utf8)
                $0.spend = 2_000_000
                $0.measured = .init(visible: 500_000, duration: 1000, format: 0)
            }
        }
        // Nothing is as if it were not there.
        let nothing = Line().adding("platform", "\"\"").adding("format", "null")
        expect(nothing.metadata(#""platform":"iOS","format":"video""#)) {
            $0.platform = Array("iOS".utf8)
        }
        expectMalformed(Line().adding("spend", "-1").text)
        expectMalformed(Line().adding("format", #""banner""#).metadata(#""format":"video""#).text)
    }

    // MARK: Metadata

    @Test func `Metadata may be a string that holds an object`() {
        let awsJSON =
            #""{\"viewability\":0.5,\"duration\":\"1\",\"platform\":\"t\\u0076OS\",\"other\":[{}]}""#
        expect(Line().adding("metadata", awsJSON)) {
            $0.measured = .init(visible: 500_000, duration: 1000, format: 0)
            $0.platform = Array("tvOS".utf8)
        }
        expect(Line().adding("metadata", #"" { } ""#)) { _ in }
        for nothing in ["null", "\"\"", "\" \"", "\"null\"", "\" null\\n\""] {
            expect(Line().adding("metadata", nothing)) { _ in }
        }
        for bad in [
            #""x""#, #""[]""#, #""nul""#, #""null{}""#, #""{""#, #""{}{}""#, #""{\"a\":}""#,
            #""\"{}\"""#, "1", "true",
            "[]",
        ] { expectMalformed(Line().adding("metadata", bad).text) }
    }

    struct Decimal: Sendable {
        var text: String
        var value: UInt32?
        init(_ text: String, _ value: UInt32?) {
            self.text = text
            self.value = value
        }
    }

    @Test(arguments: [
        Decimal("0", 0), Decimal("1", 1_000_000), Decimal("0.75", 750_000),
        Decimal("1.00", 1_000_000),
        Decimal("0.3", 300_000), Decimal("0.4999999", 499_999), Decimal("0.9999999999", 999_999),
        Decimal("5e-1", 500_000), Decimal("0.05E+1", 500_000), Decimal("50000e-5", 500_000),
        Decimal("1e0", 1_000_000), Decimal("1e-999999999999", 0), Decimal("0e999999999999", 0),
        Decimal("-0", 0), Decimal("-0.000", 0), Decimal("0.0000001", 0),
        Decimal("1.0000001", nil), Decimal("1.000001", nil), Decimal("2", nil),
        Decimal("-0.1", nil),
        Decimal("-0.0000001", nil), Decimal("1e1", nil), Decimal("1e999999999999", nil),
        Decimal("75", nil), Decimal("10000000000000000000000000", nil),
    ])
    func `Visible share is 0 to 1, cut to parts per million`(item: Decimal) {
        for value in [item.text, "\"\(item.text)\""] {
            let line = Line().metadata(#""viewability":\#(value),"duration":1"#)
            if let visible = item.value {
                expect(line) { $0.measured = .init(visible: visible, duration: 1000, format: 0) }
            } else {
                expectMalformed(line.text)
            }
        }
    }

    @Test(arguments: [
        Decimal("0", 0), Decimal("1", 1000), Decimal("1.00", 1000), Decimal("0.9999", 999),
        Decimal("1.5e3", 1_500_000), Decimal("4294967.295", .max), Decimal("4294967.2959", .max),
        Decimal("4294967.296", .max), Decimal("18446744073709551.615", .max),
        Decimal("18446744073709551616", .max), Decimal("1e300", .max),
        Decimal("-1", nil), Decimal("-1e300", nil), Decimal("-1e-300", nil),
    ])
    func `Duration is seconds, cut to milliseconds and to what 32 bits of them hold`(item: Decimal)
    {
        for value in [item.text, "\"\(item.text)\""] {
            let line = Line().metadata(#""viewability":1,"duration":\#(value)"#)
            if let duration = item.value {
                expect(line) {
                    $0.measured = .init(visible: 1_000_000, duration: duration, format: 0)
                }
            } else {
                expectMalformed(line.text)
            }
        }
    }

    @Test
    func `One number of the two alone leaves the impression undetermined, but still has to be one`()
    {
        expect(Line().metadata(#""viewability":0.5,"format":"video""#)) { _ in }
        expect(Line().metadata(#""duration":"2.0""#)) { _ in }
        expect(Line().metadata(#""viewability":0.5,"duration":null"#)) { _ in }
        expectMalformed(Line().metadata(#""viewability":1.5"#).text)
        expectMalformed(Line().metadata(#""duration":"long""#).text)
        expectMalformed(Line().metadata(#""duration":" 1""#).text)
        expectMalformed(Line().metadata(#""duration":".5""#).text)
    }

    @Test func `An empty value in the metadata is as if absent`() {
        for key in [
            "viewability", "duration", "format", "revenue", "spend", "platform", "campaign",
            "source", "invalidTraffic", "eventId", "sessionId", "consent",
        ] {
            expect(Line().metadata("\"\(key)\":\"\"")) { _ in }
        }
        let cleared = #""viewability":1,"duration":1,"duration":"","spend":1"#
        expect(Line().metadata(cleared)) { $0.spend = 1_000_000 }
        expectMalformed(Line().adding("consent", "\"\"").text)
    }

    private static let last = Limits.timestampMicrosecondsMax

    @Test(
        arguments: [
            (#""1969-12-31T23:59:59Z""#, 0), (#""0000-01-01T00:00:00Z""#, 0), ("-1", 0),
            ("-0.001", 0), ("-1e300", 0), ("-0.0", 0), ("0", 0), ("0.0019", 1),
            (#""9999-12-31T23:59:59Z""#, last), (#""2262-01-01T00:00:00.000001Z""#, last),
            (#""2262-01-01T00:00:00Z""#, last), (#""2261-12-31T23:59:59.999999Z""#, last - 1),
            ("9214646400000", last), ("9214646400000.001", last), ("9214646399999.999", last - 1),
            ("9223372036854775807", last), ("18446744073709551616", last), ("1e300", last),
        ] as [(String, Int64)])
    func `A time beyond the range is taken to the nearer end, where the policy refuses it`(
        text: String, expected: Int64
    ) {
        expect(Line().with("timestamp", text)) { $0.timestamp = expected }
    }

    @Test(arguments: [("display", 0), ("largeDisplay", 1), ("video", 2)] as [(String, UInt8)])
    func `The format has three names`(name: String, raw: UInt8) {
        let numbers = #""viewability":1,"duration":1,"#
        expect(Line().metadata("\(numbers)\"format\":\"\(name)\"")) {
            $0.measured = .init(visible: 1_000_000, duration: 1000, format: raw)
        }
        expectMalformed(Line().metadata("\(numbers)\"format\":\"\(name)s\"").text)
        expectMalformed(Line().metadata("\(numbers)\"format\":\(raw)").text)
    }

    @Test(
        arguments: [
            ("12.50", 12_500_000), ("0", 0), ("0.000001", 1), ("1e-6", 1),
            ("12.500000000", 12_500_000),
            ("1000000000", Limits.moneyMicrosMax), ("-0.0", 0), ("12.5000001", nil),
            ("0.0000001", nil),
            ("-0.01", nil), ("1000000000.000001", nil), ("1e9", Limits.moneyMicrosMax),
            ("1e30", nil), ("abc", nil),
        ] as [(String, Int64?)])
    func `Money is exact to six decimals, or the event is malformed`(text: String, micros: Int64?) {
        for key in ["revenue", "spend"] {
            for value in text == "abc" ? ["\"abc\""] : [text, "\"\(text)\""] {
                let line = Line().metadata("\"\(key)\":\(value)")
                if let micros {
                    expect(line) {
                        if key == "revenue" { $0.revenue = micros } else { $0.spend = micros }
                    }
                } else {
                    expectMalformed(line.text)
                }
            }
        }
        expectMalformed(Line().metadata(#""revenue":true"#).text)
        expect(Line().metadata(#""revenue":null"#)) { _ in }
    }

    @Test
    func `Attribution that is too long, an address or no text is dropped, and the event stays`() {
        let longest = String(repeating: "c", count: 64)
        expect(Line().metadata("\"campaign\":\"\(longest)\",\"source\":2026,\"platform\":\"iOS\""))
        {
            $0.campaign = Array(longest.utf8)
            $0.source = Array("2026".utf8)
            $0.platform = Array("iOS".utf8)
        }
        for value in [
            "\"\(longest)c\"", #""a@b""#, #""a\u0040b""#, "true", "[1]", "{}", "null", #""""#,
        ] {
            expect(
                Line().metadata("\"campaign\":\(value),\"source\":\(value),\"platform\":\(value)")
            ) { _ in }
        }
    }

    @Test(arguments: ["true", "false"])
    func `The mark of invalid traffic is true or false, in a string too`(value: String) {
        for value in [value, "\"\(value)\""] {
            for line in [
                Line().adding("invalidTraffic", value),
                Line().metadata("\"invalidTraffic\":\(value)"),
                Line().metadata(#""invalidTraffic":7"#).adding("invalidTraffic", value),
                Line().adding("invalidTraffic", "null").metadata("\"invalidTraffic\":\(value)"),
            ] {
                expect(line) { $0.isInvalidTraffic = value.contains("true") }
            }
        }
        for value in ["1", "0", #""yes""#, #""True""#, #""true ""#, "[]", "{}", "[true]"] {
            expectMalformed(Line().adding("invalidTraffic", value).text)
            expectMalformed(Line().metadata("\"invalidTraffic\":\(value)").text)
        }
        for value in ["null", "\"\""] {
            expect(Line().adding("invalidTraffic", value)) { _ in }
            expect(Line().metadata("\"invalidTraffic\":true,\"invalidTraffic\":\(value)")) { _ in }
        }
    }

    @Test func `More bytes than a packet can have are malformed as a whole`() {
        let bytes = [UInt8](repeating: 0x20, count: Limits.packetByteCountMax)
        #expect(DecoderHarness.json(bytes) == .init())
        #expect(DecoderHarness.json(bytes + [0x20]) == nil)
    }
}
