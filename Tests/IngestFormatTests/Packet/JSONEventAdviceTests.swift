import Testing

@testable import IngestFormat

@Suite("Advice on keys and times of events")
struct JSONEventAdviceTests {
    private static func advice(on line: String) -> [String] {
        var advice = JSONEventAdvice()
        return advice.advice(on: line.utf8Span.span)
    }

    private static func unknown(_ key: String) -> String {
        "unknown key \(key) is not read, correct its name or leave it out"
    }

    @Test(
        "what is written otherwise than it is read, or stands elsewhere, is named",
        arguments: [
            (#"{"eventtype":"click"}"#, ["unknown key eventtype, is eventType meant?"]),
            (
                #"{"reward_id":"r","BUSINESS-ID":"b"}"#,
                [
                    "unknown key reward_id, is rewardId meant?",
                    "unknown key BUSINESS-ID, is businessId meant?",
                ]
            ),
            (#"{"metadata":{"session_id":"s"}}"#, ["unknown key session_id, is sessionId meant?"]),
            (
                #"{"metadata":"{\"rewardId\":\"r\"}","spend":"1"}"#,
                ["rewardId is not read in metadata, it belongs beside it"]
            ),
            (
                #"{"timestamp": 1762695828}"#,
                ["timestamp is taken for milliseconds of 1970, are they seconds?"]
            ),
            (
                #"{"price":1,"metadata":{"a":{"eventtype":1},"price":2},"price":3}"#,
                [unknown("price"), unknown("metadata.a"), unknown("metadata.price")]
            ),
            (#"{"\u001b[31m":1}"#, [unknown(#"\u{1b}[31m"#)]),
            (#"{"eventtypé":1}"#, [unknown("eventtypé")]),
        ])
    func named(line: String, expected: [String]) {
        #expect(Self.advice(on: line) == expected)
    }

    @Test(
        "nothing is said of what is read, and of what is no object",
        arguments: [
            #"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":1762695828733}"#,
            #"{"eventId":"e","sessionId":"s","consent":"optIn","viewability":1,"metadata":{"eventId":"e"}}"#,
            #"{"timestamp":"2026-11-20T10:00:00Z","platform":"a"}"#,
            #"{"timestamp":999999999,"metadata":{"timestamp_":3}"#, "{}", "", "[]",
            #"{"event\u0074ype""#, #"{"metadata":"{"}"#,
        ])
    func silent(line: String) {
        #expect(Self.advice(on: line) == [])
    }

    @Test("each is said once, of keys that look like no other sixteen, cut to 64 bytes")
    func bounded() {
        var advice = JSONEventAdvice()
        func take(_ keys: [String]) -> [String] {
            let members = keys.map { "\"\($0)\":1" }.joined(separator: ",")
            return advice.advice(on: "{\(members)}".utf8Span.span)
        }
        let long = String(repeating: "k", count: 30_000)
        let first = take([long, "a", "a", "event_id"])
        #expect(first.count == 3 && first[0].utf8.count < 128 && first[0].contains("kk … kk"))
        #expect(first[1...] == [Self.unknown("a"), "unknown key event_id, is eventId meant?"])
        #expect(take(["a", long]) == [])
        let others = (0..<50).map { "b\($0)" }
        #expect(take(others) == others.prefix(14).map { Self.unknown($0) })
        #expect(take(["c", "reward_id"]) == ["unknown key reward_id, is rewardId meant?"])
    }
}
