import Testing

@testable import IngestFormat

@Suite("Advice on keys and times of events")
struct JSONEventAdviceTests {
    private static func advice(on line: String) -> [String] {
        JSONEventAdvice.advice(on: line.utf8Span.span)
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
        ])
    func named(line: String, expected: [String]) {
        #expect(Self.advice(on: line) == expected)
    }

    @Test(
        "nothing is said of what is read, of other keys, and of what is no object",
        arguments: [
            #"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":1762695828733}"#,
            #"{"eventId":"e","sessionId":"s","consent":"optIn","viewability":1,"metadata":{"eventId":"e"}}"#,
            #"{"timestamp":"2026-11-20T10:00:00Z","price":1,"metadata":{"a":{"eventtype":1}}}"#,
            #"{"timestamp":999999999,"metadata":{"timestamp_":3}"#, "{}", "", "[]",
            #"{"event\u0074ype""#, #"{"eventtypé":1}"#, #"{"\u001b[31m":1}"#, #"{"metadata":"{"}"#,
        ])
    func silent(line: String) {
        #expect(Self.advice(on: line) == [])
    }
}
