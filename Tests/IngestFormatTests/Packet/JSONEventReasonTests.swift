import Testing

@testable import IngestFormat

/// What a person is told about a line of their file.
struct JSONEventReasonTests {
    private static let good: [(key: String, value: String)] = [
        ("eventType", "\"click\""), ("rewardId", "\"r\""), ("businessId", "\"b\""),
        ("timestamp", "\"2019-11-24T00:00:00Z\""), ("eventId", "\"e\""), ("sessionId", "\"s\""),
        ("consent", "\"optIn\""), ("metadata", "{\"viewability\":0.5,\"duration\":1}"),
    ]

    /// The good event with one key of another value, or without it.
    private static func line(_ key: String, _ value: String?) -> String {
        let parts = good.compactMap { part in
            let value = part.key == key ? value : part.value
            return value.map { "\"\(part.key)\":\($0)" }
        }
        return "{\(parts.joined(separator: ","))}"
    }

    private static let long = "\"\(String(repeating: "x", count: 129))\""

    private static let wrong: [(key: String, value: String?, reason: String)] = [
        ("eventType", nil, "eventType is missing"), ("rewardId", nil, "rewardId is missing"),
        ("businessId", "null", "businessId is missing"),
        ("timestamp", nil, "timestamp is missing"),
        ("eventType", "\"view\"", "eventType must be impression"),
        ("eventType", "1", "eventType must be"),
        ("rewardId", "\"\"", "rewardId must be"), ("rewardId", "5", "rewardId must be"),
        ("businessId", long, "businessId must be"),
        ("timestamp", "\"yesterday\"", "timestamp must be RFC 3339"),
        ("timestamp", "\"2019-02-29T00:00:00Z\"", "timestamp must be RFC 3339"),
        ("eventId", long, "eventId must be"), ("sessionId", "{}", "sessionId must be"),
        ("consent", "\"maybe\"", "consent must be"), ("metadata", "[]", "metadata must be"),
        ("metadata", "{\"viewability\":1.1,\"duration\":1}", "viewability must be"),
        ("metadata", "{\"duration\":true}", "duration must be"),
        ("metadata", "{\"format\":\"large\"}", "format must be"),
        ("metadata", "{\"revenue\":-1}", "revenue must be"),
        ("metadata", "{\"spend\":\"much\"}", "spend must be"),
        ("metadata", "{\"invalidTraffic\":1}", "invalidTraffic must be true or false"),
    ]

    @Test(arguments: wrong)
    func `The key that is wrong is named`(key: String, value: String?, reason: String) {
        let line = Self.line(key, value)
        #expect(JSONEventReason.why(line.utf8Span.span).hasPrefix(reason), "\(line)")
        #expect(!Self.isTaken(line), "\(line)")
    }

    @Test(arguments: [
        ("[1]", "not a JSON object"), ("click", "not a JSON object"), ("", "not a JSON object"),
        ("\u{FEFF}{}", "unexpected bytes before the object"),
        ("{} {}", "invalid JSON"),
        ("{\"a\":1,}", "invalid JSON"),
        ("{\"a\":", "invalid JSON"), ("{}", "eventType is missing"),
        (line("eventType", "1").replacing("\"r\"", with: "1"), "several keys have invalid values"),
    ])
    func `What is no object of an event is said to be none`(line: String, reason: String) {
        #expect(JSONEventReason.why(line.utf8Span.span) == reason, "\(line)")
    }

    @Test func `What is no UTF-8, and what is long, has its reason too`() {
        let bytes: [UInt8] = [0x7B, 0xFF, 0x7D]
        #expect(JSONEventReason.why(bytes.span) == "not UTF-8")
        let long = [UInt8](repeating: 0x20, count: 65_507)
        #expect(JSONEventReason.why(long.span) == "too long for an event")
    }

    @Test(arguments: ["x@y", String(repeating: "x", count: 65)])
    func `A line whose campaign is dropped is an event`(campaign: String) {
        var decoder = JSONLineDecoder(hash: KeyedHash(key: InlineArray(repeating: 0)))
        let line = Self.line("metadata", #"{"campaign":"\#(campaign)","source":"s"}"#)
        let refusal = decoder.decode(line.utf8Span.span)
        #expect(refusal == nil)
        #expect(decoder.event.campaignByteCount == 0 && decoder.event.sourceByteCount == 1)
    }

    private static func isTaken(_ line: String) -> Bool {
        var bytes = Array(line.utf8)
        let decoder = JSONEventDecoder(hash: KeyedHash(key: InlineArray(repeating: 0)))
        let scratch = EventScratch()
        return bytes.withUnsafeMutableBytes { decoder.decode($0, into: scratch) }
            == .events(count: 1, malformed: 0)
    }
}
